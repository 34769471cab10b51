"""Episodes of ended instances in the files of their monitors, which are not copied."""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.datadir.recording_files import (
    EPISODES_FILE,
    open_existing,
    open_recorded,
)
from gym_http_server.rundir.episode_ring import Episode, Returned
from gym_http_wire.problems import Problem

__all__ = ["Recorded", "find_recorded", "read_recorded"]

#: Bytes at the end of a file in which episodes are searched for.
_SEARCHED_BYTES = 1024 * 1024
#: Lines after them that may be of episodes which the end of the instance cut short.
_MOST_CUT = 1000


class Recorded(msgspec.Struct, frozen=True):
    """Where the episodes of an instance are in the file of a monitor.

    Attributes:
        directory: The recording's directory, below the data directory.
        offset: Where the first line begins.
        size: Bytes of all lines.
        crc32: Their checksum, since the file may be replaced.
        first: Number of the first episode.
    """

    directory: str
    offset: int
    size: int
    crc32: int
    first: int


class _Line(msgspec.Struct):
    """A line of a monitor."""

    length: int
    returned: Returned = msgspec.field(name="return")
    seconds: float
    seed: int | None
    terminated: bool
    truncated: bool
    # Earlier versions wrote none.
    ended_at: float = 0.0
    env: int | None = None

    def episode(self, number: int) -> Episode:
        """Return the episode that it describes."""
        end = "terminated" if self.terminated else "truncated"
        return Episode(
            number,
            self.env,
            self.returned,
            self.length,
            self.seconds,
            self.seed,
            self.terminated,
            self.truncated,
            end if self.terminated or self.truncated else "reset",
            self.ended_at,
        )


_LINE = msgspec.json.Decoder(_Line)


def find_recorded(
    data_dir: DataDir, directory: str, owner: str, episodes: Sequence[Episode]
) -> Recorded | None:
    """Find the episodes of an instance at the end of its monitor's file.

    Args:
        data_dir: The data directory.
        directory: The recording's directory.
        owner: Token that owns the instance; "" if none does.
        episodes: The last episodes of the instance.

    Returns:
        Where they are; ``None`` if not all of them are there.
    """
    if not episodes:
        return None
    with contextlib.suppress(*_FAILURES), _opened(data_dir, directory, owner) as file:
        start = max(0, os.fstat(file).st_size - _SEARCHED_BYTES)
        lines = os.pread(file, _SEARCHED_BYTES, start).splitlines(keepends=True)
        if start:
            # Only the end of it was read.
            start += len(lines.pop(0))
        place = _place_of(episodes, lines)
        if place is not None:
            offset = start + sum(map(len, lines[:place]))
            found = b"".join(lines[place : place + len(episodes)])
            crc32, first = zlib.crc32(found), episodes[0].number
            return Recorded(directory, offset, len(found), crc32, first)
    return None


def _place_of(episodes: Sequence[Episode], lines: Sequence[bytes]) -> int | None:
    """Return the index of the first line of episodes, which are the last in a file."""
    count = len(episodes)
    ends = [_read(line) for line in reversed(lines[-(count + _MOST_CUT) :])]
    cut = itertools.takewhile(lambda each: each and each.end == "reset", ends)
    # A character for each different episode, since the search in text is linear.
    signs: dict[object, str] = {}

    def text(some: Iterable[Episode | None]) -> str:
        return "".join(signs.setdefault(_compared(x), chr(len(signs))) for x in some)

    wanted = text(reversed(episodes))
    place = text(ends[: count + min(_MOST_CUT - 1, len(list(cut)))]).find(wanted)
    return None if place < 0 else len(lines) - count - place


def _read(line: bytes) -> Episode | None:
    """Return the episode of a line, without its number; ``None`` if it has none."""
    try:
        return _LINE.decode(line).episode(0)
    except (msgspec.MsgspecError, ValueError):
        return None


def _compared(one: Episode | None) -> object:
    """Return what is equal for equal episodes: all but their numbers and times."""
    if one is None:
        return None
    returned: object = one.returned
    if isinstance(one.returned, list | dict):
        # Text can be compared by its hash.
        returned = str(one.returned)
    ends = one.terminated, one.truncated, one.end
    return one.env, returned, one.length, one.seed, *ends


def read_recorded(data_dir: DataDir, recorded: Recorded, owner: str) -> list[Episode]:
    """Return the episodes in a monitor's file; none if they are not there any more."""
    with (
        contextlib.suppress(*_FAILURES),
        _opened(data_dir, recorded.directory, owner) as file,
    ):
        size = min(recorded.size, _SEARCHED_BYTES)
        data = os.pread(file, size, recorded.offset)
        if zlib.crc32(data) == recorded.crc32:
            lines = enumerate(data.splitlines(), recorded.first)
            return [_LINE.decode(line).episode(number) for number, line in lines]
    return []


_FAILURES = (Problem, OSError, OverflowError, msgspec.MsgspecError, ValueError)


@contextlib.contextmanager
def _opened(data_dir: DataDir, directory: str, owner: str) -> Iterator[int]:
    folder = open_existing(data_dir, directory, owner)
    try:
        file = open_recorded(folder, EPISODES_FILE)
    finally:
        os.close(folder)
    try:
        yield file
    finally:
        os.close(file)
