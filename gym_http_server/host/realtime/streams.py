"""The streams of a host with a clock: requests wait, and others pass them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_server.host.stream_set import StreamSet
from gym_http_server.host.streams import Stream
from gym_http_server.processes.poller import WRITE
from gym_http_wire.frames import Frame
from gym_http_wire.problems import ExternalAway
from gym_http_wire.streams import RefusedRequest

__all__ = ["MAX_WAITING", "ClockedStreams"]

#: Requests of one stream that may wait; then the host reads no more of it.
MAX_WAITING = 64


class ClockedStreams(StreamSet):
    """The streams of a host with a clock.

    Steps do not take the fast path, since they wait.

    Attributes:
        submit: Executes a request, or lets it wait: the stream, the request, and
            whether its sender may not know the outcome of all earlier ones.
        count_waiting: Returns how many requests of a stream wait.
        drop_waiting: Drops the requests of a stream that has ended.
    """

    submit: Callable[[Stream, Frame, bool], None]
    count_waiting: Callable[[Stream], int]
    drop_waiting: Callable[[Stream], None]

    def __init__(self, *args: Any, **more: Any) -> None:
        # A host with a clock does not look for requests without sleeping.
        super().__init__(*args, **{**more, "spin_us": 0})
        # The stream that `_handle` updates by itself.
        self._answering: Stream | None = None

    def answer(self, stream: Stream, reply: Frame) -> None:
        """Send the answer to a request, which may have waited."""
        if stream.closed:
            return
        descriptor = stream.fileno()
        if reply.status == ExternalAway.default_status:
            stream.hold_back()
        stream.answer(reply)
        if stream is not self._answering:
            self._update(descriptor, stream)

    def _handle(self, descriptor: int, stream: Stream, events: int) -> None:
        if events & WRITE:
            stream.flush()
        elif not stream.polled_for and events:
            # The client has disconnected, so nothing reads answers to its requests.
            stream.close()
        elif events:
            stream.receive()
        if stream.inbox and not stream.unsent:
            self._answering = stream
            self._answer(stream)
            self._answering = None
        self._update(descriptor, stream)

    def _answer(self, stream: Stream) -> None:
        request, behind = stream.next()
        if isinstance(request, RefusedRequest):
            stream.answer(request.answer)
        else:
            self.submit(stream, request, behind)

    def _update(self, descriptor: int, stream: Stream) -> None:
        super()._update(descriptor, stream)
        if descriptor in self._queued and self.count_waiting(stream) >= MAX_WAITING:
            # Polled for its end only, until one of its requests is answered.
            del self._queued[descriptor]

    def _remove(self, descriptor: int, stream: Stream) -> None:
        super()._remove(descriptor, stream)
        self.drop_waiting(stream)
