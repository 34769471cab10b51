"""Compares external environments that are commands with those that connect."""

from __future__ import annotations

import contextlib
import functools
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.external_envs import ExternalAgent
from benchmarks.external_programs import ENV_ID, NAME
from benchmarks.gauges import MICROSECONDS
from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Cores, Mode, available, pinned
from benchmarks.race import Rival, race
from benchmarks.report import Row, row
from benchmarks.servers import Server, our_server
from gym_http_client.calls.client import Client

__all__ = ["command"]

_STARTS = 3
_DIALECTS = "binary", "typed"


def command(plan: Plan) -> list[Row]:
    """Measure a step over a stream in two dialects, and the making of an instance."""
    rows = []
    for dialect in _DIALECTS:
        leased = functools.partial(_connected, dialect)
        rows += race(
            plan,
            f"command_{dialect}",
            Mode.SAME,
            ExternalAgent,
            1,
            Rival("leased connection", ExternalAgent, leased),
            gauge=MICROSECONDS,
            server=functools.partial(_started, dialect),
        )
    return [*rows, _start(plan)]


def _words(url: str, dialect: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.counting", url, dialect]


def _started(dialect: str, cores: Cores) -> contextlib.AbstractContextManager[Server]:
    """Run our server, whose instances start the environment."""
    words = shlex.join(_words("stdio:", dialect))
    return our_server(cores, "--env-command", f"{NAME}={words}")


@contextlib.contextmanager
def _connected(dialect: str, cores: Cores) -> Iterator[Server]:
    """Run our server, and the environment, which connects to it by plain TCP."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    with our_server(cores, "--external-tcp", place) as server:
        with pinned(cores):
            program = subprocess.Popen(_words(f"tcp://{place}", dialect))
        try:
            yield server
        finally:
            program.kill()
            program.wait()


def _start(plan: Plan) -> Row:
    """Measure the making of an instance beside the start of its command alone."""
    plan.say("command_start_ms: starting")
    with _started("binary", available()) as server, Client(server.url) as client:
        ours, theirs = in_turn(
            plan, lambda: _make_seconds(client), lambda: _hello_seconds("binary")
        )
    times = median(ours) * 1000, median(theirs) * 1000
    return row("command_start_ms", Mode.FREE, times[0], "ms", "command", times[1])


def _make_seconds(client: Client) -> float:
    times = []
    for _ in range(_STARTS):
        began = time.monotonic()
        instance_id = client.env_create(ENV_ID)
        times.append(time.monotonic() - began)
        client.env_close(instance_id)
    return median(times)


def _hello_seconds(dialect: str) -> float:
    times = []
    for _ in range(_STARTS):
        began = time.monotonic()
        with subprocess.Popen(
            _words("stdio:", dialect), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as program:
            assert program.stdout
            size = int.from_bytes(program.stdout.read(4), "little")
            program.stdout.read(size)
            times.append(time.monotonic() - began)
    return median(times)
