"""Hostile external environments are refused or ended without effects on others."""

import contextlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.broker import (
    listed_env,
    server_with_broker,
    tcp_url,
    wait_until_unlisted,
)
from tests.support.peers.agent_calls import (
    answer_of,
    close_external,
    create_and_reset,
    in_background,
    reconnect,
    reset_external,
)
from tests.support.peers.external_env import (
    BOX,
    RESULT,
    THREE,
    ExternalEnv,
    open_websocket,
)
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import CLOSE, WebSocket

MakeServer = Callable[..., Server]
#: The limit of an answer, and so of an environment's message.
MOST = 1_000_000


def deep(member: str, levels: int) -> str:
    """Return a hello with nested values."""
    hello = {"type": "hello", "protocol": 1, "name": "deep", "metadata": {}}
    hello |= {"observation_space": dict(THREE), "action_space": dict(THREE)}
    hello[member] |= {"more": "@"}  # type: ignore[operator]
    return json.dumps(hello).replace('"@"', "[" * levels + "]" * levels)


def test_a_deep_hello_is_refused_alone() -> None:
    with server_with_broker() as api, ExternalEnv.to(api) as external:
        for member in ("metadata", "observation_space", "action_space"):
            # Close to the depth that can be read, but not written again.
            for levels in (300, 900, *range(970, 990)):
                websocket = open_websocket(api)
                websocket.send_frame(1, deep(member, levels).encode())
                body = json.loads(websocket.read_frame()[1])
                assert body["code"] in ("bad-hello", "bad-space"), (levels, body)
                websocket.close()
        # Another broker would not have this connection.
        assert listed_env(api)["free"] == 1
        instance = create_and_reset(api, external)
        close_external(instance, external)


def test_only_known_capabilities_are_listed() -> None:
    with server_with_broker() as api:
        many = [f"c{number}" for number in range(50_000)]
        with ExternalEnv.to(api, capabilities=["reset", *many, "reset"]):
            assert listed_env(api)["capabilities"] == ["reset"]


def test_idle_connections_do_not_lock_out_an_environment(
    make_server: MakeServer,
) -> None:
    api = Api(make_server("--max-external", "2"))
    with contextlib.ExitStack() as stack:
        accepted = stack.enter_context(ExternalEnv.to(api))
        silent = []
        for _ in range(64):
            silent.append(open_websocket(api))
            stack.callback(silent[-1].close)
        with ExternalEnv.to(api):
            body = json.loads(silent[0].read_frame()[1])
            assert (body["type"], body["code"]) == ("refused", "too-many-external")
            assert silent[0].read_close()[0] == 1008
            assert listed_env(api)["free"] == 2
        close_external(create_and_reset(api, accepted), accepted)


MIB = 1024 * 1024
FLOATS = {"type": "Box", "dtype": "float32", "low": 0, "high": 1}
LARGE = [
    ({**FLOATS, "shape": [16 * MIB + 1]}, 64 * MIB + 4),
    ({**FLOATS, "shape": ["100000", 1e5]}, 4 * 10**10),
    ({**FLOATS, "shape": [2**62, 2**62, 2**62]}, 4 * 2**186),
    ({"type": "MultiBinary", "n": 64 * MIB + 1}, 64 * MIB + 1),
    ({"type": "MultiDiscrete", "nvec": 3, "shape": [8 * MIB, 2]}, 128 * MIB),
    ({"type": "Text", "max_length": 64 * MIB + 1}, 64 * MIB + 1),
    ({"type": "Text", "max_length": 32 * MIB, "charset": "a€"}, 96 * MIB),
    (
        {
            "type": "Dict",
            "spaces": [[key, {**FLOATS, "shape": [9 * MIB]}] for key in "ab"],
        },
        72 * MIB,
    ),
    (
        {"type": "Tuple", "spaces": [{**FLOATS, "shape": [9 * MIB]}] * 2},
        72 * MIB,
    ),
    ({"type": "Sequence", "space": {**FLOATS, "shape": [17 * MIB]}}, 68 * MIB),
    ({"type": "Graph", "node_space": {**FLOATS, "shape": [17 * MIB]}}, 68 * MIB),
    (
        {"type": "OneOf", "spaces": [THREE, {**FLOATS, "shape": [17 * MIB]}]},
        68 * MIB,
    ),
]


