"""Serves one instance: one process, one thread, one call at a time.

Web workers connect to ``host.sock``. They send requests, or the socket of a client that
opens a stream. The supervisor orders the host over its channel to close.
"""

from __future__ import annotations

import os
import socket
import time

import msgspec

from gym_http_server.config.inherited_settings import Replaced
from gym_http_server.errors import REVOKED, Unauthorized
from gym_http_server.host import fork_guard
from gym_http_server.host.activity import Activity
from gym_http_server.host.dispatch import Dispatch
from gym_http_server.host.external.connections import (
    LONGEST_TICK,
    ExternalConnections,
)
from gym_http_server.host.failures import note
from gym_http_server.host.fast_step import FastStepper
from gym_http_server.host.stream_set import StreamSet
from gym_http_server.processes.frame_server import FrameServer
from gym_http_server.processes.frame_socket import (
    RECEIVE_BYTES,
    FrameSocket,
    receive_with_descriptors,
)
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.processes.poller import Poller
from gym_http_wire.frames import Frame, encode
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.messages import Op, answer, problem_answer, request_head
from gym_http_wire.problems import Problem, TooManyStreams
from gym_http_wire.websocket import Close

__all__ = [
    "AGENT_LOST",
    "CLOSE",
    "DRAIN",
    "PING",
    "REVOKE",
    "SEND_SECONDS",
    "UNSENT_MS",
    "UNUSED",
    "Host",
    "WorkerConnection",
]

#: Messages of the supervisor to a host.
CLOSE, DRAIN, PING = b"close", b"!", b"?"
#: This one comes with a descriptor, of the names of tokens that are gone.
REVOKE = b"-"
#: Body of a host's message that it closes, since its agent was silent too long.
AGENT_LOST = b"agent-lost"

#: Operations that only look at the instance, which does not count as use.
UNUSED = frozenset({Op.DESCRIBE, Op.EPISODES, Op.KEYS, Op.REALTIME, Op.TRACE})
#: Seconds after which a web worker that reads nothing loses its connection.
SEND_SECONDS = 30
_MAX_DESCRIPTORS = 4
# Without the lookup in an enumeration: each request needs it.
_STREAM = int(Op.STREAM)
#: Milliseconds between two checks whether web workers read their answers.
UNSENT_MS = 250.0
# For answers that are not sent completely when the instance is closed.
_LAST_SECONDS = 1.0


