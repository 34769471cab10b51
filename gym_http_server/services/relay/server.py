"""The relay's process: one thread, one poll loop, transactions of many requests.

It executes the requests whose turn it is (`relay/turns`) in one transaction, and
answers after the commit. So many small requests share a sync of the disk. Requests that
wait for something to happen in a run stay here.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from gym_http_server.errors import (
    REVOKED,
    RelayDamaged,
    RelayTaken,
    RelayUnavailable,
    ShareUsedUp,
    TooManySessions,
    Unauthorized,
)
from gym_http_server.processes.acceptor import Acceptor
from gym_http_server.processes.frame_server import FrameServer
from gym_http_server.processes.frame_socket import FrameSocket, close_each
from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.processes.poller import Poller
from gym_http_server.processes.service_process import apply_reload, isolate, limit_waits
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.sockets import refuse_descriptors
from gym_http_server.services.relay.calls import Reply, Request
from gym_http_server.services.relay.database import damage_of
from gym_http_server.services.relay.dispatch import Relay
from gym_http_server.services.relay.files import INLINE_BYTES, FileSlice
from gym_http_server.services.relay.messages import (
    MOST_DIGESTS_BYTES,
    Piece,
    RelaySettings,
    pieces_answer,
    relay_problem,
    request_of,
)
from gym_http_server.services.relay.roles import describe_caller
from gym_http_server.services.relay.store import Store
from gym_http_server.services.relay.turns import SHARE_SECONDS, RequestTurn, Turns
from gym_http_wire.bundles import MOST_BATCHES
from gym_http_wire.frames import Frame
from gym_http_wire.messages import AnswerHead, Form, Op, answer
from gym_http_wire.problems import Problem

__all__ = ["run"]

#: Seconds between two looks at waiting requests.
TICK_SECONDS = 0.25
#: Seconds between two looks for work that requests have left.
MAINTAIN_SECONDS = 1.0
IDLE_SECONDS = 60.0
#: Seconds between two attempts to open the store.
OPEN_SECONDS = 1.0
#: The same if it is damaged.
DAMAGED_SECONDS = 60.0
#: Seconds in which web workers can read the last answers.
CLOSING_SECONDS = 0.5
#: Seconds after which a session that was over its share may send again.
REST_SECONDS = 1
#: Seconds in which a web worker has to read an answer.
READ_SECONDS = 30.0
#: Limit of unprocessed descriptors from the supervisor.
MAX_DESCRIPTORS = 16

log = logging.getLogger("gym_http_server.relay")


class Connection(FrameSocket):
    """A web worker's connection.

    Args:
        end: Its socket.
        max_body: Bytes that the body of a request may have.

    Attributes:
        promised: Bytes of the upload that a web worker announced on it.
    """

    def __init__(self, end: socket.socket, max_body: int) -> None:
        end.setblocking(False)
        super().__init__(end, max_body)
        self.promised = 0


class PendingRequest(NamedTuple):
    """A request, and the connection that it came from.

    Attributes:
        connection: The connection.
        request: The request.
        number: Number of its frame.
        until: When it must be answered, in monotonic seconds.
    """

    connection: Connection
    request: Request
    number: int
    until: float


_Taken = RequestTurn[PendingRequest]


class _Answer(NamedTuple):
    waiting: PendingRequest
    frame: Frame
    descriptors: list[int]


class RelayServer:
    """Receives requests, executes them in groups, and answers them.

    Args:
        listener: The socket to which web workers connect.
        control: The connection to the supervisor.
        signals: End of a pair of sockets on which signal numbers arrive.
        settings: The relay's settings.
        run: The run directory.
        peers: Distinguishes processes of the server from those of environments.
    """

    def __init__(
        self,
        listener: socket.socket,
        control: socket.socket,
        signals: socket.socket,
        settings: RelaySettings,
        run: RunDir,
        peers: PeerCredentials,
    ) -> None:
        self._settings = settings
        self._run = run
        self._refusals = LimitedLog(log)
        self._shares = LimitedLog(log)
        self._logged_damage: set[str] = set()
        self._relay: Relay | None = None
        self._open_again = 0.0
        self._why_closed: Problem = RelayUnavailable("the relay is starting")
        # Sessions that were over their share, and tokens whose uploads may be theirs,
        # and until when they rest, in monotonic seconds.
        self._resting: dict[str, float] = {}
        # Requests to be executed, and those that wait for something to happen.
        self._turns: Turns[PendingRequest] = Turns()
        self._waiting: dict[Connection, PendingRequest] = {}
        self._maintain_at = 0.0
        self._stopping = False
        self._signals = signals
        self._poller = Poller()
        self._server = FrameServer[Connection](self._poller, "relay", self._drop)
        self._acceptor = Acceptor(listener, self._poller, self._connect, "relay", peers)
        self._poller.add(listener, self._acceptor.accept)
        self._poller.add(signals, self._on_signal)
        self._control = FrameSocket(control, max_descriptors=MAX_DESCRIPTORS)
        self._poller.add(self._control, self._reload)

    def run(self) -> None:
        """Serve until SIGTERM; then answer the requests that wait."""
        self._open()
        while not self._stopping:
            self._poller.serve(self._patience())
            self._look()
            self._execute(self._turns.take())
            self._maintain()
        self._resume(self._waiting.values())
        while self._turns:
            self._execute(self._turns.drain())
        if self._relay is not None:
            self._relay.store.close()
        until = time.monotonic() + CLOSING_SECONDS
        while self._server.stuck and time.monotonic() < until:
            self._poller.serve(CLOSING_SECONDS)
        for connection in list(self._server.connections):
            self._server.disconnect(connection)

    def _patience(self) -> float | None:
        """Return for how many seconds no work is due; ``None``: until an event."""
        now = time.monotonic()
        ends = [each.until for each in self._waiting.values()]
        if self._turns:
            ends.append(self._turns.due())
        if ends or self._acceptor.paused or self._server.stuck:
            return max(0.0, min([now + TICK_SECONDS, *ends]) - now)
        if self._relay is None:
            return None
        return max(0.0, self._maintain_at - now)

    # Connections

    def _on_signal(self, events: int) -> None:
        if signal.SIGTERM in self._signals.recv(4096):
            self._stopping = True

    def _reload(self, events: int) -> None:
        for frame in self._control.receive() or ():
            apply_reload(self._control, frame, self._revoke)

    def _revoke(self, gone: frozenset[str]) -> None:
        """End waits and sessions of tokens that are gone."""
        refused = relay_problem(Unauthorized(REVOKED))
        for each in list(self._waiting.values()):
            if each.request.head.owner in gone:
                self._send(_Answer(each, refused, []))
        self._end_sessions(gone)

    def _end_sessions(self, gone: frozenset[str]) -> None:
        if self._relay is None or not gone:
            return
        try:
            self._relay.end_sessions(gone, time.time())
        except Exception as error:
            self._refusals.warning(
                f"the relay cannot end the sessions of removed tokens: {error}"
            )

    def _connect(self, sock: socket.socket) -> None:
        most = max(self._settings.max_body, INLINE_BYTES, MOST_DIGESTS_BYTES)
        connection = Connection(sock, most)
        self._server.add(connection, self._receive)
        # Its request has mostly arrived with it.
        self._server.serve(connection, self._receive)

    def _receive(self, connection: Connection, frame: Frame) -> None:
        if frame.kind == Op.RELAY_STATUS:
            done = answer(204, number=frame.number, form=Form.NONE)
            self._server.answer(connection, done)
            return
        request = Request(Op(frame.kind), request_of(frame), frame.body)
        # The upload that was announced here has arrived.
        self._promise(connection, 0)
        now = time.monotonic()
        pending = PendingRequest(
            connection, request, frame.number, now + request.wait_s
        )
        rests_until = self._resting.get(_resting_name(request), now)
        if rests_until > now:
            # Not refused: a client that does not heed Retry-After would come at once.
            self._waiting[connection] = pending._replace(until=rests_until)
        else:
            self._queue(pending)

    def _queue(self, each: PendingRequest) -> None:
        """Have a request executed when it is its caller's turn."""
        head = each.request.head
        self._turns.add(head.run, each.request.session or head.token, each)

    def _resume(self, waiting: Iterable[PendingRequest]) -> None:
        """Have requests executed that waited for something to happen."""
        for each in list(waiting):
            del self._waiting[each.connection]
            self._queue(each)

    def _promise(self, connection: Connection, size: int) -> None:
        """Count the bytes of an upload under way, in place of those counted before."""
        if self._relay is not None:
            self._relay.store.promised += size - connection.promised
            connection.promised = size

    def _drop(self, connection: Connection) -> None:
        """Drop the upload and the waiting request of a connection that has ended."""
        self._promise(connection, 0)
        self._waiting.pop(connection, None)

    # Execution

    def _look(self) -> None:
        """Look for requests whose wait is over, and for connections that are stuck."""
        now = time.monotonic()
        if self._waiting:
            draining = os.path.exists(self._run.draining)
            self._resume(
                each
                for each in self._waiting.values()
                if draining or each.until <= now or self._may_lease(each)
            )
        if self._server.stuck:
            self._server.disconnect_stuck(READ_SECONDS)
        self._acceptor.resume()

    def _may_lease(self, waiting: PendingRequest) -> bool:
        """Whether a lease has ended whose batch a request waits for."""
        relay = self._relay
        return relay is not None and relay.lease_ended(waiting.request, time.time())

    def _execute(self, turns: Generator[_Taken, None, None]) -> None:
        """Execute requests in one transaction, and answer them."""
        if not self._turns:
            return
        relay = self._open()
        if relay is None:
            for each, _ in self._turns.drain():
                self._send(_Answer(each, relay_problem(self._why_closed), []))
            return
        group: list[_Taken] = []
        with contextlib.closing(turns):
            answers = self._commit(relay, turns, group)
        for answered in answers:
            self._send(answered)
        relay.store.clean_up()
        self._discard(relay, group)
        soon = time.monotonic() + MAINTAIN_SECONDS
        self._maintain_at = min(self._maintain_at, soon)
        if touched := relay.take_touched():
            self._resume(
                each
                for each in self._waiting.values()
                if each.request.awaited in touched and each.request.wait_s > 0
            )

    def _commit(
        self,
        relay: Relay,
        turns: Iterator[_Taken],
        group: list[_Taken],
    ) -> list[_Answer]:
        """Execute requests in one transaction; return the answers.

        Args:
            relay: The relay.
            turns: The requests.
            group: Those that were taken are appended to it.
        """
        answers: list[_Answer] = []
        relay.batches = 0
        try:
            relay.store.begin()
            for turn in turns:
                group.append(turn)
                answered = self._answer(relay, turn)
                if answered is not None:
                    answers.append(answered)
                if relay.batches >= MOST_BATCHES:
                    break
            relay.store.commit()
        except Exception as error:
            relay.roll_back()
            for answered in answers:
                close_each(answered.descriptors)
            if not group:
                # The transaction could not begin.
                group += itertools.islice(turns, 1)
            if len(group) > 1:
                # One of them may be the reason.
                return [
                    got
                    for each in group
                    for got in self._commit(relay, iter([each]), [])
                ]
            return [
                _Answer(each.request, relay_problem(self._problem_of(error)), [])
                for each in group
            ]
        return answers

    def _problem_of(self, error: Exception) -> Problem:
        """Return the problem that a failed request is answered with."""
        if isinstance(error, Problem):
            return error
        if (damage := self._damage_of(error)) is not None:
            return damage
        log.error("a request to the relay failed", exc_info=error)
        if isinstance(error, OSError | sqlite3.Error):
            return RelayUnavailable(
                f"the relay cannot use its directory: {error}",
                headers={"Retry-After": "1"},
            )
        return Problem("the relay failed; the log of the server has the reason")

    def _answer(self, relay: Relay, turn: _Taken) -> _Answer | None:
        """Execute a request; return its answer, or ``None`` if it waits."""
        waiting = turn.request
        if waiting.connection.closed:
            return None
        if turn.over and waiting.request.session:
            problem = _over_share()
            self._log_share(relay, waiting.request, problem)
            self._rest(waiting.request)
            return _Answer(waiting, relay_problem(problem), [])
        final = (
            self._stopping
            or waiting.until <= time.monotonic()
            or (waiting.request.wait_s > 0 and os.path.exists(self._run.draining))
        )
        try:
            reply = relay.reply(waiting.request, time.time(), final=final)
        except Problem as problem:
            if isinstance(problem, TooManySessions):
                self._log_share(relay, waiting.request, problem)
            return _Answer(waiting, relay_problem(problem), [])
        if reply is None:
            self._waiting[waiting.connection] = waiting
            return None
        if reply.promised and not waiting.connection.closed:
            self._promise(waiting.connection, reply.promised)
        return _Answer(waiting, *_frame_of(relay.store, reply))

    def _log_share(self, relay: Relay, request: Request, problem: Problem) -> None:
        caller = describe_caller(relay.store, request.head)
        self._shares.warning(f"refused a request of {caller}: {problem}")

    def _rest(self, request: Request) -> None:
        """Let the requests of a session wait for a second."""
        now = time.monotonic()
        self._resting = {
            name: until for name, until in self._resting.items() if until > now
        }
        for name in filter(None, (request.session, request.head.token)):
            self._resting[name] = now + REST_SECONDS

    def _send(self, answered: _Answer) -> None:
        waiting, frame, descriptors = answered
        self._waiting.pop(waiting.connection, None)
        frame = frame._replace(number=waiting.number)
        self._server.answer(waiting.connection, frame, descriptors)

    def _discard(self, relay: Relay, group: list[_Taken]) -> None:
        """Remove the uploaded files that no row refers to."""
        for each, _ in group:
            if each.request.head.file and each.request.op != Op.RELAY_ADMIT:
                with contextlib.suppress(OSError):
                    relay.store.discard(each.request.head.file)

    # The store

    def _open(self) -> Relay | None:
        """Return the open store, opening it if it is time to; or ``None``."""
        now = time.monotonic()
        if self._relay is None and now >= self._open_again:
            self._open_again = now + OPEN_SECONDS
            folder = self._settings.folder
            try:
                store = Store(folder, self._settings.disk_limit)
            except RelayTaken as problem:
                problem.headers["Retry-After"] = "5"
                self._why_closed = problem
                self._refusals.warning(str(problem))
            except Exception as error:
                self._why_closed = self._not_opened(error)
            else:
                self._relay = Relay(store, self._settings)
        return self._relay

    def _not_opened(self, error: Exception) -> Problem:
        """Log why the store cannot be opened, and return the problem."""
        damage = self._damage_of(error)
        if damage is not None:
            # A check takes time, and an operator takes longer.
            self._open_again = time.monotonic() + DAMAGED_SECONDS
            return damage
        self._refusals.warning(f"cannot open the relay's store: {error}")
        return RelayUnavailable(
            f"the relay cannot open its directory: {error}",
            headers={"Retry-After": "5"},
        )

    def _damage_of(self, error: Exception) -> RelayDamaged | None:
        """Return the problem if the database is damaged; log it the first time."""
        damage = damage_of(error, self._settings.folder)
        if damage is not None and damage.message not in self._logged_damage:
            self._logged_damage.add(damage.message)
            log.error("%s", damage.message)
        return damage

    def _maintain(self) -> None:
        """Do a step of the work that requests have left, where it is due."""
        relay = self._relay
        if relay is None or self._maintain_at > time.monotonic():
            return
        try:
            more = relay.maintain(time.time())
        except Exception as error:
            relay.roll_back()
            if self._damage_of(error) is None:
                self._refusals.warning(
                    f"the relay cannot remove what it no longer needs: {error}"
                )
            self._maintain_at = time.monotonic() + MAINTAIN_SECONDS
            return
        # Requests come first: the next step is done after the next poll.
        self._maintain_at = time.monotonic() + (0.0 if more else IDLE_SECONDS)


