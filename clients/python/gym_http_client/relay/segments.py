"""Segments: a log of frames on disk, in files that outlive a kill of the process.

A frame is written with one call and begins where the last whole one ended: what a kill
left of a frame is cut off when the log is opened again. The log is not synced, so a
power failure may lose frames that were just written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import msgspec

from gym_http_client.http.large_memory import LARGE_BYTES, take_memory
from gym_http_wire.bundles import (
    BatchHead,
    BundleError,
    batch_ends,
    encode_batch_start,
    is_intact,
    split,
    split_from,
)
from gym_http_wire.frames import HEADER

__all__ = ["SMALL_BYTES", "Entry", "Piece", "Segments", "SpooledHead"]

_SUFFIX = ".bundle"
# The system provides the space of a new file page by page, which takes longer than to
# copy what is written to it. So one file is kept to be written to again.
_SPARE = "spare"
# A first read that has a few frames at least.
_FIRST_READ = 64 * 1024
#: Up to this size, the parts of a frame are joined and written with one call.
SMALL_BYTES = 64 * 1024


class SpooledHead(BatchHead):
    """The head of a frame in a spool; servers ignore its further members.

    Attributes:
        progress: Counts of the worker once the frame is written.
        batch: For records: the batch that they belong to, or 0.
    """

    progress: dict[str, int] = msgspec.field(default_factory=dict)
    batch: int = 0


_decode_head = msgspec.json.Decoder(SpooledHead).decode


@dataclass
class Entry:
    """A frame that was read back: its head and its body."""

    head: SpooledHead
    body: bytes


@dataclass
class Piece:
    """Whole frames of a log in a row.

    Attributes:
        data: The frames.
        ends: Where each of them ends.
        first: Number of the first frame; the others follow without gaps.
    """

    data: bytes | memoryview
    ends: list[int]
    first: int

    @property
    def last(self) -> int:
        """Number of the last frame."""
        return self.first + len(self.ends) - 1

    def declare(self, dropped: int) -> None:
        """Note in the first frame how many batches before it were dropped."""
        head, offset, size = next(split(self.data))
        head.dropped = dropped
        start = encode_batch_start(head, size)
        self.data = b"".join((start, self.data[offset:]))
        shift = len(start) - offset
        self.ends = [end + shift for end in self.ends]

    def entries(self) -> list[Entry]:
        """Return the frames with their further members."""
        found, start = [], 0
        for place in split(self.data):
            head = _decode_head(self.data[start + HEADER.size : place.offset])
            found.append(Entry(head, bytes(self.data[place.offset : place.end])))
            start = place.end
        return found


@dataclass
class _Segment:
    path: Path
    first: int
    size: int


class Segments:
    """A log of frames with consecutive numbers, in files of limited size.

    Threads may read while one appends; everything else needs a lock around it.

    Args:
        folder: The folder of the files; it is made if it does not exist.
        segment_bytes: Size at which a new file begins.
        visit: Called with each head of the newest file, and the size of its frame.

    Attributes:
        next: Number of the next frame.
        size: Bytes of all files.
        spare_bytes: Bytes of a file besides, which is kept to be written to again.
    """

    def __init__(
        self,
        folder: Path,
        segment_bytes: int,
        visit: Callable[[SpooledHead, int], None],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._file: BinaryIO | None = None
        self._segments = [
            _Segment(path, int(path.stem), path.stat().st_size)
            for path in sorted(folder.glob(f"*{_SUFFIX}"))
            if path.stem.isdigit()
        ]
        # File, number and position of the frame after the last piece.
        self._known = Path(), 0, 0
        self._spare = folder / _SPARE
        self.spare_bytes = self._spare.stat().st_size if self._spare.exists() else 0
        # Whether the next frame begins a new file.
        self._full = False
        self.next = 1
        while self._segments and not self._recover(visit):
            self._segments.pop().path.unlink()
        self.size = sum(each.size for each in self._segments)

    @property
    def first(self) -> int:
        """Number of the oldest frame, or `next` if there is none."""
        return self._segments[0].first if self._segments else self.next

    def continue_at(self, number: int) -> None:
        """Raise the number of the next frame, if frames before it were removed."""
        if number > self.next:
            self.next = number
            self._full = True

    def append(self, *parts: bytes | memoryview) -> None:
        """Append the frame with the number `next`, which is in parts.

        Raises:
            OSError: It cannot be written; the log is as before.
        """
        if (
            self._full
            or not self._segments
            or self._segments[-1].size >= self._segment_bytes
        ):
            self._begin()
        segment, file = self._segments[-1], self._open()
        size = sum(map(len, parts))
        try:
            for part in _joined(parts):
                rest = memoryview(part)
                while rest:
                    rest = rest[file.write(rest) :]
        except OSError:
            self._cut()
            raise
        segment.size += size
        self.size += size
        self.next += 1

    def undo(self, size: int) -> None:
        """Remove the last frame, which has the given size."""
        segment = self._segments[-1]
        segment.size -= size
        self._cut()
        self.size -= size
        self.next -= 1

    def piece(self, number: int, max_bytes: int) -> Piece | None:
        """Return frames from a number on, of one file.

        Args:
            number: Number of the first frame.
            max_bytes: Size of the piece at most, unless its first frame is larger.

        Returns:
            The piece. It begins with a later number if the frames before are missing.
            None if there are no such frames.
        """
        for segment, end in self._ends():
            if end <= number:
                continue
            with contextlib.suppress(FileNotFoundError, BundleError):
                found = self._read(segment, number, max_bytes)
                if found is not None:
                    return found
        return None

    def bytes_after(self, piece: Piece) -> int:
        """Return how many bytes follow a piece, the last that was read; else 0."""
        path, number, offset = self._known
        if number != piece.last + 1:
            return 0
        later = [each.size for each in list(self._segments) if each.path >= path]
        return sum(later) - offset

    def remove_before(self, number: int, *, all_files: bool = False) -> None:
        """Remove the files that have only frames below a number, which nobody reads.

        Args:
            number: The number of the first frame that is kept.
            all_files: Remove the file that is being written, too.
        """
        while len(self._segments) > 1 and self._segments[1].first <= number:
            self._retire_first()
        if all_files and len(self._segments) == 1 and self.next <= number:
            self._retire_first()

    def drop_first(self) -> int:
        """Remove the oldest file, and return the number of the next frame."""
        self._remove_first()
        return self.first

    def remove_spare(self) -> None:
        """Remove the file that is kept to be written to again."""
        if self.spare_bytes:
            self.spare_bytes = 0
            self._spare.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file that is being written."""
        if self._file is not None:
            # A file that was used again may be longer.
            self._file.truncate(self._segments[-1].size)
            self._file.close()
            self._file = None

    def _recover(self, visit: Callable[[SpooledHead, int], None]) -> bool:
        """Cut what follows the last whole frame off the newest file.

        Returns:
            Whether the file has frames.
        """
        segment = self._segments[-1]
        data, end = segment.path.read_bytes(), 0
        number = segment.first
        with contextlib.suppress(BundleError, ValueError):
            for place in split(data):
                body = data[place.offset : place.end]
                if place.head.number != number or not is_intact(place.head, body):
                    break
                head = _decode_head(data[end + HEADER.size : place.offset])
                visit(head, place.end - end)
                number += 1
                end = place.end
        if end < segment.size:
            os.truncate(segment.path, end)
            segment.size = end
        self.next = number
        return end > 0

    def _ends(self) -> list[tuple[_Segment, int]]:
        """Return the files, each with the first number that is not in it."""
        segments = list(self._segments)
        ends = [*(each.first for each in segments[1:]), self.next]
        return list(zip(segments, ends, strict=False))

    def _begin(self) -> None:
        self.close()
        path = self._folder / f"{self.next:016d}{_SUFFIX}"
        if self.spare_bytes:
            self.spare_bytes = 0
            self._spare.rename(path)
        self._segments.append(_Segment(path, self.next, 0))
        self._open()
        self._full = False

    def _cut(self) -> None:
        """Remove what follows the last frame of the file that is being written."""
        size, file = self._segments[-1].size, self._open()
        file.truncate(size)
        file.seek(size)

    def _open(self) -> BinaryIO:
        if self._file is None:
            segment = self._segments[-1]
            flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
            descriptor = os.open(segment.path, flags, 0o666)
            self._file = open(descriptor, "wb", buffering=0)  # noqa: SIM115
            self._file.seek(segment.size)
        return self._file

    def _retire_first(self) -> None:
        """Keep the oldest file to be written to again, or remove it."""
        if self.spare_bytes or self._segments[0].size < self._segment_bytes:
            self._remove_first()
            return
        segment = self._pop_first()
        segment.path.rename(self._spare)
        self.spare_bytes = segment.size

    def _pop_first(self) -> _Segment:
        if len(self._segments) == 1:
            self.close()
        segment = self._segments.pop(0)
        self.size -= segment.size
        return segment

    def _remove_first(self) -> None:
        segment = self._pop_first()
        # Windows does not remove a file that is being read; the next start does.
        with contextlib.suppress(PermissionError):
            segment.path.unlink()

    def _read(self, segment: _Segment, number: int, max_bytes: int) -> Piece | None:
        """Read frames of one file from a number on; raise `BundleError` if damaged."""
        # Frames that are appended meanwhile come with the next piece.
        size = segment.size
        with open(segment.path, "rb", buffering=0) as file:

            def read(offset: int, wanted: int) -> memoryview:
                return _read_file(file, offset, min(wanted, size - offset))

            start = self._offset(segment, number, read, size)
            header = read(start, HEADER.size)
            if len(header) < HEADER.size:
                return None
            body_size, head_size, *_ = HEADER.unpack(header)
            frame_size = HEADER.size + head_size + body_size
            data = read(start, max(frame_size, max_bytes, _FIRST_READ))
            ends = batch_ends(data)
        while len(ends) > 1 and ends[-1] > max_bytes:
            ends.pop()
        if not ends:
            return None
        data = data[: ends[-1]]
        first = next(split(data)).head.number
        piece = Piece(data, ends, first)
        self._known = segment.path, piece.last + 1, start + ends[-1]
        return piece

    def _offset(
        self,
        segment: _Segment,
        number: int,
        read: Callable[[int, int], memoryview],
        size: int,
    ) -> int:
        """Return the position of a frame, or of the first one of the file."""
        path, known, offset = self._known
        if path == segment.path and known == number:
            return offset
        end = 0
        if number > segment.first:
            for place in split_from(read, size):
                end = place.end
                if place.head.number + 1 >= number:
                    break
        return end


def _joined(parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Join small parts, each of which would take a call to write."""
    small: list[bytes | memoryview] = []
    for part in parts:
        if len(part) <= SMALL_BYTES:
            small.append(part)
        else:
            yield b"".join(small)
            small.clear()
            yield part
    yield b"".join(small)


def _read_file(file: FileIO, offset: int, size: int) -> memoryview:
    """Read bytes of a file at a position; fewer only at its end."""
    file.seek(offset)
    if size < LARGE_BYTES:
        return memoryview(file.read(size))
    memory, count = take_memory(size), 0
    while count < size and (found := file.readinto(memory[count:])):
        count += found
    return memory[:count]
