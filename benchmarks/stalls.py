"""``python -m benchmarks.stalls``: shows why a free-running clock stood still.

It runs an empty world beside busy loops (``--busy``) or programs that write and sync
files (``--writers``). A thousand times a second it looks at the host's status page, and
at what the kernel says of the host's process. For each gap between two ticks it prints
how much of it the process ran, waited for a processor, was blocked in the kernel, and
slept; and where it was blocked, if the kernel tells (as root). A loop that sleeps runs
beside it.

``--run-dir`` and ``TMPDIR`` choose the disks of the run directory and of the writers.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.pinning import available
from benchmarks.processes import find_hosts
from benchmarks.servers import our_server
from gym_http_client import sleep_loop
from gym_http_client.envs.real_time_env import RealTimeEnv
from gym_http_server.rundir.status import StatusReader

_LOOK_SECONDS = 0.001
_PRIORITY = 60
_BUSY = "while True: pass"
_WRITER = """
import os, sys
data = os.urandom(1 << 20)
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(64):
            file.write(data)
        os.fsync(file.fileno())
    os.sync()
"""


class Look(NamedTuple):
    """What the kernel said of a process.

    Attributes:
        at: When, in monotonic nanoseconds.
        state: ``R``, ``S`` or ``D``, as in ``/proc/PID/stat``.
        ran: Processor time so far, in nanoseconds.
        where: The functions of the kernel that it is blocked in, or "".
        ticks: Ticks so far, by its status page.
        ticked: When the last one ended, in monotonic nanoseconds.
    """

    at: int
    state: str
    ran: int
    where: str
    ticks: int
    ticked: int


class Watch(threading.Thread):
    """Looks at a host all the time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.looks: list[Look] = []
        self.ended = threading.Event()
        self._folder = Path(f"/proc/{pid}")
        (page,) = (
            each
            for each in (self._folder / "fd").iterdir()
            if os.readlink(each).startswith("/memfd:status")
        )
        self._page = StatusReader(os.open(page, os.O_RDONLY))

    def run(self) -> None:
        """Look until the watch is ended."""
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        while not self.ended.wait(_LOOK_SECONDS):
            with contextlib.suppress(OSError):
                self.looks.append(self._look())

    def _look(self) -> Look:
        stat = (self._folder / "stat").read_text()
        state = stat.rpartition(") ")[2][0]
        ran = int((self._folder / "schedstat").read_text().split()[0])
        where = self._blocked_in() if state == "D" else ""
        page = self._page.read()
        return Look(time.monotonic_ns(), state, ran, where, page.ticks, page.alive_ns)

    def _blocked_in(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self._folder / "stack").read_text().splitlines()
            names = [line.split()[-1].partition("+")[0] for line in lines]
            return " < ".join(names[:8])
        return "unknown"


def main() -> None:
    """Run the world, and print its gaps."""
    options = _options()
    flags = ["--run-dir", options.run_dir] if options.run_dir else []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(our_server(available(), *flags))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stalls-"))
        clock = {"mode": "free_running", "hz": options.hz}
        env = RealTimeEnv(server.url, "world/empty", realtime=clock)
        stack.callback(env.close)
        (host,) = find_hosts(server.pid)
        for number in range(options.writers):
            stack.enter_context(_beside(_WRITER, f"{folder}/{number}"))
        for _ in range(options.busy):
            stack.enter_context(_beside(_BUSY))
        watch = Watch(host)
        watch.start()
        try:
            loop = _sleep_loop(options.hz, options.seconds)
            env.reset()
            late = loop.communicate()[0].split()
            told = env.timing()
        finally:
            watch.ended.set()
            watch.join()
    _print(options, told, late, watch.looks)


def _options() -> argparse.Namespace:
    summary = (__doc__ or "").partition("\n\n")[2]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stalls", description=summary
    )
    add = parser.add_argument
    add("--hz", type=float, default=200.0)
    add("--seconds", type=float, default=30.0)
    add("--busy", type=int, default=0, help="busy loops beside the world")
    add("--writers", type=int, default=0, help="programs that write and sync files")
    add("--run-dir", default="", help="directory for the run directory")
    add("--least-ms", type=float, default=20.0, help="the shortest gap to print")
    return parser.parse_args()


@contextlib.contextmanager
def _beside(program: str, *arguments: str) -> Iterator[None]:
    """Run a program."""
    process = subprocess.Popen([sys.executable, "-c", program, *arguments])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _sleep_loop(hz: float, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", sleep_loop.__file__, str(hz), str(seconds), "1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _print(
    options: argparse.Namespace,
    told: dict[str, Any],
    late: list[str],
    looks: list[Look],
) -> None:
    in_all = told["lateness_all_ns"]
    print(f"load {os.getloadavg()[0]:.1f}, {len(looks)} looks")
    print(
        f"world      p50 {in_all['p50'] / 1e6:.3f}, p99 {in_all['p99'] / 1e6:.3f}, "
        f"max {in_all['max'] / 1e6:.3f} ms late; {told['skipped']} of "
        f"{told['ticks'] + told['skipped']} ticks skipped; at most "
        f"{told['stall_ns'] / 1e6:.3f} ms without one"
    )
    p50, p99, most = map(float, late)
    print(f"sleep loop p50 {p50:.3f}, p99 {p99:.3f}, max {most:.3f} ms late")
    times = sorted({each.ticks: each.ticked for each in looks if each.ticks}.values())
    gaps = [
        (after - before, before)
        for before, after in itertools.pairwise(times)
        if after - before >= options.least_ms * 1e6
    ]
    for length, begin in sorted(gaps, reverse=True)[:12]:
        print(_gap(length, begin, looks))


def _gap(length: int, begin: int, looks: list[Look]) -> str:
    within = [each for each in looks if begin <= each.at <= begin + length]
    after = (begin - looks[0].at) / 1e9
    words = f"{after:7.3f} s: {length / 1e6:8.1f} ms"
    if len(within) < 2:
        return f"{words}: nothing was seen"
    ran = within[-1].ran - within[0].ran
    spent = dict.fromkeys("RDS", 0)
    for before, later in itertools.pairwise(within):
        spent[later.state] = spent.get(later.state, 0) + later.at - before.at
    waited = max(0, spent["R"] - ran)
    words += (
        f": ran {ran / 1e6:.1f}, waited for a processor {waited / 1e6:.1f}, blocked "
        f"{spent['D'] / 1e6:.1f}, slept {spent['S'] / 1e6:.1f} ms"
    )
    places = collections.Counter(each.where for each in within if each.where)
    return words + "".join(f"\n    {where}" for where, _ in places.most_common(2))


if __name__ == "__main__":
    main()
