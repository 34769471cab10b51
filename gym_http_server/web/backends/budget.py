"""Limits the memory of a web worker for large answers that clients have not read.

Room is reserved before an answer is read from its host. It is freed with the last
reference to the answer: when the client has read it, or its connection has ended.

Answers of one instance, or of instances of one token, take half of the room at most. So
one slow client leaves room for others.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator

from gym_http_server.errors import AnswerBudgetFull

__all__ = ["LARGE", "Budget", "LargeBody", "Pieces", "Room"]

#: Answers with longer bodies count. Most others fit into the buffers of sockets.
LARGE = 1024 * 1024
# Below the size from which the allocator maps new memory each time.
_PIECE = 64 * 1024
_EXECUTED = (
    "the call was executed, but the web worker has no room for its answer of {size} "
    "bytes, since clients have not read {used} bytes of others{of} yet; repeat it with "
    "the same Idempotency-Key, or raise --answer-budget"
)
_NOT_FORWARDED = (
    "the call was executed, but the web worker has no room to forward its answer of "
    "{size} bytes, since clients have not read {used} bytes of others{of} yet; repeat "
    "it with the same Idempotency-Key, or raise --answer-budget"
)
_NOT_EXECUTED = (
    "the call was not executed: its answer may have {size} bytes again, and clients "
    "have not read {used} bytes of others{of} yet; repeat it later, or raise "
    "--answer-budget"
)


class Budget:
    """The bytes that large answers may take in this process.

    Args:
        most: Bytes for all of them; a single one may have more.
        owner_of: Returns the token that owns the instance behind a path; "" if it is
            unknown, or the server does not distinguish tokens.
    """

    def __init__(self, most: int, owner_of: Callable[[str], str]) -> None:
        self._most = most
        self._owner_of = owner_of
        # By path and by owner; "" is all.
        self._used: dict[str, int] = {}

    def expect(self, size: int, path: str) -> Room:
        """Reserve room for the answer to a call that has not been sent.

        Args:
            size: Bytes of its body.
            path: The instance, as the path of its host's socket.

        Raises:
            AnswerBudgetFull: There is no room.
        """
        return self._reserve(size, self._holders_of(path), _NOT_EXECUTED)

    def take(self, size: int, path: str, expected: Room | None = None) -> Room:
        """Reserve room for an answer that a host has begun to send.

        Args:
            size: Bytes of its body.
            path: The path of the socket of the instance's host.
            expected: The room that was reserved for it before.

        Raises:
            AnswerBudgetFull: There is no room.
        """
        if expected is not None:
            expected.free()
        return self._reserve(size, self._holders_of(path), _EXECUTED)

    def forward(self, size: int, held: int, caller: str) -> Room:
        """Reserve room for an answer of another node.

        Args:
            size: Bytes of its body.
            held: Bytes of it that are here at a time.
            caller: The client's share; "" is one of all clients.

        Raises:
            AnswerBudgetFull: There is no room.
        """
        words = _NOT_FORWARDED.replace("{size}", str(size))
        return self._reserve(held, _caller_holders(caller), words)

    def hold(self, body: bytes, owner: str) -> bytes | LargeBody:
        """Return a body, counted in the budget if it is large.

        Args:
            body: The answer to a batch.
            owner: The token of the client; "" is any.

        Raises:
            AnswerBudgetFull: There is no room for it.
        """
        if len(body) <= LARGE:
            return body
        room = self._reserve(len(body), _caller_holders(owner), _EXECUTED)
        held = LargeBody(room)
        held[:] = body
        return held

    def _holders_of(self, path: str) -> dict[str, str]:
        """Return what counts an answer of an instance, with words for messages."""
        owner = self._owner_of(path)
        holders = {"": "", path: " of this instance"}
        if owner:
            holders[f"token {owner}"] = f" of the token {owner!r}"
        return holders

    def _reserve(self, size: int, holders: dict[str, str], words: str) -> Room:
        for holder, of in holders.items():
            used = self._used.get(holder, 0)
            # One answer has room in any case.
            if used and used + size > (self._most // 2 if holder else self._most):
                raise AnswerBudgetFull(words.format(size=size, used=used, of=of))
        return Room(self, size, tuple(holders))

    def change(self, size: int, holders: tuple[str, ...]) -> None:
        """Change the count of bytes."""
        for holder in holders:
            used = self._used.pop(holder, 0) + size
            if used:
                self._used[holder] = used


def _caller_holders(caller: str) -> dict[str, str]:
    """Return what counts an answer of no instance, with words for messages."""
    # With the answers of instances that it owns.
    return {"": "", f"token {caller}": " for this caller"}


class Room:
    """Room for one answer, until it is freed or garbage-collected.

    Args:
        budget: The budget.
        size: Bytes of the answer.
        holders: Keys of the counts that include its bytes: total, instance, token.
    """

    def __init__(self, budget: Budget, size: int, holders: tuple[str, ...]) -> None:
        self.size = size
        self._budget = budget
        self._holders = holders
        budget.change(size, holders)

    def free(self) -> None:
        """Release the room."""
        size, self.size = self.size, 0
        self._budget.change(-size, self._holders)

    def __del__(self) -> None:
        self.free()


class LargeBody(mmap.mmap):
    """A body in a separate mapping, which returns to the system when it is dropped.

    The allocator would keep freed memory between other objects.
    """

    room: Room

    def __new__(cls, room: Room) -> LargeBody:
        """Make a body with as many bytes as the room has."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self = super().__new__(cls, -1, room.size, flags=flags)
        self.room = room
        return self


class Pieces:
    """A large body as an iterable of bytes, as WSGI requires.

    Attributes:
        whole: The body, for a web server that can send it without a copy.
    """

    def __init__(self, body: LargeBody) -> None:
        self.whole = memoryview(body)

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self.whole), _PIECE):
            yield bytes(self.whole[start : start + _PIECE])
