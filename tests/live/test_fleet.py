"""Three servers of a fleet on loopback, which clients use as one."""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from gym_http_client import RemoteEnv, RemoteVectorEnv
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import FleetStore
from tests.live.test_validate import ids, validate
from tests.support import processes
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.envs import hostile
from tests.support.fleet import (
    TOKEN,
    Redis,
    fleet,
    knows,
    node,
    own_record,
    pose_as_node,
    refusal,
    stopped,
    wait_until_known,
)
from tests.support.identity import assert_identical
from tests.support.listener import Listener
from tests.support.nginx import round_robin
from tests.support.peers.agent_calls import (
    close_external,
    create_and_reset,
    reconnect,
    take_step,
)
from tests.support.peers.external_env import BOX, THREE, ExternalEnv
from tests.support.peers.tango import CELLS, TangoPage
from tests.support.raw import RawConnection, Response, exchange
from tests.support.runs import Run
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import TEXT, WebSocket

pytestmark = [pytest.mark.live, pytest.mark.toolchain]

NAMES = ("one", "two", "three")
#: Keys that are each sent eight times at once; CHAOS_TIMES=10 sends 200.
KEYS = int(20 * float(os.environ.get("CHAOS_TIMES", "1")))

#: What depends on where requests arrive, and what a fleet adds to answers.
CHECKS = ("external", "tickets", "keys", "legacy", "runs.roles", "answers.events-200")

HELLO = {
    "type": "hello",
    "protocol": 1,
    "name": "polled",
    "capabilities": [],
    "observation_space": BOX,
    "action_space": THREE,
}


@dataclass
class Fleet:
    """Servers, and their store."""

    redis: Redis
    servers: list[Server]

    @property
    def apis(self) -> list[Api]:
        """A client of each server."""
        return list(map(Api, self.servers))


@pytest.fixture(scope="module")
def nodes() -> Iterator[Fleet]:
    """A fleet of three servers."""
    args = ("--max-instances", "128", "--import", hostile.__name__)
    with fleet(*NAMES, args=args) as (redis, servers):
        yield Fleet(redis, servers)


@pytest.fixture
def made(nodes: Fleet) -> Iterator[list[Instance]]:
    """Instances, made through each server in turn, on at least two of them."""
    made = []
    while len(made) < 6 or len({each.id[:3] for each in made}) < 2:
        made.append(nodes.apis[len(made) % 3].create())
    yield made
    for each in made:
        no_content(each.api.post(f"/v1/envs/{each.id}/close/"))


def test_each_server_answers_for_all_instances(
    nodes: Fleet, made: list[Instance]
) -> None:
    for each in made:
        path = f"/v1/envs/{each.id}/"
        observations = []
        for api in nodes.apis:
            first = ok(api.post(path + "reset/", {"seed": 7}))
            then = ok(api.post(path + "step/", {"action": 1}))
            observations.append((first, then))
        assert observations[0] == observations[1] == observations[2]


def test_each_server_lists_all_instances(nodes: Fleet, made: list[Instance]) -> None:
    for api in nodes.apis:
        answer = api.get("/v1/envs/")
        assert answer.header("Gym-Missing-Nodes") is None
        listed = ok(answer)["all_envs"]
        assert listed == {each.id: "CartPole-v1" for each in made}


def test_lists_name_the_server_of_each_instance(
    nodes: Fleet, made: list[Instance]
) -> None:
    closed = nodes.apis[0].create(node="two").id
    no_content(nodes.apis[1].post(f"/v1/envs/{closed}/close/"))
    for api in nodes.apis:
        listed = ok(api.get("/v1/instances/"))
        ages = [each["age_s"] for each in listed["instances"]]
        assert ages == sorted(ages, reverse=True)
        number_of = {
            each["node"]: each["instance_id"][:3] for each in listed["instances"]
        }
        found = {each["instance_id"]: each["node"] for each in listed["instances"]}
        assert found.keys() == {each.id for each in made}
        assert all(number_of[node] == each[:3] for each, node in found.items())
        assert listed["slots"] == {"of": 3 * 128, "taken": len(made)}
        assert listed["ended"][0]["instance_id"] == closed
        assert listed["ended"][0]["node"] == "two"
        assert api.get("/v1/envs/").header("Gym-Node") in NAMES
        events = ok(api.get("/v1/events/"))
        nodes_of = {
            (each["event"], each["instance_id"]): each["node"]
            for each in events["events"]
        }
        expected = {("made", each): node for each, node in found.items()}
        expected |= {("made", closed): "two", ("ended", closed): "two"}
        assert expected.items() <= nodes_of.items()
        numbers = [each["number"] for each in events["events"]]
        assert numbers == sorted(numbers)
        later = ok(api.get(f"/v1/events/?from={events['next']}"))
        assert later["events"] == []
        assert later["next"] >= events["next"]
    envs = ok(nodes.apis[0].get("/v1/registry/?search=cartpole-v1"))
    assert [each["env_id"] for each in envs["envs"]].count("CartPole-v1") == 1


