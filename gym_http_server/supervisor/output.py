"""Copies the output of environments from a pipe per host to the log of its instance.

Hosts write to pipes, and only the supervisor writes to logs, so a burst of output never
reaches the disk. The supervisor reads all output, since a host would block on a full
pipe. It drops output faster than `RATE`, except for the last part: the last lines
explain a crash.

A log that grows too long is cut at the front. Its first line then states how many bytes
were cut. Requests for a log have an *offset*, which counts all bytes ever written to
the log, cut ones included. Answers come from the open descriptor, not from the path: an
environment without a sandbox could replace the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import time
from typing import NamedTuple

from gym_http_server.datadir.retention import Retention
from gym_http_server.processes.poller import Poller

__all__ = [
    "MAX_LOG_BYTES",
    "KeptLogs",
    "LogPart",
    "Output",
    "Outputs",
    "last_words",
]

MAX_LOG_BYTES = 1024 * 1024
#: Bytes that remain of a log that is cut.
KEPT_LOG_BYTES = 64 * 1024
#: Bytes of the log that callers of an instance that has ended get.
TAIL_BYTES = 8192
#: Size of the tail that is searched for the report of a crash, which can be long.
REPORT_BYTES = 64 * 1024
_REPORT = re.compile(
    r"^Current thread 0x\w+.*\(most recent call first\):\n"
    r"(?P<frames>(?:  File .*\n?)+)"
    r"(?:\n*Extension modules: .*\n?)?",
    re.MULTILINE,
)
_FRAME = re.compile(r'File "(?:.*/)?(.*)", line (\d+) in (.*)')
#: Bytes per second that go to a log, and the largest burst.
RATE = 512 * 1024
BURST = 256 * 1024
#: Bytes kept of faster output.
HELD_BYTES = 16 * 1024
#: Room for output of a host while the supervisor is busy.
PIPE_BYTES = 256 * 1024
#: Bytes read from one pipe in one turn of the supervisor's loop.
TURN_BYTES = 256 * 1024
#: Longest time for which a pipe with little output is not polled, so that not each line
#: of an environment wakes up the supervisor.
LONGEST_REST = 0.02
SHORTEST_REST = 0.001

#: Bytes of a log that are read at once for a caller.
PART_BYTES = 256 * 1024
#: Number of ended instances whose logs are kept.
MAX_KEPT_LOGS = 20

# Shared by all pipes, so that reading dirties no memory that hosts share.
_BUFFER = memoryview(bytearray(64 * 1024))


class LogPart(NamedTuple):
    """A part of a log.

    Attributes:
        start: Offset of its first byte.
        data: Its bytes.
    """

    start: int
    data: bytes

    @property
    def next(self) -> int:
        """The offset of the byte after its last byte."""
        return self.start + len(self.data)


class Output:
    """The pipe for the output of one host, and the log of its instance.

    Args:
        path: Path of the log, which is created.

    Attributes:
        reader: The supervisor's end of the pipe.
        writer: The host's end; -1 after the supervisor has closed its copy.
        rest: Seconds to wait before the pipe is read again.

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
        """Close this process's copy of the host's end, after the host has it."""
        os.close(self.writer)
        self.writer = -1

    def close(self) -> None:
        """Close everything."""
        self.close_pipe()
        self.close_log()

    def close_pipe(self) -> None:
        """Close the pipe; the log can still be read."""
        for descriptor in (self.reader, self.writer):
            if descriptor >= 0:
                os.close(descriptor)
        self.reader = self.writer = -1

    def close_log(self) -> None:
        """Close the log."""
        if self._log >= 0:
            os.close(self._log)
        self._log = -1

    def read_log(self, offset: int) -> LogPart:
        """Read the log, `PART_BYTES` at most, from an offset on.

        The part begins later than the offset if those bytes were cut, and at the end of
        the log if the offset lies beyond that.

        Raises:
            OSError: The disk fails.
        """
        end = self._cut_bytes + self._size - self._notice_bytes
        start = min(max(offset, self._cut_bytes), end)
        count = min(end - start, PART_BYTES)
        place = start - self._cut_bytes + self._notice_bytes
        return LogPart(start, os.pread(self._log, count, place) if count else b"")

    def read_end(self, size: int) -> LogPart:
        """Read the last bytes of the log, as `read_log` does.

        Raises:
            OSError: The disk fails.
        """
        end = self._cut_bytes + self._size - self._notice_bytes
        return self.read_log(max(0, end - size))

    def read(self) -> bool:
        """Read available output, `TURN_BYTES` at most; return False at the end."""
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
        """Read once; return the number of bytes: 0 at the end, -1 for an empty pipe."""
        try:
            count = os.readv(self.reader, [_BUFFER])
        except BlockingIOError:
            return -1
        self._take(_BUFFER[:count])
        return count

    def finish(self) -> str:
        """Read the remaining output of an ended host; return the tail of its log.

        If faulthandler reported a crash there, its frames come first.
        """
        with contextlib.suppress(OSError):
            left = self._capacity
            while left > 0 and (count := self._read_once()) > 0:
                left -= count
        self._flush()
        return frames_first(self._tail().decode("utf-8", "replace"))

    def tick(self) -> None:
        """Write the kept part of output that exceeded the rate, if the rate allows."""
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
        """Write to the log; return the number of bytes written, 0 on a full disk."""
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
        end = self._cut_bytes + self._size - self._notice_bytes
        cut = end - len(kept)
        notice = f"[{cut} bytes of this log were cut here]\n".encode()
        os.ftruncate(self._log, 0)
        # If the disk is full by now, all of it is cut.
        self._cut_bytes, self._size, self._notice_bytes = end, 0, 0
        if os.write(self._log, notice + kept) < len(notice) + len(kept):
            os.ftruncate(self._log, 0)
            return
        self._cut_bytes, self._notice_bytes = cut, len(notice)
        self._size = len(notice) + len(kept)

    def _tail(self) -> bytes:
        with contextlib.suppress(OSError):
            size = os.fstat(self._log).st_size
            start = max(0, size - REPORT_BYTES)
            read = os.pread(self._log, REPORT_BYTES, start) + self._held
            return read[-REPORT_BYTES:]
        return bytes(self._held[-REPORT_BYTES:])


