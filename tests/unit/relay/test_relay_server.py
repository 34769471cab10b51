"""The relay's loop over real sockets: group commit, waits, slow readers, failures."""

import contextlib
import hashlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gym_http_server.config.inherited_settings import Replaced
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.sockets import listen
from gym_http_server.services.relay import server as relay_server
from gym_http_server.services.relay import turns
from gym_http_server.services.relay.calls import Request
from gym_http_server.services.relay.dispatch import Relay
from gym_http_server.services.relay.messages import (
    RelayHead,
    RelaySettings,
    pieces_of,
    relay_request,
)
from gym_http_server.services.relay.store import Store
from gym_http_wire.bundles import BUNDLE, BatchHead, encode_batch
from gym_http_wire.frames import Frame, encode
from gym_http_wire.messages import Op, request
from tests.support.wait import wait_until

MIB = 1024 * 1024


class Running:
    """A relay that runs in a thread.

    Args:
        folder: Folder for its socket and its store.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "relay"
        self.run_dir = RunDir(str(folder))
        settings = RelaySettings(str(self.folder), 1024 * MIB, 256 * MIB, 8 * MIB)
        listener = listen(self.run_dir.relay_socket, 64)
        signals, self._waker = socket.socketpair()
        signals.setblocking(False)
        control, self.supervisor = socket.socketpair()
        peers = PeerCredentials(os.getpid())
        self.server = relay_server.RelayServer(
            listener, control, signals, settings, self.run_dir, peers
        )
        self._ends = (listener, signals, self._waker, control, self.supervisor)
        self._thread = threading.Thread(target=self.server.run)

    def start(self) -> None:
        """Begin to serve; requests that were sent before have waited."""
        self._thread.start()

    def stop(self) -> None:
        """End it as SIGTERM does."""
        self._waker.send(bytes([15]))
        self._thread.join(10)
        assert not self._thread.is_alive()
        for each in self._ends:
            each.close()

    @contextlib.contextmanager
    def connection(self) -> Iterator[FrameSocket]:
        """Yield a connection of a web worker."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(10)
        with contextlib.closing(FrameSocket(sock, max_descriptors=200)) as connection:
            sock.connect(self.run_dir.relay_socket)
            yield connection

    def call(self, op: Op, body: bytes = b"", **head: Any) -> Frame:
        """Send a request, and return its answer."""
        with self.connection() as connection:
            connection.send(relay_request(op, RelayHead(**head), body))
            frame = connection.receive_one()
            assert frame is not None
            return frame

    def json(self, op: Op, body: bytes = b"", **head: Any) -> Any:
        """Send a request, and return the JSON of its answer."""
        return msgspec.json.decode(self.call(op, body, **head).body)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A relay that is not serving yet."""
    made = Running(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def served(running: Running) -> Running:
    """A relay with a run."""
    running.start()
    running.json(Op.RUN_CREATE, b'{"run":"r"}')
    return running


def put(session: str, number: int, token: str = "") -> Frame:
    """Return a request with a batch."""
    args = {"session": session, "number": number, "policy": 0, "count": 1}
    head = RelayHead("r", token, args=args, digest="0" * 64)
    return relay_request(Op.SAMPLES_PUT, head, b"x" * 1000)


def session(served: Running, worker: str = "w") -> str:
    body = msgspec.json.encode({"worker": worker})
    return str(served.json(Op.SESSION_CREATE, body, run="r")["session"])


def fill(served: Running, session: str) -> None:
    """Store 3,000 batches of 1 kB, which are more than a socket takes."""
    for first in range(1, 3001, 100):
        heads = [BatchHead(session, n, 0, 1) for n in range(first, first + 100)]
        body = b"".join(encode_batch(head, bytes(1000)) for head in heads)
        answer = served.call(Op.SAMPLES_PUT, body, run="r", content_type=BUNDLE)
        assert answer.status == 201


def commits(wal: Path) -> int:
    """Count the transactions in a WAL: the last frame of each has the database's size.

    See https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
    """
    data = wal.read_bytes()
    page, salts = struct.unpack_from(">I", data, 8)[0], data[16:24]
    count = 0
    for start in range(32, len(data) - 23, 24 + page):
        if data[start + 8 : start + 16] != salts:
            break
        count += struct.unpack_from(">I", data, start + 4)[0] != 0
    return count


def test_requests_that_wait_share_a_commit(tmp_path: Path) -> None:
    first = Running(tmp_path)
    first.start()
    first.json(Op.RUN_CREATE, b'{"run":"r"}')
    sessions = [session(first, f"w{n}") for n in range(20)]
    first.stop()
    (tmp_path / "relay.sock").unlink()
    second = Running(tmp_path)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(second.connection()) for _ in sessions]
        for connection, each in zip(connections, sessions, strict=True):
            connection.send(put(each, 1))
        second.start()
        for connection in connections:
            answer = connection.receive_one()
            assert answer is not None
            assert answer.status == 201
        wal = second.folder / "relay.sqlite3-wal"
        assert commits(wal) < len(sessions) // 2
        before = commits(wal)
        for each in sessions[:3]:
            connections[0].send(put(each, 2))
            assert connections[0].receive_one() is not None
        assert commits(wal) == before + 3
    second.stop()


def test_a_waiting_consumer_gets_a_batch_with_its_insert(served: Running) -> None:
    each = session(served)
    with served.connection() as consumer, served.connection() as producer:
        for number in range(1, 4):
            args = {"after": number - 1, "wait_s": 20.0}
            consumer.send(relay_request(Op.SAMPLES_GET, RelayHead("r", args=args)))
            wait_until(lambda: served.server._waiting, message="the wait")
            producer.send(put(each, number))
            began = time.monotonic()
            answer = consumer.receive_one()
            # No timer has to end first, the shortest of which takes 250 ms.
            assert time.monotonic() - began < 5.0
            assert answer is not None
            assert answer.status == 200
            assert producer.receive_one() is not None


def test_waits_end_with_their_run_or_with_weights(served: Running) -> None:
    for op, body, awaited, status in (
        (Op.WEIGHTS_GET, b"", Op.WEIGHTS_PUT, 200),
        (Op.STATE_GET, b"", Op.STATE_PUT, 200),
        (Op.LEASE, b'{"wait_s":20}', Op.RUN_DELETE, 404),
    ):
        with served.connection() as waiting:
            head = RelayHead("r", args={"wait_s": 20.0})
            waiting.send(relay_request(op, head, body))
            wait_until(lambda: served.server._waiting, message="the wait")
            args = {"if_none_match": "*"}
            assert served.call(awaited, b"w", run="r", args=args).status in (201, 204)
            began = time.monotonic()
            answer = waiting.receive_one()
            assert time.monotonic() - began < 5.0
            assert answer is not None
            assert answer.status == status


def test_a_wait_ends_in_time_and_with_its_connection(served: Running) -> None:
    args = {"after": 0, "wait_s": 0.3}
    began = time.monotonic()
    answer = served.call(Op.SAMPLES_GET, run="r", args=args)
    assert answer.status == 204
    assert time.monotonic() - began >= 0.3
    with served.connection() as consumer:
        args = {"after": 0, "wait_s": 50.0}
        consumer.send(relay_request(Op.SAMPLES_GET, RelayHead("r", args=args)))
        wait_until(lambda: served.server._waiting, message="the wait")
    wait_until(lambda: not served.server._waiting, message="the end of the wait")


def test_waits_end_with_the_token_of_the_server(served: Running) -> None:
    args = {"after": 0, "wait_s": 50.0}
    supervisor = FrameSocket(served.supervisor.dup())
    replaced = Replaced({"bob": None}, frozenset({"ada"}), "info")
    with contextlib.ExitStack() as stack:
        stack.callback(supervisor.close)
        hers, his, of_run = (stack.enter_context(served.connection()) for _ in range(3))
        for each, owner in ((hers, "ada"), (his, "bob"), (of_run, "")):
            head = RelayHead("r", owner=owner, args=args)
            each.send(relay_request(Op.SAMPLES_GET, head))
        wait_until(lambda: len(served.server._waiting) == 3, message="the waits")
        memory = stack.enter_context(replaced.memory())
        supervisor.send(request(Op.RELOAD)._replace(number=7), memory.fileno())
        confirmed = supervisor.receive_one()
        assert confirmed is not None
        assert (confirmed.status, confirmed.number) == (204, 7)
        answer = hers.receive_one()
        assert answer is not None
        assert answer.status == 401
        assert len(served.server._waiting) == 2


def test_waits_end_when_the_server_drains(served: Running) -> None:
    with served.connection() as consumer:
        args = {"after": 0, "wait_s": 50.0}
        consumer.send(relay_request(Op.SAMPLES_GET, RelayHead("r", args=args)))
        wait_until(lambda: served.server._waiting, message="the wait")
        Path(served.run_dir.draining).touch()
        answer = consumer.receive_one()
        assert answer is not None
        assert answer.status == 204
        # Later ones do not wait.
        consumer.send(relay_request(Op.SAMPLES_GET, RelayHead("r", args=args)))
        assert consumer.receive_one() is not None


def test_waits_are_answered_at_the_end(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.start()
    running.json(Op.RUN_CREATE, b'{"run":"r"}')
    with running.connection() as consumer:
        args = {"wait_s": 50.0}
        consumer.send(relay_request(Op.WEIGHTS_GET, RelayHead("r", args=args)))
        wait_until(lambda: running.server._waiting, message="the wait")
        running.stop()
        answer = consumer.receive_one()
        assert answer is not None
        assert answer.status == 404
    # The store is closed: the next one may open it.
    Store(str(running.folder), MIB * 1024).close()


def test_a_slow_reader_delays_nobody(served: Running) -> None:
    each = session(served)
    with served.connection() as slow:
        fill(served, each)
        slow.send(relay_request(Op.SAMPLES_GET, RelayHead("r")))
        connections = served.server._server.connections
        wait_until(lambda: any(c.unsent for c in list(connections)))
        began = time.monotonic()
        assert served.call(Op.RUN_STATUS, run="r").status == 200
        assert time.monotonic() - began < 5.0
        answer = slow.receive_one()
        assert answer is not None
        assert pieces_of(answer).size > 2 * MIB


def test_a_slow_reader_is_given_up(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_server, "READ_SECONDS", 0.1)
    each = session(served)
    with served.connection() as slow:
        fill(served, each)
        slow.send(relay_request(Op.SAMPLES_GET, RelayHead("r")))
        wait_until(lambda: not served.server._server.connections, message="its end")


def announce(connection: FrameSocket, size: int) -> int:
    """Announce an upload on a connection, and return the status of the answer."""
    args = {"op": int(Op.WEIGHTS_PUT), "if_none_match": "*"}
    head = RelayHead("r", args=args, size=size)
    connection.send(relay_request(Op.RELAY_ADMIT, head))
    answer = connection.receive_one()
    assert answer is not None
    return answer.status


def test_uploads_under_way_count_to_the_space_in_use(served: Running) -> None:
    size = 200 * MIB
    with contextlib.ExitStack() as stack:
        uploads = [stack.enter_context(served.connection()) for _ in range(6)]
        # The relay may use 1 GiB.
        assert [announce(each, size) for each in uploads[:5]] == [200] * 5
        assert announce(uploads[5], size) == 507
        # Of unknown size: it gets what is left.
        assert announce(uploads[5], -1) == 200
        with served.connection() as another:
            assert announce(another, 10 * MIB) == 507
        # The web worker has closed its connection, as at the end of a broken upload.
        uploads[0].close()
        uploads[5].close()
        with served.connection() as another:
            wait_until(lambda: announce(another, size) == 200, 5.0, "the free room")
        # The request itself ends the upload.
        head = RelayHead("r", args={"if_none_match": "*"}, digest="0" * 64)
        uploads[1].send(relay_request(Op.WEIGHTS_PUT, head, b"w"))
        assert (answer := uploads[1].receive_one()) is not None
        assert answer.status == 201
        with served.connection() as one, served.connection() as two:
            assert [announce(each, size) for each in (one, two)] == [200, 200]


def test_large_bodies_are_passed_as_descriptors(served: Running) -> None:
    name = os.urandom(16).hex() + ".body"
    data = os.urandom(MIB)
    (served.folder / "bodies" / name).write_bytes(data)
    args = {"if_none_match": "*"}
    head = {"run": "r", "file": name, "size": MIB, "digest": "0" * 64}
    assert served.call(Op.WEIGHTS_PUT, args=args, **head).status == 201
    with served.connection() as connection:
        connection.send(relay_request(Op.WEIGHTS_GET, RelayHead("r")))
        answer = connection.receive_one()
        assert answer is not None
        ((file, offset, size),) = pieces_of(answer).pieces
        descriptor = connection.take_descriptor()
        assert descriptor is not None
        # Its removal does no harm to those that have it.
        served.call(Op.RUN_DELETE, run="r")
        assert (file, os.pread(descriptor, size, offset)) == (0, data)
        os.close(descriptor)


def test_a_request_that_fails_does_not_undo_others(
    served: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = session(served), session(served, "bad")
    held = threading.Event()
    append = Store.append

    def fail(store: Store, run: Any, row: Any, rows: Any) -> int:
        position = append(store, run, row, rows)
        if row.worker == "bad":
            raise OSError("the disk is on fire")
        return position

    commit = Store.commit

    def hold(store: Store) -> None:
        held.wait(10)
        commit(store)

    monkeypatch.setattr(Store, "append", fail)
    monkeypatch.setattr(Store, "commit", hold)
    with contextlib.ExitStack() as stack:
        first, one, two = (stack.enter_context(served.connection()) for _ in range(3))
        first.send(relay_request(Op.RUN_STATUS, RelayHead("r")))
        one.send(put(good, 1))
        two.send(put(bad, 1))
        held.set()
        assert [_status(each) for each in (first, one, two)] == [200, 201, 503]
    assert "the disk is on fire" in caplog.text
    status = served.json(Op.RUN_STATUS, run="r")
    assert status["samples"]["stored"] == 1
    for each, number in ((good, 2), (bad, 1)):
        found = served.json(Op.SESSION_STATUS, run="r", value=each)
        assert found["next"] == number


def _status(connection: FrameSocket) -> int:
    frame = connection.receive_one()
    assert frame is not None
    return frame.status


def begin_together(
    served: Running, monkeypatch: pytest.MonkeyPatch, requests: list[Frame]
) -> list[Frame]:
    """Send requests that arrive during one commit, and return their answers."""
    held, commit = threading.Event(), Store.commit

    def hold(store: Store) -> None:
        held.wait(10)
        commit(store)

    look = relay_request(Op.RUN_STATUS, RelayHead("r"))
    with contextlib.ExitStack() as stack:
        first, *connections = (
            stack.enter_context(served.connection()) for _ in range(len(requests) + 1)
        )
        for each in connections:
            # One that is accepted later would be read later.
            each.send(look)
            assert _status(each) == 200
        monkeypatch.setattr(Store, "commit", hold)
        first.send(look)
        for each, request in zip(connections, requests, strict=True):
            each.send(request)
        held.set()
        assert _status(first) == 200
        answers = [each.receive_one() for each in connections]
        return [each for each in answers if each is not None]


def test_a_session_over_its_share_is_refused_and_named(
    served: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turns, "SHARE_SECONDS", 0.0)
    assert relay_server.REST_SECONDS == 1
    monkeypatch.setattr(relay_server, "REST_SECONDS", 2)
    token = served.json(Op.TOKEN_CREATE, b'{"role":"worker"}', run="r")
    digest = hashlib.sha256(token["token"].encode()).hexdigest()
    noisy, calm = session(served), session(served, "calm")
    requests = [put(noisy, 1, token=digest) for _ in range(4)]
    answers = begin_together(served, monkeypatch, [*requests, put(calm, 1)])
    # The first one is stored; then it is the turn of the other session.
    assert [each.status for each in answers] == [201, 429, 429, 429, 201]
    assert b'"share-used-up"' in answers[1].body
    assert b'"Retry-After":"2"' in answers[1].head
    (line,) = (each.getMessage() for each in caplog.records)
    assert f"the worker token {token['id']} of run r" in line
    # Its next requests and the uploads of its token wait, and no others.
    args = {"op": int(Op.SAMPLES_PUT)}
    head = RelayHead("r", digest, args=args, size=MIB, content_type=BUNDLE)
    with served.connection() as connection, served.connection() as upload:
        connection.send(put(noisy, 1))
        upload.send(relay_request(Op.RELAY_ADMIT, head))
        wait_until(lambda: len(served.server._waiting) == 2, message="their wait")
        with served.connection() as other:
            other.send(put(calm, 2, token=digest))
            assert _status(other) == 201
        assert len(served.server._waiting) == 2
        # It has lost nothing.
        assert [_status(connection), _status(upload)] == [200, 200]
        connection.send(put(noisy, 2))
        assert _status(connection) == 201


def test_requests_of_a_caller_that_has_left_are_not_executed(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = session(served)
    reply, executed = Relay.reply, list[str]()

    def count(relay: Relay, request: Request, now: float, *, final: bool) -> Any:
        executed.append(request.op.name)
        return reply(relay, request, now, final=final)

    monkeypatch.setattr(Relay, "reply", count)
    with served.connection() as connection:
        accept = served.server._turns.add

        def add(run: str, caller: str, request: Any) -> None:
            accept(run, caller, request)
            served.server._server.disconnect(request.connection)

        monkeypatch.setattr(served.server._turns, "add", add)
        connection.send(put(each, 1))
        assert connection.receive_one() is None
        monkeypatch.undo()
    assert served.json(Op.SESSION_STATUS, run="r", value=each)["next"] == 1
    assert executed == []


def test_bytes_that_are_no_request_end_the_connection(served: Running) -> None:
    for data in (b"x" * 100, encode(Frame(250)), encode(Frame(130, head=b"[]      "))):
        with served.connection() as connection:
            connection.socket.sendall(data)
            assert connection.receive_one() is None
    assert served.call(Op.RELAY_STATUS).status == 204


def test_the_log_says_why_the_relay_cannot_tidy_up(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(store: Store) -> bool:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(Store, "maintain", fail)
    running.start()
    running.json(Op.RUN_CREATE, b'{"run":"r"}')
    reason = "the relay cannot remove what it no longer needs: the disk is on fire"
    wait_until(lambda: reason in caplog.messages, message="the line")


def test_a_taken_directory_is_reported_until_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_server, "OPEN_SECONDS", 0.01)
    with contextlib.closing(Store(str(tmp_path / "relay"), MIB * 1024)):
        running = Running(tmp_path)
        running.start()
        refused = running.call(Op.RUN_CREATE, b'{"run":"r"}')
        assert refused.status == 503
        assert b'"relay-taken"' in refused.body
        assert b"Retry-After" in refused.head
        assert running.call(Op.RELAY_STATUS).status == 204
    create: Callable[[], bool] = lambda: (  # noqa: E731
        running.call(Op.RUN_CREATE, b'{"run":"r"}').status == 201
    )
    wait_until(create, message="the free directory")
    running.stop()
