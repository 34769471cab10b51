"""Records every reset and step of an instance in ``steps.gym``.

A part is written through mapped memory that was allocated before, so a step waits for
no system call, a full disk is noticed before a record is written, and nothing written
is lost if the host is killed. A recording that cannot go on ends; the environment goes
on.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Callable
from typing import Any

from gym_http_server.rundir.status import (
    RECORDING_FAILED,
    RECORDING_STEPS,
    StatusPage,
)
from gym_http_wire.problems import Problem
from gym_http_wire.step_records import MAGIC, Kind, StepEncoder
from gym_http_wire.values import UnsupportedValue
from gym_http_wire.values.infos import with_unsent

__all__ = [
    "COUNTED",
    "PART_BYTES",
    "PartFile",
    "StepRecorder",
    "reset_members",
    "step_members",
]

#: Bytes of a part, after which the next record begins a new one.
PART_BYTES = 512 * 1024 * 1024
#: Free bytes of the file system below which a recording ends.
MIN_FREE_BYTES = 256 * 1024 * 1024
#: Bytes that are allocated and mapped at once, at least.
_PIECE = 1024 * 1024
#: Kinds of records that lead to a state of the environment, which are counted.
COUNTED = frozenset({Kind.RESET, Kind.STEP, Kind.CHANGE, Kind.FAILURE})
# The size of a record is stored last: until then, the record is not there.
_SIZE_BYTES = 4


class PartFile:
    """A part of a recording: a file that grows in pieces, written through memory.

    Args:
        file: Descriptor of the empty file, open for reading and writing; it is closed
            by `close`.

    Attributes:
        file: The descriptor.
        size: Bytes written.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self._map: mmap.mmap | None = None
        self._map_start = 0
        self._allocated = 0
        self.size = 0

    def append(self, record: bytes) -> None:
        """Write a record.

        Raises:
            OSError: There is no room; nothing was written.
        """
        end = self.size + len(record)
        mapped = self._map
        if mapped is None or end > self._allocated:
            mapped = self._grow(end)
        start = self.size - self._map_start
        last = start + len(record)
        mapped[start + _SIZE_BYTES : last] = record[_SIZE_BYTES:]
        mapped[start : start + _SIZE_BYTES] = record[:_SIZE_BYTES]
        self.size = end

    def close(self) -> None:
        """Cut off what was allocated and not written; close the file."""
        if self._map is not None:
            self._map.close()
        try:
            os.ftruncate(self.file, self.size)
        finally:
            os.close(self.file)

    def _grow(self, end: int) -> mmap.mmap:
        free = os.fstatvfs(self.file)
        if free.f_bavail * free.f_frsize - (end - self._allocated) < MIN_FREE_BYTES:
            raise OSError(
                0, f"less than {MIN_FREE_BYTES // 2**20} MiB of the disk are free"
            )
        allocated = -(-end // _PIECE) * _PIECE
        os.posix_fallocate(self.file, self._allocated, allocated - self._allocated)
        self._allocated = allocated
        start = self.size // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(self.file, allocated - start, offset=start)
        if self._map is not None:
            self._map.close()
        self._map, self._map_start = mapped, start
        return mapped


class StepRecorder:
    """Writes the records of one recording, part after part.

    Args:
        file: Descriptor of the file of the first part; the recorder closes it.
        header: Describes what is recorded; each part begins with it.
        after: Records of earlier parts after which this recording goes on.
        next_file: Opens the file of the next part.
        page: The host's status page.
        part_bytes: Bytes of a part.

    Attributes:
        error: Why the recording ended early; "" if it did not.
    """

    def __init__(
        self,
        file: int,
        header: dict[str, Any],
        next_file: Callable[[], int],
        page: StatusPage,
        *,
        after: int = 0,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._header = header
        self._records = after
        self._next_file = next_file
        self._page = page
        self._part_bytes = part_bytes
        self._part_number = 0
        self.error = ""
        self._part: PartFile | None = None
        page.set_recording(RECORDING_FAILED, on=False)
        page.set_recording(RECORDING_STEPS, on=True)
        try:
            self._begin_part(file)
        except (OSError, ValueError, Problem) as error:
            self._fail(error)

    def descriptors(self) -> list[int]:
        """Return the descriptors of its files."""
        return [] if self._part is None else [self._part.file]

    def reset(
        self, seed: Any, options: Any, value: dict[str, Any], *, drawn: bool = False
    ) -> None:
        """Record a reset; ``drawn`` is whether this host has drawn the seed."""
        self._write(Kind.RESET, reset_members(seed, options, value, drawn=drawn))

    def step(self, action: Any, value: Any, draws: int = 0) -> None:
        """Record a step, before which so many actions were drawn from the space."""
        self._write(Kind.STEP, step_members(action, value, draws))

    def change(self, op: str, name: str | None, given: Any) -> None:
        """Record that a request other than a reset or a step changed the environment.

        Args:
            op: The request, like ``set_attribute``.
            name: The attribute, if the request is about one.
            given: The members of the request.
        """
        self._write(Kind.CHANGE, {"op": op, "name": name, "given": given})

    def fail(self, op: str, error: str, name: str | None, given: Any) -> None:
        """Record that the environment raised an exception.

        Args:
            op: The request, like ``step``.
            error: The message.
            name: The attribute, if the request is about one.
            given: The arguments of the call that raised it.
        """
        members = {"op": op, "error": error, "name": name, "given": given}
        self._write(Kind.FAILURE, members)

    def close(self, reason: str) -> None:
        """Record the end, and close the file."""
        self._write(Kind.END, {"reason": reason})
        part, self._part = self._part, None
        if part is not None:
            part.close()
        self._page.set_recording(RECORDING_STEPS, on=False)

    def _write(self, kind: Kind, value: dict[str, Any]) -> None:
        part = self._part
        if part is None:
            return
        try:
            if part.size >= self._part_bytes and kind != Kind.END:
                part.close()
                self._part = None
                part = self._begin_part(self._next_file())
            self._append(part, kind, value)
        except (OSError, ValueError, Problem) as error:
            # The agent's steps matter more than their recording.
            self._fail(error)

    def _append(self, part: PartFile, kind: Kind, value: dict[str, Any]) -> None:
        now = time.time_ns()
        try:
            record = self._encoder.encode(kind, now, value)
        except UnsupportedValue as error:
            if "info" not in value:
                raise ValueError(str(error)) from None
            record = self._encode_again(kind, now, value)
        part.append(record)
        self._page.add_recorded(len(record))
        self._records += kind in COUNTED

    def _encode_again(self, kind: Kind, now: int, value: dict[str, Any]) -> bytes:
        try:
            return self._encoder.encode(kind, now, with_unsent(value)[0])
        except UnsupportedValue as error:
            raise ValueError(str(error)) from None

    def _begin_part(self, file: int) -> PartFile:
        self._encoder = StepEncoder()
        self._part_number += 1
        self._part = part = PartFile(file)
        part.append(MAGIC)
        self._page.add_recorded(len(MAGIC))
        numbers = {"after": self._records, "part": self._part_number}
        self._append(part, Kind.HEADER, {**self._header, **numbers})
        return part

    def _fail(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self.error = f"the recording of steps has ended: {reason}"
        part, self._part = self._part, None
        if part is not None:
            # The disk may have failed; the records before stay.
            with contextlib.suppress(OSError):
                part.close()
        self._page.set_recording(RECORDING_STEPS, on=False)
        self._page.set_recording(RECORDING_FAILED, on=True)


def reset_members(
    seed: Any, options: Any, value: dict[str, Any], *, drawn: bool
) -> dict[str, Any]:
    """Return the members of the record of a reset."""
    return {
        "seed": seed,
        **({"drawn": True} if drawn else {}),
        "options": options,
        "observation": value["observation"],
        "info": value["info"],
    }


def step_members(action: Any, value: Any, draws: int = 0) -> dict[str, Any]:
    """Return the members of the record of a step."""
    members = {
        "action": action,
        "observation": value["observation"],
        "reward": value["reward"],
        "terminated": value["terminated"],
        "truncated": value["truncated"],
        "info": value["info"],
    }
    if draws:
        members["draws"] = draws
    return members
