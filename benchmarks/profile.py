"""``python -m benchmarks.profile``: measures how long each part of a step takes.

It explains the figures of `results.json`. It writes its measurements to
``profile.json``, and as tables into the document.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from benchmarks.measuring import Plan
from benchmarks.parts import QUESTIONS
from benchmarks.timings import Part

__all__ = ["BEGIN", "END", "read", "tables", "written_into"]

_PARTS = Path(__file__).with_name("profile.json")
_DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN = "<!-- written by python -m benchmarks.profile -->\n"
END = "<!-- until here -->\n"


@dataclass(frozen=True)
class _Line:
    """The measurement of a part, with the name of its benchmark."""

    about: str
    part: str
    value: float
    unit: str


def read(path: Path) -> list[_Line]:
    """Read the lines of a file."""
    return [_Line(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


def tables(lines: Iterable[_Line]) -> str:
    """Format the lines as the document's tables, one for each benchmark."""
    found = []
    for about, group in groupby(lines, key=lambda line: line.about):
        rows = [f"| {each.part} | {each.value:g} {each.unit} |" for each in group]
        found.append("\n".join([f"| `{about}` | Median |", "|---|---|", *rows]) + "\n")
    return "\n".join(found)


def written_into(text: str, new: str) -> str:
    """Replace the tables in the document.

    Raises:
        ValueError: It has no place for them.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected {BEGIN.strip()!r} and {END.strip()!r} in the text")
    return f"{before}{begin}\n{new}\n{end}{after}"


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profile", description=__doc__
    )
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="turns of each")
    add("--seconds", type=float, default=1.0, help="length of a turn")
    add("--output", type=Path, default=_PARTS, help="file for the parts")
    add("--document", type=Path, default=_DOCUMENT, help="file for the tables")
    add("--only", action="append", choices=list(QUESTIONS), help="may be repeated")
    options = parser.parse_args()
    plan = Plan(options.rounds, options.seconds, 0.0)
    lines = read(options.output) if options.only else []
    for about in options.only or QUESTIONS:
        plan.say(f"{about}: starting")
        parts = [_line(about, part) for part in QUESTIONS[about](plan)]
        lines = _replaced(lines, about, parts)
    text = ",\n  ".join(json.dumps(asdict(each)) for each in lines)
    options.output.write_text(f"[\n  {text}\n]\n", encoding="utf-8")
    printed = tables(lines)
    document = options.document.read_text(encoding="utf-8")
    options.document.write_text(written_into(document, printed), encoding="utf-8")
    print(printed)


def _line(about: str, part: Part) -> _Line:
    return _Line(about, part.what, float(f"{part.value:.3g}"), part.unit)


def _replaced(lines: list[_Line], about: str, new: list[_Line]) -> list[_Line]:
    """Replace the old lines of a benchmark, or append the new ones."""
    at = next((n for n, each in enumerate(lines) if each.about == about), len(lines))
    rest = [each for each in lines if each.about != about]
    return [*rest[:at], *new, *rest[at:]]


if __name__ == "__main__":
    main()