def test_any_server_has_the_recordings_of_all(nodes: Fleet) -> None:
    for name in NAMES:
        instance = nodes.apis[0].create(node=name)
        ok_or_empty = instance.post("monitor/start/", {"directory": f"of-{name}"})
        assert ok_or_empty.status == 204
        instance.reset(seed=1)
        assert instance.post("monitor/close/").status == 204
        no_content(instance.close())
    for api in nodes.apis:
        listed = ok(api.get("/v1/recordings/"))
        assert {(each["directory"], each["node"]) for each in listed["recordings"]} == {
            (f"of-{name}", name) for name in NAMES
        }
        assert listed["total"] == 3
        for name in NAMES:
            described = ok(api.get(f"/v1/recordings/of-{name}/"))
            assert described["directory"] == f"of-{name}"
            file = described["files"][0]
            path = f"/v1/recordings/of-{name}/files/{file['name']}/"
            assert len(api.get(path).body) == file["bytes"]
        error(api.get("/v1/recordings/of-none/"), 404, "not-found")


def test_any_server_deletes_a_recording_of_another(nodes: Fleet) -> None:
    first, path = nodes.apis[0], "/v1/recordings/soon-gone/"
    instance = nodes.apis[2].create(node="three", record="soon-gone")
    refused = error(first.request("DELETE", path), 409, "recording-active")
    assert instance.id in refused["message"]
    beyond = {"Range": "bytes=1000000-"}
    file = first.request("GET", path + "files/episodes.jsonl", headers=beyond)
    error(file, 416, "range-not-satisfiable")
    no_content(instance.close())
    no_content(first.request("DELETE", path))
    error(first.request("DELETE", path), 404, "not-found")
    error(nodes.apis[2].get(path), 404, "not-found")


def is_whole(api: Api, path: str) -> bool:
    """Whether all servers have answered in time for a list."""
    return api.get(path).header("Gym-Missing-Nodes") is None


def test_head_has_the_headers_of_get_at_any_server(
    nodes: Fleet, made: list[Instance]
) -> None:
    paths = ["/v1/envs/", "/v1/instances/", "/v1/registry/", "/v1/recordings/"]
    paths += [each.path("action_space/") for each in made]
    paths += ["/v1/recordings/of-two/"]
    calls = [(api, path) for api in nodes.apis for path in paths]
    # The first list takes longest, and on a busy machine longer than a node may.
    for api, path in calls:
        wait_until(partial(is_whole, api, path))
    # Two at once, for answers that follow others on a connection between nodes.
    with ThreadPoolExecutor(2) as pool:
        heads = list(pool.map(lambda call: call[0].request("HEAD", call[1]), calls))
    for (api, path), head in zip(calls, heads, strict=True):
        got = api.get(path)
        assert (head.status, head.body) == (got.status, b"")
        assert head.header("Gym-Missing-Nodes") is None
        assert head.header("Content-Type") == got.header("Content-Type")


def test_a_server_that_does_not_answer_is_named(nodes: Fleet) -> None:
    instances = {name: nodes.apis[0].create(node=name) for name in NAMES}
    for way in ("start", "close"):
        no_content(instances["two"].post(f"monitor/{way}/", {"directory": "seen"}))
    # Its name determines its server.
    polled = (
        ok(nodes.apis[1].post("/v1/external/", HELLO | {"name": f"polled{each}"}))
        for each in itertools.count()
    )
    connections = (each["connection"] for each in polled)
    connection = next(x for x in connections if x[:3] == instances["two"].id[:3])
    for process in nodes.servers[2].members():
        if "web worker" in process.cmdline()[0]:
            process.suspend()
    answer = nodes.apis[0].get("/v1/envs/")
    assert answer.header("Gym-Missing-Nodes") == "three"
    assert set(ok(answer)["all_envs"]) == {instances["one"].id, instances["two"].id}
    # Nothing that another server has waits for it.
    assert ok(nodes.apis[0].get("/v1/recordings/seen/"))["directory"] == "seen"
    path = "/v1/external/{}/request/?wait_s=0"
    assert nodes.apis[0].get(path.format(connection)).status == 204
    error(nodes.apis[0].get(path.format("none")), 404, "not-found")
    # It may have what the others have not.
    resume = ("POST", "/v1/envs/", {"resume": "of-whom"})
    requests = (
        ("GET", "/v1/recordings/of-whom/"),
        ("GET", "/v1/recordings/of-whom/files/steps.gym"),
        ("GET", "/v1/recordings/seen/files/steps.gym"),
        ("DELETE", "/v1/recordings/of-whom/"),
        resume,
    )
    with ThreadPoolExecutor(len(requests)) as pool:
        sent = [pool.submit(nodes.apis[0].request, *each) for each in requests]
        for each in sent:
            error(each.result(), 503, "node-away")
    for process in nodes.servers[2].members():
        process.resume()
    error(nodes.apis[0].request(*resume), 404, "not-found")
    assert set(nodes.apis[1].instances()) == {each.id for each in instances.values()}
    for each in instances.values():
        no_content(each.close())


