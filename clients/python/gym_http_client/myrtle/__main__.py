"""``gym-http-server trial AGENT WORLD``: runs an agent in a world that does not wait.

AGENT is random, single-action, greedy or tabular-q, or MODULE:CLASS. WORLD is an env
ID, such as world/bandit, world/MODULE:CLASS or CartPole-v1. The agent runs in a process
of its own, and the world in a server, which is started for the trial, or is that of
--url. Each update becomes a row in an SQLite file.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import math
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import gymnasium

from gym_http_client.errors import ServerError
from gym_http_client.myrtle import bench
from gym_http_client.myrtle.agents import AGENTS
from gym_http_client.myrtle.recording import path_of, read_runs

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run a trial, print its summary, and return the exit status."""
    options = _options(arguments)
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        return _complain(
            "--plot needs Matplotlib: pip install 'gymnasium-http-client[plot]'"
        )
    try:
        summary = bench.run(
            _agent(options.agent),
            options.world,
            options.timeout,
            not options.no_record,
            options.db,
            dict(options.agent_arg),
            dict(options.world_arg),
            realtime=_clock(options),
            seed=options.seed,
            url=options.url,
        )
        print(summary)
        if options.plot:
            # Imported late: it needs Matplotlib.
            from gym_http_client.myrtle.plot import draw_runs

            runs = read_runs(path_of(options.db))
            draw_runs({summary.run: runs[summary.run]}, options.plot)
            print(f"drawn in {options.plot}")
    except (
        ServerError,
        bench.AgentFailed,
        gymnasium.error.Error,
        ImportError,
        OSError,
        ValueError,
        sqlite3.Error,
    ) as error:
        return _complain(_with_flag(str(error)))
    except KeyboardInterrupt:
        return 130
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    rest = (__doc__ or "").partition("\n\n")[2]
    parser = argparse.ArgumentParser(
        prog="gym-http-server trial", description=" ".join(rest.split())
    )
    add = parser.add_argument
    add("agent", metavar="AGENT", help=f"{', '.join(AGENTS)}, or MODULE:CLASS")
    add("world", metavar="WORLD", help="an env ID, as world/bandit")
    add("--url", help="the server; by default one of its own. [token: GHS_TOKEN]")
    add("--hz", type=_rate, help="updates per second; by default the world's, or 10")
    add(
        "--default-action",
        type=_value,
        metavar="VALUE",
        help="the action without an agent's, as 0 or [0.0]; by default zeros",
    )
    add("--episodes", type=int, help="end after so many; by default 1, or all that a "
        "world with run() has")  # fmt: skip
    add("--timeout", type=float, metavar="SECONDS", help="end after this time")
    add("--seed", type=int, help="seed of the world")
    for each in ("agent", "world"):
        add(
            f"--{each}-arg",
            action="append",
            default=[],
            type=_argument,
            metavar="NAME=VALUE",
            help=f"an argument of the {each}, as epsilon=0.2; may be repeated",
        )
    add("--db", default="bench", help="name of the file: bench, by default, for "
        "bench.db")  # fmt: skip
    add("--no-record", action="store_true", help="write no file")
    add("--plot", type=Path, metavar="FILE", help="draw rewards and lateness there")
    options = parser.parse_args(arguments)
    if options.plot and options.no_record:
        parser.error("--plot draws what is recorded: leave out --no-record")
    return options


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, _value(value)


def _rate(text: str) -> float:
    hz = float(text)
    if not 0 < hz < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return hz


def _value(text: str) -> Any:
    """Return a literal of Python, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _agent(given: str) -> Any:
    """Return the class that the command line names, or the name of an agent.

    Raises:
        ImportError: There is no such module.
        ValueError: It has no such class.
    """
    module, colon, name = given.rpartition(":")
    if not colon:
        return given
    # Python does not search it for modules that are run with -P.
    sys.path.insert(0, os.getcwd())
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, type):
        raise ValueError(f"the module {module!r} has no class {name!r}")
    return found


def _clock(options: argparse.Namespace) -> dict[str, Any]:
    clock: dict[str, Any] = {}
    if options.episodes is not None:
        clock["episodes"] = options.episodes
    if options.hz is not None:
        clock["hz"] = options.hz
    if options.default_action is not None:
        clock["default_action"] = options.default_action
    return clock


def _with_flag(words: str) -> str:
    """Name the flag for a member of `realtime` that the server refuses."""
    name, space, rest = words.partition(" ")
    return f"--default-action{space}{rest}" if name == "default_action" else words


def _complain(words: str) -> int:
    print(f"trial: {words}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    # SIGTERM raises, so that agent and server are ended.
    for _number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(_number, lambda *_: sys.exit(1))
    sys.exit(main())
