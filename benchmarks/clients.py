"""Compares the steps per second of the clients in other languages with Python's.

The driver of each client, which its tests use too, measures it.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Cores, Mode, pinned, places
from benchmarks.report import Row, row
from benchmarks.servers import our_server
from tests.support.drivers import DRIVERS, Program, build_cpp, missing

__all__ = ["QUESTIONS"]

#: Drivers by their names in rows.
_NAMES = {
    "python": "python",
    "lua": "lua5.4",
    "luajit": "luajit",
    "cpp": "cpp",
    "js": "js",
}
_BASELINE = "Python client, stream"
_UNIT = "steps/s"


def _question(name: str, transport: str) -> Callable[[Plan], list[Row]]:
    return lambda plan: _measure(plan.halved(), name, transport)


#: A benchmark for each client and transport, REST and stream.
QUESTIONS = {
    f"client_{name}_{transport}": _question(name, transport)
    for name in _NAMES
    for transport in ("rest", "stream")
}


def _measure(plan: Plan, name: str, transport: str) -> list[Row]:
    """Return a client's row; no row if a program that it needs is missing."""
    title = f"client_{name}_{transport}"
    absent = [missing(tool) for tool in DRIVERS[_NAMES[name]].tools]
    if any(absent):
        plan.say(f"{title}: left out, since {' and '.join(filter(None, absent))}")
        return []
    plan.say(f"{title}, same: starting")
    placed = places(Mode.SAME)
    assert placed
    ours, theirs = _program(name), _program("python")
    with our_server(placed.servers) as server:

        def rate(program: Program, transport: str, name: str) -> float:
            figure = _rate(program, server.url, transport, plan, placed.clients)
            plan.say(f"  {name:12} {figure:10.1f} {_UNIT}")
            return figure

        rounds = in_turn(
            plan,
            lambda: rate(ours, transport, "ours"),
            lambda: rate(theirs, "stream", "python"),
        )
    figures = [median(side) for side in rounds]
    return [row(title, Mode.SAME, figures[0], _UNIT, _BASELINE, figures[1])]


def _rate(
    program: Program, url: str, transport: str, plan: Plan, cores: Cores
) -> float:
    """Return the steps per second of one run."""
    with pinned(cores):
        printed = program.output("bench", url, transport, f"{plan.seconds:g}")
    return float(printed)


@functools.cache
def _program(name: str) -> Program:
    """Build a driver, once per run."""
    driver = DRIVERS[_NAMES[name]]
    if name == "cpp":
        words = build_cpp(Path(_folder().name), "-O2")
    else:
        words = driver.build(Path(_folder().name))
    return Program(tuple(words), driver.variables)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bench-clients-")