class Host:
    """Serves one instance.

    Args:
        dispatch: Answers the requests.
        activity: Records calls and streams.
        channel: The connection to the supervisor.
        listener: The socket to which web workers connect.
        max_body: Bytes that the body of a request may have.
        spin_us: Microseconds to poll for a stream's next request before sleeping.
        peers: Checks which processes may connect; ``None`` if file modes suffice.
    """

    _STREAMS: type[StreamSet] = StreamSet

    def __init__(
        self,
        dispatch: Dispatch,
        activity: Activity,
        channel: socket.socket,
        listener: socket.socket,
        *,
        max_body: int,
        spin_us: int,
        peers: PeerCredentials | None,
    ) -> None:
        self._dispatch = dispatch
        self._broadcast = dispatch.broadcast
        self._activity = activity
        self._channel = channel
        self._listener = listener
        self._peers = peers
        self._max_body = max_body
        self._open = True
        # Names of tokens that are gone.
        self._gone: frozenset[str] = frozenset()
        self._external = dispatch.external
        self._poller = Poller()
        server: FrameServer[WorkerConnection] = FrameServer(
            self._poller, "host", self._drop
        )
        self._server = server
        self._streams = self._STREAMS(
            self._poller,
            self._execute,
            FastStepper(dispatch, activity),
            dispatch.broadcast,
            activity,
            max_message=max_body,
            spin_us=spin_us,
        )

    def serve(self) -> None:
        """Serve until the supervisor closes the instance."""
        poller, streams, external = self._poller, self._streams, self._external
        broadcast, usual_ms = self._broadcast, self._begin()
        stuck = self._server.stuck
        while self._open:
            longest_ms = usual_ms
            if broadcast.showing is not None:
                longest_ms = self._show(usual_ms)
            if stuck:
                if longest_ms is None or longest_ms > UNSENT_MS:
                    longest_ms = UNSENT_MS
                poller.handle(streams.wait(longest_ms))
                self._server.disconnect_stuck(SEND_SECONDS)
            else:
                poller.handle(streams.wait(longest_ms))
            if external is not None and time.monotonic() >= external.due:
                self._attend(external)
        self._finish_answers()

    def _begin(self) -> float | None:
        """Poll all sockets; return the milliseconds that a wait may take."""
        external = self._external
        self._poller.add(self._channel, self._receive_from_supervisor)
        self._poller.add(self._listener, self._accept)
        if external is None:
            return None
        self._poller.add(external, lambda events: self._attend(external))
        return LONGEST_TICK * 1000

    def _show(self, longest_ms: float | None) -> float | None:
        """Send watchers what is due; return the milliseconds that a wait may take."""
        self._broadcast.attend()
        showing = self._broadcast.showing
        due_ms = None if showing is None else showing.wait_ms()
        if due_ms is None:
            return longest_ms
        return due_ms if longest_ms is None else min(due_ms, longest_ms)

    def _execute(self, frame: Frame, session: str = "", behind: bool = False) -> Frame:
        """Execute a request, as `Dispatch.answer`, and record it."""
        activity = self._activity
        if self._streams.uncopied:
            self._streams.copy_outputs()
        steps = self._dispatch.operations.steps
        activity.page.begin(time.monotonic_ns())
        reply = self._dispatch.answer(frame, session, behind=behind)
        fork_guard.check()
        if frame.kind in UNUSED:
            activity.finish_unused()
        else:
            activity.finish_steps(steps)
        return reply

    def _attend(self, external: ExternalConnections) -> None:
        """Serve the connections of an external environment, between calls."""
        if not self._open:
            return
        external.attend()
        lost = external.expired
        if lost is not None:
            print(f"{lost.env_id} has not come back in time", flush=True)
            self._channel.sendall(encode(answer(410)))
            self._open = False
            external.release()

    def _receive_from_supervisor(self, events: int) -> None:
        received, descriptors = receive_with_descriptors(self._channel, 4096)
        if not received:
            os._exit(1)
        if REVOKE in received:
            self._revoke(descriptors[-1] if descriptors else None)
        if CLOSE not in received:
            self._activity.mark_alive()
            if DRAIN in received:
                self._drain()
            return
        self._end("the instance was closed")

    def _revoke(self, descriptor: int | None) -> None:
        """End the streams of tokens that are gone."""
        replaced = Replaced.receive(descriptor)
        # Without it, this process has too many files open to learn the names.
        self._gone = frozenset() if replaced is None else replaced.gone
        owners = None if replaced is None else self._gone
        self._streams.close_owned(owners, Close.POLICY, REVOKED)
        self._channel.sendall(encode(Frame(Op.RELOAD)))

    def _end(self, reason: str) -> None:
        """Close all streams and the environment, and stop serving."""
        self._open = False
        self._streams.close_all(Close.GOING_AWAY, reason)
        try:
            self._dispatch.handlers.close()
        except Problem as problem:
            note(problem)
        if self._external is not None:
            self._external.release()

    def _accept(self, events: int) -> None:
        sock, _ = self._listener.accept()
        if self._peers is not None and not self._peers.permits(sock):
            sock.close()
            return
        self._server.add(WorkerConnection(sock, self._max_body), self._handle)

    def _handle(self, connection: WorkerConnection, frame: Frame) -> None:
        if frame.kind == _STREAM:
            self._begin_stream(connection, frame)
        else:
            self._take(connection, frame)

    def _take(self, connection: WorkerConnection, frame: Frame) -> None:
        """Execute a request of a web worker, and answer it."""
        self._server.answer(connection, self._execute(frame))

    def _drop(self, connection: WorkerConnection) -> None:
        """Drop the requests of a web worker that has left; here, none waits."""

    def _drain(self) -> None:
        """Note that the server is about to stop; here, no request waits long."""

    def _finish_answers(self) -> None:
        """Send the rest of answers, to web workers that read them at once."""
        deadline = time.monotonic() + _LAST_SECONDS
        for connection in self._server.stuck:
            connection.socket.settimeout(max(0.0, deadline - time.monotonic()))
            connection.flush()

    def _begin_stream(self, connection: WorkerConnection, frame: Frame) -> None:
        """Begin a stream on the socket that the request brought, or on this connection.

        A web worker that relays the stream's bytes sends no socket.
        """
        hello = msgspec.json.decode(
            request_head(frame).value or "", type=StreamHandshake
        )
        try:
            if hello.owner in self._gone:
                # It was removed just after a web worker had checked it.
                raise Unauthorized(REVOKED)
            self._streams.check_room(watching=bool(hello.watch))
        except (TooManyStreams, Unauthorized) as problem:
            self._server.answer(connection, problem_answer(problem, frame.number))
            return
        connection.send(answer(204, number=frame.number))
        sock = connection.take_socket()
        if sock is None:
            sock = connection.socket
            self._server.forget(connection)
        self._streams.add(sock, hello, frame.body)


class WorkerConnection(FrameSocket):
    """A connection of a web worker, which carries one request at a time.

    The first request may bring a descriptor: the socket of a client that opens a
    stream.

    Args:
        end: Its socket.
        max_body: Bytes that the body of a request may have.
    """

    def __init__(self, end: socket.socket, max_body: int) -> None:
        super().__init__(end, max_body, max_descriptors=_MAX_DESCRIPTORS)
        # A web worker that is stopped must not stop the host.
        end.setblocking(False)
        self._first = True

    def receive(self) -> list[Frame] | None:
        """Read once, as `FrameSocket` does; descriptors come with the first request."""
        if self._first:
            self._first = False
            return super().receive()
        # A read that accepts descriptors costs several times as much.
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        return self._reader.feed(data) if data else None