def test_a_run_is_made_while_a_server_does_not_answer(nodes: Fleet) -> None:
    one, three = nodes.apis[0], nodes.apis[2]
    bound = "{gym}:run:of-three"
    known = f"{{gym}}:runs_of:{own_record(nodes.servers[2])['boot']}"
    Run.create(three, "of-three")
    # Its node writes to the store what that has lost.
    nodes.redis.command("del", bound, known)
    wait_until(
        lambda: nodes.redis.command("get", known).strip() == "all",
        10.0,
        "the runs of the third server",
    )
    assert nodes.redis.command("get", bound)[:3] in own_record(three.server)["numbers"]
    with stopped(nodes.servers[2]), ThreadPoolExecutor(4) as pool:
        made = pool.submit(one.post, "/v1/runs/", {"run": "meanwhile"})
        unknown = pool.submit(one.get, "/v1/runs/of-nobody/")
        assert made.result().status == 201
        error(unknown.result(), 404, "unknown-run")
        nodes.redis.command("del", known)
        answer = one.post("/v1/runs/", {"run": "of-three-or-nobody"})
        problem = error(answer, 503, "node-away")
        assert "the node three does not answer" in problem["message"]
        assert "until it answers, or is lost" in problem["message"]
    for name in ("of-three", "meanwhile"):
        no_content(nodes.apis[1].request("DELETE", f"/v1/runs/{name}/"))


class Impostor(Listener):
    """Another program at the address of a node, which answers all requests with a page.

    It accepts all handshakes. What it receives it sends back, in headers, too.

    Attributes:
        slow: Whether it is the node, and its answers have no end.
        left: Set when a client did not wait for that.
    """

    slow = False
    left = threading.Event()

    def attend(self, connection: socket.socket, number: int) -> None:
        pause = threading.Event()
        proof = Signatures(TOKEN).sign("answer", "its-boot")
        with contextlib.suppress(OSError):
            while received := connection.recv(65536):
                lines = received.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
                given = [each for each in lines if not each.startswith(b"Content-")]
                status = (
                    b"101 Switching Protocols" if b"Upgrade" in received else b"200"
                )
                size = 10**8 if self.slow else 4
                given += [f"Content-Length: {size}".encode()]
                if self.slow:
                    given += [f"Gym-Node-Proof: {proof}".encode()]
                head = b"\r\n".join([b"HTTP/1.1 " + status + b" OK", *given, b"", b""])
                connection.sendall(head + b"page")
                while self.slow:
                    connection.sendall(b".")
                    pause.wait(0.05)
        if self.slow:
            self.left.set()


#: Path of an instance that the node would have.
ITS = "/v1/envs/abc00001/"


def test_a_server_that_answers_with_something_else_is_named(nodes: Fleet) -> None:
    server, api = nodes.servers[0], nodes.apis[0]
    with Impostor() as other, pose_as_node(nodes.redis, "other", other.url):
        wait_until(lambda: knows(server, 4))
        for path in ("envs", "events", "instances", "recordings", "runs"):
            answer = api.get(f"/v1/{path}/")
            assert answer.header("Gym-Missing-Nodes") == "other", path
            assert answer.status == 200, path
        error(api.post("/v1/envs/", {"resume": "it-may-have"}), 503, "node-away")
        for call in ("action_space/", "step/"):
            answer = api.request("POST" if call == "step/" else "GET", ITS + call)
            error(answer, 503, "node-away")
        path = f"{ITS}stream"
        with WebSocket.to(Instance(api, ""), path=path) as stream:
            error(stream.response, 503, "node-away")
        assert "is not of the node other" in server.log()
        other.slow = True
        assert api.get("/v1/envs/").header("Gym-Missing-Nodes") == "other"
        # Nothing is kept for its answer.
        assert other.left.wait(5.0)
    wait_until_known(nodes.redis, nodes.servers)


def test_a_server_that_was_lost_ends_its_instances_and_joins_anew(
    nodes: Fleet,
) -> None:
    here, there = nodes.apis[0], nodes.apis[2]
    lost, other = here.create(node="three"), here.create(node="two")
    key = ok(create_with_key(here, "on-three", node="three"))["instance_id"]
    own = own_record(nodes.servers[2])
    (number,) = own["numbers"]
    assert number == lost.id[:3] == key[:3]
    with stopped(nodes.servers[2]):
        nodes.redis.command("zrem", "{gym}:alive", number)
        path = f"/v1/envs/{lost.id}/step/"
        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(create_with_key, here, "on-three", node="three")
            refused = refusal(here.post(path, {"action": 1}))
        assert refused == (503, "node-away", None)
        error(again.result(), 503, "node-away")
        other.reset(seed=1)
        # None is placed on a server that is away.
        for _ in range(10):
            no_content(here.create().close())
        lose(nodes.redis, own)
        wait_until(
            lambda: (
                refusal(here.post(path, {"action": 1}))
                == (410, "instance-ended", "node-lost")
            )
        )
        refused = create_with_key(here, "on-three", node="three")
        error(refused, 502, "outcome-unknown")
    wait_until(lambda: own_record(nodes.servers[2])["numbers"] != [number])
    ended = there.post(path, {"action": 1})
    assert refusal(ended) == (410, "instance-ended", "node-lost")
    wait_until_known(nodes.redis, nodes.servers)
    new = here.create(node="three")
    assert new.id[:3] not in (number, other.id[:3])
    assert set(there.instances()) == {new.id, other.id}
    for each in (new, other):
        no_content(each.close())


