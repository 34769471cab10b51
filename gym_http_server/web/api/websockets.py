"""WebSockets that a web worker keeps, and whose messages it answers itself.

Each has two greenlets. One reads, so that pings are answered, and the end of the client
is noticed, while the other one waits for the answer to a message.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import gevent  # type: ignore[import-untyped]
from gevent.lock import RLock, Semaphore  # type: ignore[import-untyped]
from gevent.queue import Queue  # type: ignore[import-untyped]
from gevent.socket import wait_write  # type: ignore[import-untyped]

from gym_http_wire.websocket import (
    Close,
    MessageReader,
    Opcode,
    WebSocketError,
    close_of,
    encode,
)

__all__ = ["Ending", "KeptSocket", "KeptSockets"]

RECEIVE_BYTES = 64 * 1024
#: Seconds of silence after which a client is pinged, and after which it has gone.
PING_S, SILENT_S = 10.0, 25.0
#: Seconds in which a client has to read some of what is sent to it.
SEND_S = 5.0
#: Seconds in which a client has to answer a close.
LINGER_S = 1.0
TICK_S = 0.2

#: Why a connection has to close: the status and the reason.
Ending = tuple[Close, str]


class KeptSocket:
    """A client's WebSocket, from its handshake on; its messages are texts.

    Args:
        sock: The socket, of gevent's.
        max_message: Bytes that a message may have.
        on_left: Called once the client has left, or its connection is lost.
        ending: Returns why the connection has to close; ``None``: it need not.
        clock: Monotonic seconds.

    Attributes:
        left: Whether the client has left.
    """

    def __init__(
        self,
        sock: socket.socket,
        max_message: int,
        on_left: Callable[[], None],
        ending: Callable[[], Ending | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Its send() has a parameter of gevent's.
        self._socket: Any = sock
        self._on_left = on_left
        self._ending = ending
        self._clock = clock
        self._reader = MessageReader(masked=True, max_message=max_message)
        self._inbox = Queue()
        # One message waits besides the one being answered, so that memory is limited.
        self._room = Semaphore(2)
        self._sending = RLock()
        self._busy = False
        self._closing = False
        self._due: Ending | None = None
        self._received_at = self._pinged_at = clock()
        self._watched: socket.socket | None = None
        self._reading: Any = None
        self.left = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._closing and not self.left and self._reading is not None:
            # A socket that is closed with bytes unread would lose the last ones sent.
            self._reading.join(timeout=LINGER_S)
        self._cut()
        self._closing = True
        self._room.release()
        if self._reading is not None:
            # It is not killed: it may have begun to end what ends with the client.
            self._reading.join()
        self._socket.close()

    def begin(self, answer: bytes, early: bytes) -> None:
        """Answer the handshake, and begin to read.

        Args:
            answer: The answer to the handshake.
            early: Bytes that were received with the handshake.
        """
        self._send_all(answer)
        self._reading = gevent.spawn(self._read, early)

    def receive(self) -> bytes | None:
        """Wait for a message; ``None`` if the connection is over."""
        if self._busy:
            self._busy = False
            self._room.release()
        self._close_if_ending()
        text: bytes | None = None if self._closing else self._inbox.get()
        if text is not None:
            # Something may have changed while it waited for the message.
            self._close_if_ending()
            text = None if self._closing else text
        self._busy = text is not None
        return text

    def send(self, opcode: int, payload: bytes) -> None:
        """Send a message; cut the connection if the client does not read."""
        self._send_all(encode(opcode, payload))

    def close(self, code: int, reason: str = "") -> None:
        """Send a close frame; messages that come later are ignored."""
        if self._closing:
            return
        self._closing = True
        self._inbox.put(None)
        self._room.release()
        self.send(Opcode.CLOSE, close_of(code, reason))
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def look(self) -> None:
        """Ping a silent client, or end its connection; close what has to close."""
        now = self._clock()
        if self._room.locked():
            # Its messages wait, and perhaps an answer to a ping behind them.
            self._received_at = now
        if now - self._received_at > SILENT_S:
            self._cut()
        elif now - max(self._received_at, self._pinged_at) > PING_S:
            self._pinged_at = now
            # It may have to wait for its turn.
            gevent.spawn(self.send, Opcode.PING, b"")
        if not self._busy:
            self._close_if_ending()

    def note_ending(self) -> None:
        """Note if the connection has to close, also if the reason goes meanwhile."""
        self._due = self._due or self._ending()

    @contextlib.contextmanager
    def end_of_client(self) -> Iterator[socket.socket]:
        """Return a socket that can be read once the client has left."""
        end, self._watched = socket.socketpair()
        with end, self._watched:
            if self.left:
                self._watched.close()
            yield end

    def _close_if_ending(self) -> None:
        self.note_ending()
        if not self._closing and self._due:
            self.close(*self._due)

    def _send_all(self, data: bytes) -> None:
        view = memoryview(data)
        with self._sending:
            try:
                while view:
                    try:
                        view = view[self._socket.send(view, timeout=0.0) :]
                    except BlockingIOError:
                        wait_write(self._socket.fileno(), timeout=SEND_S)
            except OSError:
                self._cut()

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self, early: bytes) -> None:
        data = early
        try:
            while True:
                for opcode, payload in self._reader.feed(data) if data else ():
                    self._take(opcode, bytes(payload))
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    break
                self._received_at = self._clock()
        except WebSocketError as error:
            self.close(error.code, str(error))
            self._leave()
            with contextlib.suppress(OSError):
                while self._socket.recv(RECEIVE_BYTES):
                    pass
        except OSError:
            pass
        self._leave()

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == Opcode.TEXT:
            if not self._closing:
                self._room.acquire()
            if not self._closing:
                self._inbox.put(payload)
        elif opcode == Opcode.PING:
            self.send(Opcode.PONG, payload)
        elif opcode == Opcode.CLOSE:
            self.close(int.from_bytes(payload[:2], "big") or Close.NORMAL)
            self._leave()
        elif opcode == Opcode.BINARY:
            raise WebSocketError(Close.UNSUPPORTED, "messages have to be texts")

    def _leave(self) -> None:
        if not self.left:
            self.left = True
            while not self._inbox.empty():
                self._inbox.get_nowait()
            self._inbox.put(None)
            if self._watched is not None:
                self._watched.close()
            self._on_left()


class KeptSockets:
    """The WebSockets of a web worker, which it looks at several times a second."""

    def __init__(self) -> None:
        self._all: set[KeptSocket] = set()
        self._looking: Any = None

    def __len__(self) -> int:
        return len(self._all)

    @contextlib.contextmanager
    def keep(self, kept: KeptSocket) -> Iterator[None]:
        """Look at a socket until the context ends."""
        self._all.add(kept)
        if not self._looking:
            self._looking = gevent.spawn(self._look)
        try:
            yield
        finally:
            self._all.discard(kept)

    def note_endings(self) -> None:
        """Note which of them have to close; they do so when they are looked at."""
        for each in self._all:
            each.note_ending()

    def _look(self) -> None:
        while self._all:
            gevent.sleep(TICK_S)
            for each in list(self._all):
                each.look()
