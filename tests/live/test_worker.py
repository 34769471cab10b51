"""The gunicorn worker, driven over real sockets with an application of its own."""

import contextlib
import json
import os
import re
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from tests.support import processes
from tests.support.raw import RawConnection, Response, chunked
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
HOST = "Host: t\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
# What the worker does not read by itself, and makes no difference otherwise.
ODD = "X-Odd: 1\r\n"
DEADLINE = 1.0
KEEPALIVE = 2
SEND_TIMEOUT = 1.0
# For a machine with other work; what does not happen by then does not happen at all.
SLACK = 4.0

APPLICATION = """
    import builtins
    import ctypes
    import gc
    import json
    import os
    import pathlib
    import socket
    import sys
    import time

    taken = []


    def application(environ, start_response):
        status, body = "200 OK", b""
        words = environ["PATH_INFO"].strip("/").split("/")
        read = environ["wsgi.input"].read
        if words[0] == "echo":
            body = read()
        elif words[0] == "sleep":
            time.sleep(float(words[1]))
        elif words[0] == "late":
            time.sleep(float(words[1]))
            body = b"%d" % len(read())
        elif words[0] == "limit" and len(read(1025)) > 1024:
            status = "413 Content Too Large"
        elif words[0] == "big":
            body = b"x" * int(words[1])
        elif words[0] == "raise":
            raise getattr(builtins, words[1])
        elif words[0] == "take":
            client = environ["gunicorn.socket"]
            taken.append(os.dup(client.fileno()))
            if words[1] == "replaced":
                ours, theirs = socket.socketpair()
                os.dup2(ours.fileno(), client.fileno())
                ours.close()
                theirs.close()
            raise StopIteration
        elif words[0] == "give":
            os.write(taken[-1], read())
        elif words[0] == "get":
            try:
                body = os.read(taken[-1], 100)
            except BlockingIOError:
                pass
        elif words[0] == "clients":
            gc.collect()
            names = [type(known).__name__ for known in gc.get_objects()]
            body = b"%d" % names.count("ClientSocket")
        elif words[0] == "environ":
            kinds = (str, bool, tuple)
            told = {k: v for k, v in environ.items() if isinstance(v, kinds)}
            told |= {"body": read().decode(), "gunicorn": "wsgi.early_hints" in environ}
            body = json.dumps(told).encode()
        elif words[0] == "early":
            start_response(status, [("Content-Type", "text/plain")])(b"early, ")
            return [b"late"]
        elif words[0] == "pieces":
            start_response(status, [("X-Number", words[1]), ("Keep-Alive", "no")])
            return (piece.encode() for piece in words[1:])
        elif words[0] == "wrong":
            start_response(status, [("X-Wrong", "a\\r\\nb"), ("Content-Length", "0")])
            return [b""]
        elif words[0] == "empty":
            start_response("204 No Content", [("Content-Type", "text/plain")])
            return [b""]
        elif words[0] == "short":
            start_response(status, [("Content-Length", "2")])
            return [b"long"]
        elif words[0] == "twice":
            start_response(status, [])
            start_response(status, [])
        elif words[0] == "again":
            start_response(status, [])
            status = "500 Oh"
            headers = [("Content-Length", "0")]
            try:
                raise ValueError
            except ValueError:
                start_response(status, headers, sys.exc_info())
            return [b""]
        elif words[0] == "stuck":
            pathlib.Path("stuck").touch()
            ctypes.PyDLL(None).sleep(60)
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]
"""

CONFIGURATION = """
    from gym_http_server.gunicorn_worker.worker import Worker

    Worker.request_deadline_s = {deadline}
    Worker.send_timeout_s = {send_timeout}
    worker_class = "gym_http_server.gunicorn_worker.worker.Worker"
    control_socket_disable = True
    keepalive = {keepalive}
    graceful_timeout = {graceful}
    worker_connections = {connections}
    workers = {workers}
    backlog = 4096
    loglevel = "warning"
"""


