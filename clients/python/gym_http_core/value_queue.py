"""`ValueQueue`: a queue between two processes that encodes values and never pickles.

It has the methods of ``multiprocessing.Queue`` that agents and worlds in the style of
Myrtle call.
"""

from __future__ import annotations

import queue
import selectors
import socket
import struct
import time
from collections import deque
from typing import Any, Self

from gym_http_wire.values import BadValue, binary

__all__ = ["ValueQueue"]

#: Unsent messages that one end keeps; beyond that, the oldest are dropped.
MAX_UNSENT = 10_000
_LENGTH = struct.Struct("<Q")
_MAX_MESSAGE = 2**31
_RECEIVE_BYTES = 256 * 1024


class ValueQueue:
    """One end of a pair of sockets, with the methods of a queue.

    `put` sends to the other end, and `get` receives from it. Like that of
    ``multiprocessing.Queue``, `put` never waits for the reader. Messages that the
    socket does not take yet are kept, and sent by the next call.

    Args:
        end: The socket; the queue owns it.

    Attributes:
        dropped: Number of messages that were dropped because they were not read.
        ended: Whether the other end is closed, which a receiving method has noticed.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._unsent: deque[memoryview] = deque()
        self._received = bytearray()
        self.ended = False
        self.dropped = 0

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Return the two ends of a new queue; each process closes one of them."""
        one, other = socket.socketpair()
        return cls(one), cls(other)

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def put(self, value: Any, block: bool = True, timeout: float | None = None) -> None:
        """Send a value; never waits.

        Args:
            value: Numbers, text, arrays, and lists and dicts of these.
            block: Without effect, as in a queue without a limit.
            timeout: Without effect.

        Raises:
            UnsupportedValue: The value cannot be encoded.
            BrokenPipeError: The other process has closed its end.
        """
        body = binary.encode(value)
        self._unsent.append(memoryview(_LENGTH.pack(len(body)) + body))
        if len(self._unsent) > MAX_UNSENT:
            # A part of the first one may be sent.
            del self._unsent[1]
            self.dropped += 1
        self._send()

    def put_nowait(self, value: Any) -> None:
        """Send a value."""
        self.put(value)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next value.

        Args:
            block: Whether to wait for it.
            timeout: Seconds to wait at most.

        Raises:
            queue.Empty: There was none in time.
            EOFError: There is none, and the other process has closed its end.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._complete():
            self._receive()
            if self._complete():
                break
            if self.ended:
                raise EOFError("the other process has closed the queue")
            left = 0.0 if deadline is None else deadline - time.monotonic()
            if not block or (deadline is not None and left <= 0):
                raise queue.Empty
            self._wait(None if deadline is None else left)
        return self._take()

    def get_nowait(self) -> Any:
        """Return the next value, without waiting.

        Raises:
            queue.Empty: There is none.
        """
        return self.get(block=False)

    def empty(self) -> bool:
        """Return whether no value has arrived."""
        self._receive()
        return not self._complete()

    def full(self) -> bool:
        """Return False: `put` never waits."""
        return False

    def close(self) -> None:
        """Send what is unsent, wait until it is sent, and close this end."""
        try:
            self._socket.setblocking(True)
            while self._unsent:
                self._socket.sendall(self._unsent.popleft())
        except OSError:
            # The reader is gone.
            self._unsent.clear()
        self._socket.close()

    def abandon(self) -> None:
        """Close this end, without sending what is unsent."""
        self._unsent.clear()
        self._socket.close()

    def join_thread(self) -> None:
        """Do nothing: there is no thread."""

    def cancel_join_thread(self) -> None:
        """Do nothing: there is no thread."""

    def _send(self) -> None:
        """Send as much as the socket takes now."""
        while self._unsent:
            first = self._unsent[0]
            try:
                sent = self._socket.send(first)
            except BlockingIOError:
                return
            if sent == len(first):
                self._unsent.popleft()
            else:
                self._unsent[0] = first[sent:]

    def _receive(self) -> None:
        """Receive all that has arrived, and send what is unsent."""
        if self._unsent and not self.ended:
            self._send()
        while not self.ended:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data = b""
            self.ended = not data
            self._received += data

    def _wait(self, seconds: float | None) -> None:
        events = selectors.EVENT_READ
        if self._unsent:
            events |= selectors.EVENT_WRITE
        # Not every system has poll().
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, events)
            selector.select(seconds)

    def _complete(self) -> bool:
        """Return whether a whole message was received."""
        if len(self._received) < _LENGTH.size:
            return False
        size: int = _LENGTH.unpack_from(self._received)[0]
        if size > _MAX_MESSAGE:
            raise BadValue(f"announces {size} bytes")
        return len(self._received) >= _LENGTH.size + size

    def _take(self) -> Any:
        (size,) = _LENGTH.unpack_from(self._received)
        end = _LENGTH.size + size
        body = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return binary.decode(body)
