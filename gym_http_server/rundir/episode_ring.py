"""The last episodes of an instance, in memory that outlives its host.

The memory of a status page goes on behind the page: a host writes each episode that
ends into a ring there. The supervisor has the descriptor, so it can read the episodes
of a host that was killed. Only the first write to each page needs a system call.

The ring has lines of JSON: a line for each call that has ended episodes, as a list. It
has a fixed size, and the newest line overwrites the oldest ones.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

__all__ = ["MAX_KEPT", "MEMORY_BYTES", "Episode", "EpisodeRing", "read_ring"]

#: Episodes that a ring keeps; fewer if their lines are longer than most.
MAX_KEPT = 1000
#: Bytes of an episode, and of each further component of its return; 64 at most.
_EPISODE_BYTES, _COMPONENT_BYTES, _MOST_COMPONENTS = 112, 24, 64
#: Bytes written so far, and the size of the ring.
_HEAD = struct.Struct("=QQ")
_WRITTEN = mmap.PAGESIZE // 8
_RING = mmap.PAGESIZE + 64
_MOST_BYTES = MAX_KEPT * (_EPISODE_BYTES + _MOST_COMPONENTS * _COMPONENT_BYTES)
#: Bytes of the memory with page and ring, most of which are never allocated.
MEMORY_BYTES = _RING + _MOST_BYTES

#: A sum of rewards, or of each of their components; ``None`` is unknown.
_OfOne = float | list[float | None] | None
#: The same, or by agent.
Returned = _OfOne | dict[str, _OfOne]


class Episode(NamedTuple):
    """An episode that has ended.

    Attributes:
        number: Number of the episodes of the instance that ended before.
        env: Environment of a vector.
        returned: Its return.
        length: Its steps.
        seconds: How long it took.
        seed: Seed of its reset.
        terminated: Whether it terminated.
        truncated: Whether it was truncated.
        end: Why it ended: ``terminated``, ``truncated``, ``reset`` or ``failed``.
        at: When it ended, in Unix seconds.
    """

    number: int
    env: int | None
    returned: Returned
    length: int
    seconds: float
    seed: int | None
    terminated: bool
    truncated: bool
    end: str
    at: float

    def described(self) -> dict[str, Any]:
        """Return it as clients get it."""
        return {
            "number": self.number,
            "env": self.env,
            "return": self.returned,
            "length": self.length,
            "seconds": self.seconds,
            "seed": self.seed,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "end": self.end,
            "ended_at": self.at,
        }


def _plain(value: Any) -> int | None:
    """Encode a seed that is no integer of Python."""
    return int(value) if hasattr(value, "__index__") else None


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decode = msgspec.json.Decoder(list[Episode]).decode


class EpisodeRing:
    """Writes the episodes of a host.

    Args:
        file: Descriptor of the memory, which stays open.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        # The mapped memory, from the first episode on.
        self._map: Any = None
        self._head: memoryview = memoryview(b"")
        self._allocated = mmap.PAGESIZE
        self._size = self._written = 0
        # Where the next line begins, and up to where it is written without more ado.
        self._next = self._room = 0

    def add(self, ended: Sequence[Sequence[Any]]) -> None:
        """Write the episodes that a call has ended.

        Args:
            ended: The members of an `Episode`, of each one. The numbers are ascending.
        """
        try:
            data = _encode(ended) + b"\n"
        except (OverflowError, TypeError, ValueError):
            ended = [(*each[:5], None, *each[6:]) for each in ended]
            data = _encode(ended) + b"\n"
        start = self._next
        end = start + len(data)
        # Almost all lines: agents wait for each.
        if end <= self._room:
            self._map[start:end] = data
            self._next = end
            self._written += len(data)
            # Only now is it part of the ring: the host may be killed at any time.
            self._head[0] = self._written
        elif self._map is not None or self._begin(ended[0][2]):
            self._add_beyond(ended, data)

    def _add_beyond(self, ended: Sequence[Sequence[Any]], data: bytes) -> None:
        """Write a line for which there is no room before the next page, or the end."""
        size = self._size
        while len(data) > size:
            ended = ended[(len(ended) + 1) // 2 :]
            data = _encode(ended) + b"\n"
        start = self._written % size
        first, rest = data[: size - start], data[size - start :]
        end = _RING + start + len(first)
        if end > self._allocated and not self._allocate(end):
            return
        self._map[_RING + start : end] = first
        self._map[_RING : _RING + len(rest)] = rest
        self._written += len(data)
        self._next = _RING + self._written % size
        self._room = min(self._allocated, _RING + size)
        self._head[0] = self._written

    def close(self) -> None:
        """Unmap the memory."""
        self._head.release()
        if self._map is not None:
            self._map.close()

    def _begin(self, returned: Returned) -> bool:
        """Map the memory for returns like this; return whether there is memory."""
        more = len(returned) - 1 if isinstance(returned, list | dict) else 0
        bytes_each = _EPISODE_BYTES + max(0, more) * _COMPONENT_BYTES
        self._size = min(_MOST_BYTES, MAX_KEPT * bytes_each)
        if not self._allocate(_RING):
            return False
        self._map = mmap.mmap(self._file, MEMORY_BYTES)
        _HEAD.pack_into(self._map, mmap.PAGESIZE, 0, self._size)
        # A store of a number is at once, unlike that of `pack_into`.
        self._head = memoryview(self._map).cast("Q")[_WRITTEN : _WRITTEN + 1]
        return True

    def _allocate(self, end: int) -> bool:
        """Allocate memory up to an offset; return whether there was any.

        If there was none when the host writes to it, the kernel would kill the host.
        """
        end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            os.posix_fallocate(self._file, self._allocated, end - self._allocated)
        except OSError:
            return False
        self._allocated = end
        return True


def read_ring(file: int) -> list[Episode]:
    """Return the episodes in the memory of a host, oldest first.

    The host may have been killed in the middle of a write, and an environment can write
    anything there: what is no episode is left out.

    Args:
        file: Descriptor of the memory.
    """
    head = os.pread(file, _HEAD.size, mmap.PAGESIZE)
    written, size = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
    data = os.pread(file, min(written, size, _MOST_BYTES), _RING)
    if written > size:
        start = written % max(size, 1)
        # The oldest line is cut, or a newer one is not complete.
        data = (data[start:] + data[:start]).partition(b"\n")[2]
    found: list[Episode] = []
    for line in reversed(data.split(b"\n")):
        try:
            episodes = _decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        for each in reversed(episodes):
            if not found or each.number < found[-1].number:
                found.append(_rounded(each))
    return found[MAX_KEPT - 1 :: -1] if len(found) >= MAX_KEPT else found[::-1]


def _rounded(episode: Episode) -> Episode:
    """Return an episode with its times as answers have them."""
    seconds, at = round(episode.seconds, 6), round(episode.at, 3)
    return episode._replace(seconds=seconds, at=at)
