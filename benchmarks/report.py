"""Rows: what came out, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.pinning import Mode

__all__ = ["Row", "merged", "read", "row", "table", "write"]

_HEAD = ("name", "mode", "ours", "unit", "ratio", "baseline")


@dataclass(frozen=True)
class Row:
    """A figure, and how it compares with another one.

    Attributes:
        name: What was measured.
        mode: Where the processes were.
        value: Ours.
        unit: Of the figure.
        ratio: How many times better ours is: more a second, or less time or memory.
        baseline: Name of what ours is compared with, as ``original``.
    """

    name: str
    mode: str
    value: float
    unit: str
    ratio: float
    baseline: str


def row(
    name: str, mode: Mode, value: float, unit: str, baseline: str, theirs: float
) -> Row:
    """Make a row; what is not a rate is better when it is smaller.

    Args:
        name: What was measured.
        mode: Where the processes were.
        value: Ours.
        unit: Of both figures; a rate ends in ``/s``.
        baseline: Name of what ours is compared with.
        theirs: The baseline's figure.
    """
    better = value / theirs if unit.endswith("/s") else theirs / value
    return Row(name, mode.value, _short(value), unit, _short(better), baseline)


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