class Gunicorn:
    """gunicorn with the worker, on a free port."""

    def __init__(
        self,
        folder: Path,
        *,
        deadline: float = DEADLINE,
        keepalive: int = KEEPALIVE,
        send_timeout: float = SEND_TIMEOUT,
        graceful: int = 20,
        connections: int = 1000,
        workers: int = 1,
    ) -> None:
        self.folder = folder
        (folder / "tiny.py").write_text(textwrap.dedent(APPLICATION))
        configuration = textwrap.dedent(CONFIGURATION).format(**locals())
        (folder / "conf.py").write_text(configuration)
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port: int = listener.getsockname()[1]
        command = [sys.executable, "-m", "gunicorn", "--config", "conf.py"]
        command += ["--bind", f"fd://{listener.fileno()}", "tiny:application"]
        with listener, (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=_environment(folder),
                pass_fds=[listener.fileno()],
                stderr=log,
            )

    def __enter__(self) -> Self:
        try:
            self.health_s()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        left = {psutil.Process(self.pid)} if self.process.poll() is None else set()
        processes.kill(processes.descendants(self.pid) | left)
        self.process.wait(10)

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def client(self) -> "Client":
        return Client(self.port)

    def ask(self, request: bytes) -> Response:
        with self.client() as client:
            client.send(request)
            return client.read_response()

    def health_s(self) -> float:
        began = time.monotonic()
        assert self.ask(b"GET /health HTTP/1.0\r\n\r\n").status == 200
        return time.monotonic() - began

    def stop(self) -> float:
        """Send SIGTERM and return the seconds until the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        return time.monotonic() - began


def _environment(*folders: Path) -> dict[str, str]:
    paths = [ROOT, ROOT / "clients/python", *folders]
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}


class Client(RawConnection):
    """A connection that can be waited for, and that may not lose what it sends."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def readable(self, timeout: float) -> bool:
        return bool(select.select([self], [], [], timeout)[0])

    def ask(self, request: bytes) -> Response:
        self.send(request)
        return self.read_response()


@pytest.fixture(scope="module")
def gunicorn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gunicorn]:
    with Gunicorn(tmp_path_factory.mktemp("worker")) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Gunicorn]]:
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(Gunicorn(tmp_path, **options))


def post(path: str, body: bytes = b"", extra: str = HOST) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{with_host(extra)}\r\n".encode() + body


def get(path: str, extra: str = HOST) -> bytes:
    return f"GET {path} HTTP/1.1\r\n{with_host(extra)}\r\n".encode()


def with_host(headers: str) -> str:
    """Add the Host that HTTP/1.1 requires, where there is none."""
    return headers if "host:" in headers.lower() else HOST + headers


def check_problem(response: Response, status: int, code: str) -> dict[str, Any]:
    problem: dict[str, Any] = response.json()
    assert response.status == problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == f"urn:gym-http:{code}"
    assert problem["message"] == problem["detail"] != ""
    assert set(problem) == {
        *("code", "detail", "instance", "message"),
        *("request_id", "status", "title", "type"),
    }
    compact = json.dumps(problem, sort_keys=True, separators=(",", ":"))
    assert response.body == compact.encode() + b"\n"
    assert response.content_type == "application/json"
    assert response.header("Connection") == "close"
    return problem


def time_to_end(client: Client, least: float, most: float) -> bytes:
    began = time.monotonic()
    got = client.read_to_end()
    assert least <= time.monotonic() - began < most
    return got


# Requests that do not end


@pytest.mark.parametrize(
    ("half", "path"),
    [
        (b"G", ""),
        (b"POST /echo HTTP/1.1\r\nHost: w\r\nContent-Length: 5\r\nX", ""),
        (b"POST /echo HTTP/1.1\r\nHost: w\r\nContent-Length: 5\r\n\r\n", "/echo"),
        (b"POST /echo HTTP/1.1\r\nHost: w\r\nContent-Length: 5\r\n\r\nhell", "/echo"),
        (post("/echo", b"one") + b"POST /sec", ""),
        (
            CHUNKED + b"5\r\nhello\r\n",
            "/echo",
        ),
    ],
    ids=["byte", "head", "no body", "body", "second", "chunked"],
)
def test_a_request_that_stops_is_cut(
    gunicorn: Gunicorn, half: bytes, path: str
) -> None:
    with gunicorn.client() as client:
        began = time.monotonic()
        client.send(half)
        if b"one" in half:
            assert client.read_response().body == b"one"
        problem = check_problem(client.read_response(), 408, "request-timeout")
        assert problem["instance"] == path
        assert client.read_to_end() == b""
        assert DEADLINE - 0.1 <= time.monotonic() - began < DEADLINE + SLACK


