"""``gym-http-server jitter``: measures how exact clocks are on this machine.

It starts servers of its own, and compares the clock of an empty world with a bare loop
that sleeps, in turns. Then it tries what may help: a shorter timer slack, spinning
before a deadline, and real-time priority. It prints how late ticks were, and advice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gym_http_client.envs.real_time_env import RealTimeEnv
from gym_http_client.errors import ServerError
from gym_http_client.own_server import own_server

__all__ = ["PRIORITY", "Lateness", "loop_lateness", "main", "world_lateness"]

#: SCHED_FIFO from 1 to 99; 40 is below what kernels use for their own threads.
PRIORITY = 40
SPIN_US = 500
_WORLD = "world/empty"


class Lateness(NamedTuple):
    """How late ticks were, in ms; and the share of a core that they took.

    Attributes:
        p50: Median.
        p99: 99th percentile.
        most: Maximum.
        skipped: Ticks that were skipped; 0 for a loop that skips none.
        note: What is wrong with this measurement, or "".
    """

    p50: float
    p99: float
    most: float
    skipped: int = 0
    note: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table and advice, and return the exit status."""
    options = _options(arguments)
    load = os.getloadavg()[0]
    print(
        f"{options.hz:g} ticks a second on {os.cpu_count()} cores, load {load:.2f}: "
        "lateness in ms\n"
    )
    try:
        told = _measured(options)
    except ServerError as error:
        print(f"jitter: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print()
    for line in advice(told, options.hz):
        print(line)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    rest = (__doc__ or "").partition("\n\n")[2]
    parser = argparse.ArgumentParser(
        prog="gym-http-server jitter", description=" ".join(rest.split())
    )
    add = parser.add_argument
    add("--hz", type=_rate, default=100.0, help="ticks per second; 100 by default")
    add("--seconds", type=_seconds, default=3.0, help="length of each turn")
    add("--turns", type=int, default=3, help="turns of each; the median one counts")
    return parser.parse_args(arguments)


def _rate(text: str) -> float:
    hz = float(text)
    if not 1 <= hz <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to 1000")
    return hz


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 600")
    return seconds


def _measured(options: argparse.Namespace) -> dict[str, Lateness]:
    """Measure everything in turns; print and return the rows."""
    hz, seconds = options.hz, options.seconds
    measures: dict[str, Callable[[], Lateness]] = {}
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(own_server())
        first = stack.enter_context(own_server("--realtime-priority", str(PRIORITY)))
        measures["sleep loop"] = lambda: loop_lateness(hz, seconds)
        measures["sleep loop, slack 1 ns"] = lambda: loop_lateness(
            hz, seconds, slack_ns=1
        )
        measures["empty world"] = lambda: world_lateness(plain, hz, seconds)
        measures["empty world, spinning"] = lambda: world_lateness(
            plain, hz, seconds, spin_us=SPIN_US
        )
        measures["empty world, priority"] = lambda: world_lateness(first, hz, seconds)
        turns: dict[str, list[Lateness]] = {name: [] for name in measures}
        for _ in range(max(1, options.turns)):
            for name, measure in measures.items():
                turns[name].append(measure())
    line = "{:<24}{:>8}{:>8}{:>8}{:>9}  {}"
    print(line.format("", "p50", "p99", "max", "skipped", "").rstrip())
    told = {}
    for name, each in turns.items():
        # The turn with the median p50, since load of others comes and goes.
        row = sorted(each)[len(each) // 2]
        told[name] = row
        shown = [f"{value:.3f}" for value in (row.p50, row.p99, row.most)]
        print(line.format(name, *shown, row.skipped, row.note).rstrip(), flush=True)
    return told


def loop_lateness(hz: float, seconds: float, *, slack_ns: int = 0) -> Lateness:
    """Measure a sleep loop in a process that does nothing else.

    Args:
        hz: Ticks per second.
        seconds: Duration.
        slack_ns: The timer slack of that process; 0 leaves the system's, 50,000.
    """
    path = Path(__file__).with_name("sleep_loop.py")
    command = [sys.executable, "-I", str(path), str(hz), str(seconds), str(slack_ns)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    p50, p99, most = map(float, done.stdout.split())
    return Lateness(p50, p99, most)


def world_lateness(
    url: str, hz: float, seconds: float, *, spin_us: int = 0
) -> Lateness:
    """Measure the clock of an empty world.

    Args:
        url: The server.
        hz: Ticks per second.
        seconds: Duration.
        spin_us: Microseconds that the host spins before a deadline.
    """
    clock: dict[str, Any] = {"mode": "free_running", "hz": hz, "spin_us": spin_us}
    env = RealTimeEnv(url, _WORLD, realtime=clock)
    try:
        env.reset()
        time.sleep(seconds)
        told = env.timing()
    finally:
        env.close()
    # As a loop that skips none counts them.
    late = told["lateness_all_ns"]
    p50, p99, most = (late[each] / 1e6 for each in ("p50", "p99", "max"))
    refused = told["scheduler"].get("refused")
    return Lateness(p50, p99, most, told["skipped"], str(refused or ""))


def advice(told: dict[str, Lateness], hz: float) -> list[str]:
    """Return sentences about what would help on this machine.

    Args:
        told: The rows by name.
        hz: Ticks per second.
    """
    world, spun = told["empty world"], told["empty world, spinning"]
    first, loop = told["empty world, priority"], told["sleep loop"]
    slack = told["sleep loop, slack 1 ns"]
    period = 1000.0 / hz
    lines = [
        f"A tick of the empty world is {world.p50:.3f} ms late in the median, and a "
        f"bare sleep loop {loop.p50:.3f} ms."
    ]
    if world.p99 > period / 2 or world.skipped:
        lines.append(
            f"Some ticks are late by more than half of the period of {period:g} ms, so "
            "other processes take the processor. Fewer of them, or priority, would "
            "help."
        )
    if slack.p50 < 0.8 * loop.p50:
        lines.append(
            f"A timer slack of 1 ns helps a loop (median {slack.p50:.3f} ms); clocks "
            "of the server have it already."
        )
    if spun.p50 < 0.5 * world.p50:
        lines.append(
            f'Spinning helps the median ({spun.p50:.3f} ms): {{"spin_us": {SPIN_US}}}'
            f" in realtime. It takes up to {hz * SPIN_US / 1e4:.0f} % of a core."
        )
    if first.note:
        lines.append(
            f"Real-time priority was refused ({first.note}). It needs CAP_SYS_NICE or "
            "a limit: ulimit -r 99; docker run --cap-add=sys_nice --ulimit rtprio=99; "
            "LimitRTPRIO=99 in a systemd unit. Then run: gym-http-server serve "
            f"--realtime-priority {PRIORITY}"
        )
    elif first.p99 < 0.7 * world.p99 or first.skipped < world.skipped:
        lines.append(
            f"Real-time priority helps (p99 {first.p99:.3f} ms): gym-http-server serve "
            f"--realtime-priority {PRIORITY}"
        )
    else:
        lines.append("Real-time priority does not help while the machine is this idle.")
    return lines


if __name__ == "__main__":
    # SIGTERM raises, so that the servers are ended.
    for _number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(_number, lambda *_: sys.exit(1))
    sys.exit(main())