def test_a_killed_server_goes_on_counting_and_one_that_ends_in_order_says_so(
    nodes: Fleet,
) -> None:
    with node(nodes.redis, "four") as four:
        wait_until_known(nodes.redis, [*nodes.servers, four])
        assert " as four, number " in four.stderr
        assert "; other nodes: 3" in four.stderr
        api = nodes.apis[0]
        lost = api.create(node="four")
        four.kill_and_restart()
        wait_until_known(nodes.redis, [*nodes.servers, four])
        # Before, 503: the other server does not know yet that this one started again.
        ended = (410, "server-restarted")
        wait_until(lambda: (refusal(lost.post("reset/")) or ())[:2] == ended)
        # It goes on counting where the killed one may have been.
        new = api.create(node="four")
        assert new.id[:3] == lost.id[:3]
        assert new.id != lost.id
    wait_until_known(nodes.redis, nodes.servers)
    drained = (410, "instance-ended", "node-drained")
    wait_until(lambda: refusal(new.post("reset/")) == drained)


def lose(redis: Redis, own: dict[str, Any]) -> None:
    """Mark a server as lost, as others do after 30 seconds."""
    store = FleetStore(redis.url, "0.1.0", Signatures(TOKEN))
    assert store.lose(own["numbers"][0], own["boot"])
    store.close()


def shake(api: Api, instance_id: str, ticket: str) -> Response:
    """Try to open a stream with a ticket, and reset over it."""
    instance = Instance(api, instance_id)
    path = instance.path(f"stream?ticket={ticket}")
    with WebSocket.to(instance, path=path, sec_websocket_protocol=TEXT) as stream:
        # It is for other nodes alone.
        assert stream.response.header("Gym-Node-Proof") is None
        if stream.response.status == 101:
            assert stream.call(op="reset", seed=1)["status"] == 200
        return stream.response


def test_a_ticket_of_any_server_opens_a_stream_once_at_any_server(
    nodes: Fleet, made: list[Instance]
) -> None:
    # One of each server's.
    for each in {each.id[:3]: each.id for each in made}.values():
        for issuing, api in itertools.product(nodes.apis, nodes.apis):
            for body in ({}, {"instance_id": each}):
                ticket = ok(issuing.post("/v1/tickets/", body))["ticket"]
                assert shake(api, each, ticket).status == 101
                again = shake(nodes.apis[0], each, ticket)
                error(again, 401, "ticket-refused")


def test_forged_tickets_and_those_of_other_instances_open_nothing(
    nodes: Fleet, made: list[Instance]
) -> None:
    for server, api in zip(nodes.servers, nodes.apis, strict=True):
        answer = ok(api.post("/v1/tickets/", {"instance_id": made[0].id}))
        # The server of the instance has --node-url only if it is the third one.
        direct = own_record(nodes.servers[2])["numbers"] == [made[0].id[:3]]
        url = nodes.servers[2].url.replace("http:", "ws:")
        wanted = f"{url}/v1/envs/{made[0].id}/stream/" if direct else None
        assert answer.get("stream_url") == wanted, server
        error(shake(api, made[1].id, answer["ticket"]), 401, "ticket-refused")
        for forged in ("0" * 32, made[0].id[:3] + "A" * 29, made[1].id[:3] + "A" * 29):
            error(shake(api, made[0].id, forged), 401, "ticket-refused")
    # A client cannot ask whose a ticket is.
    ticket = ok(nodes.apis[0].post("/v1/tickets/"))["ticket"]
    for members in ({}, {"instance_id": made[0].id}, {"instance_id": made[1].id}):
        body = {"take": ticket, **members}
        taken = nodes.apis[0].post(
            "/v1/tickets/", body, headers={"Idempotency-Key": "take"}
        )
        assert ok(taken)["ticket"] != ticket
    assert shake(nodes.apis[1], made[0].id, ticket).status == 101


def test_an_old_ticket_opens_nothing_at_any_server(
    nodes: Fleet, made: list[Instance]
) -> None:
    issuing = nodes.servers[0]
    for api in nodes.apis:
        ticket = ok(nodes.apis[0].post("/v1/tickets/"))["ticket"]
        for link in issuing.run_dir.glob("*/tickets/*"):
            # As if it had been issued when the machine was started.
            target = link.readlink()
            link.unlink()
            link.symlink_to(re.sub(r"^\d+", "1", str(target)))
        error(shake(api, made[0].id, ticket), 401, "ticket-refused")


