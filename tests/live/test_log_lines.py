"""Callers and environments cannot forge lines of the server's log."""

import json
import re
import secrets
import socket
import ssl
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.api import Api, error, ok
from tests.support.peers.zmq_peers import ZmqPeer
from tests.support.raw import exchange
from tests.support.server import Server
from tests.support.tls import secure_server
from tests.support.wait import wait_until
from tests.support.websocket import WebSocket

FORGED = "2026-01-01 00:00:00,000 gym_http_server.supervisor: forged"
NASTY = f"x\n{FORGED}\r\x1b[31m\x00\x85\u2028é" + 100_000 * "A"
LONGEST_LINE = 16 * 1024
TOKEN = "a-token-of-the-tests"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def test_no_line_is_forged(make_server: Callable[..., Server]) -> None:
    server = make_server("--import", "tests.support.envs.hostile", token=None)
    api = Api(server)
    api.post("/v1/envs/", {"env_id": NASTY})
    api.post("/v1/envs/", {"env_id": "CartPole-v1", "kwargs": {NASTY[:1000]: 1}})
    api.get("/v1/envs/%0a" + "2026" * 10 + "%1b[31m/")
    api.get("/v1/", headers={"X-Request-Id": "a\tb" * 100, "User-Agent": "\x1b[31m"})
    api.post("/v1/external/", {"name": NASTY[:3000]})
    instance = api.create("hostile/Segfault-v0")
    instance.reset()
    instance.step(0)
    instance.post("step/", {"action": 1})
    api.get(instance.path())
    log = (server.base / "stderr").read_bytes().decode()
    lines = log.split("\n")
    assert any("crashed" in line for line in lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]", log)
    assert not any(line.startswith("2026-01-01") for line in lines)
    assert max(map(len, lines)) <= LONGEST_LINE


LINE = re.compile(
    r"(?P<time>\S+) (?P<level>[A-Z]+) (?P<name>[a-z_.]+): (?P<message>.*?)"
    r"( \[request (?P<request>\S+)\])?"
)


def lines_of(server: Server) -> list[dict[str, str]]:
    """Read the log; every line has to be one of ours."""
    found = []
    for line in server.stderr.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        assert datetime.fromisoformat(match["time"]).utcoffset() is not None
        found.append(match.groupdict())
    return found


def logged(server: Server, words: str) -> dict[str, str]:
    """Wait for a line with these words."""
    return wait_until(
        lambda: next(
            (each for each in lines_of(server) if words in each["message"]), None
        )
    )


