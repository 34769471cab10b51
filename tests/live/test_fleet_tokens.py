"""Tokens of a fleet: checked by each server, with quotas that count in all of them."""

import contextlib
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gym_http_server.fleet.signatures import Signatures
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.fleet import (
    TOKEN,
    Redis,
    fleet,
    knows,
    node,
    own_record,
    pose_as_node,
    wait_until_known,
)
from tests.support.listener import Listener
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.openenv import OpenEnvClient
from tests.support.raw import RawConnection
from tests.support.reloads import reloaded
from tests.support.runs import Run, done
from tests.support.server import Server
from tests.support.token_file import TOKENS, api_of, line, token_of, write_file
from tests.support.wait import wait_until
from tests.support.websocket import ACCEPT, TEXT, WebSocket

pytestmark = [pytest.mark.live, pytest.mark.toolchain]


Servers = tuple[Redis, list[Server]]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of tokens of both servers."""
    return Path(write_file(tmp_path_factory.mktemp("tokens")))


@pytest.fixture(scope="module")
def servers(tokens: Path) -> Iterator[Servers]:
    """Two servers of a fleet with the same tokens."""
    flags = ("--tokens", str(tokens), "--max-instances", "4", "--access-log")
    with fleet("one", "two", args=(*flags, "--answer-budget", "16M")) as made:
        yield made


def test_a_caller_is_the_same_for_all_servers(servers: Servers) -> None:
    one, two = servers[1]
    for name in ("one", "two"):
        instance = api_of(one, "ada").create(node=name)
        for server in (one, two):
            own, other = api_of(server, "ada"), api_of(server, "root")
            assert instance.id in own.instances()
            assert instance.id in other.instances()
            ok(own.post(instance.path("reset/")))
            ok(other.post(instance.path("reset/")))
            denied = api_of(server, "reader").post(instance.path("reset/"))
            error(denied, 403, "scope-missing")
            foreign = api_of(server, "stepper").post(instance.path("reset/"))
            error(foreign, 400, "unknown-instance")
            assert api_of(server, "reader").instances() == {}
        error(api_of(two, "nobody").get("/v1/envs/"), 401, "unauthorized")
        no_content(api_of(two, "ada").post(instance.path("close/")))


def test_a_refused_part_of_a_batch_has_the_reason_of_its_server(
    servers: Servers, tmp_path: Path
) -> None:
    redis, (one, two) = servers
    tokens = tmp_path / "tokens"
    tokens.write_text(line("root", TOKENS["root"]))
    tokens.chmod(0o644)
    with node(redis, "three", "--tokens", str(tokens)) as three:
        wait_until_known(redis, [one, two, three])
        own = api_of(one, "ada").create(node="one")
        other = api_of(one, "root").create(node="three")
        own.reset()
        steps = [{"instance_id": each.id, "action": 0} for each in (other, own)]
        answer = ok(api_of(one, "ada").post("/v1/batch/step/", {"steps": steps}))
        refused, taken = answer["results"]
        assert (refused["instance_id"], refused["status"]) == (other.id, 401)
        assert refused["problem"]["code"] == "unauthorized"
        assert "'ada' is not in the --tokens file" in refused["problem"]["message"]
        assert (taken["instance_id"], taken["status"]) == (own.id, 200)
        no_content(own.close())
    wait_until_known(redis, [one, two])


def test_a_server_cannot_be_posed_as(servers: Servers) -> None:
    for header in ("Fleet root - b 0", "Fleet - - b " + "0" * 40, "Fleet"):
        api = api_of(servers[1][0], "root", Authorization=header)
        error(api.get("/v1/envs/"), 401, "unauthorized")
    root = api_of(servers[1][0], "root")
    error(root.post("/v1/nodes/ticket/", {"ticket": "any"}), 403, "scope-missing")
    forged = {"X-Forwarded-User": "root", "Gym-Node": "two", "Via": "1.1 two"}
    mine = api_of(servers[1][0], "ada", **forged)
    other = api_of(servers[1][1], "root").create(node="two")
    error(mine.post(other.path("reset/")), 400, "unknown-instance")
    no_content(other.close())


def test_a_server_proves_to_others_that_it_is_there(servers: Servers) -> None:
    """Whatever tokens it has, and to nobody else."""
    for server in servers[1]:
        boot = own_record(server)["boot"]
        parts = boot, "GET", "/healthz/", "", "", "-", "-"
        signature = Signatures(TOKEN).sign("call", *parts)
        for shown, proof in (
            (signature, Signatures(TOKEN).sign("answer", boot)),
            ("0" * 40, None),
        ):
            api = Api(server, {"Authorization": f"Fleet - - {boot} {shown}"})
            assert api.get("/healthz/").header("Gym-Node-Proof") == proof


def test_a_host_learns_no_proof_but_of_its_stream(servers: Servers) -> None:
    """What an environment can read there must not prove anything else."""
    server = servers[1][1]
    instance = api_of(server, "root").create(node="two")
    boot = own_record(server)["boot"]
    parts = boot, "GET", instance.path("stream"), "an-id", "", "root", "-"
    signature = Signatures(TOKEN).sign("call", *parts)
    signed = f"Fleet root - {boot} {signature}"
    with WebSocket.to(instance, X_Request_Id="an-id", Authorization=signed) as stream:
        assert stream.response.status == 101
        proof = Signatures(TOKEN).sign("stream", boot, ACCEPT)
        assert stream.response.header("Gym-Node-Proof") == proof
    no_content(instance.close())


def records(server: Server) -> list[dict[str, Any]]:
    """Return the records of all servers, as one of them knows them."""
    (page,) = server.run_dir.glob("*/nodes")
    nodes = json.loads(page.read_text())
    return [nodes["own"], *(each["record"] for each in nodes["others"])]


def counted(server: Server, owner: str) -> int:
    """Return how many instances a token has, as a server knows from the records."""
    return sum(each.get("owners", {}).get(owner, 0) for each in records(server))


def test_a_full_fleet_says_how_many_instances_it_may_have(servers: Servers) -> None:
    _, both = servers
    ada = api_of(both[0], "ada")
    made = [ada.create() for _ in range(8)]
    assert len({each.id[:3] for each in made}) == 2
    wait_until(lambda: not any(each["free"] for each in records(both[0])))
    problem = error(
        ada.post("/v1/envs/", {"env_id": "CartPole-v1"}), 429, "too-many-instances"
    )
    words = "all 8 instances that the 2 nodes of this fleet may have are taken"
    assert words in problem["detail"]
    # Of a server that is named, only its own count matters.
    named = {"env_id": "CartPole-v1", "node": "two"}
    problem = error(ada.post("/v1/envs/", named), 429, "too-many-instances")
    assert "of this fleet" not in problem["detail"]
    for each in made:
        no_content(each.close())
    wait_until(lambda: all(each["free"] == 4 for each in records(both[0])))


def test_quotas_count_in_the_fleet(servers: Servers) -> None:
    redis, (one, two) = servers
    bob = [api_of(server, "bob") for server in (one, two)]
    made = [bob[0].create(node="one"), bob[0].create(node="two")]

    for server, api in zip((one, two), bob, strict=True):
        # At once here, and within a second there.
        wait_until(lambda server=server: counted(server, "bob") == 2 or server is one)
        for _ in range(2):
            answer = api.post("/v1/envs/", {"env_id": "CartPole-v1"})
            problem = error(answer, 429, "too-many-instances")
            assert "'bob' has 2 instances in this fleet" in problem["detail"]
    for each in made:
        no_content(each.close())
    wait_until_known(redis, [one, two])


def test_creates_at_once_at_all_servers_do_not_exceed_a_quota(
    servers: Servers,
) -> None:
    both = servers[1]
    body = {"env_id": "CartPole-v1"}
    apis = [api_of(server, "bob") for server in both]
    wait_until(lambda: not any(counted(server, "bob") for server in both))
    with ThreadPoolExecutor(16) as pool:
        calls = [pool.submit(api.post, "/v1/envs/", body) for api in apis * 8]
    answers = [each.result() for each in calls]
    made = [ok(each)["instance_id"] for each in answers if each.status == 200]
    assert set(apis[0].instances()) == set(made)
    assert len(made) == 2
    for each in answers:
        if each.status != 200:
            error(each, 429, "too-many-instances")
    for instance_id in made:
        no_content(apis[0].post(f"/v1/envs/{instance_id}/close/"))
    wait_until(lambda: not any(counted(server, "bob") for server in both))


def test_refused_creates_do_not_count(servers: Servers) -> None:
    redis, (one, _) = servers
    bob, ada = api_of(one, "bob"), api_of(one, "ada")
    wait_until(lambda: placed(redis, "bob") == 0)
    for _ in range(3):
        answer = ada.post("/v1/envs/", {"env_id": "CartPole-v1", "for": "bob"})
        error(answer, 403, "scope-missing")
        error(bob.post("/v1/envs/", {"env_id": "None-v0"}), 400, "unknown-env")
        error(bob.post("/v1/envs/", {"env_id": "A-v0", "node": "no"}), 400)
    assert placed(redis, "bob") == 0
    made = [bob.create(), bob.create()]
    assert placed(redis, "bob") > 0
    # Whatever bob has, others learn nothing of it.
    answer = ada.post("/v1/envs/", {"env_id": "CartPole-v1", "for": "bob"})
    error(answer, 403, "scope-missing")
    for each in made:
        no_content(each.close())
    wait_until(lambda: not any(counted(server, "bob") for server in servers[1]))


def placed(redis: Redis, owner: str) -> int:
    """Return how many recent creates the store counts for a token."""
    return int(redis.command("zcard", f"{{gym}}:placed:{owner}"))


def test_connections_of_openenv_count_in_the_quotas(servers: Servers) -> None:
    one, two = servers[1]
    bob = api_of(one, "bob")
    made = [bob.create(node="one"), bob.create(node="two")]
    wait_until(lambda: counted(two, "bob") == 2)
    answer = api_of(two, "bob").get("/openenv/CartPole-v1/schema")
    problem = error(answer, 429, "too-many-instances")
    assert "'bob' has 2 instances in this fleet" in problem["detail"]
    for each in made:
        no_content(each.close())
    wait_until(lambda: not any(counted(server, "bob") for server in servers[1]))


def test_an_instance_of_openenv_is_replaced_within_the_quota(servers: Servers) -> None:
    one, two = servers[1]
    other = api_of(one, "bob").create(node="one")
    authorization = f"Bearer {token_of('bob')}"
    with OpenEnvClient.connect(two, authorization=authorization) as client:
        for mode in (None, "rgb_array"):
            client.reset(render_mode=mode)
            wait_until(lambda: counted(one, "bob") == 2)
        refused = api_of(one, "bob").post("/v1/envs/", {"env_id": "CartPole-v1"})
        error(refused, 429, "too-many-instances")
    no_content(other.close())
    wait_until(lambda: not any(counted(server, "bob") for server in servers[1]))


def test_a_token_that_may_not_read_resumes_its_recordings(servers: Servers) -> None:
    one, two = servers[1]
    body = {"env_id": "CartPole-v1", "record": "of-maker", "seed": 3, "node": "two"}
    recorded = ok(api_of(one, "maker").post("/v1/envs/", body))["instance_id"]
    no_content(api_of(one, "root").post(f"/v1/envs/{recorded}/close/"))
    error(api_of(one, "maker").get("/v1/recordings/of-maker/"), 403, "scope-missing")
    answer = api_of(one, "maker").post("/v1/envs/", {"resume": "of-maker"})
    resumed = ok(answer)["instance_id"]
    assert resumed[:3] == recorded[:3]
    no_content(api_of(one, "root").post(f"/v1/envs/{resumed}/close/"))
    foreign = api_of(one, "ada").post("/v1/envs/", {"resume": "of-maker"})
    error(foreign, 404, "not-found")
    # A file of it is no recording.
    for server in (one, two):
        for name in ("steps.gym", "notes.txt"):
            body = {"resume": f"of-maker/files/{name}"}
            error(api_of(server, "maker").post("/v1/envs/", body), 400, "bad-parameter")


def test_any_server_answers_for_a_run(servers: Servers) -> None:
    redis, both = servers
    for here, there in (both, reversed(both)):
        mine = api_of(here, "runner")
        run = Run.create(mine, f"run-of-{here.port}")
        other = Run(api_of(there, "runner"), run.name, run.tokens)
        worker = {"Authorization": f"Bearer {run.tokens['worker']}"}
        trainer = {"Authorization": f"Bearer {run.tokens['trainer']}"}
        assert other.get().status == 200
        for at in (here, there):
            # No token of a run may list its tokens.
            error(Api(at).get(other.path("tokens/"), headers=worker), 403)
        again = other.api.post("/v1/runs/", {"run": run.name})
        # The relay that has it answers, as to any repetition.
        assert again.status == 200
        session = done(other.post("sessions/", {"worker": "w"}, headers=worker))
        for number, size in ((1, 100), (2, 3_000_000)):
            path = run.samples(session["session"], number)
            sent = bytes(range(100)) * (size // 100)
            for each in (there, here):
                stored = Api(each).post(path, data=sent, headers=worker)
                assert stored.status in (200, 201), stored
            answer = Api(there).get(
                run.path(f"samples/?after={number - 1}"), headers=trainer
            )
            assert answer.status == 200
            assert sent in answer.body
        assert other.stored()["stored"] == 2
        for api in (mine, other.api):
            listed = done(api.get("/v1/runs/"))["runs"]
            assert [each["run"] for each in listed].count(run.name) == 1
        # The nodes know where it is if the store has lost it.
        redis.command("del", f"{{gym}}:run:{run.name}")
        unknown = api_of(there, "runner").get("/v1/runs/no-such-run/")
        error(unknown, 404, "unknown-run")
        assert other.get().status == 200


def test_a_token_of_a_run_is_known_to_all_servers(servers: Servers) -> None:
    """As on one server: 403 where a good token opens nothing, 401 if it is unknown."""
    redis, both = servers
    one, two = (Run.create(api_of(x, "runner"), f"roles-{x.port}") for x in both)
    paths = [
        *(one.path(), two.path(), "/v1/runs/no-such-run/", "/v1/runs/a%20b/"),
        *(one.path("tokens/"), two.path("tokens/"), "/v1/runs/", "/v1/envs/"),
    ]
    expected = {
        one.tokens["worker"]: [200, *[403] * 7],
        two.tokens["worker"]: [403, 200, *[403] * 6],
    }
    with RawConnection(both[0].port, source="127.0.9.8") as client:
        for token, statuses in expected.items():
            for api in map(Api, both):
                headers = {"Authorization": f"Bearer {token}"}
                answers = [api.get(path, headers=headers) for path in paths]
                assert [each.status for each in answers] == statuses
            put = Api(both[0]).request(
                "PUT", two.path("weights/"), data=b"w", headers=headers
            )
            assert put.status == 403
        for path in paths:
            lines = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
            lines += "Authorization: Bearer ghr_unknown\r\n\r\n"
            client.send(lines.encode())
            assert client.read_response().status == 401
    # A good token binds no name of another run to the server that knows the token.
    redis.command("del", f"{{gym}}:run:{two.name}")
    run = two.name + "-unknown"
    worker = {"Authorization": f"Bearer {one.tokens['worker']}"}
    for server in both:
        for name in (two.name, run):
            path = f"/v1/runs/{name}/"
            error(Api(server).get(path, headers=worker), 403, "scope-missing")
    assert two.get().status == 200
    assert run not in redis.command("keys", "{gym}:run:*")


def test_the_name_of_a_run_is_bound_to_its_server_until_it_is_deleted(
    servers: Servers,
) -> None:
    redis, (one, two) = servers
    here, there = api_of(one, "runner"), api_of(two, "runner")
    run = Run.create(here, "durable")
    key = "{gym}:run:durable"
    bound = redis.command("get", key)
    assert 86_000 < int(redis.command("ttl", key)) <= 86_400
    # As if its server had given its number back, before it was started again.
    redis.command("set", key, "fff:its-directory")
    assert Run(there, "durable", run.tokens).get().status == 200
    assert redis.command("get", key) == bound
    # One that is away keeps the name of its run.
    redis.command("set", "{gym}:run:away", "fff:its-directory")
    for api in (here, there):
        error(api.get("/v1/runs/away/"), 503, "node-away")
        error(api.post("/v1/runs/", {"run": "away"}), 503, "node-away")
    redis.command("del", "{gym}:run:away")
    # Once it is deleted, any server makes it anew, and all find it there.
    for first in (there, here):
        assert first.request("DELETE", run.path()).status in (200, 204)
        assert redis.command("get", key).strip() == ""
        for api in (here, there):
            error(api.get(run.path()), 404, "unknown-run")
            error(api.post(run.path("sessions/"), {"worker": "w"}), 404, "unknown-run")
        Run.create(first, "durable")
        for api in (here, there):
            assert api.get(run.path()).status == 200
            assert api.post(run.path("sessions/"), {"worker": "w"}).status == 201
        bound = redis.command("get", key)
        assert own_record(first.server)["numbers"][-1] == bound[:3]
    # The first one knows it on itself.
    assert there.request("DELETE", run.path()).status in (200, 204)
    Run.create(there, "durable")
    assert here.get(run.path()).status == 200


def test_a_reload_ends_the_streams_that_a_server_relays(
    servers: Servers, tokens: Path
) -> None:
    _, (one, two) = servers
    text = tokens.read_text()
    instance = api_of(one, "ada").create(node="two")
    with contextlib.ExitStack() as stack:

        def stream_at(server: Server, name: str) -> WebSocket:
            at, authorization = Instance(Api(server), instance.id), token_of(name)
            shown = {"authorization": f"Bearer {authorization}"}
            stream = WebSocket.to(at, sec_websocket_protocol=TEXT, **shown)
            assert stream.response.status == 101
            return stack.enter_context(stream)

        ended, direct = [stream_at(one, "ada")], stream_at(two, "ada")
        kept = stream_at(one, "root")
        # Some of these names are on each server.
        for number in range(4):
            external = ExternalEnv.to(api_of(one, "bob"), name=f"game{number}")
            ended.append(stack.enter_context(external).websocket)
        stack.callback(reloaded, one)
        stack.callback(tokens.write_text, text)
        tokens.write_text(text.replace("ada ", "eve ").replace("bob ", "tom "))
        # The other server was not told.
        assert "removed tokens: ada, bob" in reloaded(one)
        for stream in ended:
            stream.read_to_end()
        for stream in (direct, kept):
            assert stream.call(op="reset", seed=1)["status"] == 200
    no_content(instance.close())


WEIGHTS = bytes(range(256)) * 12_000


def test_large_answers_go_through_a_node_in_parts(servers: Servers) -> None:
    one, two = servers[1]
    run = Run.create(api_of(one, "runner"), "large-weights")
    trainer = {"Authorization": f"Bearer {run.tokens['trainer']}"}
    # More than the buffers of sockets and the share of a caller have room for.
    large = 7 * WEIGHTS
    first = {**trainer, "If-None-Match": "*"}
    done(Api(two).request("PUT", run.path("weights/"), data=large, headers=first))
    request = f"GET {run.path('weights/')} HTTP/1.1\r\nHost: localhost\r\n"
    request += f"Authorization: {trainer['Authorization']}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        readers = []
        for _ in range(6):
            address = "127.0.0.1", two.port
            sock = stack.enter_context(socket.create_connection(address, 20.0))
            sock.sendall(request.encode())
            readers.append(stack.enter_context(sock.makefile("rb")))
        assert [each.readline()[9:12] for each in readers] == 6 * [b"200"]
        while readers[0].readline() != b"\r\n":
            pass
        assert readers[0].read(len(large)) == large
    # The others have left: no connection to the node is kept that has a rest.
    for _ in range(3):
        assert Api(two).get(run.path(), headers=trainer).status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_ranges_of_large_answers_are_those_of_their_node(
    servers: Servers, method: str
) -> None:
    one, two = servers[1]
    run = Run.create(api_of(one, "runner"), f"ranges-of-{method.lower()}")
    trainer = {"Authorization": f"Bearer {run.tokens['trainer']}"}
    first = {**trainer, "If-None-Match": "*"}
    done(Api(two).request("PUT", run.path("weights/"), data=WEIGHTS, headers=first))
    etag = Api(one).get(run.path("weights/"), headers=trainer).header("ETag") or ""
    given = {**trainer, "X-Request-Id": "the-same"}
    for wanted in (
        {},
        {"Range": "bytes=5-3000004"},
        {"Range": "bytes=-7"},
        {"Range": "bytes=99999999-"},
        {"Range": "bytes=5-3000004", "If-Range": '"other"'},
        {"If-None-Match": etag},
    ):
        got = []
        for each in (one, two):
            answer = Api(each).request(
                method, run.path("weights/"), headers={**given, **wanted}
            )
            lines = [x for x in answer.headers if x[0] not in ("Connection", "Date")]
            got.append((answer.status, lines, answer.body))
        assert got[0] == got[1], wanted


def test_a_short_upload_is_refused_as_by_its_node(servers: Servers) -> None:
    one, two = servers[1]
    run = Run.create(api_of(one, "runner"), "short-uploads")
    lines = f"PUT {run.path('weights/')} HTTP/1.1\r\nHost: localhost\r\n"
    lines += f"Authorization: Bearer {run.tokens['trainer']}\r\n"
    lines += f"If-None-Match: *\r\nContent-Length: {len(WEIGHTS)}\r\n\r\n"
    for server in (one, two):
        # Less than the deadline of a request.
        with RawConnection(server.port, timeout=5.0) as client:
            client.send(lines.encode() + WEIGHTS[:-1])
            client.finish_sending()
            error(client.read_response(), 400, "malformed-request")


def test_a_node_wants_a_body_once_the_node_of_its_run_does(servers: Servers) -> None:
    one, two = servers[1]
    runner = api_of(one, "runner")
    run = Run.create(runner, "expects", limits={"queue_batches": 1})
    session = run.session()
    for server, number, status in ((two, 1, 201), (two, 2, 429), (one, 2, 429)):
        lines = f"POST {run.samples(session, number)} HTTP/1.1\r\n"
        lines += f"Host: localhost\r\nContent-Length: {len(WEIGHTS)}\r\n"
        lines += f"Authorization: Bearer {run.tokens['worker']}\r\n"
        with RawConnection(server.port) as client:
            client.send(f"{lines}Expect: 100-continue\r\n\r\n".encode())
            answer = client.read_response()
            if status < 400:
                assert answer.status == 100
                client.send(WEIGHTS)
                answer = client.read_response()
            assert answer.status == status
    no_content(runner.request("DELETE", run.path()))


def test_a_broken_large_answer_does_not_look_whole(servers: Servers) -> None:
    redis, (one, two) = servers
    proof = Signatures(TOKEN).sign("answer", "its-boot")
    with BreakingNode() as other, pose_as_node(redis, "breaks", other.url):
        other.proof = proof
        wait_until(lambda: knows(two, 3))
        for size in (3_000_000, 100):
            other.size = size
            with RawConnection(two.port) as client:
                lines = "GET /v1/envs/abc00001/log/ HTTP/1.1\r\nHost: localhost\r\n"
                lines += "Connection: close\r\n"
                lines += f"Authorization: Bearer {token_of('root')}\r\n\r\n"
                client.send(lines.encode())
                received = client.read_to_end()
            head, _, body = received.partition(b"\r\n\r\n")
            if size == 100:
                # It is asked again, and no answer was begun.
                assert head.startswith(b"HTTP/1.1 503 ")
            else:
                assert b"Content-Length: 3000000" in head
                assert len(body) < size
    wait_until_known(redis, [one, two])
    assert "Traceback" not in two.log()


class BreakingNode(Listener):
    """A node that ends in the middle of each answer.

    Attributes:
        proof: What shows that it is the node.
        size: Bytes that an answer would have.
    """

    proof = ""
    size = 0

    def attend(self, connection: socket.socket, number: int) -> None:
        connection.recv(65536)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {self.size}\r\n"
        head += f"Gym-Node-Proof: {self.proof}\r\n\r\n"
        with contextlib.suppress(OSError):
            connection.sendall(head.encode() + bytes(self.size // 2))


def test_as_many_headers_go_through_a_node_as_to_one(servers: Servers) -> None:
    one, two = servers[1]
    instance = api_of(one, "ada").create(node="one")
    for lines in (
        "".join(f"X-{number}: 1\r\n" for number in range(98)),
        "".join(f"X-{number}: {'a' * 700}\r\n" for number in range(80)),
        2 * f"Accept: {'application/json,' * 400}\r\n",
    ):
        request = f"POST {instance.path('reset/')} HTTP/1.1\r\nHost: localhost\r\n"
        request += f"Authorization: Bearer {token_of('ada')}\r\n{lines}\r\n"
        for server in (one, two):
            with RawConnection(server.port) as client:
                client.send(request.encode())
                assert client.read_response().status == 200
    no_content(instance.close())


def test_names_that_no_run_has_stay_at_the_server(servers: Servers) -> None:
    redis, (one, _) = servers
    runner = api_of(one, "runner")
    before = redis.command("keys", "{gym}:run:*")
    for name in ("\u20ac", "a b", "x\r\nHost: two", "", "n" * 3000):
        answer = runner.post("/v1/runs/", {"run": name})
        assert "run is" in error(answer, 400, "bad-parameter")["detail"]
        if name:
            error(runner.get(f"/v1/runs/{quote(name)}/"), 404, "unknown-run")
    assert redis.command("keys", "{gym}:run:*") == before
    assert "Traceback" not in one.log()


def test_wrong_tokens_of_runs_count_where_they_arrive(servers: Servers) -> None:
    _, (one, two) = servers
    run = Run.create(api_of(one, "runner"), "guessed")
    statuses, before = set(), one.log().count("token from 127.0.0.1")
    with RawConnection(two.port, source="127.0.9.9") as client:
        for _ in range(300):
            lines = f"GET {run.path()} HTTP/1.1\r\nHost: localhost\r\n"
            lines += "Authorization: Bearer ghr_guessed\r\n\r\n"
            client.send(lines.encode())
            statuses.add(client.read_response().status)
            if 429 in statuses:
                break
    assert statuses == {401, 429}
    assert "token from 127.0.9.9" in two.log()
    assert one.log().count("token from 127.0.0.1") == before
    worker = {"Authorization": f"Bearer {run.tokens['worker']}"}
    assert Api(two).get(run.path(), headers=worker).status == 200


def test_secrets_are_in_no_log_store_or_process_list(servers: Servers) -> None:
    redis, (one, two) = servers
    ada, other = api_of(one, "ada"), api_of(two, "ada")
    made = ada.create(node="two")
    tickets = []
    for body in ({}, {"instance_id": made.id}):
        for issuing, opening in ((ada, other), (other, ada), (ada, ada)):
            ticket = ok(issuing.post("/v1/tickets/", body))["ticket"]
            path = made.path(f"stream?ticket={ticket}")
            for status in (101, 401):
                with WebSocket.to(Instance(opening, made.id), path=path) as stream:
                    assert stream.response.status == status
            tickets.append(ticket)
    no_content(made.close())
    secrets = [TOKEN, *map(token_of, TOKENS), *tickets]
    kept = {"store": redis.contents()}
    for each in (one, two):
        lines = [" ".join(process.cmdline()) for process in each.members()]
        kept |= {f"log of {each.port}": each.log(), f"ps of {each.port}": str(lines)}
    assert made.id[:3] in kept["store"]
    assert (
        "?ticket=" in kept[f"log of {one.port}"]
        or "/stream" in kept[f"log of {one.port}"]
    )
    for place, text in kept.items():
        assert not any(secret in text for secret in secrets), place
