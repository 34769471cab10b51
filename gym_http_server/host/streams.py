"""A stream: a client's WebSocket, whose socket a web worker has sent to this host.

Nothing here blocks. While a client does not read its answers, the host does not read
from it, and closes the stream after a time limit.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections import deque
from collections.abc import Callable

from gym_http_wire.fast_frames import FastHostFrames, FastRequest
from gym_http_wire.frames import Frame
from gym_http_wire.handshakes import StreamHandshake
from gym_http_wire.messages import NODE_PROOF
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

__all__ = ["MAX_STREAMS", "SEND_SECONDS", "Stream", "Writer"]

MAX_STREAMS = 64
RECEIVE_BYTES = 64 * 1024
#: Seconds after which a client that does not read its answers loses its stream.
SEND_SECONDS = 5.0
_MAX_BUFFERS = 512


class Writer:
    """Writes to a client's socket without blocking.

    It keeps the bytes that the socket does not accept at once.

    Args:
        sock: The socket, not blocking.
        clock: Monotonic seconds.

    Attributes:
        closed: Whether the socket is closed.
        socket: The socket.
        unsent: Output that waits until the client reads.
    """

    def __init__(self, sock: socket.socket, clock: Callable[[], float]) -> None:
        self.closed = False
        self.socket = sock
        self._clock = clock
        self.unsent: deque[memoryview] = deque()
        self._since = 0.0
        # Whether the output is a copy, which no later step changes.
        self._copied = False
        # Whether to close the socket once everything is written.
        self._closing = False

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self.socket.fileno()

    @property
    def deadline(self) -> float:
        """The time by which the client has to read some of the `unsent` bytes."""
        return self._since + SEND_SECONDS

    def send(self, message: bytes) -> None:
        """Send a short message; keep the bytes that the socket does not accept."""
        if self.unsent:
            self.unsent.append(memoryview(message))
            return
        try:
            sent = self.socket.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._fail()
            return
        if sent < len(message):
            self._keep([memoryview(message)[sent:]])

    def flush(self) -> None:
        """Write more of the output, now that the client reads."""
        waiting: list[bytes | memoryview] = list(self.unsent)
        copied, since = self._copied, self._since
        size = sum(map(len, waiting))
        self.unsent.clear()
        self._send(waiting)
        self._copied = copied
        if sum(map(len, self.unsent)) == size:
            self._since = since
        if self._closing and not self.unsent:
            self.close()

    def copy_output(self) -> None:
        """Copy the output, since the environment is about to change arrays in it."""
        if self.unsent and not self._copied:
            whole = b"".join(self.unsent)
            self.unsent.clear()
            self.unsent.append(memoryview(whole))
            self._copied = True

    def close(self) -> None:
        """Close the socket and drop the output."""
        if not self.closed:
            self.closed = True
            self.unsent.clear()
            self.socket.close()

    def _send(self, pieces: list[bytes | memoryview]) -> None:
        if self.unsent:
            self.unsent.extend(memoryview(each) for each in pieces)
            return
        at = 0
        try:
            while at < len(pieces):
                batch = pieces[at : at + _MAX_BUFFERS]
                sent = self.socket.sendmsg(batch)
                for each in batch:
                    size = len(each)
                    if sent < size:
                        pieces[at] = memoryview(each)[sent:]
                        break
                    sent -= size
                    at += 1
        except BlockingIOError:
            self._keep([memoryview(each) for each in pieces[at:]])
        except OSError:
            self._fail()

    def _fail(self) -> None:
        """Handle an error of the socket."""
        self.close()

    def _keep(self, views: list[memoryview]) -> None:
        self.unsent.extend(views)
        self._copied = False
        self._since = self._clock()


class Stream(Writer):
    """One client's stream.

    Args:
        sock: The client's socket, not blocking.
        hello: How the stream begins.
        max_message: Bytes that a message may have.
        clock: Monotonic seconds.

    Attributes:
        session: The session's name.
        inbox: Requests that wait for their turn, and refusals of malformed ones.
        orderly: Whether the client or the host closes the stream on purpose: by a
            closing handshake or because of a limit. False if the client's kernel ended
            it, as it does for a process that was killed.
        fast_frames: The codec of repeated steps, if its dialect has one.
        polled_for: Events that the host polls the socket for.
        owner: Name of its client's token.
        request_id: ID of the HTTP request that opened it, for the log.
        opened_s: When it was opened, in seconds of the clock.
    """

    def __init__(
        self,
        sock: socket.socket,
        hello: StreamHandshake,
        max_message: int,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(sock, clock)
        self.session = hello.session
        self.owner = hello.owner
        self.request_id = hello.request_id
        self.opened_s = clock()
        self.orderly = False
        self.inbox: deque[Frame | RefusedRequest] = deque()
        self.polled_for = select.POLLIN
        # Number of requests in the inbox that the client sent before it could know
        # that it has to send an earlier one again.
        self._behind = 0
        self._dialect = stream_dialect(hello.protocol)
        self.fast_frames = self._dialect.fast_frames
        self._reader = MessageReader(masked=True, max_message=max_message)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send([_handshake_response(hello)])

    def next(self) -> tuple[Frame | RefusedRequest, bool]:
        """Remove and return the next request, or refusal, of the inbox.

        Returns:
            The request, and whether its sender may not know the outcome of all earlier
            requests.
        """
        request = self.inbox.popleft()
        behind = self._behind > 0
        if behind:
            self._behind -= 1
        if self._dialect.acknowledges and isinstance(request, Frame):
            behind = request.status != ACKNOWLEDGED
        return request, behind

    def hold_back(self) -> None:
        """Record that the client will repeat a request that precedes the inbox."""
        self.receive()
        self._behind = len(self.inbox)

    def read(self) -> bytes:
        """Read the received bytes; empty if there are none or the stream has ended."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.close()
        return data

    def receive_fast(self, frames: FastHostFrames) -> FastRequest | None:
        """Read the received bytes; return the request if they are one fast frame.

        All other requests are put into the inbox.

        Args:
            frames: The codec of the stream.
        """
        if self.inbox or self.unsent or not self._reader.between:
            self.receive()
            return None
        data = self.read()
        request = frames.decode_request(data)
        if request is None and data:
            self.feed(data)
        return request

    def receive(self) -> None:
        """Read the received bytes, and put requests into the inbox."""
        space = self._reader.space()
        if space is None:
            data = self.read()
            if data:
                self.feed(data)
            return
        try:
            size = self.socket.recv_into(space)
            if not size:
                self.close()
                return
            self._handle(self._reader.received(size))
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        except WebSocketError as error:
            self._close_for(error)

    def feed(self, data: bytes) -> None:
        """Parse bytes that were read already, and put requests into the inbox."""
        try:
            self._handle(self._reader.feed(data))
        except WebSocketError as error:
            self._close_for(error)

    def answer(self, frame: Frame) -> None:
        """Send the answer to a request."""
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

    def close_with(self, code: Close, reason: str) -> None:
        """Close the stream with a close frame, if the client reads."""
        self.orderly = True
        if not self.closed and not self.unsent:
            with contextlib.suppress(OSError):
                self.socket.send(encode(Opcode.CLOSE, close_of(code, reason)))
        self.close()

    def close(self) -> None:
        """Close the stream, and drop its inbox and output."""
        self.inbox.clear()
        super().close()

    def _handle(self, messages: list[Message]) -> None:
        for opcode, payload in messages:
            if opcode == self._dialect.opcode:
                try:
                    self.inbox.append(self._dialect.read(bytes(payload)))
                except RefusedRequest as refused:
                    self.inbox.append(refused)
            elif opcode == Opcode.PING:
                self._send([encode(Opcode.PONG, bytes(payload))])
            elif opcode == Opcode.CLOSE:
                self._send_close(bytes(payload))
            elif opcode != Opcode.PONG:
                reason = "this stream takes binary messages"
                if self._dialect.opcode == Opcode.TEXT:
                    reason = "this stream takes text messages"
                raise WebSocketError(Close.UNSUPPORTED, reason)

    def _close_for(self, error: WebSocketError) -> None:
        self._send_close(close_of(error.code, str(error)))

    def _send_close(self, payload: bytes) -> None:
        """Send a close frame, and close the stream once the client has read it."""
        self.inbox.clear()
        self.orderly = True
        self._closing = True
        self._send([encode(Opcode.CLOSE, payload)])
        if not self.unsent:
            self.close()


def _handshake_response(hello: StreamHandshake) -> bytes:
    """Return the head of the HTTP answer that begins a WebSocket."""
    chosen = f"Sec-WebSocket-Protocol: {hello.protocol}\r\n" if hello.protocol else ""
    proof = f"{NODE_PROOF}: {hello.proof}\r\n" if hello.proof else ""
    return (
        "HTTP/1.1 101 Switching Protocols\r\n"
        "Upgrade: websocket\r\n"
        "Connection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {hello.accept}\r\n"
        f"{chosen}{proof}"
        f"Gym-Session: {hello.session}\r\n"
        "\r\n"
    ).encode()
