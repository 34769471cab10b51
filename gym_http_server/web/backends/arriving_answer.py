"""A large answer of another node, which is received while it is sent.

So it takes the memory of a part, whatever its size, and its node sends it as fast as
the client reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from gym_http_server.web.backends.budget import LargeBody, Room
from gym_http_server.web.backends.transfers import BrokenOff, buffers

__all__ = ["ArrivingAnswer", "Check"]

#: Called while no byte arrives; raises an exception to wait no longer.
Check = Callable[[], None]


class Source(Protocol):
    """A connection on which a body arrives."""

    def receive_into(self, memory: memoryview, check: Check | None) -> int:
        """Receive bytes into memory, and return their number, which is not 0."""


class ArrivingAnswer:
    """A large body of a node's answer, which is received while it is sent.

    Args:
        source: The connection.
        size: Bytes of the body.
        begun: Its first bytes, which have arrived.
        check: Called while the node is silent and this node wants the whole body.

    Attributes:
        at_end: Called once, with whether all of it has arrived.
        room: Room in the budget, which is freed with it.
    """

    def __init__(
        self, source: Source, size: int, begun: bytes, check: Check | None
    ) -> None:
        self.at_end: Callable[[bool], None] | None = None
        self.room: Room | None = None
        self._source = source
        self._check = check
        self._size = self._left = size
        self._begun = begun

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        return map(bytes, self.views())

    def views(self) -> Iterator[memoryview]:
        """Yield the body in parts, for a web server that can send memory.

        A part is valid until the next one is wanted.

        Raises:
            BrokenOff: The node does not send the rest.
        """
        buffer = buffers.take()
        try:
            while self._left:
                part = buffer[: min(self._left, len(buffer))]
                try:
                    self._fill(part, None)
                except OSError:
                    raise BrokenOff(
                        f"a node has sent {self._size - self._left} of its "
                        f"{self._size} bytes"
                    ) from None
                yield part
        finally:
            buffers.give_back(buffer)

    def receive_all(self, room: Room) -> LargeBody:
        """Receive the whole body.

        Raises:
            OSError: The node does not send the rest.
        """
        body = LargeBody(room)
        try:
            with memoryview(body) as memory:
                self._fill(memory, self._check)
        finally:
            self.close()
        return body

    def _fill(self, memory: memoryview, check: Check | None) -> None:
        """Receive the next bytes into memory."""
        begun, self._begun = self._begun[: len(memory)], self._begun[len(memory) :]
        ready = len(begun)
        memory[:ready] = begun
        self._left -= ready
        while ready < len(memory):
            count = self._source.receive_into(memory[ready:], check)
            ready += count
            self._left -= count
        if not self._left:
            # The client may need a while for the last part.
            self._release()

    def _release(self) -> None:
        at_end, self.at_end = self.at_end, None
        if at_end is not None:
            at_end(not self._left)

    def close(self) -> None:
        """Release the connection, which is closed if a part has not arrived."""
        self._release()
        if self.room is not None:
            self.room.free()

    def __del__(self) -> None:
        self.close()
