"""Memory for large bodies, which is new each time and cheap to write to."""

from __future__ import annotations

import contextlib
import mmap

__all__ = ["LARGE_BYTES", "new_memory"]

#: From this size on, bodies use such memory.
LARGE_BYTES = 1024 * 1024


def new_memory(size: int) -> memoryview:
    """Return new memory, in large pages where the system has them.

    The system provides memory page by page, and for small pages that takes longer than
    to copy or receive the bytes that are written to them.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return memoryview(bytearray(size))
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, size, flags=private)
    # A kernel without large pages refuses this.
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)