def test_spaces_that_are_too_large_are_refused_before_arrays_are_made() -> None:
    with server_with_broker("--external-tcp", "0") as api:
        place = urlsplit(tcp_url(api.server))
        with socket.create_connection((place.hostname, place.port), 20):
            process = wait_until(lambda: _holder(api.server, place.port or 0))
        before = _peak_kib(process)
        for space, size in LARGE:
            for which in ("observation_space", "action_space"):
                external = ExternalEnv(api, **{which: space})
                external.drop()
                answer = external.welcome
                assert (answer["type"], answer["code"]) == ("refused", "bad-space"), (
                    space
                )
                words = f"the size of one element is {size}, but must be at most"
                assert f"{which}: " in answer["message"]
                assert f"{words} {64 * MIB} bytes" in answer["message"], answer
                assert "--max-observation" in answer["message"]
        assert _peak_kib(process) - before < 16 * 1024


def test_how_large_spaces_may_be_is_a_setting(make_server: MakeServer) -> None:
    api = Api(make_server("--max-observation", "4096"))
    with ExternalEnv.to(api, observation_space={**FLOATS, "shape": [1024]}) as external:
        assert listed_env(api)["free"] == 1
        with ExternalEnv(api, observation_space={**FLOATS, "shape": [1025]}) as large:
            assert "4100" in large.welcome["message"]
        # Nor may it have larger ones when it is created.
        future = in_background(api.post, "/v1/envs/", {"env_id": "external/game"})
        external.answer("init", observation_space={**FLOATS, "shape": [1025]})
        problem = error(answer_of(future), 502, "bad-answer")
        assert "the size of one element is 4100" in problem["message"]


def _peak_kib(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])


def test_a_broker_without_descriptors_goes_on(make_server: MakeServer) -> None:
    server = make_server("--external-tcp", "0")
    api = Api(server)
    pattern = re.compile(r"connect at tcp://([0-9.]+):(\d+)")
    match = wait_until(lambda: pattern.search(server.stdout))
    place = match[1], int(match[2])
    with ExternalEnv.to(api) as external, contextlib.ExitStack() as stack:
        stack.enter_context(socket.create_connection(place, 20))
        broker = wait_until(lambda: _holder(server, place[1]))
        most = max(_descriptors(broker)) + 4
        broker.rlimit(psutil.RLIMIT_NOFILE, (most, most))
        for _ in range(most - len(_descriptors(broker))):
            stack.enter_context(socket.create_connection(place, 20))
        wait_until(lambda: len(_descriptors(broker)) == most)
        spent, turns = broker.cpu_times().user, broker.num_ctx_switches().voluntary
        future = in_background(api.get, "/v1/registry/?search=external/game")
        # It cannot accept this connection, and retries until it can.
        wait_until(lambda: broker.num_ctx_switches().voluntary > turns + 5)
        assert broker.cpu_times().user - spent < 0.5
        stack.close()
        assert ok(answer_of(future))["envs"][0]["external"]["free"] == 1
        close_external(create_and_reset(api, external), external)


def _holder(server: Server, port: int) -> psutil.Process | None:
    """Find the process that has taken a connection to a port."""
    for process in server.members():
        with contextlib.suppress(psutil.Error):
            for each in process.net_connections("tcp"):
                if each.laddr.port == port and each.status == "ESTABLISHED":
                    return process
    return None


def _descriptors(process: psutil.Process) -> set[int]:
    return set(map(int, os.listdir(f"/proc/{process.pid}/fd")))


