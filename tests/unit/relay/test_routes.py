"""The routes of runs in a web worker, in front of a relay that the test plays."""

import base64
import contextlib
import functools
import hashlib
import io
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
import msgspec
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gym_http_server.config.settings import Settings
from gym_http_server.errors import Gap, RelayUnavailable
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.rundir.directory import RunDir
from gym_http_server.services.relay.files import INLINE_BYTES
from gym_http_server.services.relay.messages import (
    Piece,
    RelayHead,
    pieces_answer,
    relay_problem,
    request_of,
)
from gym_http_server.web.app import create_app
from gym_http_server.web.backends import uploads
from gym_http_server.web.backends.relay import RelayClient
from gym_http_server.web.backends.supervisor_client import SupervisorClient
from gym_http_wire.bundles import BUNDLE, MOST_BATCHES, BatchHead, encode_batch
from gym_http_wire.frames import HEADER, Frame, encode
from gym_http_wire.messages import AnswerHead, Op, answer
from gym_http_wire.problems import Problem
from tests.support.wait import wait_until

LARGE = bytes(range(256)) * (INLINE_BYTES // 256 + 1)
SAMPLES = "/v1/runs/r/samples/?session=s&number=1&policy=0&count=1"
TOKEN = {"Authorization": "Bearer ghr_" + "x" * 43}


class ToyRelay:
    """Records requests, and answers them as the test decides."""

    def __init__(self, folder: Path, bodies: Path) -> None:
        self.requests: list[tuple[Op, RelayHead, bytes]] = []
        self.bodies = bodies
        self.answers: dict[Op, Frame | Problem] = {}
        self.files: list[Path] = []
        # Requests that wait until the test lets them be answered.
        self.holding = 0
        self.held = threading.Event()
        self.held.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "relay.sock"))
        self._listener.listen()
        self.ended = threading.Event()
        self._connections: list[FrameSocket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def accepted(self) -> int:
        """Number of connections so far."""
        return len(self._connections)

    def disconnect(self) -> None:
        """Close all connections, as if the relay was restarted."""
        for each in self._connections:
            with contextlib.suppress(OSError):
                each.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the threads."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self.disconnect()
        for each in self._threads:
            each.join()
        self._listener.close()

    def of(self, op: Op) -> list[tuple[RelayHead, bytes]]:
        """Return the requests with this operation."""
        return [(head, body) for each, head, body in self.requests if each == op]

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(FrameSocket(end))
            serve = threading.Thread(target=self._serve, args=self._connections[-1:])
            self._threads.append(serve)
            serve.start()

    def _serve(self, connection: FrameSocket) -> None:
        while (request := connection.receive_one()) is not None:
            self._answer(connection, request)
        self.ended.set()
        connection.close()

    def _answer(self, connection: FrameSocket, request: Frame) -> None:
        self.holding += 1
        self.held.wait(10)
        self.holding -= 1
        op = Op(request.kind)
        self.requests.append((op, request_of(request), bytes(request.body)))
        default: Any = {"folder": str(self.bodies), "room": 1 << 40}
        reply = self.answers.get(op, answer(200, msgspec.json.encode(default)))
        if isinstance(reply, Problem):
            reply = relay_problem(reply)
        descriptors = [os.open(path, os.O_RDONLY) for path in self.files]
        data = encode(reply)
        sent = socket.send_fds(connection.socket, [data], descriptors)
        if sent < len(data):
            connection.socket.sendall(data[sent:])
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.fixture(scope="module", autouse=True)
def threads() -> None:
    """Start gevent's threads, which stay, before the descriptors are counted."""
    gevent.get_hub().threadpool.apply(int)


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[ToyRelay]:
    bodies = tmp_path / "bodies"
    bodies.mkdir()
    relay = ToyRelay(tmp_path, bodies)
    yield relay
    relay.close()


@pytest.fixture
def client(tmp_path: Path, relay: ToyRelay) -> Iterator[FlaskClient]:
    settings = Settings(max_upload=4 * INLINE_BYTES)
    app = create_app(settings, RunDir(str(tmp_path)))
    yield app.test_client()
    app.extensions["gym_http_server"].relay.close_idle()


def code(response: TestResponse) -> tuple[int, str]:
    """Return status and code of a problem."""
    assert response.json is not None
    return response.status_code, response.json["code"]


def digest_of(body: bytes) -> dict[str, str]:
    """Return the header with the digest of a body."""
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    return {"Content-Digest": f"sha-512=:AAAA:, sha-256=:{digest}:"}


def test_a_small_batch_is_one_request(client: FlaskClient, relay: ToyRelay) -> None:
    relay.answers[Op.SAMPLES_PUT] = answer(201, b'{"position":1}')
    headers = {"Content-Type": "text/csv", **digest_of(b"1,2")}
    answered = client.post(SAMPLES, data=b"1,2", headers=headers)
    assert (answered.status_code, answered.json) == (201, {"position": 1})
    ((op, head, body),) = relay.requests
    assert (op, body, head.size, head.file) == (Op.SAMPLES_PUT, b"1,2", 3, "")
    assert (head.run, head.token, head.content_type) == ("r", "", "text/csv")
    assert head.args == {"session": "s", "number": 1, "policy": 0, "count": 1}
    assert head.digest == hashlib.sha256(b"1,2").hexdigest()


def test_a_large_body_is_a_file_of_the_relay(
    client: FlaskClient, relay: ToyRelay
) -> None:
    assert client.post(SAMPLES, data=LARGE, headers=digest_of(LARGE)).status_code == 200
    (admitted, empty), (head, body) = relay.of(Op.RELAY_ADMIT) + relay.of(
        Op.SAMPLES_PUT
    )
    assert (empty, body) == (b"", b"")
    assert admitted.args["op"] == Op.SAMPLES_PUT
    assert (admitted.size, head.size) == (len(LARGE), len(LARGE))
    assert (relay.bodies / head.file).read_bytes() == LARGE
    assert head.digest == hashlib.sha256(LARGE).hexdigest()


@pytest.mark.parametrize("size", [0, INLINE_BYTES])
def test_a_bundle_is_sent_with_its_session(
    size: int, client: FlaskClient, relay: ToyRelay
) -> None:
    bundle = encode_batch(BatchHead("first", 1, 0, 1), bytes(size))
    bundle += encode_batch(BatchHead("second", 1, 0, 1), b"")
    for path, session in (("", "first"), ("?session=third", "third")):
        relay.requests.clear()
        path = f"/v1/runs/r/samples/{path}"
        assert client.post(path, data=bundle, content_type=BUNDLE).status_code == 200
        ((head, _),) = relay.of(Op.SAMPLES_PUT)
        assert head.args == {"session": session}
    relay.requests.clear()
    # The relay says what is wrong with it.
    malformed = b"x" * (size + 1)
    path = "/v1/runs/r/samples/"
    assert client.post(path, data=malformed, content_type=BUNDLE).status_code == 200
    ((head, _),) = relay.of(Op.SAMPLES_PUT)
    assert head.args == {}


def test_a_bundle_of_too_many_batches_is_refused_before_the_relay(
    client: FlaskClient, relay: ToyRelay
) -> None:
    batch = encode_batch(BatchHead("s" * 20, 1, 0, 1), b"")
    post = functools.partial(client.post, "/v1/runs/r/samples/", content_type=BUNDLE)
    assert post(data=batch * MOST_BATCHES).status_code == 200
    relay.requests.clear()
    # Before its end, and before another head is parsed.
    refused = post(data=batch * MOST_BATCHES + batch[: HEADER.size])
    assert code(refused) == (413, "bundle-too-large")
    assert refused.json is not None
    assert refused.json["limit"] == MOST_BATCHES
    assert relay.of(Op.SAMPLES_PUT) == []
    assert len(list(relay.bodies.iterdir())) == 1


def test_health_reports_a_relay_that_is_silent_for_long(
    relay: ToyRelay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = RunDir(str(tmp_path))
    now = 1000.0
    client = RelayClient(run_dir, SupervisorClient(run_dir), lambda: now)

    def fails(seconds: float, *, silent: bool = True) -> bool:
        """Whether a check fails after so many seconds."""
        nonlocal now
        now += seconds
        with monkeypatch.context() as patch:
            if silent:
                end = lambda end, _: end.socket.shutdown(socket.SHUT_RDWR)  # noqa: E731
                patch.setattr(relay, "_answer", end)
            try:
                client.check(5.0)
            except RelayUnavailable:
                return True
        return False

    assert not fails(0, silent=False)
    assert [fails(each) for each in (60, 9, 1, 1)] == [False, False, True, True]
    assert not fails(0, silent=False)
    assert [fails(each) for each in (60, 9)] == [False, False]
    # Any other answer counts, too.
    client.call(Op.RUN_LIST, RelayHead())
    assert not fails(60)
    client.close_idle()


def test_requests_in_turn_share_a_connection(
    client: FlaskClient, relay: ToyRelay
) -> None:
    for _ in range(3):
        assert client.post(SAMPLES, data=b"x").status_code == 200
        assert client.post(SAMPLES, data=LARGE).status_code == 200
    relay.answers[Op.SAMPLES_PUT] = Gap("there is a gap")
    assert code(client.post(SAMPLES, data=b"x")) == (409, "gap")
    assert client.get("/v1/runs/r/").status_code == 200
    assert relay.accepted == 1


def test_connections_that_no_request_needs_are_kept(
    client: FlaskClient, relay: ToyRelay
) -> None:
    def two_at_once() -> None:
        relay.requests.clear()
        relay.held.clear()
        threads = [
            threading.Thread(target=client.post, args=(SAMPLES,), kwargs={"data": b"x"})
            for _ in range(2)
        ]
        for each in threads:
            each.start()
        wait_until(lambda: relay.holding == 2)
        relay.held.set()
        for each in threads:
            each.join()

    two_at_once()
    for _ in range(3):
        assert client.post(SAMPLES, data=LARGE).status_code == 200
    two_at_once()
    assert relay.accepted == 2


def test_connections_of_a_relay_that_was_restarted_are_replaced(
    client: FlaskClient, relay: ToyRelay
) -> None:
    for _ in range(2):
        assert client.post(SAMPLES, data=b"x").status_code == 200
        relay.disconnect()
    assert client.post(SAMPLES, data=LARGE).status_code == 200
    assert relay.accepted == 3


def test_a_refused_upload_gives_its_room_back_with_its_connection(
    client: FlaskClient, relay: ToyRelay
) -> None:
    """The relay keeps the room for as long as the connection is open."""
    assert client.post(SAMPLES, data=LARGE, headers=digest_of(b"x")).status_code == 400
    assert relay.ended.wait(10)


def chunked(client: FlaskClient, body: bytes) -> TestResponse:
    """Send a body without its size, as a web server passes it on."""
    return client.post(
        SAMPLES,
        input_stream=io.BytesIO(body),
        headers={"Transfer-Encoding": "chunked"},
        environ_overrides={"wsgi.input_terminated": True},
    )


def test_a_body_of_unknown_size(client: FlaskClient, relay: ToyRelay) -> None:
    for body, in_file in ((b"x", False), (LARGE, True)):
        relay.requests.clear()
        assert chunked(client, body).status_code == 200
        assert [head.size for head, _ in relay.of(Op.RELAY_ADMIT)] == [-1]
        ((head, inline),) = relay.of(Op.SAMPLES_PUT)
        assert (head.size, bool(head.file)) == (len(body), in_file)
        assert inline == (b"" if in_file else body)
        assert head.digest == hashlib.sha256(body).hexdigest()


class Broken(io.BytesIO):
    """A body whose connection is lost after the bytes that arrived."""

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        if not piece:
            raise ConnectionResetError("reset")
        return piece


REFUSED: list[tuple[dict[str, Any], tuple[int, str]]] = [
    ({"headers": digest_of(b"other")}, (400, "digest-mismatch")),
    ({"headers": {"Content-Digest": "sha-512=:AAAA:"}}, (400, "bad-parameter")),
    ({"headers": {"Content-Digest": "sha-256=:A:"}}, (400, "bad-parameter")),
    ({"headers": {"Content-Encoding": "gzip"}}, (415, "content-encoding")),
    ({"data": LARGE * 5}, (413, "body-too-large")),
    (
        {"environ_overrides": {"CONTENT_LENGTH": str(len(LARGE) + 1)}},
        (400, "malformed-request"),
    ),
    (
        {
            "data": None,
            "input_stream": Broken(LARGE),
            "environ_overrides": {"CONTENT_LENGTH": str(len(LARGE) + 1)},
        },
        (400, "malformed-request"),
    ),
]


@pytest.mark.parametrize(("options", "expected"), REFUSED)
def test_what_is_refused_leaves_no_file(
    options: dict[str, Any],
    expected: tuple[int, str],
    client: FlaskClient,
    relay: ToyRelay,
) -> None:
    assert code(client.post(SAMPLES, **{"data": LARGE, **options})) == expected
    assert relay.of(Op.SAMPLES_PUT) == []
    assert list(relay.bodies.iterdir()) == []


def test_a_chunked_body_past_the_limit_leaves_no_file(
    client: FlaskClient, relay: ToyRelay
) -> None:
    assert code(chunked(client, LARGE * 5)) == (413, "body-too-large")
    assert relay.of(Op.SAMPLES_PUT) == []
    assert list(relay.bodies.iterdir()) == []


@pytest.mark.parametrize("full", ["quota", "disk", "write"])
def test_a_full_disk(
    full: str,
    client: FlaskClient,
    relay: ToyRelay,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if full == "quota":
        admitted = {"folder": str(relay.bodies), "room": len(LARGE) - 1}
        relay.answers[Op.RELAY_ADMIT] = answer(200, msgspec.json.encode(admitted))
    if full == "disk":
        monkeypatch.setattr(uploads, "UPLOAD_FREE_BYTES", 1 << 60)
    if full == "write":
        monkeypatch.setattr(
            uploads, "sync_folder", lambda _: (_ for _ in ()).throw(OSError(28, "full"))
        )
    assert code(client.post(SAMPLES, data=LARGE)) == (507, "storage-full")
    assert relay.of(Op.SAMPLES_PUT) == []
    assert list(relay.bodies.iterdir()) == []


def test_a_refused_announcement_is_answered_before_the_body_is_read(
    client: FlaskClient, relay: ToyRelay
) -> None:
    problem = Problem(
        "full", status=429, code="queue-full", headers={"Retry-After": "7"}
    )
    relay.answers[Op.RELAY_ADMIT] = problem
    for headers in ({}, {"Expect": "100-continue"}, TOKEN):
        data = LARGE if not headers else b"x"
        stream = io.BytesIO(data)
        answered = client.post(
            SAMPLES, input_stream=stream, content_length=len(data), headers=headers
        )
        assert code(answered) == (429, "queue-full")
        assert answered.headers["Retry-After"] == "7"
        assert stream.tell() == 0


def test_a_token_that_the_relay_accepted_is_not_announced_again(
    client: FlaskClient, relay: ToyRelay
) -> None:
    for _ in range(3):
        assert client.post(SAMPLES, data=b"x", headers=TOKEN).status_code == 200
    assert len(relay.of(Op.RELAY_ADMIT)) == 1
    digest = hashlib.sha256(b"ghr_" + b"x" * 43).hexdigest()
    assert {head.token for _, head, _ in relay.requests} == {digest}


QUERIES = [
    ("?numbers=1", "did you mean 'number'"),
    ("?number=1&number=2", "twice"),
    ("?number=-1", "integer"),
    ("?number=NaN", "integer"),
    ("?number=" + "9" * 16, "integer"),
    ("?policy=1.5", "integer"),
    ("?session=../x", "session"),
    ("?session=", "session"),
    ("?count=" + "1" * 5000, "characters"),
]


@pytest.mark.parametrize(("query", "words"), QUERIES, ids=range(len(QUERIES)))
def test_malformed_queries(
    query: str, words: str, client: FlaskClient, relay: ToyRelay
) -> None:
    answered = client.post("/v1/runs/r/samples/" + query, data=b"x")
    assert code(answered) == (400, "bad-parameter")
    assert words in str(answered.json)
    assert relay.requests == []


@pytest.mark.parametrize("wait_s", ["51", "-1", "1e2", "NaN", "inf", ""])
def test_malformed_waits(wait_s: str, client: FlaskClient, relay: ToyRelay) -> None:
    answered = client.get(f"/v1/runs/r/samples/?wait_s={wait_s}")
    assert code(answered) == (400, "bad-parameter")
    assert relay.requests == []


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"wait_s": NaN}', b"\xff", b"1"])
def test_bodies_that_are_no_objects(
    body: bytes, client: FlaskClient, relay: ToyRelay
) -> None:
    assert code(client.post("/v1/runs/r/samples/lease/", data=body)) == (
        400,
        "bad-json",
    )
    assert relay.requests == []


PIECES = [
    Piece(-1, 0, 4),
    Piece(0, 3, 1000),
    Piece(-1, 4, 2),
    Piece(1, 0, 3 * uploads.PIECE + 5),
    Piece(0, 0, 10),
]


@pytest.fixture
def stored(relay: ToyRelay, tmp_path: Path) -> bytes:
    """Weights in pieces of two files and of the frame; return the whole."""
    contents = [os.urandom(2000), os.urandom(3 * uploads.PIECE + 5)]
    for number, content in enumerate(contents):
        path = tmp_path / f"file{number}"
        path.write_bytes(content)
        relay.files.append(path)
    head = AnswerHead("application/x-npz", {"ETag": '"1-abc"', "Gym-Version": "1"})
    relay.answers[Op.WEIGHTS_GET] = pieces_answer(PIECES, b"onetwo", head)
    first, second = contents
    return b"onet" + first[3:1003] + b"wo" + second + first[:10]


def test_a_download_is_put_together(client: FlaskClient, stored: bytes) -> None:
    answered = client.get("/v1/runs/r/weights/")
    assert answered.status_code == 200
    assert answered.data == stored
    headers = answered.headers
    assert headers["Content-Length"] == str(len(stored))
    assert headers["Content-Type"] == "application/x-npz"
    assert (headers["ETag"], headers["Gym-Version"]) == ('"1-abc"', "1")
    assert headers["Content-Disposition"] == "attachment"
    assert headers["Content-Security-Policy"] == "sandbox"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_head_request_has_no_body(client: FlaskClient, stored: bytes) -> None:
    answered = client.head("/v1/runs/r/weights/", headers={"Range": "bytes=0-1"})
    assert (answered.status_code, answered.data) == (200, b"")
    assert answered.headers["Content-Length"] == str(len(stored))


RANGES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("bytes=0-0", lambda whole: whole[:1]),
    ("bytes=2-1500", lambda whole: whole[2:1501]),
    ("bytes=1000-", lambda whole: whole[1000:]),
    ("bytes=-12", lambda whole: whole[-12:]),
    ("bytes=-99999999", lambda whole: whole),
    ("bytes=5-99999999", lambda whole: whole[5:]),
]


@pytest.mark.parametrize(("header", "cut"), RANGES)
def test_a_range(
    header: str, cut: Callable[[bytes], bytes], client: FlaskClient, stored: bytes
) -> None:
    for extra in ({}, {"If-Range": '"1-abc"'}):
        headers = {"Range": header, **extra}
        answered = client.get("/v1/runs/r/weights/", headers=headers)
        part = cut(stored)
        assert (answered.status_code, answered.data) == (206, part)
        start = stored.index(part)
        end = start + len(part) - 1
        shown = f"bytes {start}-{end}/{len(stored)}"
        assert answered.headers["Content-Range"] == shown


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-1,5-6"},
        {"Range": "bytes=5-2"},
        {"Range": "bytes=-"},
        {"Range": "lines=0-1"},
        {"Range": "bytes=0-1", "If-Range": '"0-old"'},
    ],
)
def test_ranges_that_are_ignored(
    headers: dict[str, str], client: FlaskClient, stored: bytes
) -> None:
    answered = client.get("/v1/runs/r/weights/", headers=headers)
    assert (answered.status_code, answered.data) == (200, stored)


