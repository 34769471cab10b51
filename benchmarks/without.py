"""Measures the gain of a fast path: benchmarks with and without it, alternately."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.external_programs import PROGRAMS
from benchmarks.measuring import Plan, median
from benchmarks.pinning import Mode
from benchmarks.report import Row, read, row

__all__ = ["compare"]

_HOOKS = Path(__file__).with_name("hooks")
_ROOT = Path(__file__).parents[1]
_Figures = dict[tuple[str, str], list[Row]]


def compare(plan: Plan, name: str, questions: list[str]) -> list[Row]:
    """Run benchmarks with and without a fast path.

    Each round is a separate run, since the path is switched off in all processes.

    Args:
        plan: Number and length of rounds.
        name: Name of the fast path.
        questions: Names of the benchmarks.

    Returns:
        The figures with the fast path; those without it are the baseline.
    """
    folders = [str(_ROOT), str(_HOOKS), os.environ.get("PYTHONPATH", "")]
    off = {"BENCHMARK_WITHOUT": name, "PYTHONPATH": os.pathsep.join(folders)}
    figures: tuple[_Figures, _Figures] = {}, {}
    with tempfile.TemporaryDirectory(prefix="bench-") as programs:
        on = {PROGRAMS: programs}
        for number in range(plan.rounds):
            plan.say(f"round {number + 1} of {plan.rounds}")
            for side, settings in zip(figures, (on, on | off), strict=True):
                for each in _run(plan, questions, settings):
                    side.setdefault((each.name, each.mode), []).append(each)
    return [
        row(
            ours[0].name,
            Mode(ours[0].mode),
            median([each.value for each in ours]),
            ours[0].unit,
            f"without {name}",
            median([each.value for each in figures[1][key]]),
        )
        for key, ours in figures[0].items()
    ]


def _run(plan: Plan, questions: list[str], settings: dict[str, str]) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        output = Path(folder) / "results.json"
        words = [sys.executable, "-m", "benchmarks", "--rounds", "1"]
        words += ["--seconds", str(plan.seconds), "--patience", str(plan.patience)]
        words += ["--output", str(output)]
        words += [word for each in questions for word in ("--only", each)]
        subprocess.run(
            words,
            env={**os.environ, **settings},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        return read(output)
