"""The host's loop: one process, one instance, one thing at a time, on one thread.

Web workers connect to ``host.sock``, with requests, or with the socket of a client who
wants a stream; the supervisor says over its channel when this is to end.
"""

from __future__ import annotations

import os
import select
import socket
import time

import msgspec

from gym_http_server.envhost import fork_guard
from gym_http_server.envhost.connections import WorkerConnection
from gym_http_server.envhost.dispatch import Dispatch
from gym_http_server.envhost.external.connections import (
    LONGEST_TICK,
    ExternalConnections,
)
from gym_http_server.envhost.failures import note
from gym_http_server.envhost.fast_step import FastStepper, frame_of
from gym_http_server.envhost.stream_set import StreamSet
from gym_http_server.envhost.streams import Stream
from gym_http_server.peers import Peers
from gym_http_server.rundir import StatusPage
from gym_http_wire.busy_poll import BusyPoll
from gym_http_wire.fast_frames import FastHostFrames
from gym_http_wire.frames import Frame, FrameError, encode
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.messages import Op, answer, problem_answer, request_head
from gym_http_wire.problems import ExternalAway, Problem
from gym_http_wire.streams import RefusedRequest
from gym_http_wire.websocket import Close

__all__ = ["CLOSE", "PING", "Host"]

#: Messages of the supervisor to a host.
CLOSE, PING = b"close", b"?"

_QUIET = {Op.DESCRIBE}  # looking at an instance does not keep it alive