def test_remote_envs_equal_local_ones_through_any_server(nodes: Fleet) -> None:
    for server in nodes.servers * 3:
        with (
            contextlib.closing(RemoteEnv(server.url, "CartPole-v1")) as remote,
            contextlib.closing(gymnasium.make("CartPole-v1")) as local,
        ):
            assert_identical(remote.reset(seed=5), local.reset(seed=5))
            for action in (0, 1, 1, 0, 1):
                assert_identical(remote.step(action), local.step(action))


def test_batches_are_of_instances_of_all_servers(
    nodes: Fleet, made: list[Instance]
) -> None:
    steps = [{"instance_id": each.id, "action": 1} for each in made]
    for each in made:
        each.reset(seed=11)
    bodies = []
    for number, api in enumerate(nodes.apis):
        headers = {"Idempotency-Key": "the-batch"}
        answer = ok(api.post("/v1/batch/step/", {"steps": steps}, headers=headers))
        assert answer["pending"] == []
        named = [each["instance_id"] for each in answer["results"]]
        assert named == [each.id for each in made]
        assert {each["replayed"] for each in answer["results"]} == {number > 0}
        bodies.append([each["answer"] for each in answer["results"]])
    assert bodies[0] == bodies[1] == bodies[2]
    # Each was seeded with the same number.
    assert len({json.dumps(each) for each in bodies[0]}) == 1


def test_a_batch_answers_when_the_first_have_answered(
    nodes: Fleet, made: list[Instance]
) -> None:
    for each in made:
        each.reset(seed=11)
    unknown = {"instance_id": "fff00000", "action": 1}
    steps = [*({"instance_id": each.id, "action": 1} for each in made), unknown]
    for api in nodes.apis:
        answer = ok(api.post("/v1/batch/step/", {"steps": steps, "first": 2}))
        assert len(answer["results"]) >= 2
        rest = [
            {"instance_id": each["instance_id"], "action": 1, "key": each["key"]}
            for each in answer["pending"]
        ]
        found = list(answer["results"])
        if rest:
            found += ok(api.post("/v1/batch/step/", {"steps": rest}))["results"]
        status = {each["instance_id"]: each["status"] for each in found}
        assert status == {**{each.id: 200 for each in made}, "fff00000": 400}
    for each in made:
        ended = ok(each.get("episodes/"))["current"][0]
        assert ended["length"] == len(nodes.apis)


def test_a_batch_of_all_servers_may_be_as_large_as_of_one(
    nodes: Fleet, made: list[Instance]
) -> None:
    for each in made:
        each.reset(seed=11)
    limit = ok(nodes.apis[0].get("/v1/"))["limits"]["max_body"]
    # One of each server's, alone: with others, each server gets less.
    chosen = list({each.id[:3]: each.id for each in made}.values())
    for instance_id, api in itertools.product(chosen, nodes.apis):
        step = {"instance_id": instance_id, "action": "x"}
        room = limit - len(json.dumps({"steps": [step]}, separators=(",", ":")))
        step["action"] += "x" * room
        data = json.dumps({"steps": [step]}, separators=(",", ":")).encode()
        assert len(data) == limit
        json_type = {"Content-Type": "application/json"}
        answer = ok(api.post("/v1/batch/step/", data=data, headers=json_type))
        (result,) = answer["results"]
        assert result["problem"]["code"] == "invalid-action"


def test_a_drain_waits_for_the_instances_that_are_left(nodes: Fleet) -> None:
    api = nodes.apis[0]
    with node(nodes.redis, "seven", "--drain-until-idle", "60") as seven:
        wait_until_known(nodes.redis, [*nodes.servers, seven])
        there = Api(seven)
        kept = there.create(node="seven")
        with WebSocket.to(kept, sec_websocket_protocol=TEXT) as stream:
            os.kill(seven.pid, signal.SIGTERM)
            wait_until(lambda: there.get("/readyz/").status == 503)
            # No create fails, whichever server gets it.
            for number in range(10):
                each = (there, api)[number % 2].create()
                assert each.id[:3] != kept.id[:3]
                no_content(Instance(api, each.id).close())
            body = {"env_id": "CartPole-v1", "node": "seven"}
            wait_until(lambda: api.post("/v1/envs/", body).status == 503)
            assert stream.call(op="reset", seed=1)["status"] == 200
            assert stream.call(op="step", action=1)["status"] == 200
            ok(api.post(kept.path("step/"), {"action": 1}))
        assert seven.returncode is None
        no_content(api.post(kept.path("close/")))
        assert seven.wait_exit() == 0
    wait_until_known(nodes.redis, nodes.servers)
    ended = (410, "instance-ended", "node-drained")
    wait_until(lambda: refusal(api.post(kept.path("reset/"))) == ended)
    about = ok(api.get("/v1/"))
    assert {"node": "seven", "reason": "node-drained"} in about["ended_nodes"]
    assert [(each["node"], each["away"]) for each in about["nodes"]] == [
        (name, False) for name in sorted(NAMES)
    ]


