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
import zlib
from collections.abc import Callable
from typing import Any

from gym_http_server.datadir.recording_files import check_free
from gym_http_server.host import env_warnings
from gym_http_server.rundir.status import (
    RECORDING_FAILED,
    RECORDING_STEPS,
    StatusPage,
)
from gym_http_wire.fast_frames import FastAnswer, FastRequest
from gym_http_wire.problems import DiskFull, Problem
from gym_http_wire.step_parts import HEAD
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
#: Bytes that are allocated and mapped at once, at least.
_PIECE = 1024 * 1024
#: Kinds of records that lead to a state of the environment, which are counted.
COUNTED = frozenset({Kind.RESET, Kind.STEP, Kind.CHANGE, Kind.FAILURE})
# Looked up once: each step needs them.
_HEAD_BYTES = HEAD.size
_pack_head, _crc32, _time_ns = HEAD.pack, zlib.crc32, time.time_ns


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

    def begin(self) -> None:
        """Write the first bytes of each part.

        Raises:
            OSError, DiskFull: There is no room; nothing was written.
        """
        self._grow(len(MAGIC))[: len(MAGIC)] = MAGIC
        self.size = len(MAGIC)

    def append(self, body: bytes) -> int:
        """Write a record.

        Args:
            body: The record without its head. The head is stored last, and at once:
                until then, the record is not there.

        Returns:
            The bytes written.

        Raises:
            OSError, DiskFull: There is no room; nothing was written.
        """
        size = len(body)
        written = _HEAD_BYTES + size
        mapped, end = self._map, self.size + written
        if mapped is None or end > self._allocated:
            mapped = self._grow(end)
        last = end - self._map_start
        begin = last - size
        mapped[begin:last] = body
        mapped[last - written : begin] = _pack_head(size, _crc32(body))
        self.size = end
        return written

    def close(self) -> None:
        """Cut off what was allocated and not written; close the file."""
        if self._map is not None:
            self._map.close()
        try:
            os.ftruncate(self.file, self.size)
        finally:
            os.close(self.file)

    def _grow(self, end: int) -> mmap.mmap:
        check_free(os.fstatvfs(self.file), end - self._allocated)
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

    Raises:
        DiskFull: There is no room for the first part.
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
        self._part: PartFile | None = None
        page.set_recording(RECORDING_FAILED, on=False)
        page.set_recording(RECORDING_STEPS, on=True)
        try:
            self._begin_part(file)
        except (OSError, Problem) as error:
            self._end_part()
            raise DiskFull(f"the recording cannot begin: {_reason(error)}") from None
        except ValueError as error:
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

    def streamed_step(
        self, request: FastRequest, answer: FastAnswer, action: Any, value: Any
    ) -> None:
        """Record a step whose answer is encoded, in less time than `step`.

        The client waits for it: an answered step must not be lost.

        Args:
            request: The request, which has an action alone.
            answer: The answer.
            action: The action.
            value: The value of the answer.
        """
        part, body = self._part, None
        if part is not None and part.size < self._part_bytes:
            body = self._encoder.encode_step(_time_ns(), request, answer)
        if part is None or body is None:
            self.step(action, value)
            return
        try:
            self._page.add_recorded(part.append(body))
            self._records += 1
        except (OSError, Problem) as error:
            self._fail(error)

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
        now = _time_ns()
        try:
            body = self._encoder.encode_body(kind, now, value)
        except UnsupportedValue as error:
            if "info" not in value:
                raise ValueError(str(error)) from None
            body = self._encode_again(kind, now, value)
        self._page.add_recorded(part.append(body))
        self._records += kind in COUNTED

    def _encode_again(self, kind: Kind, now: int, value: dict[str, Any]) -> bytes:
        try:
            return self._encoder.encode_body(kind, now, with_unsent(value)[0])
        except UnsupportedValue as error:
            raise ValueError(str(error)) from None

    def _begin_part(self, file: int) -> PartFile:
        self._encoder = StepEncoder()
        self._part_number += 1
        self._part = part = PartFile(file)
        part.begin()
        self._page.add_recorded(len(MAGIC))
        numbers = {"after": self._records, "part": self._part_number}
        self._append(part, Kind.HEADER, {**self._header, **numbers})
        return part

    def _fail(self, error: Exception) -> None:
        self._end_part()
        self._page.set_recording(RECORDING_FAILED, on=True)
        words = f"the recording of steps has ended: {_reason(error)}"
        env_warnings.add("UserWarning", words)

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            # The disk may have failed; the records before stay.
            with contextlib.suppress(OSError):
                part.close()
        self._page.set_recording(RECORDING_STEPS, on=False)


def _reason(error: Exception) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


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