class Host:
    """Serves one instance.

    Args:
        dispatch: Answer the requests.
        page: The status page.
        channel: To the supervisor.
        listener: Where web workers connect.
        max_body: Bytes that the body of a request may have.
        spin_us: Microseconds to look for a stream's next request before sleeping.
        peers: Checks which processes may connect; ``None`` if file modes suffice.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        page: StatusPage,
        channel: socket.socket,
        listener: socket.socket,
        *,
        max_body: int,
        spin_us: int,
        peers: Peers | None,
    ) -> None:
        self._dispatch = dispatch
        # A batch may take long, as long as none of its steps does.
        dispatch.handlers.progress = self._begin
        self._page = page
        self._channel = channel
        self._listener = listener
        self._peers = peers
        self._max_body = max_body
        self._fast_step = FastStepper(dispatch, page)
        self._poll = select.poll()
        self._connections: dict[int, WorkerConnection] = {}
        self._stream_set = stream_set = StreamSet(self._poll, dispatch, page, max_body)
        self._spinning = BusyPoll(spin_us * 1000, stream_set.may_busy_poll)
        # These are looked at with each step.
        self._streams, self._watched = stream_set.streams, stream_set.watched
        self._queued, self._writing = stream_set.queued, stream_set.writing
        self._unsettled = stream_set.unsettled
        self._open = True
        # Where the environment is, if elsewhere; milliseconds between two looks there.
        self._external = dispatch.external
        self._rest_ms: float | None = None

    def serve(self) -> None:
        """Serve until the end."""
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._listener, select.POLLIN)
        channel, listener = self._channel.fileno(), self._listener.fileno()
        external = self._external
        if external is not None:
            self._poll.register(external, select.POLLIN)
            self._rest_ms = LONGEST_TICK * 1000
        streams, connections = self._streams, self._connections
        while self._open:
            for descriptor, event in self._wait():
                if descriptor in streams:
                    self._serve_stream(descriptor, event)
                elif descriptor in connections:
                    self._receive(descriptor)
                elif descriptor == listener:
                    self._accept()
                elif descriptor == channel:
                    self._hear_supervisor()
                elif external is not None and self._open:
                    self._attend(external)
            if external is not None and self._open and time.monotonic() >= external.due:
                self._attend(external)

    def _begin(self) -> None:
        """Note that a call of the environment begins within a request."""
        fork_guard.check()
        self._page.begin(time.monotonic_ns())

    def _attend(self, external: ExternalConnections) -> None:
        """Serve the connections of an external environment, between calls."""
        external.attend()
        lost = external.expired
        if lost is not None:
            print(f"{lost.env_id} has not come back in time", flush=True)
            self._channel.sendall(encode(answer(410)))
            self._open = False
            external.release()

    def _wait(self) -> list[tuple[int, int]]:
        """Wait until something happens, or for the next turns of what has."""
        if not self._streams:
            return self._poll.poll(self._rest_ms)
        if self._writing:
            self._stream_set.drop_stuck()
        if self._queued:
            ready = dict.fromkeys(self._queued, 0) | dict(self._poll.poll(0))
            return list(ready.items())
        spinning = self._spinning
        if spinning.rest and not self._writing:
            spinning.rest -= 1
            return self._poll.poll(self._rest_ms)
        until = spinning.until(time.monotonic_ns())
        while time.monotonic_ns() < until:
            if events := self._poll.poll(0):
                spinning.found()
                return events
        if until:
            spinning.missed()
        rest = self._rest_ms
        if self._writing:
            patience = self._stream_set.patience()
            rest = patience if rest is None else min(rest, patience)
        return self._poll.poll(rest)

    def _accept(self) -> None:
        line, _ = self._listener.accept()
        if self._peers is not None and not self._peers.admits(line):
            line.close()
            return
        self._connections[line.fileno()] = WorkerConnection(line, self._max_body)
        self._poll.register(line, select.POLLIN)

    def _hear_supervisor(self) -> None:
        received = self._channel.recv(4096)
        if not received:
            os._exit(1)
        if not received.strip(PING):
            self._mark_alive()
            return
        self._open = False
        for stream in self._streams.values():
            stream.bid_farewell(Close.GOING_AWAY, "the instance was closed")
        try:
            self._dispatch.handlers.close()
        except Problem as problem:
            note(problem)
        if self._external is not None:
            self._external.release()

    def _receive(self, descriptor: int) -> None:
        connection = self._connections[descriptor]
        try:
            frames = connection.receive()
            if frames is None:
                self._drop(descriptor)
                return
            for frame in frames:
                if frame.kind == Op.STREAM:
                    self._take_over(descriptor, connection, frame)
                else:
                    connection.send_answer(
                        encode(self._execute(frame)), self._mark_alive
                    )
        except (OSError, FrameError):
            self._drop(descriptor)

    def _mark_alive(self) -> None:
        self._page.mark_alive(time.monotonic_ns())

    def _drop(self, descriptor: int) -> None:
        connection = self._connections.pop(descriptor, None)
        if connection is not None:
            self._poll.unregister(descriptor)
            connection.close()

    def _take_over(
        self, descriptor: int, connection: WorkerConnection, frame: Frame
    ) -> None:
        """Begin a stream: on the socket that came along, or on this very connection.

        The latter is for a web worker that passes the bytes on itself.
        """
        hello = msgspec.json.decode(
            request_head(frame).value or "", type=StreamHandshake
        )
        full = self._stream_set.full(watching=bool(hello.watch))
        if full is not None:
            refusal = encode(problem_answer(full, frame.number))
            connection.send_answer(refusal, self._mark_alive)
            return
        accepted = encode(answer(204, number=frame.number))
        connection.send_answer(accepted, self._mark_alive)
        line = connection.take_socket()
        if line is None:
            del self._connections[descriptor]
            self._poll.unregister(descriptor)
            line = connection.socket
        self._stream_set.admit(line, hello, frame.body)

    def _serve_stream(self, descriptor: int, event: int) -> None:
        stream = self._streams[descriptor]
        watched = self._watched[descriptor]
        if event & select.POLLOUT:
            stream.flush()
        elif event & watched:
            lane = stream.quick
            if lane is None or self._unsettled:
                stream.receive()
            elif self._step(stream, lane):
                return
        elif event:
            # It is gone, and nobody will read what is still to be done for it.
            stream.close()
        if stream.inbox and not stream.writing:
            self._answer(stream)
        if stream.inbox or stream.writing or stream.closed or watched != select.POLLIN:
            self._stream_set.watch(descriptor, stream)

    def _step(self, stream: Stream, lane: FastHostFrames) -> bool:
        """Read what has come; take it, if it is a step, and tell if all is done."""
        data = stream.read()
        asked = lane.asked(data)
        if asked is None:
            if data:
                stream.take(data)
        elif self._fast_step.take(stream, lane, asked):
            return not (stream.writing or stream.closed)
        else:
            stream.inbox.append(frame_of(asked))
        return False

    def _answer(self, stream: Stream) -> None:
        asked, behind = stream.next()
        if isinstance(asked, RefusedRequest):
            stream.answer(asked.answer)
            return
        reply = self._execute(asked, stream.session, behind=behind)
        if reply.status == ExternalAway.default_status:
            stream.hold_back()
        stream.answer(reply)

    def _execute(
        self, frame: Frame, session: str = "", *, behind: bool = False
    ) -> Frame:
        page, dispatch = self._page, self._dispatch
        for stream in self._unsettled.values():
            stream.settle()
        page.begin(time.monotonic_ns())
        reply = dispatch.answer(frame, session, behind=behind)
        fork_guard.check()
        operations = dispatch.operations
        now = time.monotonic_ns()
        if frame.kind in _QUIET:
            page.set_orphaned(0)
            page.end(now, used=False)
        else:
            page.finish(now, operations.steps, operations.episodes)
            dispatch.used(now)
        return reply