def test_external_environments_of_a_name_are_on_one_server(nodes: Fleet) -> None:
    """Whichever server they connect to, so that a vector can have them."""
    numbers = set()
    with contextlib.ExitStack() as stack:
        # All first: the others learn of each within a second.
        connected = [
            stack.enter_context(ExternalEnv.to(at, name=f"game{each}"))
            for each, at in itertools.product(range(6), nodes.apis)
        ]
        for each in range(6):
            three = connected[3 * each : 3 * each + 3]
            body = {"env_id": f"external/game{each}", "num_envs": 3}
            with ThreadPoolExecutor(1) as pool:
                made = pool.submit(nodes.apis[each % 3].post, "/v1/envs/", body)
                for external in three:
                    external.answer("init")
                instance = Instance(nodes.apis[0], ok(made.result())["instance_id"])
                closed = pool.submit(instance.close)
                for external in three:
                    external.answer("close")
                no_content(closed.result())
            numbers.add(instance.id[:3])
    assert len(numbers) > 1


def test_an_external_environment_resumes_at_any_server(nodes: Fleet) -> None:
    for name, other in (("away", nodes.apis[1]), ("back", nodes.apis[2])):
        with ExternalEnv.to(nodes.apis[0], name=name) as external:
            instance = create_and_reset(
                nodes.apis[0], external, env_id=f"external/{name}"
            )
            external.drop()
            with reconnect(other, external, name=name) as again:
                take_step(instance, again)
                close_external(instance, again)


def test_pages_of_tango_connect_to_any_server(nodes: Fleet) -> None:
    for server in nodes.servers:
        with (
            ThreadPoolExecutor(1) as pool,
            TangoPage(server) as page,
        ):
            instance = nodes.apis[0].create("external/tango")
            request = pool.submit(instance.post, "reset/", {})
            first = {"observation": CELLS, "info": {}}
            page.answer({"type": "reset", "seed": None, "options": None}, first)
            assert ok(request.result(20))["observation"] == CELLS
            no_content(instance.close())


@pytest.mark.timeout(60 * KEYS)
def test_validate_passes_behind_nginx(nodes: Fleet, tmp_path: Path) -> None:
    """CHAOS_TIMES=10 makes all checks, also with each server alone as the address."""
    with round_robin(tmp_path, nodes.servers) as port:
        urls = [f"http://127.0.0.1:{port}"]
        only = [word for name in CHECKS for word in ("--only", name)]
        if KEYS > 20:
            urls, only = [*urls, *(each.url for each in nodes.servers)], []
        # The first list of a server takes a while.
        wait_until(lambda: is_whole(nodes.apis[0], "/v1/registry/"))
        assert exchange(port, b"GET /v1/ HTTP/1.0\r\n\r\n").status == 200
        for url in urls:
            proxy = ["--behind-proxy"] if url is urls[0] else []
            _, report, done = validate(url, *proxy, *only)
            assert ids(report, "failed") == set(), done.stderr
            assert report["passed"] > 30


def test_long_polling_external_environments_poll_any_server(nodes: Fleet) -> None:
    welcome = ok(nodes.apis[0].post("/v1/external/", HELLO))
    path = f"/v1/external/{welcome['connection']}/request/?wait_s=0"
    assert {api.get(path).status for api in nodes.apis} == {204}
    for api in nodes.apis:
        error(api.get("/v1/external/none/request/?wait_s=0"), 404, "not-found")


def test_a_recording_is_resumed_where_it_was_made(nodes: Fleet) -> None:
    for name in NAMES:
        recorded = nodes.apis[0].create(node=name, record=f"resumed-{name}", seed=3)
        recorded.reset()
        for _ in range(3):
            recorded.step(1)
        no_content(recorded.close())
        for api in nodes.apis:
            # Also in this spelling.
            body = b'{"\\u0072esume": "resumed-%b"}' % name.encode()
            made = ok(api.post("/v1/envs/", data=body))
            again = Instance(api, made["instance_id"])
            assert again.id[:3] == recorded.id[:3]
            no_content(again.close())


def test_a_step_with_a_key_is_executed_once_whichever_servers_get_it(
    nodes: Fleet, made: list[Instance]
) -> None:
    path = f"/v1/envs/{made[0].id}/"
    ok(nodes.apis[0].post(path + "reset/", {"seed": 7}))
    headers = {"Idempotency-Key": "k", "X-Request-Id": "r-2"}
    answers = [
        api.post(path + "step/", {"action": 1}, headers=headers) for api in nodes.apis
    ]
    for each in answers:
        named = [value for name, value in each.headers if name == "X-Request-Id"]
        assert named == ["r-2"]
    assert len({bytes(each.body) for each in answers}) == 1
    replayed = [each.header("Idempotent-Replayed") for each in answers]
    assert replayed == [None, "true", "true"]


def test_forwarded_requests_leave_the_answers_of_keys(
    nodes: Fleet, made: list[Instance]
) -> None:
    for api in nodes.apis:
        path = f"/v1/envs/{made[0].id}/"
        ok(api.post(path + "reset/", {"seed": 7}))
        headers = {"Idempotency-Key": f"kept-{api.server.port}"}
        first = ok(api.post(path + "step/", {"action": 1}, headers=headers))
        # As many as are kept of those with keys.
        for _ in range(16):
            ok(api.post(path + "reset/", {"seed": 7}))
        again = ok(api.post(path + "step/", {"action": 1}, headers=headers))
        assert again == first


