"""Rows: what came out, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.pinning import Mode

__all__ = [
    "PING_PONG",
    "STEP_AND_PING_PONG",
    "Row",
    "merged",
    "read",
    "row",
    "table",
    "write",
]

#: What rows call the round trip that a step over a stream cannot do without.
PING_PONG = "ping-pong"
STEP_AND_PING_PONG = "local step + ping-pong"
# Ours cannot be expected to take less: ratios to these say how many times it takes.
_FLOORS = frozenset({PING_PONG, STEP_AND_PING_PONG})

_HEAD = ("name", "mode", "ours", "unit", "ratio", "baseline")


@dataclass(frozen=True)
class Row:
    """A figure, and how it compares with another one.

    Attributes:
        name: What was measured.
        mode: Where the processes were.
        value: Ours.
        unit: Of the figure.
        ratio: How many times better ours is: more a second, or less time or memory;
            but beside a ping-pong, how many times as long ours takes.
        baseline: Name of what ours is compared with, as ``original``.
    """

    name: str
    mode: str
    value: float
    unit: str
    ratio: float
    baseline: str

    @property
    def takes_times(self) -> bool:
        """Whether the ratio says how many times as long ours takes."""
        return self.baseline in _FLOORS

    @property
    def better(self) -> float:
        """How many times better ours is than the baseline, whatever the ratio says."""
        return 1 / self.ratio if self.takes_times else self.ratio


def row(
    name: str, mode: Mode, value: float, unit: str, baseline: str, theirs: float
) -> Row:
    """Make a row; what is not a rate is better when it is smaller.

    The ratio is as `Row` says it, which depends on the baseline.

    Args:
        name: What was measured.
        mode: Where the processes were.
        value: Ours.
        unit: Of both figures; a rate ends in ``/s``.
        baseline: Name of what ours is compared with.
        theirs: The baseline's figure.
    """
    ours_by_theirs = unit.endswith("/s") or baseline in _FLOORS
    ratio = value / theirs if ours_by_theirs else theirs / value
    return Row(name, mode.value, _short(value), unit, _short(ratio), baseline)


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Put new rows in the places of the old ones, and what is left to the end."""
    rows = {(each.name, each.mode): each for each in old}
    rows |= {(each.name, each.mode): each for each in new}
    return list(rows.values())


def read(path: Path) -> list[Row]:
    """Read the rows of a file; none if it is not there."""
    if not path.exists():
        return []
    return [Row(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write the rows to a file, each on a line."""
    lines = [json.dumps(asdict(each)) for each in rows]
    path.write_text("[\n  " + ",\n  ".join(lines) + "\n]\n", encoding="utf-8")


def table(rows: Iterable[Row]) -> str:
    """Write the rows as a table."""
    cells = [_HEAD] + [
        (
            each.name,
            each.mode,
            f"{each.value:g}",
            each.unit,
            f"{each.ratio:.2f}",
            each.baseline,
        )
        for each in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in (2, 4) else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )


def _short(value: float) -> float:
    """Drop digits that the next run would not repeat."""
    return float(f"{value:.3g}") if value < 1000 else float(round(value))