@pytest.mark.parametrize(
    "head",
    [b"GET /", b"POST /echo HTTP/1.1\r\nHost: w\r\nContent-Length: 9999\r\n\r\n"],
    ids=["head", "body"],
)
def test_trickling_does_not_help(gunicorn: Gunicorn, head: bytes) -> None:
    with gunicorn.client() as client:
        began = time.monotonic()
        client.send(head)
        while not client.readable(0.05):
            client.send(b"x")
            assert time.monotonic() - began < DEADLINE + SLACK
        assert time.monotonic() - began >= DEADLINE - 0.1
        check_problem(client.read_response(), 408, "request-timeout")


def test_time_spent_idle_is_not_the_next_requests(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(2):
            assert client.ask(post("/echo", b"x")).body == b"x"
            # Idle for longer than a request may take.
            assert not client.readable(DEADLINE + 0.3)
        began = time.monotonic()
        client.send(b"POST")
        assert client.read_response().status == 408
        assert time.monotonic() - began >= DEADLINE - 0.1


def test_each_request_has_a_deadline_of_its_own(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(3):
            client.send(b"POST /echo HTTP/1.1\r\nHost: w\r\n")
            assert not client.readable(DEADLINE * 0.6)
            assert client.ask(b"Content-Length: 1\r\n\r\nx").body == b"x"


def test_the_handlers_time_does_not_count(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(2):
            assert client.ask(get("/sleep/1.5")).status == 200


def test_time_before_the_body_is_read_does_not_count(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        client.send(post("/late/1.5", bytes(20))[:-10])
        assert not client.readable(2.0)
        client.send(b"0123456789")
        assert client.read_response().body == b"20"


# Connections without a request


def test_a_connection_that_never_sends_is_closed_silently(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        assert time_to_end(client, DEADLINE - 0.1, DEADLINE + SLACK) == b""


def test_an_idle_connection_is_closed_silently(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        assert client.ask(get("/health")).header("Connection") == "keep-alive"
        assert time_to_end(client, KEEPALIVE - 0.1, KEEPALIVE + SLACK) == b""


# Answers that nobody takes


def test_a_client_that_reads_nothing_is_cut(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        client.send(get(f"/big/{64 << 20}"))
        poll = select.poll()
        poll.register(client, select.POLLHUP)
        assert poll.poll(1000 * (SEND_TIMEOUT + SLACK)), "still connected"


def test_a_client_that_reads_slowly_gets_everything(gunicorn: Gunicorn) -> None:
    size = 64 << 20
    with socket.create_connection(("127.0.0.1", gunicorn.port)) as client:
        client.sendall(get(f"/big/{size}", "Connection: close\r\n"))
        got, began = 0, time.monotonic()
        while data := client.recv(1 << 20):
            got += len(data)
            if time.monotonic() - began < 4 * SEND_TIMEOUT:
                select.select([], [], [], len(data) / (4 << 20))
        assert got > size


# Errors without an application


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "malformed-request"),
        (b"GET /\r\n\r\n", 400, "malformed-request"),
        (b"GET / HTTP/1.1\r\nHost: w\r\nno colon\r\n\r\n", 400, "malformed-request"),
        (
            b"GET / HTTP/1.1\r\nHost: w\r\nContent-Length: x\r\n\r\n",
            400,
            "malformed-request",
        ),
        (post("/echo", b"").replace(b": 0", b": 0\r\nContent-Length: 1"), 400, None),
        (b"GET /%s HTTP/1.1\r\nHost: w\r\n\r\n" % (b"x" * 9000), 414, "uri-too-long"),
        (get("/", f"X: {'x' * 9000}\r\n"), 431, "headers-too-large"),
        (get("/", "X: x\r\n" * 200), 431, "headers-too-large"),
        (get("/", f"X: {'x' * 8000}\r\n" * 8), 431, "headers-too-large"),
        (get("/", "Expect: money\r\n"), 417, "expectation-failed"),
        (get("/", "Transfer-Encoding: odd\r\n"), 501, "transfer-coding"),
        (
            CHUNKED + b"nonsense\r\n",
            400,
            "malformed-request",
        ),
        (get("/raise/ValueError"), 500, "internal"),
        (get("/raise/SystemExit"), 500, "internal"),
        (get("/raise/OSError"), 500, "internal"),
    ],
)
def test_errors_are_json(
    gunicorn: Gunicorn, request_: bytes, status: int, code: str | None
) -> None:
    with gunicorn.client() as client:
        response = client.ask(request_)
        check_problem(response, status, code or "malformed-request")
        assert client.read_to_end() == b""


def test_an_error_can_be_problem_json(gunicorn: Gunicorn) -> None:
    extra = "Accept: application/problem+json\r\n"
    response = gunicorn.ask(get("/raise/ValueError", extra))
    assert response.content_type == "application/problem+json"
    assert response.json()["instance"] == "/raise/ValueError"


def test_an_error_has_no_body_for_head(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        client.send(b"HEAD /raise/ValueError HTTP/1.1\r\nHost: w\r\n\r\n")
        assert client.read_response(head=True).status == 500
        assert client.read_to_end() == b""


# Bodies beyond what the application reads

LARGE = bytes(40 << 20)


@pytest.mark.parametrize("path", ["/limit", "/health"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_early_answer_arrives(gunicorn: Gunicorn, path: str, framing: str) -> None:
    head = CHUNKED.replace(b"/echo", path.encode())
    coded = head + chunked(LARGE, 1 << 20)
    with gunicorn.client() as client:
        response = client.ask(post(path, LARGE) if framing == "length" else coded)
        assert response.status == (413 if path == "/limit" else 200)
        assert response.header("Connection") == "close"
        assert client.read_to_end() == b""


@pytest.mark.parametrize("count", [1, 4])
def test_bodies_without_end_are_cut(gunicorn: Gunicorn, count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        floods = [pool.submit(_flood, gunicorn) for _ in range(count)]
        slowest = 0.0
        while not all(flood.done() for flood in floods):
            slowest = max(slowest, gunicorn.health_s())
        for flood in floods:
            assert DEADLINE - 0.1 < flood.result() < DEADLINE + SLACK
    assert slowest < 1.0


LINGERING = """
    import socket
    import gevent
    from gym_http_server.gunicorn_worker import client_socket
    from gym_http_server.gunicorn_worker.client_socket import ClientSocket

    class Endless(ClientSocket):
        def recv(self, size, flags=0):
            return b"x"

    ours, theirs = socket.socketpair()
    limits = client_socket.ConnectionLimits(0.1, 1, 1)
    client = Endless(limits, ours.family, fileno=ours.detach())
    other = gevent.spawn(lambda: "ran")
    client.close_lingering()
    print(other.value)
"""


def test_a_body_without_end_leaves_time_for_others() -> None:
    command = [sys.executable, "-c", textwrap.dedent(LINGERING)]
    done = subprocess.run(command, env=_environment(), capture_output=True, check=True)
    assert done.stdout == b"ran\n"


def _flood(gunicorn: Gunicorn) -> float:
    with gunicorn.client() as client:
        began = time.monotonic()
        client.send(
            b"POST /limit HTTP/1.1\r\nHost: w\r\nContent-Length: 999999999999\r\n\r\n"
        )
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() - began < DEADLINE + 2 * SLACK:
                client.send(LARGE[: 1 << 20])
        return time.monotonic() - began


@pytest.mark.parametrize("path", ["/health", "/limit"])
def test_a_small_unread_body_costs_nothing(gunicorn: Gunicorn, path: str) -> None:
    with gunicorn.client() as client:
        for _ in range(3):
            response = client.ask(post(path, bytes(5000)))
            assert response.header("Connection") == "keep-alive"


# What HTTP allows


def test_bodies_in_chunks(gunicorn: Gunicorn) -> None:
    head = CHUNKED
    with gunicorn.client() as client:
        for _ in range(3):
            assert client.ask(head + chunked(b"many small chunks")).body == (
                b"many small chunks"
            )


def test_expect_100_continue(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(2):
            head = post("/echo", b"hello", "Expect: 100-continue\r\n")[:-5]
            assert client.ask(head).status == 100
            assert client.ask(b"hello").body == b"hello"


def test_http_1_0(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        kept = b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        assert client.ask(kept).header("Connection") == "keep-alive"
        assert client.ask(kept).header("Connection") == "keep-alive"
        closed = client.ask(b"GET /health HTTP/1.0\r\n\r\n")
        assert closed.header("Connection") == "close"
        assert client.read_to_end() == b""


def test_get_with_a_body_and_pipelining(gunicorn: Gunicorn) -> None:
    requests = [
        post("/echo", b"one"),
        post("/echo", b"two").replace(b"POST", b"GET"),
        post("/health", b"not read"),
        CHUNKED + chunked(b"3"),
        post("/echo", b"four"),
    ]
    with gunicorn.client() as client:
        client.send(b"".join(requests))
        bodies = [client.read_response().body for _ in requests]
        assert bodies == [b"one", b"two", b"", b"3", b"four"]
        assert not client.readable(0)


def test_a_client_may_close_its_sending_half(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        client.send(get("/sleep/0.3"))
        client.finish_sending()
        assert client.read_response().status == 200


# Requests that come whole, which the worker reads by itself


WHOLE = [
    get("/environ"),
    get("/environ/a.b~c-d_e/%s/" % ("f" * 300)),
    post("/environ", b"hello"),
    post("/environ", b"", HOST + "Content-Type:application/json\r\n"),
    post("/environ", b"{}", HOST + "accept: \t */*;q=0.1, b  \r\nDNT:a\r\n"),
    post("/environ", b"{}", HOST + "Connection: Keep-Alive\r\nIDEMPOTENCY-KEY: 1\r\n"),
    get("/environ", "hOsT: a:1\r\nAuthorization: Basic eA==\r\nOrigin: http://a\r\n"),
    get("/environ", HOST).replace(b"GET", b"DELETE"),
    post("/environ", b"{}", HOST + "Idempotency-Key: a-1\r\n"),
    post("/environ", b"{}", HOST + "Idempotency-Key: a-2\r\nAccept: b\r\n"),
    post("/environ", b"{}", HOST + "Idempotency-Key: a-3 \r\n"),
    post("/environ", b"{}\r\n\r\nIdempotency-Key: a\r\n"),
    post("/environ", b"{}", HOST + f"Cookie: {'a' * 2000}\r\n"),
]


@pytest.mark.parametrize("request_", WHOLE)
def test_whole_requests_are_read_like_gunicorn(
    gunicorn: Gunicorn, request_: bytes
) -> None:
    with gunicorn.client() as client:
        # Twice, for what is known already.
        told = [client.ask(request_).json() for _ in range(2)]
        assert told[0] == told[1]
        # Of a key, trailing blanks are unusual.
        assert told[0].pop("gunicorn") is (b"a-3 " in request_)
        odd = request_.replace(b"\r\nHost:", f"\r\n{ODD}Host:".encode())
        odd = odd.replace(b"\r\nhOsT:", f"\r\n{ODD}Host:".encode())
        expected = client.ask(odd).json()
    assert expected.pop("gunicorn") is True
    assert expected.pop("HTTP_X_ODD") == "1"
    assert told[0] == expected


@pytest.mark.parametrize(
    "request_",
    [
        get("/environ", HOST + ODD),
        get("/environ?a=b"),
        get("/environ/%41"),
        get("/environ//a"),
        get("http://t/environ"),
        get("/environ", HOST + "X-Forwarded-Proto: https\r\n"),
        get("/environ", HOST + "X-Forwarded-For: 1.2.3.4\r\n"),
        get("/environ", HOST + "Accept: a\r\nAccept: b\r\n"),
        get("/environ", HOST + "Accept:\r\n"),
        get("/environ", HOST + "Accept: \xe9\r\n").replace(b"\xc3", b""),
        get("/environ", HOST + "Upgrade: websocket\r\nConnection: upgrade\r\n"),
        get("/environ", HOST + "Connection: close\r\n"),
        get("/environ", HOST + "Connection: TE, keep-alive\r\n"),
        get("/environ", HOST + "TE: trailers\r\n"),
        get("/environ").replace(b"1.1", b"1.0"),
        get("/environ").replace(b"GET", b"PUT"),
        b"\r\n" + get("/environ"),
        get("/environ", HOST + f"Cookie: {'a' * 5000}\r\n"),
        post("/environ", b"a" * 9000),
        get("/environ", HOST + "Transfer-Encoding: chunked\r\n") + chunked(b"hello"),
    ],
)
def test_unusual_requests_are_left_to_gunicorn(
    gunicorn: Gunicorn, request_: bytes
) -> None:
    with gunicorn.client() as client:
        assert client.ask(request_).json()["gunicorn"] is True


@pytest.mark.parametrize("second", ["Idempotency-Key: 2", "idempotency-key: 2"])
@pytest.mark.parametrize("first", ["Idempotency-Key: 1", "idempotency-key: 1"])
def test_two_keys_are_left_to_gunicorn(
    gunicorn: Gunicorn, first: str, second: str
) -> None:
    with gunicorn.client() as client:
        for lines in (first, second):
            # Known from now on.
            client.ask(get("/environ", f"{HOST}{lines}\r\n"))
        told = client.ask(get("/environ", f"{HOST}{first}\r\n{first}\r\n")).json()
        assert told["gunicorn"]
        assert told["HTTP_IDEMPOTENCY_KEY"] == "1"
        refused = client.ask(get("/environ", f"{HOST}{first}\r\n{second}\r\n"))
        check_problem(refused, 400, "malformed-request")


@pytest.mark.parametrize(
    "request_",
    [
        get("/health", HOST * 2),
        get("/health", HOST + "Content-Length: 1\r\nContent-Length: 1\r\n"),
        get("/health", HOST + "Content-Length: +1\r\n"),
        get("/health", HOST + "Content-Length: 1_0\r\n"),
        get("/health", HOST + "Content-Length: 1, 1\r\n"),
        get("/health", HOST + "Accept : a\r\n"),
        get("/health", HOST + "Accept: a\r\n b\r\n"),
        get("/health", HOST + "Accept: a\x7f\r\n"),
        get("/health", HOST + "Accept: a\nHost: b\r\n"),
        get("/health", HOST + "a\r\n"),
        get("/health").replace(b"GET ", b"GET  "),
        get("/health").replace(b"GET", b"get"),
        get("/health").replace(b"HTTP/1.1", b"HTTP/1.1 "),
    ],
)
def test_malformed_requests_are_refused(gunicorn: Gunicorn, request_: bytes) -> None:
    with gunicorn.client() as client:
        check_problem(client.ask(request_), 400, "malformed-request")


@pytest.mark.parametrize(
    "path",
    [
        *("/health", "/echo", "/big/70000", "/limit", "/early", "/pieces/a/bc/def"),
        *("/wrong", "/empty", "/short", "/twice", "/again"),
        *("/raise/ValueError", "/raise/SystemExit", "/raise/StopIteration"),
    ],
)
def test_whole_requests_are_answered_like_gunicorn(
    gunicorn: Gunicorn, path: str
) -> None:
    answers = []
    for extra in (HOST, HOST, HOST + ODD):
        with gunicorn.client() as client:
            client.send(post(path, b"a" * 2000, extra) + get("/health"))
            client.finish_sending()
            told = client.read_to_end()
        told = re.sub(rb"\r\nDate: [^\r]*|[0-9a-f]{32}", b"", told)
        head, blank, body = told.partition(b"\r\n\r\n")
        answers.append((sorted(head.split(b"\r\n")), blank + body))
    assert answers[0] == answers[1] == answers[2]


def test_answers_are_dated(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(2):
            date = client.ask(get("/health")).header("Date")
            age = time.time() - parsedate_to_datetime(date or "").timestamp()
            assert -1 < age < SLACK
            client.ask(get("/sleep/1.1"))


def test_other_bytes_of_a_known_shape_are_not_taken_for_it(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for size in (5, 4, 11, 3):
            told = client.ask(post("/echo", b"x" * size))
            assert told.body == b"x" * size
        told = client.ask(post("/limit", b"x" * 2000))
        assert told.status == 413


def test_more_heads_than_are_remembered(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for number in range(600):
            told = client.ask(get("/environ", f"Host: {number}\r\n")).json()
            assert told["HTTP_HOST"] == str(number)
            assert not told["gunicorn"]


def test_an_access_log_is_written_by_gunicorn(
    start: Callable[..., Gunicorn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--access-logfile=access")
    gunicorn = start()
    assert gunicorn.ask(get("/environ")).json()["gunicorn"]
    log = gunicorn.folder / "access"
    wait_until(lambda: "GET /environ" in log.read_text(), message="an access log")


# Stopping


def test_sigterm_closes_idle_connections_at_once(
    start: Callable[..., Gunicorn],
) -> None:
    def time_to_stop() -> float:
        gunicorn = start(keepalive=60)
        with gunicorn.client() as idle:
            assert idle.ask(get("/health")).header("Connection") == "keep-alive"
            duration = gunicorn.stop()
            assert idle.read_to_end() == b""
        return duration

    # Some attempts, since the end of an interpreter may itself take that long.
    assert any(time_to_stop() < 1.0 for _ in range(4))


def test_sigterm_lets_answers_finish(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(keepalive=60)
    with gunicorn.client() as busy, gunicorn.client() as half, gunicorn.client() as new:
        busy.send(get("/sleep/1.2"))
        half.send(post("/echo", b"hello")[:-2])
        began = time.monotonic()
        # Answered after them, so they have been begun.
        gunicorn.health_s()
        gunicorn.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _refused(gunicorn.port), message="a closed listener")
        half.send(b"lo")
        late = half.read_response()
        assert (late.body, late.header("Connection")) == (b"hello", "close")
        answer = busy.read_response()
        assert (answer.status, answer.header("Connection")) == (200, "close")
        assert gunicorn.process.wait(10) == 0
        assert 1.0 < time.monotonic() - began < 1.2 + SLACK
        assert new.read_to_end() == b""


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


def test_sigterm_waits_no_longer_than_the_grace(
    start: Callable[..., Gunicorn],
) -> None:
    gunicorn = start(graceful=2)
    with gunicorn.client() as busy:
        busy.send(get("/sleep/60"))
        gunicorn.health_s()
        assert 1.3 < gunicorn.stop() < 2 + SLACK
        assert busy.read_to_end() == b""
    assert "1 requests did not end in time" in gunicorn.log()


def test_the_worker_dies_with_its_arbiter(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start()
    workers = processes.descendants(gunicorn.pid)
    assert len(workers) == 1
    with gunicorn.client() as client:
        # Inside a C call that holds the lock no code of the worker's could run.
        client.send(get("/stuck"))
        wait_until((gunicorn.folder / "stuck").exists)
        gunicorn.process.kill()
        wait_until(lambda: not processes.alive(workers), 2.0, "the worker's end")


# More connections than places


def test_waiting_connections_make_room(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(connections=10, deadline=30, keepalive=30)
    with contextlib.ExitStack() as stack:
        clients = []
        for index in range(40):
            clients.append(stack.enter_context(gunicorn.client()))
            clients[-1].send(post("/echo", b"hello")[: -2 if index % 2 else 9])
            if index % 8 == 0:
                assert gunicorn.health_s() < SLACK
        wait_until(lambda: sum(client.readable(0) for client in clients) >= 30)
        for client in clients[:30]:
            problem = check_problem(client.read_response(), 408, "request-timeout")
            assert "needed the connection" in problem["message"]
            assert client.read_to_end() == b""


def test_connections_that_were_served_are_the_last_to_go(
    start: Callable[..., Gunicorn],
) -> None:
    gunicorn = start(connections=10, deadline=30, keepalive=30)
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(gunicorn.client())
        assert served.ask(get("/health")).status == 200
        # It is not new any more, as those are that come now.
        assert not served.readable(0.15)
        silent = [stack.enter_context(gunicorn.client()) for _ in range(20)]
        assert gunicorn.health_s() < SLACK
        assert served.ask(get("/health")).status == 200
        wait_until(lambda: sum(client.readable(0) for client in silent) >= 11)


def test_requests_being_served_are_never_cut(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(connections=10, deadline=30, keepalive=30)
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(gunicorn.client()) for _ in range(10)]
        for client in busy:
            client.send(get("/sleep/1"))
        # Every place is taken by a request; later, by an idle connection.
        assert gunicorn.health_s() < 1 + SLACK
        assert [client.read_response().status for client in busy] == [200] * 10


def test_room_is_made_among_the_waiting(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(connections=10, deadline=30)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(gunicorn.client()) for _ in range(10)]
        for client in clients[:9]:
            client.send(get("/sleep/5"))
        clients[9].send(b"POST")
        assert gunicorn.health_s() < SLACK
        assert clients[9].read_response().status == 408
        assert [client.read_response().status for client in clients[:9]] == [200] * 9


def test_new_connections_do_not_make_room(start: Callable[..., Gunicorn]) -> None:
    gunicorn = start(connections=2, deadline=30)
    with gunicorn.client() as busy:
        busy.send(get("/sleep/3"))
        closed = 0
        for _ in range(20):
            with gunicorn.client() as client, gunicorn.client():
                # The second one comes before the first one's request.
                closed += client.readable(0.03)
        assert closed < 10
        assert busy.read_response().status == 200


def test_closed_connections_are_forgotten(gunicorn: Gunicorn) -> None:
    def count() -> int:
        return int(gunicorn.ask(get("/clients")).body)

    for _ in range(50):
        gunicorn.health_s()
    wait_until(lambda: count() < 10)


def test_few_files_are_places_for_few(start: Callable[..., Gunicorn]) -> None:
    with _files(128):
        gunicorn = start(connections=1000, deadline=30)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(gunicorn.client()).send(b"POST")
        assert gunicorn.health_s() < SLACK
    assert "Too many open files" not in gunicorn.log()


def test_2100_half_sent_requests(start: Callable[..., Gunicorn]) -> None:
    deadline, count = 4.0, 2100
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with _files(hard):
        gunicorn = start(connections=1000, workers=2, deadline=deadline, keepalive=75)
        half = post("/echo", b"hello")[:-2]
        with contextlib.ExitStack() as stack:
            waiting = stack.enter_context(selectors.DefaultSelector())
            slowest = 0.0
            for index in range(count):
                client = stack.enter_context(gunicorn.client())
                client.send(half)
                waiting.register(client, selectors.EVENT_READ, time.monotonic())
                if index % 100 == 0:
                    slowest = max(slowest, gunicorn.health_s())
            while waiting.get_map():
                slowest = max(slowest, gunicorn.health_s())
                for key, _ in waiting.select(0.05):
                    waiting.unregister(key.fileobj)
                    assert time.monotonic() - key.data < deadline + SLACK
                    client = key.fileobj  # type: ignore[assignment]
                    assert client.read_response().status == 408
                    assert client.read_to_end() == b""
            assert slowest < 2.0


@contextlib.contextmanager
def _files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Connections that an application takes over


@pytest.mark.parametrize("descriptor", ["replaced", "left"])
def test_a_connection_that_was_taken_is_forgotten(
    start: Callable[..., Gunicorn], descriptor: str
) -> None:
    gunicorn = start(deadline=0.5, keepalive=1, send_timeout=0.5)
    with gunicorn.client() as client:
        client.send(get(f"/take/{descriptor}"))
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert gunicorn.ask(post("/give", b"HTTP/1.0 299 Down\r\n\r\n")).status
            client.send(b"up")
            assert wait_until(lambda: gunicorn.ask(get("/get")).body) == b"up"
            assert not client.readable(0.2) or client._socket.recv(100)
        assert gunicorn.stop() < SLACK
