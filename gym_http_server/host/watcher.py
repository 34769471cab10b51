"""A client's stream that watches: it receives copies or updates, and sends nothing."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from gym_http_server.host.streams import Stream
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import ShowRequest, StreamHandshake
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
# Limit of bytes in the kernel's send buffer. Newer copies cannot replace copies that
# wait there.
_UNSENT_BYTES = 64 * 1024


class Watcher(Stream):
    """The stream of a client that watches: it gets copies and sends no requests.

    Besides the copy that is being written, one more waits; the next one replaces it. So
    a slow watcher gets the newest copies, and never delays the host.

    Args:
        sock: The client's socket, not blocking.
        hello: How the stream begins.
        clock: Monotonic seconds.

    Attributes:
        form: The form of its copies.
        asks: Whether a copy has the request, too.
        wanted: What it requests to be shown; ``None``: it gets copies.
        fps: Copies a second that it wants at most, of an instance with a clock; 0: as
            many as usual.
    """

    def __init__(
        self, sock: socket.socket, hello: StreamHandshake, clock: Callable[[], float]
    ) -> None:
        self.form = hello.watch
        self.asks = hello.ask
        self.wanted: ShowRequest | None = hello.show
        self.fps = hello.fps
        self._number = 0
        self._dropped = 0
        self._next: tuple[int, Frame] | None = None
        super().__init__(sock, hello, MAX_CONTROL, clock)
        # It sends no steps.
        self.fast_frames = None
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)

    def show_earlier(self, copy: Frame) -> None:
        """Send the copy of an answer from before the stream began, as number 0."""
        self._write(0, copy)

    def show(self, copy: Frame) -> None:
        """Send a copy, or keep it until the client reads.

        This never closes the stream: an error shows in the stream's next event.

        Args:
            copy: The answer; its kind is the operation, and its body does not change.
        """
        self._number = (self._number + 1) % _NUMBERS
        if self._closing:
            return
        if self.unsent:
            # During a long call, no event continues the writing.
            self.flush()
        if self.unsent:
            self._dropped += self._next is not None
            self._next = self._number, copy
        else:
            self._write(self._number, copy)

    def skip(self) -> None:
        """Count a copy that is not sent."""
        self._number = (self._number + 1) % _NUMBERS
        self._dropped += 1

    def send_update(self, text: bytes, picture: bytes | None) -> None:
        """Send an update: a text, and the picture that belongs to it.

        As `show`, this never closes the stream. The caller looks at `unsent` before.
        """
        if self._closing:
            return
        pieces: list[bytes | memoryview] = [head_of(Opcode.TEXT, len(text)), text]
        if picture is not None:
            pieces += [head_of(Opcode.BINARY, len(picture)), picture]
        self._send(pieces)

    def flush(self) -> None:
        """Write more of the output, and then the copy that waits."""
        super().flush()
        waiting = self._next
        if waiting is not None and not self.unsent and not self.closed:
            self._next = None
            self._write(*waiting)

    def _write(self, number: int, copy: Frame) -> None:
        pieces = self._dialect.copy(copy._replace(number=number), self._dropped)
        self._dropped = 0
        payload = b"".join(pieces)
        self._send([head_of(self._dialect.opcode, len(payload)), payload])

    def _fail(self) -> None:
        # If it were closed here, a new socket could get its descriptor before its
        # event arrives.
        self._closing = True
        self._next = None
        self.unsent.clear()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def _handle(self, messages: list[Message]) -> None:
        for each in messages:
            if each.opcode in (Opcode.TEXT, Opcode.BINARY):
                reason = "this stream is for watching: it takes no messages"
                raise WebSocketError(Close.POLICY, reason)
            super()._handle([each])
