"""The stream_set: all streams of a host, and what each of them is waited for."""

from __future__ import annotations

import select
import socket
import time

from gym_http_server.envhost.dispatch import Dispatch
from gym_http_server.envhost.streams import MAX_STREAMS, Stream
from gym_http_server.envhost.watchers import MAX_WATCHERS, Watcher
from gym_http_server.rundir import StatusPage
from gym_http_wire.busy_poll import may_busy_poll
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.problems import TooManyStreams

__all__ = ["StreamSet"]


class StreamSet:
    """Knows which streams have something to do.

    Args:
        poll: Watches them.
        dispatch: Have those who watch, and are told how many streams there are.
        page: The status page, on which streams are noted.
        max_message: Bytes that a message may have.

    Attributes:
        streams: By descriptor; so are all others, which are always the same mappings.
        watched: What each stream is polled for.
        queued: Which have requests that wait for their turn.
        writing: Which have answers that wait for their client.
        unsettled: Which of these answers are the environment's own arrays still.
    """

    def __init__(
        self,
        poll: select.poll,
        dispatch: Dispatch,
        page: StatusPage,
        max_message: int,
    ) -> None:
        self.streams: dict[int, Stream] = {}
        self.watched: dict[int, int] = {}
        self.queued: dict[int, Stream] = {}
        self.writing: dict[int, Stream] = {}
        self.unsettled: dict[int, Stream] = {}
        self._poll = poll
        self._dispatch = dispatch
        self._broadcast = dispatch.broadcast
        self._broadcast.attend = lambda each: self.watch(each.fileno(), each)
        self._page = page
        # Whether a stream has ended in another way than by its client's kernel.
        self._orderly = False
        self._counted = 0
        self._max_message = max_message

    def full(self, *, watching: bool) -> TooManyStreams | None:
        """Say that there are as many as may be, if there are."""
        watchers = len(self._broadcast.watchers)
        if watching:
            most = watchers >= MAX_WATCHERS
            return TooManyStreams(MAX_WATCHERS, "watchers") if most else None
        most = len(self.streams) - watchers >= MAX_STREAMS
        return TooManyStreams(MAX_STREAMS) if most else None

    def admit(self, line: socket.socket, hello: StreamHandshake, early: bytes) -> None:
        """Begin a stream.

        Args:
            line: The client's socket.
            hello: How it begins.
            early: What has come already.
        """
        line.setblocking(False)
        stream: Stream
        if hello.watch:
            stream = watcher = Watcher(line, hello, time.monotonic)
            self._broadcast.admit(watcher)
        else:
            stream = Stream(line, hello, self._max_message, time.monotonic)
        if stream.closed:
            # The client has gone since it asked.
            return
        descriptor = stream.fileno()
        self.streams[descriptor] = stream
        self._poll.register(descriptor, select.POLLIN)
        self.watched[descriptor] = select.POLLIN
        self._recount()
        if early:
            stream.take(early)
        self.watch(descriptor, stream)

    def watch(self, descriptor: int, stream: Stream) -> None:
        """See to what a stream is to be polled for from now on."""
        if stream.closed:
            self._poll.unregister(descriptor)
            for known in (self.streams, self.watched, self.queued, self.writing):
                known.pop(descriptor, None)
            self.unsettled.pop(descriptor, None)
            if isinstance(stream, Watcher):
                self._broadcast.dismiss(stream)
            else:
                self._orderly = self._orderly or stream.orderly
            self._recount()
            return
        wanted = select.POLLIN
        self.writing.pop(descriptor, None)
        self.unsettled.pop(descriptor, None)
        self.queued.pop(descriptor, None)
        if stream.writing:
            wanted = select.POLLOUT
            self.writing[descriptor] = stream
            if not isinstance(stream, Watcher):
                self.unsettled[descriptor] = stream
        elif stream.inbox:
            wanted = 0
            self.queued[descriptor] = stream
        if wanted != self.watched[descriptor]:
            self.watched[descriptor] = wanted
            self._poll.modify(descriptor, wanted)

    def may_busy_poll(self) -> bool:
        """Whether looking for more without sleeping takes time from nobody."""
        return may_busy_poll(stream.line for stream in self.streams.values())

    def patience(self) -> float:
        """Give the milliseconds until a client has taken nothing for too long."""
        first = min(each.deadline for each in self.writing.values())
        return max(0.0, first - time.monotonic()) * 1000 + 1

    def drop_stuck(self) -> None:
        """Drop the streams whose client has taken nothing for too long."""
        now = time.monotonic()
        stuck = {fd: each for fd, each in self.writing.items() if each.deadline <= now}
        if not stuck:
            return
        # Who would take something by now has waited for this host, not it for them.
        willing = {fd for fd, event in self._poll.poll(0) if event & select.POLLOUT}
        for descriptor in stuck.keys() - willing:
            stuck[descriptor].orderly = True
            stuck[descriptor].close()
            self.watch(descriptor, stuck[descriptor])

    def _recount(self) -> None:
        # To be watched is not to be used.
        watchers = len(self._broadcast.watchers)
        count = len(self.streams) - watchers
        if count != self._counted:
            self._counted = count
            orphaned = not count and not self._orderly
            self._page.set_orphaned(time.monotonic_ns() if orphaned else 0)
        self._page.set_streams(count, watchers)
        self._dispatch.set_streams(count)
