"""``python -m benchmarks``: runs benchmarks and writes a table and ``results.json``.

With ``--without NAME`` it measures the gain of a fast path, and writes no file.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from pathlib import Path

from benchmarks.fast_paths import FAST_PATHS
from benchmarks.measuring import Plan
from benchmarks.pinning import available
from benchmarks.questions import QUESTIONS
from benchmarks.report import merged, read, table, write
from benchmarks.without import compare

_RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    """Run the benchmarks that the command line selects."""
    options = _options()
    _forget_surroundings()
    # SIGTERM raises, so that servers are stopped as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    plan = Plan(options.rounds, options.seconds, options.patience)
    plan.say(_conditions())
    if options.without:
        path = FAST_PATHS[options.without]
        names = options.only or list(path.questions)
        print(table(compare(plan, options.without, names)))
        return
    names = options.only or list(QUESTIONS)
    rows = [each for name in names for each in QUESTIONS[name](plan)]
    plan.say(_conditions())
    print(table(rows))
    write(options.output, merged(read(options.output) if options.only else [], rows))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=7, help="turns of each side")
    add("--seconds", type=float, default=1.0, help="length of a turn of steps")
    add(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="time to repeat what other processes disturbed, for each question",
    )
    add(
        "--only",
        action="append",
        choices=list(QUESTIONS),
        metavar="NAME",
        help="answer this one only, may be repeated: " + ", ".join(QUESTIONS),
    )
    add(
        "--without",
        choices=list(FAST_PATHS),
        metavar="NAME",
        help="compare with a fast path switched off: " + ", ".join(FAST_PATHS),
    )
    add("--output", type=Path, default=_RESULTS, help="file for the rows")
    return parser.parse_args()


def _forget_surroundings() -> None:
    """Remove environment variables that would change the measurements."""
    for name in list(os.environ):
        if name.startswith("GHS_") or name.lower().endswith("_proxy"):
            del os.environ[name]


def _conditions() -> str:
    load = ", ".join(f"{each:.2f}" for each in os.getloadavg())
    cores = len(available())
    return f"Python {platform.python_version()}, {cores} cores, load average {load}"


if __name__ == "__main__":
    main()
