"""Text for terminals: tables, and lines about the answers of an instance."""

from __future__ import annotations

import math
import shutil
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["Column", "WatchOutput", "amount", "duration", "printable", "size", "table"]

_GAP = "  "
_ELLIPSIS = "…"
_MINUTE, _HOUR, _DAY = 60, 3600, 24 * 3600
# Of seconds: shown as 90m, and not yet as 1h.
_ROUND = 2


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: Its heading.
        right: Whether it is aligned to the right, as numbers are.
        least: Characters to which it may be shortened; 0 if it must not be.
        weight: Its share of the room where columns are shortened.
        optional: Whether it is left out if it is empty in all rows.
        middle: Whether a long cell loses its middle, as names do, and not its end.
        leave: On a narrow terminal, the column with the lowest number is left out
            first; one with 0 stays.
    """

    title: str
    right: bool = False
    least: int = 0
    weight: int = 1
    optional: bool = False
    middle: bool = False
    leave: int = 0


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """Return a table that fits the terminal; without one, no cell is shortened.

    Args:
        columns: The columns.
        rows: The cells of each row, one for each column.
    """
    kept = [
        index
        for index, column in enumerate(columns)
        if not column.optional or any(row[index] for row in rows)
    ]
    cells = {
        columns[index]: [columns[index].title, *(printable(row[index]) for row in rows)]
        for index in kept
    }
    widths = {column: max(map(_width, cells[column])) for column in cells}
    if room := shutil.get_terminal_size((0, 24)).columns:
        _leave_out(widths, room)
        _shrink(widths, room)
    return "\n".join(
        _line([cells[column][number] for column in widths], widths)
        for number in range(len(rows) + 1)
    )


def _leave_out(widths: dict[Column, int], room: int) -> None:
    """Leave out columns until the others fit in some width, shortened if need be."""

    def narrowest() -> int:
        least = (min(width, each.least or width) for each, width in widths.items())
        return sum(least) + len(_GAP) * (len(widths) - 1)

    leaving = sorted((each for each in widths if each.leave), key=lambda it: it.leave)
    while leaving and narrowest() > room:
        del widths[leaving.pop(0)]


def _shrink(widths: dict[Column, int], room: int) -> None:
    """Make columns narrower, by their weights, until all fit beside each other."""
    room -= len(_GAP) * (len(widths) - 1)
    while sum(widths.values()) > room:
        spare = [
            each for each, width in widths.items() if each.least and width > each.least
        ]
        if not spare:
            return
        widths[max(spare, key=lambda each: widths[each] / each.weight)] -= 1


def _line(cells: list[str], widths: dict[Column, int]) -> str:
    parts = []
    for cell, (column, width) in zip(cells, widths.items(), strict=True):
        text = _shortened(cell, width, middle=column.middle)
        blanks = " " * (width - _width(text))
        parts.append(blanks + text if column.right else text + blanks)
    return _GAP.join(parts).rstrip()


def _shortened(text: str, width: int, *, middle: bool) -> str:
    if _width(text) <= width:
        return text
    end = _fitting(text[::-1], (width - 1) // 2)[::-1] if middle else ""
    return _fitting(text, width - 1 - _width(end)) + _ELLIPSIS + end


def _fitting(text: str, width: int) -> str:
    """Return the first characters of a text, as many as take this width."""
    while _width(text) > width:
        text = text[:-1]
    return text


def _width(text: str) -> int:
    """Return the columns that a text takes in a terminal."""
    return sum(_width_of(char) for char in text)


def _width_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "FW" else 1


def printable(text: str) -> str:
    """Replace characters that move a terminal's cursor or reorder its text."""
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


_LINE_WIDTH = 80
#: Limit of numbers of an array in a line; a larger one is shown by dtype and shape.
_MAX_SHOWN = 16
_OK = 200


class Copy(Protocol):
    """The copy of an answer, as the Python client returns it."""

    @property
    def op(self) -> str:
        """Name of the operation."""

    @property
    def number(self) -> int:
        """Number of answers since the watching began; 0 is an earlier one."""

    @property
    def dropped(self) -> int:
        """Number of answers that were left out directly before this one."""

    @property
    def status(self) -> int:
        """Status as of HTTP."""

    @property
    def value(self) -> Any:
        """The answer of the environment, or the problem."""


class WatchOutput:
    """Writes answers as lines, and adds up the rewards of an episode."""

    def __init__(self) -> None:
        self._steps = 0
        self._return = 0.0
        # Whether all steps of the present episode were seen.
        self._whole = False

    def lines(self, copy: Copy) -> list[str]:
        """Return the lines for the copy of an answer."""
        lines = []
        if copy.dropped:
            self._whole = False
            lines.append(f"        … {copy.dropped} more, faster than this is printed")
        if copy.status != _OK:
            message = copy.value.get("message", copy.value)
            lines.append(_fit(f"{copy.number:>6}  {copy.op:<6}  failed: {message}"))
            return lines
        described = getattr(self, f"_{copy.op}", _brief)(copy.value)
        lines.append(_fit(f"{copy.number:>6}  {copy.op:<6}  {described}"))
        return lines + self._episode(copy)

    def _reset(self, value: dict[str, Any]) -> str:
        self._steps, self._return, self._whole = 0, 0.0, True
        return f"observation {_brief(value['observation'])}"

    def _step(self, value: dict[str, Any]) -> str:
        ends = [
            f"{name} "
            for name in ("terminated", "truncated")
            if _is_scalar(value[name]) and value[name]
        ]
        reward, observation = _brief(value["reward"]), _brief(value["observation"])
        return f"reward {reward}  {''.join(ends)}observation {observation}"

    def _render(self, value: Any) -> str:
        frame = value["rendered"] if isinstance(value, dict) else value
        return _brief(frame)

    def _episode(self, copy: Copy) -> list[str]:
        """Return the line for the end of an episode, if it has ended."""
        if copy.op != "step" or not _is_scalar(copy.value["reward"]):
            return []
        self._steps += 1
        self._return += float(copy.value["reward"])
        if not (copy.value["terminated"] or copy.value["truncated"]):
            return []
        whole, self._whole = self._whole, False
        if not whole:
            return ["        episode over"]
        steps = "1 step" if self._steps == 1 else f"{self._steps} steps"
        return [f"        episode over after {steps}, return {self._return:g}"]


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or getattr(value, "shape", None) == ()


def _brief(value: Any) -> str:
    """Return a value in a few words; arrays of many numbers by dtype and shape."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        count = 1
        for length in shape:
            count *= length
        if count > _MAX_SHOWN:
            lengths = "x".join(map(str, shape))
            return f"{value.dtype} array of {lengths}"
        value = value.tolist()
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        members = (f"{name}: {_brief(each)}" for name, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(map(_brief, value[: _MAX_SHOWN + 1]))}]"
    return repr(value)


def _fit(line: str) -> str:
    """Shorten a line to 80 characters, without control characters."""
    line = "".join(char if char.isprintable() else " " for char in line)
    return line if len(line) <= _LINE_WIDTH else line[: _LINE_WIDTH - 1] + "…"