def test_a_server_ends_the_wait_at_another_one_when_its_client_leaves(
    nodes: Fleet,
) -> None:
    there = nodes.apis[0].create(node="two")

    def answered() -> float:
        """Return how many requests for logs the instance's server has answered."""
        text = nodes.apis[1].get("/metrics/").text
        found = re.findall(r"_count\{[^}]*/log/[^}]*} ([0-9.e+]+)", text)
        return sum(map(float, found))

    end = nodes.apis[0].get(there.path("log/")).header("Gym-Log-Next")
    before = answered()
    with RawConnection(nodes.servers[0].port) as client:
        path = there.path(f"log/?wait_s=25&from={end}")
        client.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    wait_until(lambda: answered() > before, 5.0, "the end of the wait")
    no_content(there.close())


def test_errors_are_those_of_one_server(nodes: Fleet, made: list[Instance]) -> None:
    path = f"/v1/envs/{made[0].id}/step/"
    answers = [api.post(path, {"action": 7}) for api in nodes.apis]
    bodies = {error(each, 400, "invalid-action")["detail"] for each in answers}
    assert len(bodies) == 1
    named = [
        api.post(path, {"action": 7}, headers={"X-Request-Id": "r-1"}).header(
            "X-Request-Id"
        )
        for api in nodes.apis
    ]
    assert named == ["r-1"] * 3
    # The headers of a handshake are not added on the way.
    shaken = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    shaken["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    for api in nodes.apis:
        refused = api.get(f"/v1/envs/{made[0].id}/stream", headers=shaken)
        error(refused, 426, "upgrade-required")


def create_with_key(api: Api, key: str, **members: object) -> Response:
    body = {"env_id": "CartPole-v1", **members}
    return api.post("/v1/envs/", body, headers={"Idempotency-Key": key})


def test_a_create_with_a_key_is_executed_once_whichever_servers_get_it(
    nodes: Fleet,
) -> None:
    keys = [f"key-{number}" for number in range(KEYS)]
    calls = [(nodes.apis[copy % 3], key) for key in keys for copy in range(8)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda call: create_with_key(*call), calls))
    made = [ok(each)["instance_id"] for each in answers]
    of_keys = {key: set(made[8 * n : 8 * n + 8]) for n, key in enumerate(keys)}
    assert all(len(ids) == 1 for ids in of_keys.values())
    assert set(nodes.apis[0].instances()) == set(made)
    assert len({each[:3] for each in made}) > 1
    for instance_id in set(made):
        no_content(nodes.apis[0].post(f"/v1/envs/{instance_id}/close/"))


def test_an_instance_ends_whose_create_a_killed_server_has_forwarded(
    nodes: Fleet,
) -> None:
    one, two = nodes.servers[:2]
    wish = {"env_id": "hostile/SlowInit-v0", "kwargs": {"seconds": 60}, "node": "two"}

    def making() -> list[str]:
        listed = ok(Api(two).get("/v1/instances/"))["instances"]
        return [e["instance_id"] for e in listed if e["env_id"] == wish["env_id"]]

    workers = processes.gunicorn(one.pid)[1]
    with RawConnection(one.port) as client:
        body = json.dumps(wish).encode()
        head = "POST /v1/envs/ HTTP/1.1\r\nHost: localhost\r\n"
        head += "Content-Type: application/json\r\n"
        client.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(making, 10.0, "the create")
        for each in workers:
            each.kill()
        wait_until(lambda: not making(), 10.0, "the end of the instance")
    wait_until(
        lambda: len(processes.gunicorn(one.pid)[1] - workers) == len(workers),
        20.0,
        "other web workers",
    )


def test_a_create_is_pinned_to_a_server(nodes: Fleet) -> None:
    api = nodes.apis[0]
    url = nodes.servers[0].url
    for make in (
        lambda: RemoteEnv(url, "CartPole-v1", node="three"),
        lambda: RemoteVectorEnv(url, "CartPole-v1", num_envs=2, node="three"),
    ):
        with contextlib.closing(make()) as env:
            listed = ok(api.get("/v1/instances/"))["instances"]
            on = {each["instance_id"]: each["node"] for each in listed}
            assert on[env.instance_id] == "three"
    made = [api.create(node=name).id for name in NAMES for _ in range(3)]
    numbers = [{each[:3] for each in made[n : n + 3]} for n in (0, 3, 6)]
    assert all(len(each) == 1 for each in numbers)
    assert len(set.union(*numbers)) == 3
    for instance_id in made:
        no_content(api.post(f"/v1/envs/{instance_id}/close/"))
    problem = error(
        api.post("/v1/envs/", {"env_id": "CartPole-v1", "node": "tow"}),
        400,
        "bad-parameter",
    )
    assert "did you mean 'two'?" in problem["detail"]


