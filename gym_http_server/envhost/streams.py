"""A stream: a client's own connection to this host, handed over by a web worker.

Nothing here waits. While a client does not take what it was sent, nothing more is read
from it.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Callable

from gym_http_server.envhost.writers import Writer
from gym_http_wire.fast_frames import FastHostFrames
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.streams import ACKNOWLEDGED, RefusedRequest, stream_dialect
from gym_http_wire.websocket import (
    Close,
    Message,
    MessageReader,
    Opcode,
    WebSocketError,
    close_of,
    encode,
    head_of,
)

__all__ = ["MAX_STREAMS", "Stream"]

MAX_STREAMS = 64
RECEIVE_BYTES = 64 * 1024


def _switching(hello: StreamHandshake) -> bytes:
    """Give the head that ends HTTP and begins the stream."""
    chosen = f"Sec-WebSocket-Protocol: {hello.protocol}\r\n" if hello.protocol else ""
    return (
        "HTTP/1.1 101 Switching Protocols\r\n"
        "Upgrade: websocket\r\n"
        "Connection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {hello.accept}\r\n"
        f"{chosen}"
        f"Gym-Session: {hello.session}\r\n"
        "\r\n"
    ).encode()


class Stream(Writer):
    """One client's stream.

    Args:
        line: The client's socket, not blocking.
        hello: How it begins.
        max_message: Bytes that a message may have.
        clock: Monotonic seconds.

    Attributes:
        session: The session's name.
        inbox: Requests that wait for their turn, and refusals.
        orderly: Whether client or host end it on purpose, by WebSocket's closing
            handshake or because of a limit. Else the client's kernel has ended it, as
            it does for a process that was killed.
    """

    def __init__(
        self,
        line: socket.socket,
        hello: StreamHandshake,
        max_message: int,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(line, clock)
        self.session = hello.session
        self.orderly = False
        self.inbox: deque[Frame | RefusedRequest] = deque()
        # How many in the inbox came before an earlier one was told to come again.
        self._behind = 0
        self._dialect = stream_dialect(hello.protocol)
        self._lane = self._dialect.lane
        self._reader = MessageReader(masked=True, max_message=max_message)
        if line.family != socket.AF_UNIX:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send([_switching(hello)])

    @property
    def quick(self) -> FastHostFrames | None:
        """The quick lane, if what comes next may be for it."""
        ready = self._reader.between and not self.inbox and not self._output
        return self._lane if ready else None

    def next(self) -> tuple[Frame | RefusedRequest, bool]:
        """Give the request whose turn it is, or a refusal.

        Returns:
            It, and whether its sender cannot know what became of all earlier ones.
        """
        asked = self.inbox.popleft()
        behind = self._behind > 0
        if behind:
            self._behind -= 1
        if self._dialect.acknowledges and isinstance(asked, Frame):
            behind = asked.status != ACKNOWLEDGED
        return asked, behind

    def hold_back(self) -> None:
        """Take note that a request comes again before all that have come by now."""
        self.receive()
        self._behind = len(self.inbox)

    def read(self) -> bytes:
        """Read what has come; nothing if there is nothing, or not any more."""
        try:
            data = self.line.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.close()
        return data

    def receive(self) -> None:
        """Read what has come, as messages into the inbox."""
        space = self._reader.space()
        if space is None:
            data = self.read()
            if data:
                self.take(data)
            return
        try:
            size = self.line.recv_into(space)
            if not size:
                self.close()
                return
            self._sort(self._reader.received(size))
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        except WebSocketError as error:
            self._refuse(error)

    def take(self, data: bytes) -> None:
        """Take bytes of the client's that have been read already."""
        try:
            self._sort(self._reader.feed(data))
        except WebSocketError as error:
            self._refuse(error)

    def answer(self, frame: Frame) -> None:
        """Answer a request."""
        if self.closed:
            return
        pieces = self._dialect.write(frame)
        opcode = self._dialect.opcode
        if len(pieces) == 1:
            payload = pieces[0]
            self.send(head_of(opcode, len(payload)) + payload)
            return
        views = [memoryview(each).cast("B") for each in pieces]
        size = sum(len(each) for each in views)
        self._send([head_of(opcode, size), *views])

    def bid_farewell(self, code: Close, words: str) -> None:
        """Say why the stream ends, if the client listens, and end it."""
        self.orderly = True
        if not self.closed and not self._output:
            with contextlib.suppress(OSError):
                self.line.send(encode(Opcode.CLOSE, close_of(code, words)))
        self.close()

    def close(self) -> None:
        """End the stream, whatever waits."""
        self.inbox.clear()
        super().close()

    def _sort(self, messages: list[Message]) -> None:
        for opcode, payload in messages:
            if opcode == self._dialect.opcode:
                try:
                    self.inbox.append(self._dialect.read(bytes(payload)))
                except RefusedRequest as refused:
                    self.inbox.append(refused)
            elif opcode == Opcode.PING:
                self._send([encode(Opcode.PONG, bytes(payload))])
            elif opcode == Opcode.CLOSE:
                self._say_last(Opcode.CLOSE, bytes(payload))
            elif opcode != Opcode.PONG:
                words = "this stream takes binary messages"
                if self._dialect.opcode == Opcode.TEXT:
                    words = "this stream takes text messages"
                raise WebSocketError(Close.UNSUPPORTED, words)

    def _refuse(self, error: WebSocketError) -> None:
        self._say_last(Opcode.CLOSE, close_of(error.code, str(error)))

    def _say_last(self, opcode: Opcode, payload: bytes) -> None:
        self.inbox.clear()
        self.orderly = True
        self._last_words = True
        self._send([encode(opcode, payload)])
        if not self._output:
            self.close()