def test_unread_answers_expire(make_server: MakeServer) -> None:
    """An environment posts and posts to a host that stands still."""
    api = Api(make_server("--max-answer", str(MOST), "--external-grace", "0.5"))
    hello = {"type": "hello", "protocol": 1, "name": "game", "capabilities": ["reset"]}
    hello |= {"observation_space": THREE, "action_space": THREE}
    path = f"/v1/external/{ok(api.post('/v1/external/', hello))['connection']}"
    create = {"env_id": "external/game", "wait_s": 5}
    future = in_background(api.post, "/v1/envs/", create)
    request = api.get(f"{path}/request").json()
    no_content(api.post(f"{path}/answer", {"id": request["id"], "result": {}}))
    instance = Instance(api, ok(answer_of(future))["instance_id"])
    host = api.server.host(instance.id)
    os.kill(host.pid, signal.SIGSTOP)
    try:
        message = json.dumps({"type": "pong", "more": "x" * (MOST - 100)}).encode()
        answers = [api.post(f"{path}/answer", data=message).status for _ in range(9)]
        assert answers[0] == 204
        # Some are in flight, two may wait, and no connection is left.
        assert answers[-1] == 404
        assert answers.index(404) <= 5
        neighbour = api.create()
        neighbour.reset()
        neighbour.close()
    finally:
        os.kill(host.pid, signal.SIGCONT)
    wait_until(lambda: instance.id not in api.instances(), 10)
    problem = error(instance.post("step/", {"action": 1}), 410, "instance-ended")
    assert problem["reason"] == "external-gone"
    wait_until_unlisted(api)


def test_one_that_comes_back_and_back_to_a_host_that_stands_still(
    make_server: MakeServer,
) -> None:
    api = Api(make_server())
    weight = {"metadata": {"weight": "x" * 60_000}, "capabilities": ["reset", "replay"]}
    with ExternalEnv.to(api, **weight) as external, contextlib.ExitStack() as stack:
        instance = create_and_reset(api, external)
        host = api.server.host(instance.id)
        os.kill(host.pid, signal.SIGSTOP)
        try:
            longest_s = 0.0
            for _ in range(300):
                began_at = time.monotonic()
                websocket = open_websocket(api)
                stack.callback(websocket.close)
                opcode, answer = come_back(websocket, external, weight)
                longest_s = max(longest_s, time.monotonic() - began_at)
                if opcode == CLOSE:
                    break
            assert opcode == CLOSE
            assert b"the host that has this environment is busy" in answer
            # And no other client waited; each would have waited for 5 seconds.
            began_at = time.monotonic()
            with ExternalEnv.to(api, name="neighbour"):
                assert listed_env(api, "neighbour")["free"] == 1
            assert max(longest_s, time.monotonic() - began_at) < 5.0
        finally:
            os.kill(host.pid, signal.SIGCONT)

        def heard_of() -> bool:
            websocket = open_websocket(api)
            stack.callback(websocket.close)
            return come_back(websocket, external, weight)[0] != CLOSE

        wait_until(heard_of)
        with reconnect(api, external, **weight) as again:
            reset_external(instance, again)
            close_external(instance, again)


def come_back(
    websocket: WebSocket, external: ExternalEnv, hello: dict[str, Any]
) -> tuple[int, bytes]:
    """Reconnect with a resume token; return the first message."""
    message = {"type": "hello", "protocol": 1, "name": "game", **hello}
    message |= {"observation_space": BOX, "action_space": THREE}
    message |= {"resume": external.welcome["resume"]}
    websocket.send_frame(1, json.dumps(message).encode())
    return websocket.read_frame()


def test_a_flood_of_messages_ends_in_an_answer(make_server: MakeServer) -> None:
    api = Api(make_server())
    with ExternalEnv.to(api, observation_space=THREE) as external:
        instance = began_discrete(api, external)
        future = in_background(instance.post, "step/", {"action": 1})
        request = external.expect("step")
        ping = json.dumps({"type": "ping"}).encode()
        for _ in range(2000):
            external.websocket.send_frame(1, ping)
        for number in range(1, request["id"]):
            external.send_message(id=number, result={})
        external.send_message(id=request["id"], result=RESULT | {"observation": 2})
        assert ok(answer_of(future))["observation"] == 2
        for _ in range(2000):
            external.expect("pong")
        close_external(instance, external)


def began_discrete(api: Api, external: ExternalEnv) -> Instance:
    """Create an instance, and reset it, where observations are numbers."""
    create = {"env_id": "external/game", "wait_s": 5}
    future = in_background(api.post, "/v1/envs/", create)
    external.answer("init")
    instance = Instance(api, ok(answer_of(future))["instance_id"])
    future = in_background(instance.post, "reset/", {})
    external.answer("reset", observation=0)
    ok(answer_of(future))
    return instance
