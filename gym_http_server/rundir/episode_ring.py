"""The last episodes of an instance, in memory that outlives its host.

The memory of a status page goes on behind the page: a host writes each episode that
ends into a ring there. The supervisor has the descriptor, so it can read the episodes
of a host that was killed. Only the first write to each page needs a system call.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["MAX_KEPT", "MEMORY_BYTES", "Episode", "EpisodeRing", "read_ring"]

#: Episodes that a ring keeps.
MAX_KEPT = 1000
#: Components of a return, of which more are unknown.
MAX_COMPONENTS = 64

_TERMINATED, _TRUNCATED, _FAILED, _SEEDED, _LISTED = 1, 2, 4, 8, 16
_MOST_SEEDS = 1 << 64
#: Episodes so far, and the components of each return.
_HEAD = struct.Struct("=QQ")
_TOTAL = mmap.PAGESIZE // 8
_SLOTS = mmap.PAGESIZE + 64
# Number, environment, length, seconds, seed, flags, time of the end.
_SLOT = "=QqQdQQd"
_LARGEST = struct.calcsize(f"{_SLOT}{MAX_COMPONENTS}d")
#: Bytes of the memory with page and ring, most of which are never allocated.
MEMORY_BYTES = _SLOTS + MAX_KEPT * _LARGEST


#: A sum of rewards, or of each of their components; ``None`` is unknown.
Returned = float | list[float | None] | None


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


class EpisodeRing:
    """Writes the episodes of a host.

    Args:
        file: Descriptor of the memory, which stays open.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        # The mapped memory, from the first episode on.
        self._map: Any = None
        self._total: memoryview = memoryview(b"")
        self._slot = struct.Struct(f"{_SLOT}d")
        self._allocated = mmap.PAGESIZE
        self._components = 1

    def add(self, ended: Sequence[Sequence[Any]]) -> None:
        """Write episodes; a seed is kept if it has at most 64 bits.

        Args:
            ended: The members of an `Episode`, of each one. The numbers are ascending.
        """
        ended = ended[-MAX_KEPT:]
        if self._map is None and not self._begin(ended[0][2]):
            return
        size, pack = self._slot.size, self._slot.pack_into
        end_of_slots = _SLOTS + min(ended[-1][0] + 1, MAX_KEPT) * size
        if end_of_slots > self._allocated and not self._allocate(end_of_slots):
            return
        memory, single, number = self._map, self._components == 1, 0
        for ending in ended:
            number, env, returned, length, seconds, seed, over, cut, end, at = ending
            flags = over | cut << 1
            if end == "failed":
                flags |= _FAILED
            if seed is None:
                seed = 0
            elif isinstance(seed, int) and 0 <= seed < _MOST_SEEDS:
                flags |= _SEEDED
            else:
                seed = 0
            if env is None:
                env = -1
            offset = _SLOTS + number % MAX_KEPT * size
            row = number, env, length, seconds, seed, flags, at
            if single and type(returned) is float:
                # Nearly all returns, which need no list.
                pack(memory, offset, *row, returned)
            else:
                pack(memory, offset, *self._row(row, returned))
        # Only now are they part of the ring: the host may be killed at any time.
        self._total[0] = number + 1

    def _row(self, row: tuple[Any, ...], returned: Returned) -> Iterator[Any]:
        *figures, flags, at = row
        parts = returned if isinstance(returned, list) else [returned]
        if len(parts) != self._components:
            parts = [None] * self._components
        elif isinstance(returned, list):
            flags |= _LISTED
        numbers = [math.nan if part is None else part for part in parts]
        return itertools.chain(figures, (flags, at), numbers)

    def close(self) -> None:
        """Unmap the memory."""
        self._total.release()
        if self._map is not None:
            self._map.close()

    def _begin(self, returned: Returned) -> bool:
        """Map the memory for returns like this; return whether there is memory."""
        if isinstance(returned, list) and 0 < len(returned) <= MAX_COMPONENTS:
            self._components = len(returned)
            self._slot = struct.Struct(f"{_SLOT}{self._components}d")
        if not self._allocate(_SLOTS):
            return False
        self._map = mmap.mmap(self._file, MEMORY_BYTES)
        _HEAD.pack_into(self._map, mmap.PAGESIZE, 0, self._components)
        # A store of a number is at once, unlike that of `pack_into`.
        self._total = memoryview(self._map).cast("Q")[_TOTAL : _TOTAL + 1]
        return True

    def _allocate(self, end: int) -> bool:
        """Allocate the memory up to an offset; return whether there was any.

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
    if len(head) < _HEAD.size:
        return []
    total, components = _HEAD.unpack(head)
    if not 0 < components <= MAX_COMPONENTS:
        return []
    slot = struct.Struct(f"{_SLOT}{components}d")
    slots = os.pread(file, MAX_KEPT * slot.size, _SLOTS)
    found = []
    for number in range(max(0, total - MAX_KEPT), total):
        offset = number % MAX_KEPT * slot.size
        if offset + slot.size <= len(slots):
            episode = _episode(*slot.unpack_from(slots, offset))
            if episode.number == number:
                found.append(episode)
    return found


def _episode(
    number: int,
    env: int,
    length: int,
    seconds: float,
    seed: int,
    flags: int,
    at: float,
    *parts: float,
) -> Episode:
    terminated, truncated = bool(flags & _TERMINATED), bool(flags & _TRUNCATED)
    returned = [_finite(part) for part in parts]
    end = "failed" if flags & _FAILED else "reset"
    if terminated or truncated:
        end = "terminated" if terminated else "truncated"
    return Episode(
        number,
        None if env < 0 else env,
        returned if flags & _LISTED else returned[0],
        length,
        round(_finite(seconds) or 0.0, 6),
        seed if flags & _SEEDED else None,
        terminated,
        truncated,
        end,
        round(_finite(at) or 0.0, 3),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
