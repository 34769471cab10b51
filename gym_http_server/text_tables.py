"""Tables for terminals: aligned columns, and figures of few characters."""

from __future__ import annotations

import math
import shutil
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Column", "amount", "duration", "printable", "size", "table"]

_GAP = "  "
_WIDTH = 80
_ELLIPSIS = "…"
_MINUTE, _HOUR, _DAY = 60, 3600, 24 * 3600
# Of what is shown as 90m and not yet as 1h.
_ROUND = 2


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: Its heading.
        right: Whether it is aligned to the right, as numbers are.
        least: Characters to which it may be shortened; 0 if it must not be.
        weight: Its share of the room where columns are shortened.
        optional: Whether it is left out if it is empty in all rows.
    """

    title: str
    right: bool = False
    least: int = 0
    weight: int = 1
    optional: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return a table that fits the terminal, or 80 columns if there is none.

    Args:
        columns: The columns.
        rows: The cells of each row, one for each column.
    """
    kept = [
        index
        for index, column in enumerate(columns)
        if not column.optional or any(row[index] for row in rows)
    ]
    columns = [columns[index] for index in kept]
    lines = [[each.title for each in columns]]
    lines += [[printable(row[index]) for index in kept] for row in rows]
    widths = [max(map(_width, cells)) for cells in zip(*lines, strict=True)]
    _shrink(widths, columns)
    return "\n".join(_line(cells, columns, widths) for cells in lines)


def _shrink(widths: list[int], columns: Sequence[Column]) -> None:
    """Make columns narrower, by their weights, until all fit beside each other."""
    room = shutil.get_terminal_size((_WIDTH, 24)).columns
    room -= len(_GAP) * (len(widths) - 1)
    while sum(widths) > room:
        spare = [
            (width / columns[index].weight, index)
            for index, width in enumerate(widths)
            if columns[index].least and width > columns[index].least
        ]
        if not spare:
            return
        widths[max(spare)[1]] -= 1


def _line(cells: list[str], columns: Sequence[Column], widths: list[int]) -> str:
    parts = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        text = _shortened(cell, width)
        blanks = " " * (width - _width(text))
        parts.append(blanks + text if column.right else text + blanks)
    return _GAP.join(parts).rstrip()


def _shortened(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[:-1]
    return text + _ELLIPSIS


def _width(text: str) -> int:
    """Return the columns that a text takes in a terminal."""
    return sum(_width_of(char) for char in text)


def _width_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "FW" else 1


def printable(text: str) -> str:
    """Replace what moves a terminal's cursor or changes the order of its text."""
    return "".join(char if char.isprintable() else "?" for char in text)


def duration(seconds: float | None) -> str:
    """Return a time in four characters at most: ``59s``, ``12m``, ``3h``, ``5d``."""
    if seconds is None:
        return ""
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= _ROUND * length:
            return f"{seconds // length:.0f}{unit}"
    return f"{math.floor(seconds)}s"


def amount(count: float) -> str:
    """Return a number in five characters at most: ``950``, ``12.3k``, ``4.5M``."""
    return _scaled(count, 1000, ("", "k", "M", "G", "T"))


def size(count: float) -> str:
    """Return a number of bytes in five characters at most: ``85M``, ``1.2G``."""
    return _scaled(count, 1024, ("", "K", "M", "G", "T"))


def _scaled(count: float, base: int, units: Sequence[str]) -> str:
    power = 0
    while count >= base and power < len(units) - 1:
        count /= base
        power += 1
    digits = 0 if power == 0 or count >= 100 else 1
    return f"{math.floor(count * 10**digits) / 10**digits:.{digits}f}{units[power]}"