def frames_first(text: str) -> str:
    """Return the tail of a log; after a crash, it begins with the crash's frames.

    Args:
        text: The end of the log. The report of faulthandler has the frames after the
            environment's last output, and hundreds of modules after the frames.
    """
    reports = list(_REPORT.finditer(text))
    if not reports:
        return text[-TAIL_BYTES:]
    report = reports[-1]
    frames = "\n".join(line.strip() for line in report["frames"].splitlines())
    frames = frames[: TAIL_BYTES // 2].rstrip()
    rest = (text[: report.start()] + text[report.end() :]).rstrip()
    room = TAIL_BYTES - len(frames)
    return f"{frames}\n\n{rest[-room:]}\n"


def last_words(log_tail: str) -> str:
    """Return the failing frame of a crash, else the last line printed, as a phrase.

    The frame has no folder, which is the server's.
    """
    lines = log_tail.strip().splitlines() or [""]
    if frame := _FRAME.match(lines[0]):
        file, line, function = frame.groups()
        return f"in {function} ({file}, line {line})"[:300]
    return f"after printing {lines[-1]!r:.200}" if lines[-1] else ""


class KeptLogs:
    """The logs of the last instances that ended.

    Their files have no names any more: the directories of their instances are removed.
    The kernel frees them when they are closed, or with this process.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, Output] = {}
        self._retention = Retention[str](MAX_KEPT_LOGS)

    def add(self, instance_id: str, output: Output, owner: str = "") -> None:
        """Keep the log of an instance, and close an old one if there are too many."""
        self._outputs[instance_id] = output
        for forgotten in self._retention.add(instance_id, owner):
            self._outputs.pop(forgotten).close_log()

    def __contains__(self, instance_id: object) -> bool:
        """Whether the log of an instance is kept."""
        return instance_id in self._outputs

    def get(self, instance_id: str) -> Output | None:
        """Return the output of an instance whose log is kept."""
        return self._outputs.get(instance_id)

    def clear(self) -> None:
        """Close all logs, which frees their room on the disk."""
        for instance_id, output in self._outputs.items():
            output.close_log()
            self._retention.discard(instance_id)
        self._outputs.clear()


class Outputs:
    """Reads the output of all hosts when it arrives.

    Args:
        poller: The supervisor's poller.
    """

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        # When to poll them again, monotonic seconds.
        self._resting: dict[Output, float] = {}

    def add(self, output: Output) -> None:
        """Read the output of a host from now on."""
        self._poller.add(output.reader, lambda events: self._read(output))

    def remove(self, output: Output) -> None:
        """Stop reading an output."""
        self._resting.pop(output, None)
        self._poller.remove(output.reader)

    def _read(self, output: Output) -> None:
        if not output.read():
            self._poller.remove(output.reader)
        elif output.rest:
            self._poller.remove(output.reader)
            self._resting[output] = time.monotonic() + output.rest

    def resume(self) -> float:
        """Poll the pipes whose wait is over; return when the next wait ends."""
        if not self._resting:
            return math.inf
        now = time.monotonic()
        for output in [each for each, due in self._resting.items() if due <= now]:
            del self._resting[output]
            self.add(output)
        return min(self._resting.values(), default=math.inf)
