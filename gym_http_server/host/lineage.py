"""Reads the records of a recording that lead to its state.

Each part says after how many records of the earlier ones it goes on. So a recording is
a tree: where it was resumed at an earlier step, the records after that are left out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

from gym_http_server.errors import CannotResume
from gym_http_server.host.step_recorder import COUNTED
from gym_http_wire.step_parts import HEADER_START, Kind, header_size
from gym_http_wire.step_records import StepDecoder
from gym_http_wire.values import BadValue

__all__ = ["OpenPart", "Recorded", "Segment", "lineage", "records"]

#: Opens the part with an index for reading; returns ``None`` after the last one.
OpenPart = Callable[[int], int | None]
#: The bytes of a record, and what decodes it.
Recorded = tuple[StepDecoder, bytes]
_CHUNK = 1024 * 1024


class Segment(NamedTuple):
    """Records of one part that lead to the state.

    Attributes:
        part: Index of the part.
        start: Number of records before them.
        header: The header of the part.
    """

    part: int
    start: int
    header: dict[str, Any]


def lineage(open_part: OpenPart) -> list[Segment]:
    """Return what of each part leads to the state at the end of the last one."""
    segments: list[Segment] = []
    part = 0
    while (file := open_part(part)) is not None:
        header = _header_of(file)
        after = _start_of(header, segments)
        if after is not None:
            while segments and segments[-1].start >= after:
                segments.pop()
            segments.append(Segment(part, after, header))
        part += 1
    return segments


def _start_of(header: Any, earlier: list[Segment]) -> int | None:
    """Return after how many records a part goes on; ``None`` to leave it out."""
    if not isinstance(header, dict):
        return None
    if earlier and earlier[0].header.get("request") and not header.get("request"):
        # A monitor of another instance has recorded there, too.
        return None
    after = header.get("after", 0)
    return after if type(after) is int and after >= 0 else None


def _header_of(file: int) -> Any:
    """Return the header of a part, or ``None``; close its file."""
    with os.fdopen(file, "rb") as part:
        start = part.read(HEADER_START)
        data = start + part.read(header_size(start))
    try:
        first = next(iter(StepDecoder().feed(data)), None)
    except BadValue:
        return None
    return first.value if first is not None and first.kind == Kind.HEADER else None


def records(open_part: OpenPart, segments: list[Segment]) -> Iterator[Recorded]:
    """Yield the records that lead to the state, and the header of each part."""
    ends = [each.start for each in segments[1:]]
    for segment, end in zip(segments, [*ends, None], strict=True):
        number, file = segment.start, open_part(segment.part)
        if file is None:
            # It was deleted just now.
            return
        with contextlib.closing(_bodies(file)) as bodies:
            for decoder, body in bodies:
                counts = body[0] in COUNTED
                if counts and number == end:
                    break
                number += counts
                yield decoder, body
        if end is not None and number < end:
            # It was cut, and what followed is not known to be the same episode.
            return


def _bodies(file: int) -> Generator[Recorded, None, None]:
    """Yield the records of a part, and close its file."""
    decoder = StepDecoder()
    try:
        while not decoder.ended and (data := os.read(file, _CHUNK)):
            for body in decoder.feed_bodies(data):
                yield decoder, body
    except BadValue as error:
        raise CannotResume(f"a part of the recording {error}") from None
    finally:
        os.close(file)
