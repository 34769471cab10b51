"""Status pages: hosts write them, and the supervisor reads them.

A status page is memory that the host writes and the supervisor reads, so that
deadlines, idle reaping and figures need no message to a busy host. It is no file on a
disk: while a disk is busy or stands still, the kernel stops processes that write to
mapped pages of its files, and a host writes to its page at every step and tick.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from gym_http_server.rundir.episode_ring import MEMORY_BYTES, EpisodeRing

__all__ = [
    "CLOCK_PAUSED",
    "LATENESS_BOUNDS_NS",
    "NO_COUNTS",
    "NUMBERS",
    "RECORDING_FAILED",
    "RECORDING_STEPS",
    "RECORDING_VIDEO",
    "STEP_BOUNDS_NS",
    "Status",
    "StatusPage",
    "StatusReader",
    "parse",
    "parse_times",
]

#: Upper bounds of the counts of steps by their time; the last count has no bound.
STEP_BOUNDS_NS = (
    *(10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7, 3 * 10**7),
    *(10**8, 3 * 10**8, 10**9, 3 * 10**9, 10**10),
)
#: Upper bounds of the counts of ticks by their lateness; the last has no bound.
LATENESS_BOUNDS_NS = (
    *(10**5, 3 * 10**5, 10**6, 3 * 10**6),
    *(10**7, 3 * 10**7, 10**8),
)
#: What a recording has, and that it has ended early, as one number.
RECORDING_STEPS, RECORDING_VIDEO, RECORDING_FAILED = 1, 2, 4
#: Stands in `Status.has_clock` for a clock that is paused.
CLOCK_PAUSED = 2

_COUNTS = len(STEP_BOUNDS_NS) + 1
_LATE_COUNTS = len(LATENESS_BOUNDS_NS) + 1
_PAGE = struct.Struct(
    f"=QQQQQQQQQQdQQ{_COUNTS}QQQQQQQQd{_LATE_COUNTS}QQ{_LATE_COUNTS}QQQ"
)
_BUSY, _USED, _STEPS, _EPISODES, _STREAMS, _ALIVE, _WATCHERS, _ORPHANED = range(8)
_TICKING, _CLOCK = 8, 9
# Up to `_TICKING`.
_TIMES = struct.Struct("=9Q")
_BUSY_AND_STEPS = struct.Struct("=Q8xQ")
_RETURN, _LENGTH, _STEP_NS = 10, 11, 12
_STEP_COUNTS = 13
_RECORDING = _STEP_COUNTS + _COUNTS
_RECORDED, _FRAMES, _DROPPED, _SHOWN, _SHOW_NS, _NUM_ENVS = range(
    _RECORDING + 1, _RECORDING + 7
)
_HZ = _NUM_ENVS + 1
_LATENESS = _HZ + 1
_LATE_NS = _LATENESS + _LATE_COUNTS
_LEFT_OUT = _LATE_NS + 1
_LEFT_OUT_NS = _LEFT_OUT + _LATE_COUNTS
_STALL = _LEFT_OUT_NS + 1
#: Places of the numbers that are no counts: sums of them mean nothing.
NO_COUNTS = frozenset(
    (
        *(_BUSY, _USED, _ALIVE, _ORPHANED, _TICKING, _CLOCK),
        *(_RETURN, _LENGTH, _RECORDING, _NUM_ENVS, _HZ, _STALL),
    )
)
#: Numbers of 8 bytes in a page; the first tells when the present call began.
NUMBERS = _PAGE.size // 8


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
        has_clock: Whether the instance has a clock, so that requests may wait for it;
            `CLOCK_PAUSED` if the clock is paused.
        last_return: Return of the episode that ended last.
        last_length: Its steps; 0 before the first.
        step_ns: Nanoseconds of all steps in the host.
        step_counts: How many took at most as long as each of `STEP_BOUNDS_NS`, and
            longer than the bound before; the last number: how many took longer. Of a
            vector, all environments are one step.
        recording: What is recorded, as the sum of ``RECORDING_STEPS``,
            ``RECORDING_VIDEO`` and ``RECORDING_FAILED``.
        recorded_bytes: Bytes that were recorded.
        frames_written: Frames of videos that were written.
        frames_dropped: Frames of videos that were dropped.
        frames_shown: Frames that were drawn for watchers.
        show_ns: Nanoseconds that drawing them took.
        num_envs: Environments of a vector, else 0.
        hz: Ticks per second of a clock, else 0.
        lateness_counts: How many ticks were at most as late as each of
            `LATENESS_BOUNDS_NS`, and later than the bound before; the last number: how
            many were later.
        lateness_ns: Nanoseconds of all of them.
        left_out_counts: The same of ticks that were left out, by their lateness at the
            tick after them.
        left_out_ns: Nanoseconds of all of them.
        stall_ns: The longest time without a tick.
        num_envs: Number of environments of a vector; 0: a single environment.
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
    last_return: float = 0.0
    last_length: int = 0
    step_ns: int = 0
    step_counts: tuple[int, ...] = (0,) * _COUNTS
    recording: int = 0
    recorded_bytes: int = 0
    frames_written: int = 0
    frames_dropped: int = 0
    frames_shown: int = 0
    show_ns: int = 0
    num_envs: int = 0
    hz: float = 0.0
    lateness_counts: tuple[int, ...] = ()
    lateness_ns: int = 0
    left_out_counts: tuple[int, ...] = ()
    left_out_ns: int = 0
    stall_ns: int = 0

    @property
    def lateness_all_counts(self) -> tuple[int, ...]:
        """`lateness_counts` of all ticks, also of those that were left out."""
        pairs = zip(self.lateness_counts, self.left_out_counts, strict=True)
        return tuple(map(sum, pairs))

    @property
    def lateness_all_ns(self) -> int:
        """Nanoseconds of all of them."""
        return self.lateness_ns + self.left_out_ns

    @property
    def ticks(self) -> int:
        """Number of the ticks in `lateness_counts`."""
        return sum(self.lateness_counts)

    @property
    def timed_steps(self) -> int:
        """Number of the steps in `step_counts`."""
        return sum(self.step_counts)

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

    Args:
        file: The descriptor of the reader's memory, which stays open.

    Attributes:
        ring: Keeps the last episodes, behind the page.

    Each number is stored at once. `struct.pack_into` clears the bytes and then writes
    them one by one, so a concurrent reader would get a call or a use that began hours
    ago.
    """

    def __init__(self, file: int) -> None:
        self.ring = EpisodeRing(file)
        self._map = mmap.mmap(file, mmap.PAGESIZE)
        self._numbers = memoryview(self._map).cast("Q")
        self._floats = memoryview(self._map).cast("d")

    @property
    def last_used_ns(self) -> int:
        """When the last call that counts as use ended; 0 before."""
        return int(self._numbers[_USED])

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

    def set_clock(self, hz: float) -> None:
        """Store that the instance has a clock, and its ticks per second."""
        self._floats[_HZ] = hz
        self._numbers[_CLOCK] = 1

    def set_paused(self, paused: bool) -> None:
        """Store whether the clock is paused."""
        self._numbers[_CLOCK] = CLOCK_PAUSED if paused else 1

    def add_tick(self, late_ns: int) -> None:
        """Count a tick that was so late."""
        numbers = self._numbers
        late_ns = max(0, late_ns)
        numbers[_LATE_NS] += late_ns
        numbers[_LATENESS + bisect_left(LATENESS_BOUNDS_NS, late_ns)] += 1

    def add_left_out(self, first_ns: int, step_ns: int, count: int) -> None:
        """Count ticks that were left out.

        Args:
            first_ns: How late the last one of them was.
            step_ns: By how much each was later than the one after it.
            count: How many.
        """
        numbers, before = self._numbers, 0
        numbers[_LEFT_OUT_NS] += count * first_ns + step_ns * (count * (count - 1) // 2)
        for index, bound in enumerate((*LATENESS_BOUNDS_NS, None)):
            within = count
            if bound is not None:
                within = min(count, max(0, (bound - first_ns) // step_ns + 1))
            numbers[_LEFT_OUT + index] += within - before
            before = within

    def set_stall(self, stall_ns: int) -> None:
        """Store the longest time without a tick."""
        self._numbers[_STALL] = stall_ns

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

    def finish_step(self, now_ns: int, steps: int, episodes: int) -> None:
        """Record the end of a call with one step, and how long it took."""
        # As `finish` and `add_steps`, without their calls: each step comes here.
        numbers = self._numbers
        took = now_ns - numbers[_BUSY]
        numbers[_STEPS] = steps
        numbers[_EPISODES] = episodes
        numbers[_USED] = now_ns
        numbers[_BUSY] = 0
        numbers[_STEP_NS] += took
        numbers[_STEP_COUNTS + bisect_left(STEP_BOUNDS_NS, took)] += 1

    def busy_ns(self, now_ns: int) -> int:
        """Return how long the present call has lasted."""
        return now_ns - int(self._numbers[_BUSY])

    def add_steps(self, took_ns: int, count: int) -> None:
        """Count steps that took so long together."""
        numbers = self._numbers
        numbers[_STEP_NS] += took_ns
        numbers[_STEP_COUNTS + bisect_left(STEP_BOUNDS_NS, took_ns // count)] += count

    def set_last_episode(self, returned: float, length: int) -> None:
        """Store return and length of the episode that ended last."""
        self._floats[_RETURN] = returned
        self._numbers[_LENGTH] = length

    def set_num_envs(self, count: int) -> None:
        """Store the number of environments of a vector."""
        self._numbers[_NUM_ENVS] = count

    def set_recording(self, flag: int, *, on: bool) -> None:
        """Set or clear one of ``RECORDING_STEPS``, ``_VIDEO`` and ``_FAILED``."""
        before = int(self._numbers[_RECORDING])
        self._numbers[_RECORDING] = before | flag if on else before & ~flag

    def add_recorded(self, size: int) -> None:
        """Count recorded bytes."""
        self._numbers[_RECORDED] += size

    def add_frame(self, *, written: bool) -> None:
        """Count a frame of a video, which was written or dropped."""
        self._numbers[_FRAMES if written else _DROPPED] += 1

    def add_shown(self, took_ns: int) -> None:
        """Count a frame that was drawn for watchers, and how long that took."""
        self._numbers[_SHOWN] += 1
        self._numbers[_SHOW_NS] += took_ns

    def set_streams(self, streams: int, watchers: int) -> None:
        """Store the number of open streams, and of further ones that watch."""
        self._numbers[_STREAMS] = streams
        self._numbers[_WATCHERS] = watchers

    def set_orphaned(self, now_ns: int) -> None:
        """Store when the instance became orphaned; 0 if it is not."""
        self._numbers[_ORPHANED] = now_ns

    def close(self) -> None:
        """Unmap the memory."""
        self.ring.close()
        self._numbers.release()
        self._floats.release()
        self._map.close()


class StatusReader:
    """The status page of a host, as the supervisor reads it.

    Args:
        file: The descriptor of a page, which this reader then owns; by default, that
            of a new one.

    Attributes:
        file: The descriptor, for the host.
        numbers: Its memory, as far as it has numbers.

    Raises:
        OSError: There is no memory for a new one.

    It is mapped: for thousands of instances, a system call for each would take most of
    the time of a list. The kernel refuses to shrink the file, so no read can fail.
    """

    def __init__(self, file: int | None = None) -> None:
        self.file = _new_page() if file is None else file
        try:
            self._map = mmap.mmap(self.file, mmap.PAGESIZE, prot=mmap.PROT_READ)
        except OSError:
            os.close(self.file)
            raise
        self.numbers = memoryview(self._map)[: _PAGE.size]

    def read_times(self) -> bytes:
        """Read the numbers that change with each call and ping, as they are."""
        return self._map[: _TIMES.size]

    def read_busy_and_steps(self) -> tuple[int, int]:
        """Read when the present call began, 0 between calls, and the steps so far."""
        busy_since_ns, steps = _BUSY_AND_STEPS.unpack_from(self._map)
        return busy_since_ns, steps

    def read(self) -> Status:
        """Read all numbers."""
        return parse(self.read_page())

    def read_page(self) -> bytes:
        """Read all numbers, as they are stored; `parse` reads those."""
        return self._map[: _PAGE.size]

    def close(self) -> None:
        """Unmap the memory and close the descriptor."""
        self.numbers.release()
        self._map.close()
        os.close(self.file)


def parse(page: bytes) -> Status:
    """Return the numbers of a page."""
    return _status(_PAGE.unpack(page))


def parse_times(times: bytes) -> Status:
    """Return the numbers that `StatusReader.read_times` has read; others are 0."""
    return Status(*_TIMES.unpack(times))


def _status(numbers: Sequence[Any]) -> Status:
    return Status._make(
        (
            *numbers[:_STEP_COUNTS],
            numbers[_STEP_COUNTS:_RECORDING],
            *numbers[_RECORDING:_LATENESS],
            numbers[_LATENESS:_LATE_NS],
            numbers[_LATE_NS],
            numbers[_LEFT_OUT:_LEFT_OUT_NS],
            *numbers[_LEFT_OUT_NS:],
        )
    )


def _new_page() -> int:
    file = os.memfd_create("status", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        # Allocated, not only extended: if there was no memory when the host writes to
        # the mapped page, the kernel would kill the host.
        os.posix_fallocate(file, 0, mmap.PAGESIZE)
        # For the ring of episodes, which allocates what it needs.
        os.ftruncate(file, MEMORY_BYTES)
        # An environment may have the descriptor, too.
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(file)
        raise
    return file
