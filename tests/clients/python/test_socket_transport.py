"""The socket transport over real sockets, against a scripted server."""

import contextlib
import itertools
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_http_client.errors import Failure, FailureKind
from gym_http_client.http.addresses import Address
from gym_http_client.http.http1 import Reply, Request
from gym_http_client.http.socket_transport import SocketTransport
from tests.support.peers.scripted_server import (
    Act,
    ScriptedServer,
    http_answer,
    read_request,
    silence,
    then_close,
    then_reset,
)
from tests.support.raw import chunked
from tests.support.server import Server
from tests.support.wait import wait_until

GET = Request("GET", "/v1/")
Connect = Callable[..., SocketTransport]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return a factory of connections, closed after the test."""
    made: list[SocketTransport] = []

    def make(url: str, **options: object) -> SocketTransport:
        made.append(SocketTransport(Address.parse(url, ""), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for connection in made:
        connection.close()


def body_of(connection: SocketTransport, request: Request = GET) -> bytes:
    return connection.exchange(request).body


def failure_of(connection: SocketTransport, limit: float = 20.0) -> Failure:
    with pytest.raises(Failure) as caught:
        connection.exchange(GET, limit)
    return caught.value


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_something_is_done_while_the_server_works(size: int, connect: Connect) -> None:
    done: list[int] = []

    def act(connection: socket.socket) -> None:
        # It answers only when that was done.
        wait_until(lambda: done, 20.0)
        connection.sendall(http_answer(b"abc"))

    request = Request("POST", "/v1/", bytes(size))
    with ScriptedServer.of(act) as server:
        connection = connect(server.url)
        reply = connection.exchange(
            request, 20.0, meanwhile=lambda: done.append(len(server.seen))
        )
        assert (reply.body, len(done)) == (b"abc", 1)
        assert server.seen[0].body == bytes(size)


LARGE = Request("POST", "/v1/", bytes(range(256)) * 2000)


def test_a_request_that_was_sent_ahead_is_sent_once(connect: Connect) -> None:
    with ScriptedServer.of(http_answer(b"abc")) as server:
        connection = connect(server.url)
        assert body_of(connection) == b"abc"
        connection.send_ahead(LARGE, 20.0)
        assert len(server.seen) == 1
        assert body_of(connection, LARGE) == b"abc"
        assert body_of(connection) == b"abc"
        bodies = [(seen.body, seen.connection) for seen in server.seen]
        assert bodies == [(b"", 0), (LARGE.body, 0), (b"", 0)]


@pytest.mark.parametrize("how", ["exchange", "ahead", "fresh", "close"])
def test_another_request_discards_one_that_was_sent_ahead(
    how: str, connect: Connect
) -> None:
    other = Request("POST", "/v1/", bytes(500_000))
    with ScriptedServer.of(http_answer(b"abc")) as server:
        connection = connect(server.url)
        connection.send_ahead(LARGE, 20.0)
        if how == "close":
            connection.close()
        elif how == "ahead":
            connection.send_ahead(other, 20.0)
        reply = connection.exchange(other, 20.0, how == "fresh")
        assert reply.body == b"abc"
        assert [seen.body for seen in server.seen] == [other.body]


def test_a_server_that_ends_meanwhile_gets_a_request_again(connect: Connect) -> None:
    """Its connection is lost, which a requester takes for a reason to try again."""
    begun = threading.Event()

    def leave(connection: socket.socket) -> None:
        connection.sendall(http_answer(b"abc"))
        connection.recv(1000)
        begun.set()

    with ScriptedServer.of(leave, http_answer(b"abc")) as server:
        connection = connect(server.url)
        assert body_of(connection) == b"abc"
        with contextlib.suppress(Failure):
            connection.send_ahead(LARGE, 20.0)
        assert begun.wait(20.0)
        with contextlib.suppress(Failure):
            connection.exchange(LARGE)
        assert body_of(connection, LARGE) == b"abc"
        assert server.seen[-1].body == LARGE.body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"abc", 2)


@pytest.mark.parametrize(
    "answer",
    [
        http_answer(b"abc"),
        http_answer(b"abc", "Connection: keep-alive", version="1.0"),
        CHUNKED,
        b"HTTP/1.1 100 Continue\r\n\r\n" + http_answer(b"abc"),
    ],
)
def test_one_connection_serves_many_exchanges(answer: bytes, connect: Connect) -> None:
    with ScriptedServer.of(answer) as scripted:
        connection = connect(scripted.url)
        for _ in range(5):
            assert body_of(connection) == b"abc"
    assert [seen.connection for seen in scripted.seen] == [0] * 5
    assert [seen.line for seen in scripted.seen] == ["GET /v1/"] * 5


@pytest.mark.parametrize(
    "answer",
    [
        http_answer(b"abc", "Connection: close"),
        http_answer(b"abc", version="1.0"),
        http_answer(b"abc") + b"more",
        then_close(b"HTTP/1.1 200 OK\r\n\r\nabc"),
        then_close(b"HTTP/1.0 200 OK\r\n\r\nabc"),
    ],
)
def test_a_connection_that_cannot_stay_is_replaced(
    answer: bytes | Act, connect: Connect
) -> None:
    with ScriptedServer.of(answer) as scripted:
        connection = connect(scripted.url)
        assert [body_of(connection) for _ in range(3)] == [b"abc"] * 3
    assert [seen.connection for seen in scripted.seen] == [0, 1, 2]


def test_an_answer_may_come_in_many_pieces(connect: Connect) -> None:
    def drip(sender: socket.socket) -> None:
        for byte in b"HTTP/1.1 103 Early\r\n\r\n" + CHUNKED:
            sender.sendall(bytes([byte]))

    with ScriptedServer.of(drip) as scripted:
        assert body_of(connect(scripted.url)) == b"abc"


@pytest.mark.parametrize("received", [0, 1000, 2_000_000])
def test_a_large_answer_that_is_cut_off_is_lost(
    received: int, connect: Connect
) -> None:
    answer = http_answer(bytes(3_000_000))
    with ScriptedServer.of(then_close(answer[: received - 3_000_000])) as scripted:
        failure = failure_of(connect(scripted.url))
    assert failure.kind is FailureKind.LOST


@pytest.mark.parametrize("size", [0, 65_536, 65_537, 1 << 20, 3_000_000])
def test_large_bodies_go_both_ways(size: int, connect: Connect) -> None:
    body = os.urandom(size)
    with ScriptedServer.of(http_answer(body)) as scripted:
        connection = connect(scripted.url)
        for _ in range(2):
            assert body_of(connection, Request("POST", "/", body)) == body
    assert [seen.body == body for seen in scripted.seen] == [True, True]
    assert {seen.connection for seen in scripted.seen} == {0}


@contextlib.contextmanager
def serving(listener: socket.socket, serve: Act) -> Iterator[None]:
    """Accept one connection and do something with it."""

    def accept() -> None:
        with listener.accept()[0] as accepted:
            serve(accepted)

    thread = threading.Thread(target=accept)
    with listener:
        thread.start()
        yield
        thread.join()


def show_request(sender: socket.socket) -> None:
    """Answer with the head of the request."""
    while request := read_request(sender):
        sender.sendall(http_answer(request[0]))


def test_an_answer_to_half_a_request_is_read(connect: Connect) -> None:
    """As 413 is, to a body which the server does not want to read."""

    def refuse(receiver: socket.socket) -> None:
        receiver.recv(10)
        receiver.sendall(http_answer(b"too large", "Connection: close", status=413))
        receiver.shutdown(socket.SHUT_WR)
        while receiver.recv(1 << 16):
            pass

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with serving(listener, refuse):
        connection = connect(f"http://127.0.0.1:{port}")
        reply = connection.exchange(Request("POST", "/", b"x" * 8_000_000))
    assert (reply.status, reply.body) == (413, b"too large")


@pytest.mark.parametrize("end", [then_close, then_reset])
@pytest.mark.parametrize(
    "part", [b"", b"HTTP/1.1 2", http_answer(b"abc")[:-1], CHUNKED[:-1]]
)
def test_a_connection_that_is_lost(
    part: bytes, end: Callable[[bytes], Act], connect: Connect
) -> None:
    with ScriptedServer.of(end(part), http_answer(b"next")) as scripted:
        connection = connect(scripted.url)
        assert failure_of(connection).kind is FailureKind.LOST
        assert body_of(connection) == b"next"
    assert len(scripted.seen) == 2, "nothing is sent again here"


@pytest.mark.parametrize("end", [then_close, then_reset])
def test_a_kept_connection_that_ended_meanwhile_is_stale(
    end: Callable[[bytes, threading.Barrier], Act], connect: Connect
) -> None:
    turns = threading.Barrier(2)
    answers = end(http_answer(b"abc"), turns), http_answer(b"next")
    with ScriptedServer.of(*answers) as scripted:
        connection = connect(scripted.url)
        assert body_of(connection) == b"abc"
        turns.wait(20)
        turns.wait(20)
        assert failure_of(connection).kind is FailureKind.STALE
        assert body_of(connection) == b"next"


def test_a_kept_connection_that_ends_in_its_answer_is_lost(connect: Connect) -> None:
    with ScriptedServer.of(http_answer(b"abc"), then_close(b"HTTP/1.1 2")) as scripted:
        connection = connect(scripted.url)
        assert body_of(connection) == b"abc"
        assert failure_of(connection).kind is FailureKind.LOST


def test_a_fresh_connection_cannot_be_stale(connect: Connect) -> None:
    with ScriptedServer.of(then_close(http_answer(b"abc"))) as scripted:
        connection = connect(scripted.url)
        for _ in range(3):
            assert connection.exchange(GET, fresh=True).body == b"abc"


def test_no_server(connect: Connect) -> None:
    with ScriptedServer.of(b"") as scripted:
        pass
    failure = failure_of(connect(scripted.url))
    assert failure.kind is FailureKind.ABSENT
    assert "refused" in str(failure)
    unknown = failure_of(connect("http://nobody.invalid"))
    assert unknown.kind is FailureKind.ABSENT


def test_invalid_answers(connect: Connect) -> None:
    with ScriptedServer.of(
        b"SSH-2.0-OpenSSH_9.2\r\n", http_answer(b"next")
    ) as scripted:
        connection = connect(scripted.url)
        assert failure_of(connection).kind is FailureKind.MALFORMED
        assert body_of(connection) == b"next"


def test_bodies_are_bounded(connect: Connect) -> None:
    with ScriptedServer.of(
        http_answer(b"x" * 101), http_answer(b"x" * 100)
    ) as scripted:
        connection = connect(scripted.url, max_body=100)
        assert failure_of(connection).kind is FailureKind.MALFORMED
        assert len(body_of(connection)) == 100


def test_silence_times_out_and_is_not_waited_for_again(connect: Connect) -> None:
    with ScriptedServer.of(silence, http_answer(b"next")) as scripted:
        connection = connect(scripted.url)
        failure = failure_of(connection, 0.05)
        assert failure.kind is FailureKind.TIMEOUT
        assert "0.05 s" in str(failure)
        assert body_of(connection) == b"next"


@pytest.mark.parametrize(
    "beginning",
    [
        b"HTTP/1.1 200 OK\r\nA: ",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    ],
)
def test_a_trickle_does_not_prolong_an_exchange(
    beginning: bytes, connect: Connect
) -> None:
    # Each look at the clock is a second later, and brings another byte.
    looks = itertools.count()
    bytes_due = threading.Semaphore(0)
    over = threading.Event()

    def clock() -> float:
        bytes_due.release()
        return float(next(looks))

    def trickle(sender: socket.socket) -> None:
        sender.sendall(beginning)
        while bytes_due.acquire() and not over.is_set():
            sender.sendall(b"a")

    with ScriptedServer.of(trickle) as scripted:
        failure = failure_of(connect(scripted.url, clock=clock), 60.0)
        over.set()
        bytes_due.release()
    assert failure.kind is FailureKind.TIMEOUT
    assert next(looks) < 70


def test_a_server_that_does_not_take_a_request_times_out(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(Failure) as caught:
            connection.exchange(Request("POST", "/", b"x" * 50_000_000), 0.1)
    assert caught.value.kind is FailureKind.TIMEOUT


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt; shells disable it for background processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_the_answer_to_an_interrupted_request_is_not_the_next(connect: Connect) -> None:
    def interrupt(sender: socket.socket) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        sender.recv(1)

    with ScriptedServer.of(
        http_answer(b"first"), interrupt, http_answer(b"third")
    ) as scripted:
        connection = connect(scripted.url)
        assert body_of(connection) == b"first"
        with pytest.raises(KeyboardInterrupt):
            connection.exchange(GET)
        assert body_of(connection) == b"third"
    assert [seen.connection for seen in scripted.seen] == [0, 0, 1]


def test_threads_take_turns(connect: Connect) -> None:
    wrong: list[Reply] = []

    def request_for(name: str) -> None:
        for number in range(50):
            path = f"/{name}/{number}"
            reply = connection.exchange(Request("GET", path))
            if not reply.body.startswith(f"GET {path} ".encode()):
                wrong.append(reply)

    listener = socket.create_server(("127.0.0.1", 0))
    connection = connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
    # There is only one connection, so each call waits for the others.
    with serving(listener, show_request):
        threads = [
            threading.Thread(target=request_for, args=(name,)) for name in "abcdef"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connection.close()
    assert wrong == []


@pytest.mark.parametrize("form", ["http+unix://{}", "http+unix://{quoted}"])
def test_a_unix_socket(form: str, tmp_path: Path, connect: Connect) -> None:
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    connection = connect(form.format(path, quoted=path.replace("/", "%2F")))
    with serving(listener, show_request):
        for _ in range(2):
            head = body_of(connection)
            assert head.startswith(b"GET /v1/ HTTP/1.1\r\nHost: localhost\r\n")
        connection.close()
    assert failure_of(connection).kind is FailureKind.ABSENT


def test_ipv6(connect: Connect) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("there is no IPv6 here")
    port = listener.getsockname()[1]
    with serving(listener, show_request):
        connection = connect(f"http://[::1]:{port}/p")
        head = body_of(connection).decode()
        connection.close()
    assert head.startswith(f"GET /p/v1/ HTTP/1.1\r\nHost: [::1]:{port}\r\n")


def test_the_shipped_server(server: Server, connect: Connect) -> None:
    connection = connect(server.url)
    for _ in range(3):
        reply = connection.exchange(GET)
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert b'"name":"gym_http_server"' in reply.body
    assert connection.exchange(Request("HEAD", "/healthz")).body == b""
    nobody = Request("POST", "/v1/envs/00000000/step/", b'{"action":1}')
    assert connection.exchange(nobody).status == 400
    assert connection.exchange(Request("DELETE", "/v1/")).status == 405
    assert connection.exchange(GET).status == 200