def test_lines_of_all_processes_have_one_form(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--workers", "1", "--external-tcp", "127.0.0.1:0", token=None)
    api = Api(server, {"X-Request-Id": "ours.1_2-3"})
    made = api.post("/v1/envs/", {"env_id": "CartPole-v1"})
    assert made.header("X-Request-Id") == "ours.1_2-3"
    line = logged(server, f"{ok(made)['instance_id']} made, an instance of CartPole-v1")
    assert (line["level"], line["request"]) == ("INFO", "ours.1_2-3")
    place = re.search(r"connect at tcp://127\.0\.0\.1:(\d+)", server.stdout)
    assert place
    with socket.create_connection(("127.0.0.1", int(place[1]))) as external:
        hello = b'{"type": "hello", "protocol": "external.v0"}'
        external.sendall(len(hello).to_bytes(4, "little") + hello)
        line = logged(server, "127.0.0.1 ended without an accepted hello: this is no")
    assert line["level"] == "WARNING"
    _, (worker,) = processes.gunicorn(server.pid)
    worker.kill()
    # gunicorn's own words.
    assert logged(server, "SIGKILL")["name"] == "gunicorn.error"
    assert server.stop() == 0
    assert logged(server, "stopping")["name"] == "gym_http_server.launcher"


def test_requests_without_an_id_get_one(make_server: Callable[..., Server]) -> None:
    server = make_server("--workers", "1", token=None)
    api = Api(server)
    for given in ({}, {"X-Request-Id": "a b"}, {"X-Request-Id": 65 * "a"}):
        refused = api.get("/v1/envs/", headers={"Host": "evil.example", **given})
        named = error(refused, 403, "host-refused")["request_id"]
        assert re.fullmatch("[0-9a-f]{16}", named)
        assert refused.header("X-Request-Id") == named
    assert ok(api.get("/v1/envs/")) == {"all_envs": {}}
    assert api.get("/v1/envs/").header("X-Request-Id") is None
    line = logged(server, "'evil.example' is no name of this server")
    assert line["message"].startswith("refused GET /v1/envs/ from 127.0.0.1: the Host ")
    assert "--allow-host" in line["message"]


def test_refused_tokens_tickets_and_handshakes_are_logged(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--workers", "1", "--token", TOKEN, token=TOKEN)
    api = Api(server)
    id_ = ok(api.post("/v1/envs/", {"env_id": "CartPole-v1"}))["instance_id"]
    path = f"/v1/envs/{id_}/stream/"
    for words, target, headers in [
        ("no token from 127.0.0.1", "/v1/", {"Authorization": ""}),
        ("wrong token from 127.0.0.1", "/v1/", {"Authorization": "Bearer wrong"}),
        ("the ticket opens no stream", f"{path}?ticket=x", {}),
        ("this is a stream: open it", path, {}),
        ("session is 'a b'", f"{path}?session=a%20b", {**UPGRADE}),
    ]:
        named = {"X-Request-Id": secrets.token_hex(4)}
        assert api.get(target, headers={**headers, **named}).status >= 400
        assert logged(server, words)["request"] == named["X-Request-Id"]
    assert not any("ticket=" in line["message"] for line in lines_of(server))


def test_the_end_of_an_instance_names_the_request(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.envs.hostile", token=None)
    api = Api(server)
    crash: dict[str, Any] = {"env_id": "hostile/Segfault-v0"}
    ends = [
        ("POST", "close/", {}, "closed", "INFO"),
        ("DELETE", "", {}, "closed", "INFO"),
        ("POST", "step/", {"action": 1}, "crashed (SIGSEGV)", "WARNING"),
        ("POST", "/v1/batch/step/", {}, "crashed (SIGSEGV)", "WARNING"),
    ]
    for number, (method, rest, body, how, level) in enumerate(ends):
        named = {"X-Request-Id": f"ender-{number}"}
        instance = Api(server, {"X-Request-Id": "another"}).create(**crash)
        instance.reset()
        path = instance.path(rest)
        if rest.startswith("/"):
            path, body = rest, {"steps": [{"instance_id": instance.id, "action": 1}]}
        api.request(method, path, body, headers=named)
        line = logged(server, f"{instance.id} ended: {how}")
        assert (line["level"], line["request"]) == (level, f"ender-{number}")
    # No request was in a call when this one ended.
    instance = api.create(**crash)
    server.host(instance.id).kill()
    line = logged(server, f"{instance.id} ended: crashed (SIGKILL)")
    assert line["request"] is None
    assert (
        len([each for each in lines_of(server) if " ended: " in each["message"]]) == 5
    )


def test_refused_handshakes_of_tls_are_logged(tmp_path: Path) -> None:
    began = time.monotonic()
    with secure_server(tmp_path, "--workers", "1") as server:
        address = "127.0.0.1", server.port
        for _ in range(20):
            with (
                socket.create_connection(address, 10) as line,
                # It does not trust the certificate.
                pytest.raises(ssl.SSLError),
            ):
                ssl.create_default_context().wrap_socket(line, server_hostname="x")
        line = logged(server, "the TLS handshake with 127.0.0.1 failed: ")
        assert line["level"] == "WARNING"

        def spoke_plainly() -> bool:
            with socket.create_connection(address, 10) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert plain.recv(12) == b"HTTP/1.1 400"
            words = "refused 127.0.0.1, which did not speak TLS"
            return any(words in each["message"] for each in lines_of(server))

        wait_until(spoke_plainly)
        lines = [each for each in lines_of(server) if each["name"].endswith(".tls")]
        assert 2 <= len(lines) <= time.monotonic() - began + 2
        # The first line is for one of them, and the next has the number of the others.
        assert any(re.search(r", after \d+ others", each["message"]) for each in lines)


def test_refused_zeromq_peers_are_logged(make_server: Callable[..., Server]) -> None:
    flags = ("--zmq", "tcp://127.0.0.1:0", "--workers", "1", "--token", TOKEN)
    server = make_server(*flags, token=TOKEN)
    began = time.monotonic()
    with ZmqPeer(server) as peer:
        assert peer.call(type="hello", token="wrong")["code"] == "unauthorized"
        assert logged(server, "wrong token from 127.0.0.1")["level"] == "WARNING"
        for _ in range(50):
            assert peer.call(type="nonsense", token=TOKEN)["code"] == "bad-parameter"
        words = "refused the first message from 127.0.0.1: type is 'nonsense'"
        assert logged(server, words)["level"] == "WARNING"
    passed = time.monotonic() - began
    assert sum(words in each["message"] for each in lines_of(server)) <= passed + 2


def test_refusals_are_logged_once_a_second(make_server: Callable[..., Server]) -> None:
    server = make_server("--workers", "1", token=None)
    began = time.monotonic()
    for _ in range(300):
        error(Api(server).get("/v1/", headers={"Host": "evil.example"}), 403)
    passed = time.monotonic() - began
    count = sum("evil.example" in line["message"] for line in lines_of(server))
    assert 1 <= count <= passed + 2


def test_the_access_log_has_a_line_for_each_request(
    make_server: Callable[..., Server],
) -> None:
    flags = ("--access-log", "--log-level", "error", "--log-format", "json")
    server = make_server(*flags, "--workers", "1", token=None)
    instance = Api(server).create()
    answers = [
        Api(server).get("/v1/envs/?ticket=secret"),
        Api(server).get("/nowhere"),
        instance.post("reset/", {}),
        exchange(server.port, b"GET / HTTP/9.9\r\n\r\n"),
    ]
    with WebSocket.to(instance):
        pass
    # The host may accept the handshake before the web worker logs it.
    wait_until(lambda: '"status":101' in server.stderr)
    objects = [json.loads(line) for line in server.stderr.splitlines()]
    assert {each["logger"] for each in objects} == {"gym_http_server.access"}
    by_id = {each["request_id"]: each for each in objects}
    for answer in answers:
        line = by_id[answer.header("X-Request-Id") or ""]
        assert line["status"] == answer.status
        assert line["peer"] == "127.0.0.1"
        assert line["ms"] >= 0
        if answer.status != 400:
            assert line["bytes"] == len(answer.body)
    listed = by_id[answers[0].header("X-Request-Id") or ""]
    assert (listed["method"], listed["path"]) == ("GET", "/v1/envs/")
    stream = next(each for each in objects if each.get("status") == 101)
    assert stream["path"] == instance.path("stream/").rstrip("/")
    assert "secret" not in server.stderr


def objects_of(server: Server) -> list[dict[str, Any]]:
    """Read a log of JSON objects."""
    return [json.loads(line) for line in server.stderr.splitlines()]


def line_with(server: Server, words: str, member: str = "message") -> dict[str, Any]:
    """Wait for a line with these words in a member."""

    def found() -> dict[str, Any] | None:
        lines = objects_of(server)
        return next((each for each in lines if words in each.get(member, "")), None)

    line: dict[str, Any] = wait_until(found)
    return line


@pytest.mark.parametrize("relay", [(), ("--stream-relay",)], ids=["direct", "relay"])
def test_the_access_log_has_lines_of_streams(
    make_server: Callable[..., Server], relay: tuple[str, ...]
) -> None:
    flags = ("--access-log", "--log-format", "json", "--workers", "1", *relay)
    server = make_server(*flags, token=None)
    instance = Api(server).create()

    target = instance.path("stream/").rstrip("/")
    named = f"stream to {instance.id} (CartPole-v1)"
    with WebSocket.to(instance) as stream:
        assert line_with(server, f"{named} opened")["level"] == "info"
        instance.reset()
        for _ in range(3):
            instance.step(0)
        stream.close()
        closed = line_with(server, f"{named} closed after ")
    assert (closed["steps"], closed["watch"]) == (3, False)
    assert closed["instance"] == instance.id
    assert 0 < closed["seconds"] < 60
    assert closed["logger"] == "gym_http_server.access"
    # All lines of a stream have the ID of the request that opened it.
    opened = line_with(server, f"GET {target} 101")
    assert opened["request_id"] == closed["request_id"]
    with WebSocket.to(instance, path=instance.path("stream?watch=1")):
        assert line_with(server, f"watching {named} opened")["watch"]
        instance.close()
        assert line_with(server, f"watching {named} closed after ")["steps"] == 0


def test_lines_of_requests_have_the_trace_of_their_caller(
    make_server: Callable[..., Server],
) -> None:
    flags = ("--access-log", "--log-format", "json", "--workers", "1")
    server = make_server(*flags, token=None)
    # The example of W3C Trace Context, section 3.2.
    trace = "0af7651916cd43dd8448eb211c80319c"
    for number, (given, wanted) in enumerate(
        [
            (f"00-{trace}-b7ad6b7169203331-01", trace),
            (f"cc-{trace}-b7ad6b7169203331-01-later", trace),
            (f"ff-{trace}-b7ad6b7169203331-01", None),
            (f"00-{32 * '0'}-b7ad6b7169203331-01", None),
            (f"00-{trace.upper()}-b7ad6b7169203331-01", None),
            ("x" * 55, None),
        ]
    ):
        named = {"X-Request-Id": f"r{number}", "traceparent": given}
        assert Api(server).get("/v1/envs/", headers=named).status == 200
        line = line_with(server, f"r{number}", "request_id")
        assert line.get("trace_id") == wanted
