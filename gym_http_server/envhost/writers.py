"""A writer: a client's socket that is written to without ever waiting.

What a client does not take stays in this process, until it has taken nothing for so
long that it is dropped.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

__all__ = ["SEND_SECONDS", "Writer"]

#: Seconds that a client may take nothing of an answer.
SEND_SECONDS = 5.0
_MAX_BUFFERS = 512


class Writer:
    """One client's socket.

    Args:
        line: The socket, not blocking.
        clock: Monotonic seconds.

    Attributes:
        closed: Whether it has ended.
        line: The socket.
    """

    def __init__(self, line: socket.socket, clock: Callable[[], float]) -> None:
        self.closed = False
        self.line = line
        self._clock = clock
        self._output: deque[memoryview] = deque()
        self._since = 0.0
        # Whether what waits is a copy already.
        self._settled = False
        # Whether to close once everything is written.
        self._last_words = False

    def fileno(self) -> int:
        """Give the descriptor."""
        return self.line.fileno()

    @property
    def writing(self) -> bool:
        """Whether something waits for the client to take it."""
        return bool(self._output)

    @property
    def deadline(self) -> float:
        """Until when the client has to take something, while it is `writing`."""
        return self._since + SEND_SECONDS

    def send(self, message: bytes) -> None:
        """Send a short message, or keep what the client does not take at once."""
        if self._output:
            self._output.append(memoryview(message))
            return
        try:
            sent = self.line.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._fail()
            return
        if sent < len(message):
            self._wait_with([memoryview(message)[sent:]])

    def flush(self) -> None:
        """Write on, now that the client takes more."""
        waiting: list[bytes | memoryview] = list(self._output)
        settled, since = self._settled, self._since
        size = sum(map(len, waiting))
        self._output.clear()
        self._send(waiting)
        self._settled = settled
        if sum(map(len, self._output)) == size:
            self._since = since
        if self._last_words and not self._output:
            self.close()

    def settle(self) -> None:
        """Copy what waits, since arrays in it are about to change."""
        if self._output and not self._settled:
            whole = b"".join(self._output)
            self._output.clear()
            self._output.append(memoryview(whole))
            self._settled = True

    def close(self) -> None:
        """End it, whatever waits."""
        if not self.closed:
            self.closed = True
            self._output.clear()
            self.line.close()

    def _send(self, pieces: list[bytes | memoryview]) -> None:
        if self._output:
            self._output.extend(memoryview(each) for each in pieces)
            return
        at = 0
        try:
            while at < len(pieces):
                batch = pieces[at : at + _MAX_BUFFERS]
                sent = self.line.sendmsg(batch)
                for each in batch:
                    size = len(each)
                    if sent < size:
                        pieces[at] = memoryview(each)[sent:]
                        break
                    sent -= size
                    at += 1
        except BlockingIOError:
            self._wait_with([memoryview(each) for each in pieces[at:]])
        except OSError:
            self._fail()

    def _fail(self) -> None:
        """Take note that the client cannot be written to."""
        self.close()

    def _wait_with(self, views: list[memoryview]) -> None:
        self._output.extend(views)
        self._settled = False
        self._since = self._clock()
