"""A watcher: a stream that is told what others are answered, and asks nothing itself.

It gets the newest that it has time for: beside the message that is being written one
waits, which the next replaces. So a watcher holds nobody up, however slow it is.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from gym_http_server.envhost.streams import Stream
from gym_http_wire.fast_frames import FastHostFrames
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.websocket import (
    MAX_CONTROL,
    Close,
    Message,
    Opcode,
    WebSocketError,
    head_of,
)

__all__ = ["MAX_WATCHERS", "Watcher"]

MAX_WATCHERS = 64
_NUMBERS = 2**32
# Bytes that the kernel may hold before the network takes them: what waits there is not
# the newest any more.
_UNSENT_BYTES = 64 * 1024


class Watcher(Stream):
    """One client that watches.

    Args:
        line: The client's socket, not blocking.
        hello: How it begins.
        clock: Monotonic seconds.

    Attributes:
        form: The form that values are to have.
    """

    def __init__(
        self, line: socket.socket, hello: StreamHandshake, clock: Callable[[], float]
    ) -> None:
        self.form = hello.watch
        self._number = 0
        self._dropped = 0
        self._next: tuple[int, Frame] | None = None
        super().__init__(line, hello, MAX_CONTROL, clock)
        if line.family != socket.AF_UNIX:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)

    @property
    def quick(self) -> FastHostFrames | None:
        """Nothing: who watches takes no steps."""
        return None

    def greet(self, copy: Frame) -> None:
        """Tell what was answered before it came, as number 0."""
        self._tell(0, copy)

    def show(self, copy: Frame) -> None:
        """Tell of an answer, or of the next one instead, if it is slow.

        The stream is never closed in here: what fails shows in its next event.

        Args:
            copy: The answer; its kind is the operation, and its body will stay.
        """
        self._number = (self._number + 1) % _NUMBERS
        if self._last_words:
            return
        if self.writing:
            # Long calls end in no event by which it would go on.
            self.flush()
        if self.writing:
            self._dropped += self._next is not None
            self._next = self._number, copy
        else:
            self._tell(self._number, copy)

    def flush(self) -> None:
        """Write on, and then what waits."""
        super().flush()
        waiting = self._next
        if waiting is not None and not self.writing and not self.closed:
            self._next = None
            self._tell(*waiting)

    def _tell(self, number: int, copy: Frame) -> None:
        pieces = self._dialect.copy(copy._replace(number=number), self._dropped)
        self._dropped = 0
        payload = b"".join(pieces)
        self._send([head_of(self._dialect.opcode, len(payload)), payload])

    def _fail(self) -> None:
        # Not closed here: its descriptor could be another's before its event comes.
        self._last_words = True
        self._next = None
        self._output.clear()
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)

    def _sort(self, messages: list[Message]) -> None:
        for each in messages:
            if each.opcode in (Opcode.TEXT, Opcode.BINARY):
                words = "this stream is for watching: it takes no messages"
                raise WebSocketError(Close.POLICY, words)
            super()._sort([each])
