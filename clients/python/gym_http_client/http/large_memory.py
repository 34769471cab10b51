"""Memory for large bodies, which is cheap to write to.

The system provides memory page by page, and for small pages that takes longer than to
copy or receive the bytes that are written to them. So this memory has large pages where
the system has them, and it is used again once nothing refers to it.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from collections import deque

import numpy as np

__all__ = ["LARGE_BYTES", "take_memory"]

#: From this size on, bodies use such memory.
LARGE_BYTES = 1024 * 1024

_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
#: Larger memory goes back to the system at once.
_MOST_KEPT = 16 * 1024 * 1024
# What nothing refers to at the moment, the oldest first.
_free: deque[mmap.mmap] = deque(maxlen=4)


def take_memory(size: int) -> memoryview:
    """Return memory that nothing else refers to; it may have any content.

    It is in use as long as the view, or an array on it, exists.
    """
    capacity = 1 << (size - 1).bit_length()
    memory = _take_free(capacity) or _allocate(capacity)
    whole = np.frombuffer(memory, np.uint8)
    if capacity <= _MOST_KEPT:
        weakref.finalize(whole, _free.append, memory).atexit = False
    return whole.data[:size]


def _take_free(capacity: int) -> mmap.mmap | None:
    for memory in list(_free):
        if len(memory) == capacity:
            # Another thread may take it first.
            with contextlib.suppress(ValueError):
                _free.remove(memory)
                return memory
    return None


def _allocate(capacity: int) -> mmap.mmap:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return mmap.mmap(-1, capacity)
    memory = mmap.mmap(-1, capacity, flags=_PRIVATE)
    # A kernel without large pages refuses this.
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
