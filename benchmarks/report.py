"""Rows: results as a table for people and as JSON for programs."""

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

#: Name in rows of the round trip that a step over a stream cannot avoid.
PING_PONG = "ping-pong"
STEP_AND_PING_PONG = "local step + ping-pong"
# Our server cannot be faster: ratios to these baselines are multiples of their time.
_FLOORS = frozenset({PING_PONG, STEP_AND_PING_PONG})

_HEAD = ("name", "mode", "ours", "unit", "ratio", "baseline")


@dataclass(frozen=True)
class Row:
    """A figure, and its ratio to that of a baseline.

    Attributes:
        name: Name of the measurement.
        mode: Placement of the processes.
        value: Our figure.
        unit: Unit of the figure.
        ratio: The factor by which ours is better: more per second, or less time or
            memory. Beside a ping-pong, our duration as a multiple of its duration.
        baseline: Name of the baseline, such as ``original``.
    """

    name: str
    mode: str
    value: float
    unit: str
    ratio: float
    baseline: str

    @property
    def takes_times(self) -> bool:
        """Whether the ratio is our duration as a multiple of the baseline's."""
        return self.baseline in _FLOORS

    @property
    def better(self) -> float:
        """The factor by which ours is better than the baseline, for every baseline."""
        return 1 / self.ratio if self.takes_times else self.ratio


def row(
    name: str, mode: Mode, value: float, unit: str, baseline: str, theirs: float
) -> Row:
    """Make a row; a figure that is not a rate is better if it is smaller.

    `Row` defines the ratio, which depends on the baseline.

    Args:
        name: Name of the measurement.
        mode: Placement of the processes.
        value: Our figure.
        unit: Unit of both figures; a rate ends in ``/s``.
        baseline: Name of the baseline.
        theirs: The baseline's figure.
    """
    ours_by_theirs = unit.endswith("/s") or baseline in _FLOORS
    ratio = value / theirs if ours_by_theirs else theirs / value
    return Row(name, mode.value, _short(value), unit, _short(ratio), baseline)


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Replace old rows by new ones of the same name and mode, and append the rest."""
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
    """Round to the digits that the next run would repeat."""
    return float(f"{value:.3g}") if value < 1000 else float(round(value))
