"""Schedules the streams of a host: which of them is read, answered or written next.

Streams take turns: a stream gets its next answer after all others with requests.
"""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable, Container

from gym_http_server.host import server_log
from gym_http_server.host.activity import Activity
from gym_http_server.host.broadcast import Broadcast
from gym_http_server.host.fast_step import FastStepper, frame_of
from gym_http_server.host.streams import MAX_STREAMS, Stream
from gym_http_server.host.watcher import MAX_WATCHERS, Watcher
from gym_http_server.processes.poller import READ, WRITE, Poller
from gym_http_wire.busy_poll import BusyPoll, may_busy_poll
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.problems import ExternalAway, TooManyStreams
from gym_http_wire.streams import RefusedRequest
from gym_http_wire.websocket import Close

__all__ = ["StreamSet"]

#: Executes a request: the frame, its session, and whether its sender may not know the
#: outcome of all earlier ones.
Execute = Callable[[Frame, str, bool], Frame]
Events = list[tuple[int, int]]


class StreamSet:
    """The streams of a host.

    Args:
        poller: Polls their sockets.
        execute: Executes requests.
        fast_step: Executes repeated steps.
        broadcast: Sends copies to the streams that watch.
        activity: Records how many streams are open.
        max_message: Bytes that a message may have.
        spin_us: Microseconds to poll for a stream's next request before sleeping.

    Attributes:
        uncopied: By descriptor, the streams whose waiting output may contain arrays of
            the environment.
    """

    def __init__(
        self,
        poller: Poller,
        execute: Execute,
        fast_step: FastStepper,
        broadcast: Broadcast,
        activity: Activity,
        *,
        max_message: int,
        spin_us: int,
    ) -> None:
        self._poller = poller
        self._execute = execute
        self._fast_step = fast_step
        self._broadcast = broadcast
        self._activity = activity
        self._max_message = max_message
        self._busy_poll = BusyPoll(spin_us * 1000, self._may_spin)
        self.uncopied: dict[int, Stream] = {}
        # By descriptor: all streams; those with requests that wait for a turn; and
        # those with output that waits until their clients read.
        self._streams: dict[int, Stream] = {}
        self._queued: dict[int, Stream] = {}
        self._writing: dict[int, Stream] = {}
        # Steps of the environment when each stream was opened.
        self._steps_before: dict[int, int] = {}
        # Whether the client or the host has closed a stream on purpose.
        self._orderly = False

    def wait(self, longest_ms: float | None) -> Events:
        """Wait until something happens, or return at once if requests are waiting.

        Args:
            longest_ms: Milliseconds to wait at most; ``None``: any time.

        Returns:
            Descriptors and their events. A stream whose turn it is has event 0.
        """
        poll = self._poller.poll
        if not self._streams:
            return poll(longest_ms)
        if self._broadcast.pending:
            self._poll_pending()
        if self._writing:
            self._close_stuck()
        if self._queued:
            return list((dict.fromkeys(self._queued, 0) | dict(poll(0))).items())
        busy_poll = self._busy_poll
        if busy_poll.rest and not self._writing:
            busy_poll.rest -= 1
            return poll(longest_ms)
        until = busy_poll.until(time.monotonic_ns())
        while time.monotonic_ns() < until:
            if events := poll(0):
                busy_poll.found()
                return events
        if until:
            busy_poll.missed()
        if self._writing:
            send_limit_ms = self._send_limit_ms()
            longest_ms = (
                send_limit_ms if longest_ms is None else min(longest_ms, send_limit_ms)
            )
        return poll(longest_ms)

    def check_room(self, *, watching: bool) -> None:
        """Check that another stream may begin.

        Raises:
            TooManyStreams: There are as many streams, or watchers, as are allowed.
        """
        watchers = len(self._broadcast.watchers)
        if watching and watchers >= MAX_WATCHERS:
            raise TooManyStreams(MAX_WATCHERS, "watchers")
        if not watching and len(self._streams) - watchers >= MAX_STREAMS:
            raise TooManyStreams(MAX_STREAMS)

    def add(self, sock: socket.socket, hello: StreamHandshake, early: bytes) -> None:
        """Begin a stream.

        Args:
            sock: The client's socket.
            hello: How the stream begins.
            early: Bytes of the stream that were read already.
        """
        sock.setblocking(False)
        stream: Stream
        if hello.watch:
            stream = watcher = Watcher(sock, hello, time.monotonic)
            self._broadcast.add(watcher)
        else:
            stream = Stream(sock, hello, self._max_message, time.monotonic)
        if stream.closed:
            # The client has gone since its request.
            return
        descriptor = stream.fileno()
        self._streams[descriptor] = stream
        handler = functools.partial(self._handle, descriptor, stream)
        self._poller.add(descriptor, handler)
        self._count()
        self._steps_before[descriptor] = self._activity.steps
        server_log.write_stream(_line_of(stream))
        if early:
            stream.feed(early)
        self._update(descriptor, stream)

    def copy_outputs(self) -> None:
        """Copy output that a call of the environment could change."""
        for stream in self.uncopied.values():
            stream.copy_output()

    def close_all(self, code: Close, reason: str) -> None:
        """Close all streams."""
        for descriptor, stream in self._streams.items():
            stream.close_with(code, reason)
            self._log_closed(descriptor, stream)

    def close_owned(
        self, owners: Container[str] | None, code: Close, reason: str
    ) -> None:
        """Close the streams of clients that showed one of these tokens.

        Args:
            owners: Names of the tokens; ``None``: any.
            code: Of the close frame.
            reason: Of the close frame.
        """
        for descriptor, stream in list(self._streams.items()):
            if owners is None or stream.owner in owners:
                stream.close_with(code, reason)
                self._update(descriptor, stream)

    def _handle(self, descriptor: int, stream: Stream, events: int) -> None:
        """Read, write or answer a request, as the events of a stream allow."""
        if events & WRITE:
            stream.flush()
        elif not stream.polled_for and events:
            # The client has disconnected, so nothing reads answers to its requests.
            stream.close()
        elif events:
            frames = stream.fast_frames
            if frames is None or self.uncopied:
                stream.receive()
            else:
                request = stream.receive_fast(frames)
                if request is not None:
                    if not self._fast_step.execute(stream, frames, request):
                        stream.inbox.append(frame_of(request))
                    elif not stream.unsent and not stream.closed:
                        return
        if stream.inbox and not stream.unsent:
            self._answer(stream)
        if stream.inbox or stream.unsent or stream.closed or stream.polled_for != READ:
            self._update(descriptor, stream)

    def _answer(self, stream: Stream) -> None:
        """Execute the next request of a stream."""
        request, behind = stream.next()
        if isinstance(request, RefusedRequest):
            stream.answer(request.answer)
            return
        reply = self._execute(request, stream.session, behind)
        if reply.status == ExternalAway.default_status:
            stream.hold_back()
        stream.answer(reply)

    def _update(self, descriptor: int, stream: Stream) -> None:
        """Poll a stream for what it needs next, or remove it if it is closed."""
        for group in (self._queued, self._writing, self.uncopied):
            group.pop(descriptor, None)
        if stream.closed:
            self._remove(descriptor, stream)
            return
        wanted = READ
        if stream.unsent:
            wanted = WRITE
            self._writing[descriptor] = stream
            if not isinstance(stream, Watcher):
                self.uncopied[descriptor] = stream
        elif stream.inbox:
            wanted = 0
            self._queued[descriptor] = stream
        if wanted != stream.polled_for:
            stream.polled_for = wanted
            self._poller.want(descriptor, wanted)

    def _remove(self, descriptor: int, stream: Stream) -> None:
        self._poller.remove(descriptor)
        del self._streams[descriptor]
        self._log_closed(descriptor, stream)
        if isinstance(stream, Watcher):
            self._broadcast.remove(stream)
        else:
            self._orderly = self._orderly or stream.orderly
        self._count()

    def _log_closed(self, descriptor: int, stream: Stream) -> None:
        line = _line_of(stream)
        line.seconds = round(time.monotonic() - stream.opened_s, 3)
        line.steps = self._activity.steps - self._steps_before.pop(descriptor)
        server_log.write_stream(line)

    def _poll_pending(self) -> None:
        """Poll for writing the watchers that have not read all of their copies."""
        while self._broadcast.pending:
            watcher = self._broadcast.pending.pop()
            if not watcher.closed:
                self._update(watcher.fileno(), watcher)

    def _send_limit_ms(self) -> float:
        """Return the milliseconds until a client has read nothing for too long."""
        first = min(each.deadline for each in self._writing.values())
        return max(0.0, first - time.monotonic()) * 1000 + 1

    def _close_stuck(self) -> None:
        """Close the streams whose clients have read nothing for too long."""
        now = time.monotonic()
        stuck = {fd: each for fd, each in self._writing.items() if each.deadline <= now}
        if not stuck:
            return
        # A client that reads by now has waited for this host, and not the reverse.
        willing = {fd for fd, events in self._poller.poll(0) if events & WRITE}
        for descriptor in stuck.keys() - willing:
            stuck[descriptor].orderly = True
            stuck[descriptor].close()
            self._update(descriptor, stuck[descriptor])

    def _may_spin(self) -> bool:
        # A watcher sends nothing, so the core of its last packet is not its own.
        sockets = [
            stream.socket
            for stream in self._streams.values()
            if not isinstance(stream, Watcher)
        ]
        return bool(sockets) and may_busy_poll(sockets)

    def _count(self) -> None:
        # A stream that watches does not count as use.
        watchers = len(self._broadcast.watchers)
        count = len(self._streams) - watchers
        if count != self._activity.streams:
            self._activity.set_orphaned(not count and not self._orderly)
        self._activity.set_streams(count, watchers)


def _line_of(stream: Stream) -> server_log.StreamLine:
    return server_log.StreamLine(
        request_id=stream.request_id, watch=isinstance(stream, Watcher)
    )
