"""Limits the memory of a web worker for large answers that clients have not read.

Room is reserved before an answer is read from its host. It is freed with the last
reference to the answer: when the client has read it, or its connection has ended.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

from gym_http_server.errors import AnswerBudgetFull

__all__ = ["LARGE", "Budget", "LargeBody", "Pieces", "Room"]

#: Answers with longer bodies count. Most others fit into the buffers of sockets.
LARGE = 1024 * 1024
# Below the size from which the allocator maps new memory each time.
_PIECE = 64 * 1024
_EXECUTED = (
    "the call was executed, but the web worker has no room for its answer of {size} "
    "bytes, since clients have not read {used} bytes of others yet; repeat it with the "
    "same Idempotency-Key, or raise --answer-budget"
)
_NOT_EXECUTED = (
    "the call was not executed: its answer may have {size} bytes again, and clients "
    "have not read {used} bytes of others yet; repeat it later, or raise "
    "--answer-budget"
)


class Budget:
    """The bytes that large answers may take in this process.

    Args:
        most: Bytes for all of them; a single one may have more.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0

    def expect(self, size: int) -> Room:
        """Reserve room for the answer to a call that has not been sent.

        Raises:
            AnswerBudgetFull: There is no room.
        """
        if not self._fits(size):
            raise AnswerBudgetFull(_NOT_EXECUTED.format(size=size, used=self._used))
        return Room(self, size)

    def take(self, size: int, expected: Room | None = None) -> Room:
        """Reserve room for an answer that a host has begun to send.

        Args:
            size: Bytes of its body.
            expected: What was reserved for it before.

        Raises:
            AnswerBudgetFull: There is no room.
        """
        if expected is not None:
            expected.free()
        if not self._fits(size):
            raise AnswerBudgetFull(_EXECUTED.format(size=size, used=self._used))
        return Room(self, size)

    def hold(self, body: bytes) -> bytes | LargeBody:
        """Return a body, as one that counts if it is large.

        Raises:
            AnswerBudgetFull: There is no room for it.
        """
        if len(body) <= LARGE:
            return body
        held = LargeBody(self.take(len(body)))
        held[:] = body
        return held

    def _fits(self, size: int) -> bool:
        return not self._used or self._used + size <= self._most

    def change(self, size: int) -> None:
        """Count so many bytes more, or less."""
        self._used += size


class Room:
    """Room for one answer, until it is freed or garbage-collected."""

    def __init__(self, budget: Budget, size: int) -> None:
        self.size = size
        self._budget = budget
        budget.change(size)

    def free(self) -> None:
        """Give it back."""
        size, self.size = self.size, 0
        self._budget.change(-size)

    def __del__(self) -> None:
        self.free()


class LargeBody(mmap.mmap):
    """A body in a separate mapping, which returns to the system when it is dropped.

    The allocator would keep freed memory between other objects.
    """

    room: Room

    def __new__(cls, room: Room) -> LargeBody:
        """Make one with as many bytes as the room has."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self = super().__new__(cls, -1, room.size, flags=flags)
        self.room = room
        return self


class Pieces:
    """A large body as WSGI wants it, in pieces of bytes.

    Attributes:
        whole: The body, for a web server that can send it without a copy.
    """

    def __init__(self, body: LargeBody) -> None:
        self.whole = memoryview(body)

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self.whole), _PIECE):
            yield bytes(self.whole[start : start + _PIECE])
