"""``python -m benchmarks.plot``: draws the rows of ``results.json`` as two images.

One has every row. The other is for README: five rows with readable labels.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator

from benchmarks.report import Row, read

__all__ = ["Bar", "bars", "draw", "draw_headlines"]

_RESULTS = Path(__file__).with_name("results.json")
_PICTURE = Path(__file__).parents[1] / "docs" / "benchmarks.png"
_HEADLINES_PICTURE = _PICTURE.with_name("speed.png")
# Name and mode of a row, and its label.
_HEADLINES = (
    ("rest_1", "same", "steps over HTTP\nvs. gym-http-api"),
    ("rest_4", "free", "steps over HTTP by 4 agents\nvs. gym-http-api"),
    ("vector64_async", "same", "vector of 64 environments\nvs. a local AsyncVectorEnv"),
    ("external", "same", "steps of an external environment\nvs. Tango's gateway"),
    ("host_start_ms", "free", "making an environment\nvs. a fresh Python process"),
)
_PERCENTILE = re.compile(r"(.+)_(p50|p99)")
_MARKS = {"p50": "o", "p99": "D"}
# Colours that colour-blind people can distinguish (Okabe and Ito), and two darker ones.
_COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"),
    *("#882255", "#999933"),
)
_INK = "#333333"
_TIMES = "\N{MULTIPLICATION SIGN}"
_WIDTH_INCHES, _BAR_INCHES, _REST_INCHES = 9.0, 0.3, 1.6
_DOTS_PER_INCH = 120


class Bar(NamedTuple):
    """A row of the image, with its percentiles.

    Attributes:
        row: The row that the bar shows.
        marks: The factors by which the percentiles are better, by ``p50`` and ``p99``.
    """

    row: Row
    marks: dict[str, float]


def bars(rows: Sequence[Row]) -> list[Bar]:
    """Assign percentiles to their rows, and group rows with the same baseline."""
    # Figures of several machines, by their cores, would not stand beside each other.
    rows = [each for each in rows if not each.mode.endswith("cores")]
    found = {(each.name, each.mode): Bar(each, {}) for each in rows}
    for name, mode in list(found):
        match = _PERCENTILE.fullmatch(name)
        if match and (match[1], mode) in found:
            better = found.pop((name, mode)).row.better
            found[match[1], mode].marks[match[2]] = better
    order = _baselines(rows)
    return sorted(found.values(), key=lambda bar: order.index(bar.row.baseline))


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw a PNG file with the factor by which our server is better, for each row.

    Raises:
        ValueError: There are no rows.
    """
    if not rows:
        raise ValueError("there are no rows to draw; 'make bench' measures some")
    drawn = bars(rows)
    height = _REST_INCHES + _BAR_INCHES * len(drawn)
    figure = Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
    axes = figure.add_subplot()
    colours = {
        name: _COLOURS[number % len(_COLOURS)]
        for number, name in enumerate(_baselines(rows))
    }
    for place, bar in enumerate(drawn):
        _draw_bar(axes, place, bar, colours[bar.row.baseline])
    _draw_axes(axes, drawn)
    marks = [
        Line2D([], [], color=_INK, marker=_MARKS[name], linestyle="", label=label)
        for name, label in (("p50", "median latency"), ("p99", "99th percentile of it"))
    ]
    patches = [
        Patch(color=colours[name], label=f"baseline: {name}") for name in colours
    ]
    figure.legend(
        handles=patches + marks,
        loc="outside upper center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    _save(figure, path)


def draw_headlines(rows: Sequence[Row], path: Path) -> None:
    """Draw the five rows of README into a PNG file, with readable labels.

    Raises:
        ValueError: One of the rows is missing.
    """
    found = {(each.name, each.mode): each for each in rows}
    missing = [
        f"{name} ({mode})" for name, mode, _ in _HEADLINES if (name, mode) not in found
    ]
    if missing:
        raise ValueError(f"no rows {', '.join(missing)}; 'make bench' measures all")
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for place, (name, mode, _) in enumerate(_HEADLINES):
        better = found[name, mode].better
        axes.barh(place, better, height=0.6, color=_COLOURS[0])
        axes.text(
            better,
            place,
            f" {better:.2g}{_TIMES}",
            verticalalignment="center",
            color=_INK,
        )
    axes.axvline(1, color=_INK, linewidth=1)
    axes.set_xlim(
        0, 1.1 * max(found[name, mode].better for name, mode, _ in _HEADLINES)
    )
    axes.set_yticks(range(len(_HEADLINES)), [label for _, _, label in _HEADLINES])
    axes.invert_yaxis()
    axes.set_xlabel("times as fast (the line is 1)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    # Omit the library's version, so that equal rows result in equal bytes.
    figure.savefig(path, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})


def _baselines(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(each.baseline for each in rows))


def _draw_bar(axes: Axes, place: int, bar: Bar, colour: str) -> None:
    row = bar.row
    axes.barh(place, row.better - 1, left=1, height=0.62, color=colour)
    for name, better in bar.marks.items():
        axes.plot(
            better, place, marker=_MARKS[name], color=_INK, markersize=4, linestyle=""
        )
    axes.text(
        1.01,
        place,
        f"{_ratio(row)}  ({row.value:,g} {row.unit})",
        transform=axes.get_yaxis_transform(),
        verticalalignment="center",
        fontsize=8,
        color=_INK,
    )


def _ratio(row: Row) -> str:
    """Format the ratio as in the results, not as the bar shows it."""
    text = f"{row.ratio:.3g}{_TIMES}"
    return f"{text} the time" if row.takes_times else text


def _draw_axes(axes: Axes, drawn: Sequence[Bar]) -> None:
    ratios = [each for bar in drawn for each in (bar.row.better, *bar.marks.values())]
    axes.set_xscale("log")
    axes.set_xlim(min(0.9, *ratios) * 0.9, max(2.0, *ratios) * 1.1)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}{_TIMES}")
    axes.minorticks_off()
    axes.axvline(1, color=_INK, linewidth=1)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    names = [f"{bar.row.name}  ({bar.row.mode})" for bar in drawn]
    axes.set_yticks(range(len(drawn)), names, fontsize=8)
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("times as good as the baseline (logarithmic)")


def main() -> None:
    """Draw the figures of the last run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plot", description=__doc__
    )
    parser.add_argument("--results", type=Path, default=_RESULTS, help="the rows")
    parser.add_argument(
        "--output", type=Path, default=_PICTURE, help="the PNG file with every row"
    )
    parser.add_argument(
        "--headlines",
        type=Path,
        default=_HEADLINES_PICTURE,
        help="the PNG file with five rows",
    )
    options = parser.parse_args()
    rows = read(options.results)
    draw(rows, options.output)
    draw_headlines(rows, options.headlines)


if __name__ == "__main__":
    main()
