"""The output of environments: from a pipe per host to the log of its instance.

Hosts write to pipes, and only the supervisor writes to logs, so a burst of output never
reaches the disk. The supervisor reads all that comes, or hosts would wait. What comes
faster than `RATE` is dropped, but for the last of it: a crash is told by what was
printed last.

A log is cut at the front when it grows too long. Its first line then says how many
bytes were cut, so that readers can go on at an offset.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import time

from gym_http_server.watches import Watches

__all__ = ["MAX_LOG_BYTES", "Output", "Outputs"]

MAX_LOG_BYTES = 1024 * 1024
#: Kept of a log that is cut.
KEPT_LOG_BYTES = 64 * 1024
#: Given to callers of an instance that has ended.
TAIL_BYTES = 8192
#: Bytes per second that go to a log, and that may come at once.
RATE = 512 * 1024
BURST = 256 * 1024
#: Kept of what comes faster.
HELD_BYTES = 16 * 1024
#: Room for what a host prints while the supervisor does something else.
PIPE_BYTES = 256 * 1024
#: Read in one turn of the supervisor's loop, of one pipe.
TURN_BYTES = 256 * 1024
#: A pipe that little came from rests for so long at most, so that an environment that
#: prints line by line does not wake the supervisor up for each.
LONGEST_REST = 0.02
SHORTEST_REST = 0.001

# One for all: reading writes to no other memory, which hosts may share.
_BUFFER = memoryview(bytearray(64 * 1024))


class Output:
    """The output of one host, and the log that it goes to.

    Args:
        path: Where to make the log.

    Attributes:
        reader: The end of the pipe that is read here.
        writer: The end for the host; -1 once it has been closed here.
        rest: Seconds to leave the pipe alone after it was read.

    Raises:
        OSError: The system has no room for another pipe or file.
    """

    def __init__(self, path: str) -> None:
        self.rest = 0.0
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._log = os.open(path, flags, 0o600)
        try:
            self.reader, self.writer = os.pipe()
        except OSError:
            os.close(self._log)
            raise
        os.set_blocking(self.reader, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._capacity: int = fcntl.fcntl(self.reader, fcntl.F_GETPIPE_SZ)
        self._held = bytearray()
        self._dropped = 0
        # Of the log: bytes cut off so far, the notice of that, and all that is there.
        self._cut_bytes = 0
        self._notice_bytes = 0
        self._size = 0
        self._allowed = float(BURST)
        self._allowed_at = time.monotonic()

    def started(self) -> None:
        """Close the host's end here, once the host has it."""
        os.close(self.writer)
        self.writer = -1

    def close(self) -> None:
        """Close everything."""
        for descriptor in (self.reader, self.writer, self._log):
            if descriptor >= 0:
                os.close(descriptor)
        self.reader = self.writer = self._log = -1

    def read(self) -> bool:
        """Read what is there, a turn's worth at most; return False at the end."""
        total = 0
        while total < TURN_BYTES:
            count = self._read_once()
            if count == 0:
                return False
            total += max(count, 0)
            if count < len(_BUFFER):
                break
        if total >= self._capacity // 2:
            self.rest = self.rest / 4 if self.rest > SHORTEST_REST else 0.0
        elif total < self._capacity // 8:
            self.rest = min(LONGEST_REST, max(SHORTEST_REST, self.rest * 2))
        return True

    def _read_once(self) -> int:
        """Read once; return how many bytes came, 0 at the end, -1 if there are none."""
        try:
            count = os.readv(self.reader, [_BUFFER])
        except BlockingIOError:
            return -1
        self._take(_BUFFER[:count])
        return count

    def finish(self) -> str:
        """Read what a host that has ended left, and return the last that it printed."""
        with contextlib.suppress(OSError):
            left = self._capacity
            while left > 0 and (count := self._read_once()) > 0:
                left -= count
        self._flush()
        return self._tail().decode("utf-8", "replace")

    def tick(self) -> None:
        """Write what was kept of output that came too fast, if there is room now."""
        if self._held and self._allowance() > 2 * HELD_BYTES:
            self._flush()

    def _take(self, data: memoryview) -> None:
        if self._held or len(data) > self._allowance():
            self._hold(data)
        else:
            self._hold(data[self._append(data) :])

    def _allowance(self) -> float:
        now = time.monotonic()
        more = (now - self._allowed_at) * RATE
        self._allowed = min(BURST, self._allowed + more)
        self._allowed_at = now
        return self._allowed

    def _hold(self, data: memoryview) -> None:
        """Keep the last bytes in memory."""
        before = len(self._held) + len(data)
        self._held += data[-HELD_BYTES:]
        del self._held[:-HELD_BYTES]
        self._dropped += before - len(self._held)

    def _flush(self) -> None:
        if self._dropped:
            notice = f"\n[{self._dropped} bytes were dropped here]\n".encode()
            if self._append(notice) < len(notice):
                return
            self._dropped = 0
        del self._held[: self._append(self._held)]

    def _append(self, data: bytes | bytearray | memoryview) -> int:
        """Write to the log; return how many bytes the disk had room for."""
        try:
            if self._size + len(data) > MAX_LOG_BYTES:
                self._cut()
            written = os.write(self._log, data) if data else 0
        except OSError:
            return 0
        self._size += written
        self._allowed -= written
        return written

    def _cut(self) -> None:
        kept = os.pread(self._log, KEPT_LOG_BYTES, self._size - KEPT_LOG_BYTES)
        self._cut_bytes += self._size - self._notice_bytes - len(kept)
        notice = f"[{self._cut_bytes} bytes of this log were cut here]\n".encode()
        os.ftruncate(self._log, 0)
        self._size, self._notice_bytes = 0, len(notice)
        self._size = os.write(self._log, notice + kept)

    def _tail(self) -> bytes:
        with contextlib.suppress(OSError):
            size = os.fstat(self._log).st_size
            start = max(0, size - TAIL_BYTES)
            return (os.pread(self._log, TAIL_BYTES, start) + self._held)[-TAIL_BYTES:]
        return bytes(self._held[-TAIL_BYTES:])


class Outputs:
    """Reads the output of all hosts as it comes.

    Args:
        watches: The supervisor's.
    """

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        # Until when they are not looked at, monotonic seconds.
        self._resting: dict[Output, float] = {}

    def add(self, output: Output) -> None:
        """Read the output of a host from now on."""
        self._watches.add(output.reader, lambda events: self._read(output))

    def remove(self, output: Output) -> None:
        """Read it no more."""
        self._resting.pop(output, None)
        self._watches.remove(output.reader)

    def _read(self, output: Output) -> None:
        if not output.read():
            self._watches.remove(output.reader)
        elif output.rest:
            self._watches.remove(output.reader)
            self._resting[output] = time.monotonic() + output.rest

    def resume(self) -> float:
        """Look again at those that have rested; return when the next one is due."""
        if not self._resting:
            return math.inf
        now = time.monotonic()
        for output in [each for each, due in self._resting.items() if due <= now]:
            del self._resting[output]
            self.add(output)
        return min(self._resting.values(), default=math.inf)