def test_a_range_beyond_the_end(client: FlaskClient, stored: bytes) -> None:
    for header in (f"bytes={len(stored)}-", "bytes=-0"):
        answered = client.get("/v1/runs/r/weights/", headers={"Range": header})
        assert code(answered) == (416, "range-not-satisfiable")
        assert answered.headers["Content-Range"] == f"bytes */{len(stored)}"


def test_curl_gets_advice_where_it_appended_a_name(client: FlaskClient) -> None:
    for kind in ("weights", "state"):
        answered = client.put(f"/v1/runs/r/{kind}/policy.npz", data=b"x")
        assert code(answered) == (404, "not-found")
        assert f"put it at /v1/runs/r/{kind}" in str(answered.json)


def test_a_relay_that_ends_before_its_answer(
    client: FlaskClient, relay: ToyRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        relay, "_answer", lambda end, _: end.socket.shutdown(socket.SHUT_RDWR)
    )
    assert code(client.get("/v1/runs/")) == (503, "relay-unavailable")


def test_a_wait_gets_the_relays_answer_though_the_server_stops(
    client: FlaskClient, relay: ToyRelay, tmp_path: Path
) -> None:
    (tmp_path / "draining").touch()
    relay.answers[Op.SAMPLES_GET] = answer(204, b"")
    # Later than the web worker looks whether the server stops.
    relay.held.clear()
    timer = threading.Timer(0.8, relay.held.set)
    timer.start()
    assert client.get("/v1/runs/r/samples/?after=0&wait_s=20").status_code == 204
    timer.join()


def test_conditions_reach_the_relay(client: FlaskClient, relay: ToyRelay) -> None:
    headers = {"If-Match": '"3-abc"', "If-None-Match": "*"}
    client.put("/v1/runs/r/weights?reader=t&after=7", data=b"x", headers=headers)
    ((head, _),) = relay.of(Op.WEIGHTS_PUT)
    expected = {"reader": "t", "after": 7, "if_match": '"3-abc"', "if_none_match": "*"}
    assert head.args == expected
