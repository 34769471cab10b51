"""Status pages: hosts write them, and the supervisor reads them.

A status page is memory that the host writes and the supervisor reads, so that
deadlines, idle reaping and figures need no message to a busy host.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

__all__ = ["Status", "StatusPage", "StatusReader", "has_clock"]

_PAGE = struct.Struct("=QQQQQQQQQQ")
_BUSY, _USED, _STEPS, _EPISODES, _STREAMS, _ALIVE, _WATCHERS, _ORPHANED = range(8)
_TICKING, _CLOCK = 8, 9


class Status(NamedTuple):
    """The numbers of a status page; times are monotonic nanoseconds.

    Attributes:
        busy_since_ns: When the present call began; 0 between calls.
        last_used_ns: When the last call that counts as use ended.
        steps: Steps so far.
        episodes: Episodes ended so far.
        streams: Open streams, without those that watch.
        alive_ns: When the host last answered a ping, or ended a call that does not
            count as use.
        watchers: Open streams that watch.
        orphaned_ns: When the last stream ended, if all streams were ended by the
            kernels of their clients; else 0. A later use overrides it.
        ticking_since_ns: When the present call of a world by its clock began; 0 between
            calls.
        has_clock: Whether the instance has a clock, so that requests may wait for it.
    """

    busy_since_ns: int
    last_used_ns: int
    steps: int
    episodes: int
    streams: int
    alive_ns: int = 0
    watchers: int = 0
    orphaned_ns: int = 0
    ticking_since_ns: int = 0
    has_clock: int = 0

    @property
    def marks(self) -> tuple[int, ...]:
        """All times; a host whose loop runs changes one of them."""
        return (
            self.busy_since_ns,
            self.last_used_ns,
            self.alive_ns,
            self.ticking_since_ns,
        )


class StatusPage:
    """The status page of a host, as the host writes it.

    Each number is stored at once. `struct.pack_into` clears the bytes and then writes
    them one by one, so a concurrent reader would get a call or a use that began hours
    ago.
    """

    def __init__(self, path: str) -> None:
        file = _open_page(path)
        try:
            self._map = mmap.mmap(file, mmap.PAGESIZE)
        finally:
            os.close(file)
        self._numbers = memoryview(self._map).cast("Q")

    def begin(self, now_ns: int) -> None:
        """Record that a call begins."""
        self._numbers[_BUSY] = now_ns

    def begin_tick(self, now_ns: int) -> None:
        """Record that the clock calls the world."""
        self._numbers[_TICKING] = now_ns

    def finish_tick(self, now_ns: int, steps: int, episodes: int) -> None:
        """Record the end of that call, and the counts so far; it is no use."""
        numbers = self._numbers
        numbers[_STEPS] = steps
        numbers[_EPISODES] = episodes
        numbers[_ALIVE] = now_ns
        numbers[_TICKING] = 0

    def mark_used(self, now_ns: int) -> None:
        """Record a use without a call."""
        self._numbers[_USED] = now_ns

    def set_clock(self) -> None:
        """Store that the instance has a clock."""
        self._numbers[_CLOCK] = 1

    def end(self, now_ns: int, *, used: bool) -> None:
        """Record that the call has ended."""
        self._numbers[_USED if used else _ALIVE] = now_ns
        self._numbers[_BUSY] = 0

    def mark_alive(self, now_ns: int) -> None:
        """Record that the host's loop runs; this does not count as use."""
        self._numbers[_ALIVE] = now_ns

    def finish(self, now_ns: int, steps: int, episodes: int) -> None:
        """Record the end of a call that counts as use, and the counts so far."""
        numbers = self._numbers
        numbers[_STEPS] = steps
        numbers[_EPISODES] = episodes
        numbers[_USED] = now_ns
        numbers[_BUSY] = 0

    def set_streams(self, streams: int, watchers: int) -> None:
        """Store the number of open streams, and of further ones that watch."""
        self._numbers[_STREAMS] = streams
        self._numbers[_WATCHERS] = watchers

    def set_orphaned(self, now_ns: int) -> None:
        """Store when the instance became orphaned; 0 if it is not."""
        self._numbers[_ORPHANED] = now_ns

    def close(self) -> None:
        """Unmap the memory."""
        self._numbers.release()
        self._map.close()


class StatusReader:
    """The status page of a host, as the supervisor reads it.

    It is read as a file: were it mapped, an environment that cuts the file short
    would have the kernel kill the reader.
    """

    def __init__(self, path: str) -> None:
        self._file = _open_page(path)

    def read(self) -> Status:
        """Read all numbers; bytes that have been cut off count as zeros."""
        page = os.pread(self._file, _PAGE.size, 0).ljust(_PAGE.size, b"\0")
        return Status(*_PAGE.unpack(page))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def has_clock(path: str) -> bool:
    """Whether the instance with a status page has a clock; False if it has ended."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        page = os.pread(file, _PAGE.size, 0).ljust(_PAGE.size, b"\0")
    finally:
        os.close(file)
    return bool(Status(*_PAGE.unpack(page)).has_clock)


def _open_page(path: str) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Allocated, not only extended: if the disk had no room when the host writes to
        # the mapped page, the kernel would kill the host.
        os.posix_fallocate(file, 0, mmap.PAGESIZE)
    except OSError:
        os.close(file)
        raise
    return file