def test_without_the_store_only_creates_with_a_key_wait(
    nodes: Fleet, made: list[Instance]
) -> None:
    os.kill(nodes.redis.pid, signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        tried = [pool.submit(create_with_key, each, "while") for each in nodes.apis]
    for api, refused in zip(nodes.apis, tried, strict=True):
        error(refused.result(), 503, "fleet-away")
        assert refused.result().header("Retry-After") == "1"
        no_content(api.create().close())
        ok(api.post(f"/v1/envs/{made[0].id}/reset/"))
        assert len(api.instances()) == len(made)
    os.kill(nodes.redis.pid, signal.SIGCONT)
    # As if it had come back without its data.
    nodes.redis.command("flushall")
    wait_until_known(nodes.redis, nodes.servers)
    first = ok(create_with_key(nodes.apis[0], "while"))
    assert ok(create_with_key(nodes.apis[1], "while")) == first
    no_content(nodes.apis[2].post(f"/v1/envs/{first['instance_id']}/close/"))
    numbers = nodes.redis.command("keys", "{gym}:number:*").split()
    assert {each[-3:] for each in numbers} >= {each.id[:3] for each in made}


def test_a_number_that_no_server_has_had_is_unknown(nodes: Fleet) -> None:
    taken = nodes.redis.command("keys", "{gym}:number:*")
    free = next(n for n in ("abc", "abe", "abf", "ac0") if f":{n}" not in taken)
    for api in nodes.apis:
        path = f"/v1/envs/{free}00000/step/"
        error(api.post(path, {"action": 1}), 400, "unknown-instance")
        # Its body is read first, as on a server alone.
        error(api.post(path, data=b"{"), 400, "bad-json")


def test_a_caller_cannot_pose_as_a_server(nodes: Fleet) -> None:
    forged = {"Authorization": "Fleet root - boot 0123456789"}
    api = nodes.apis[0]
    # Without tokens, the caller needs none.
    ok(api.get("/v1/envs/", headers=forged))
    assert "its signature is wrong" in nodes.servers[0].stderr
    own = api.create(node="one")
    step: dict[str, Any] = {"instance_id": own.id, "action": 1, "key": "node 7a"}
    for shown in ({}, forged):
        headers = shown | {"Idempotency-Key": "node 7a"}
        for path, body in (
            ("/v1/envs/", {"env_id": "CartPole-v1"}),
            (own.path("reset/"), {}),
            ("/v1/batch/step/", {"steps": [step | {"key": "k"}]}),
        ):
            for each in nodes.apis:
                answer = each.post(path, body, headers=headers)
                error(answer, 400, "bad-parameter")
        error(api.post("/v1/batch/step/", {"steps": [step]}), 400, "bad-parameter")
    no_content(own.close())


def test_a_key_has_a_blank_only_if_a_server_has_signed_it(nodes: Fleet) -> None:
    boot = own_record(nodes.servers[0])["boot"]
    body = {"env_id": "CartPole-v1"}
    for key, status in (("node 7a", 200), ("other 7a", 400)):
        parts = boot, "POST", "/v1/envs/", "an-id", key, "-", "-"
        header = f"Fleet - - {boot} {Signatures(TOKEN).sign('call', *parts)}"
        headers = {"X-Request-Id": "an-id", "Idempotency-Key": key}
        signed = headers | {"Authorization": header}
        answer = nodes.apis[0].post("/v1/envs/", body, headers=signed)
        assert answer.status == status
        if status == 200:
            made = answer.json()["instance_id"]
            no_content(nodes.apis[0].post(f"/v1/envs/{made}/close/"))


def test_a_request_to_an_earlier_start_of_a_server_is_sent_again(nodes: Fleet) -> None:
    """Another server does not know yet that this one was started again."""
    parts = "earlier", "GET", "/v1/", "an-id", "", "-", "-"
    header = f"Fleet - - earlier {Signatures(TOKEN).sign('call', *parts)}"
    headers = {"Authorization": header, "X-Request-Id": "an-id"}
    answer = nodes.apis[0].get("/v1/", headers=headers)
    error(answer, 503, "node-away")
    assert answer.header("Retry-After") == "1"


def test_only_servers_of_the_fleet_use_up_tickets_of_others(nodes: Fleet) -> None:
    api, path = nodes.apis[0], "/v1/nodes/ticket/"
    ticket = ok(api.post("/v1/tickets/"))["ticket"]
    error(api.post(path, {"ticket": ticket}), 403, "scope-missing")
    error(api.get("/v1/nodes/recordings/any/"), 403, "scope-missing")
    # As another server signs it, which checks each member.
    boot = own_record(nodes.servers[0])["boot"]
    parts = boot, "POST", path, "an-id", "", "-", "-"
    signature = Signatures(TOKEN).sign("call", *parts)
    header = f"Fleet - - {boot} {signature}"
    signed = {"Authorization": header, "X-Request-Id": "an-id"}
    for body in ({}, {"ticket": 7}, {"take": ticket}):
        assert api.post(path, body, headers=signed).status == 400
    assert api.post(path, {"ticket": ticket}, headers=signed).status == 200
    error(api.post(path, {"ticket": ticket}, headers=signed), 401, "ticket-refused")