def _over_share() -> ShareUsedUp:
    return ShareUsedUp(
        f"other requests of the session took more than {SHARE_SECONDS:g} s of the "
        "relay's time while this one waited, and so did those of others: send the "
        "requests of a session one after the other, and this one again later",
        headers={"Retry-After": str(REST_SECONDS)},
    )


def _resting_name(request: Request) -> str:
    """Return the name under which a request may have to rest."""
    # An upload of another session of the token waits only if it does not say which.
    upload = request.op == Op.RELAY_ADMIT
    return request.session or (request.head.token if upload else "")


def _frame_of(store: Store, reply: Reply) -> tuple[Frame, list[int]]:
    """Return the frame of an answer, and the files that it refers to.

    Raises:
        Problem: A file is gone.
    """
    head = AnswerHead(reply.content_type, reply.headers)
    if reply.pieces is None:
        form = Form.PLAIN if reply.body else Form.NONE
        return answer(reply.status, reply.body, head, form=form), []
    descriptors: list[int] = []
    numbers: dict[str, int] = {}
    pieces: list[Piece] = []
    inline = bytearray()
    # Where the bytes begin that no piece has yet: those in a row share a piece.
    begun = 0
    try:
        for piece in reply.pieces:
            if isinstance(piece, FileSlice):
                if piece.name not in numbers:
                    numbers[piece.name] = len(descriptors)
                    descriptors.append(store.files.open(piece.name))
                number, offset, size = numbers[piece.name], piece.offset, piece.size
                if begun < len(inline):
                    pieces.append(Piece(-1, begun, len(inline) - begun))
                    begun = len(inline)
                pieces.append(Piece(number, offset, size))
            else:
                inline += piece
        if begun < len(inline):
            pieces.append(Piece(-1, begun, len(inline) - begun))
    except BaseException:
        close_each(descriptors)
        raise
    return pieces_answer(pieces, bytes(inline), head, reply.status), descriptors


def run(
    listener: socket.socket,
    control: socket.socket,
    settings: RelaySettings,
    run_path: str,
    parent_pid: int,
) -> int:
    """Run the relay until it ends; return the exit status.

    Args:
        listener: The socket to which web workers connect.
        control: The connection to the supervisor.
        settings: The relay's settings.
        run_path: Path of the run directory.
        parent_pid: The supervisor; the process ends with it.
    """
    isolate(parent_pid)
    signals, waker = socket.socketpair()
    for end in (signals, waker):
        end.setblocking(False)
    # A transaction must not be interrupted: the loop looks at the signal.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    limit_waits()
    refuse_descriptors(listener)
    peers = PeerCredentials(parent_pid)
    run_dir = RunDir(run_path)
    RelayServer(listener, control, signals, settings, run_dir, peers).run()
    return 0
