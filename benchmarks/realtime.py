"""Measures clocks of the server: how late their ticks are, and what a tick costs."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Mode, available
from benchmarks.processes import find_hosts, processor_ns
from benchmarks.report import Row, row
from benchmarks.rtgym_interface import HZ
from benchmarks.servers import Server, our_server
from gym_http_client.bench.agents import LeanAgent
from gym_http_client.bench.players import Players
from gym_http_client.envs.real_time_env import RealTimeEnv
from gym_http_client.jitter import (
    PRIORITY,
    Lateness,
    loop_lateness,
    world_lateness,
)

__all__ = ["realtime", "realtime_cpu"]

_RATES = (10, 50, 100, 250)
_SLEEP = "sleep loop"
_PERCENTILES: dict[str, Callable[[Lateness], float]] = {
    "p50": lambda late: late.p50,
    "p99": lambda late: late.p99,
}
# Turns are this many times as long as those of steps: at 10 Hz there are few ticks.
_LENGTH = 2
_MODULE = "benchmarks.rtgym_interface"
_NEIGHBOURS = 4


def realtime(plan: Plan) -> list[Row]:
    """Measure the lateness of an empty world beside a loop that sleeps.

    The machine has nothing else to do, or four clients of the same server step. Each is
    also measured with real-time priority.
    """
    plan.say("realtime: starting")
    cores = available()
    rows = []
    with (
        our_server(cores) as plain,
        our_server(cores, "--realtime-priority", str(PRIORITY)) as first,
    ):
        for load in ("", "_loaded"):
            with _neighbours(plain, load) as stepping:
                for hz in _RATES:
                    rows += _late(plan, plain, first, hz, load, stepping)
    return rows


Stepping = Callable[[float], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def _neighbours(server: Server, load: str) -> Iterator[Stepping]:
    """Yield a function whose context has clients that step, if there is load."""
    if not load:
        yield lambda seconds: contextlib.nullcontext()
        return
    with Players(LeanAgent, server.url, _NEIGHBOURS) as players:
        yield functools.partial(_beside, players)


@contextlib.contextmanager
def _beside(players: Players, seconds: float) -> Iterator[None]:
    use = threading.Thread(target=players.play, args=(seconds,))
    use.start()
    try:
        yield
    finally:
        use.join()


def _late(
    plan: Plan, plain: Server, first: Server, hz: int, load: str, stepping: Stepping
) -> list[Row]:
    seconds = plan.seconds * _LENGTH

    def measure(call: Callable[[], Lateness]) -> Lateness:
        with stepping(seconds):
            return call()

    ours, theirs = in_turn(
        plan,
        lambda: [
            measure(lambda: world_lateness(plain.url, hz, seconds)),
            measure(lambda: world_lateness(first.url, hz, seconds)),
        ],
        lambda: [measure(lambda: loop_lateness(hz, seconds))],
    )
    rows = []
    for which, extra in enumerate(("", "_priority")):
        name = f"realtime_{hz}{load}{extra}"
        notes = {each[which].note for each in ours} - {""}
        if notes:
            plan.say(f"  {name} is left out: {notes.pop()}")
            continue
        mine = [each[which] for each in ours]
        for percentile, figure in _PERCENTILES.items():
            late = median([figure(each) for each in mine]) * 1000
            bare = median([figure(each) for (each,) in theirs]) * 1000
            plan.say(f"  {name}_{percentile}: {late:.0f} us, sleep loop {bare:.0f} us")
            label = f"{name}_{percentile}"
            rows.append(row(label, Mode.FREE, late, "us", _SLEEP, bare))
    return rows


def realtime_cpu(plan: Plan) -> list[Row]:
    """Measure the processor time of a tick of an empty interface, beside rtgym."""
    plan.say("realtime_cpu: starting")
    seconds = plan.seconds * _LENGTH
    rows = []
    with our_server(available(), "--allow-module", _MODULE) as server:
        for name, env_id in (
            ("realtime_cpu", "real-time-gym-v1"),
            ("realtime_cpu_ts", "real-time-gym-ts-v1"),
        ):
            ours, theirs = in_turn(
                plan,
                functools.partial(_tick_us, server, seconds),
                functools.partial(_rtgym_us, env_id, seconds),
            )
            figures = median(ours), median(theirs)
            rows.append(row(name, Mode.FREE, figures[0], "us", env_id, figures[1]))
    return rows


def _tick_us(server: Server, seconds: float) -> float:
    """Return the processor time of a host's tick in microseconds."""
    clock = {"mode": "free_running", "hz": HZ, "agent_timeout_s": None}
    env_id = f"interface/{_MODULE}:Nothing"
    env = RealTimeEnv(server.url, env_id, realtime=clock)
    try:
        (host,) = find_hosts(server.pid)
        env.reset()
        # As many ticks as rtgym takes before it is measured.
        time.sleep(20 / HZ)
        ticks, began = env.timing()["ticks"], processor_ns([host])
        time.sleep(seconds)
        used = processor_ns([host])[host] - began[host]
        taken: int = env.timing()["ticks"] - ticks
        return used / 1000 / taken
    finally:
        env.close()


def _rtgym_us(env_id: str, seconds: float) -> float:
    """Return the processor time of a step of rtgym in microseconds."""
    done = subprocess.run(
        [sys.executable, "-m", _MODULE, env_id, str(seconds)],
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(done.stdout)
