"""Runs the agent and the external environment of a round trip, as programs in C++.

They take almost no time, so the benchmark measures the processes between them. The
environment is the same for Tango's gateway and for our server.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import parse_qs, quote, urlsplit

import zmq

from benchmarks.pinning import Cores, pinned
from benchmarks.servers import Server
from tests.support.drivers import CLIENTS

__all__ = [
    "ENV_ID",
    "NAME",
    "PROGRAMS",
    "StepFigures",
    "environment",
    "gateway_address",
    "stream_agent",
    "tango_agent",
]

NAME = "grid"
ENV_ID = f"external/{NAME}"
# The path to which the environment connects, on both servers.
_PATH = "/game/ws?" + "&".join(
    f"{name}={quote(value if isinstance(value, str) else json.dumps(value))}"
    for name, value in (
        ("name", NAME),
        (
            "observation_space",
            {"type": "Box", "low": 0, "high": 4, "shape": [8, 8], "dtype": "uint8"},
        ),
        ("action_space", {"type": "Discrete", "n": 4}),
    )
)
#: Environment variable: a folder for built programs that several runs share.
PROGRAMS = "BENCHMARK_PROGRAMS"
_SOURCES = Path(__file__).parent / "external_cpp"
_BUILD_SECONDS = 280


class StepFigures(NamedTuple):
    """The measurements that an agent prints.

    Attributes:
        rate: Steps per second, including the time of resets.
        p50: Median duration of a step in microseconds, without resets.
        p99: 99th percentile of the durations in microseconds.
    """

    rate: float
    p50: float
    p99: float

    @classmethod
    def of(cls, printed: str) -> Self:
        """Parse an agent's output."""
        return cls(*map(float, printed.splitlines()[-1].split()))


@contextlib.contextmanager
def environment(cores: Cores, server: Server) -> Iterator[int]:
    """Run the environment; yields its process ID."""
    words = [_built("environment"), str(urlsplit(server.url).port), _PATH]
    with pinned(cores):
        process = subprocess.Popen(words)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def stream_agent(server: Server, seconds: float) -> list[str]:
    """Return the command of an agent for our server."""
    program = _built("agent", "-pthread", "-lcurl", "-ldl")
    return [program, "stream", server.url, ENV_ID, f"{seconds:g}"]


def tango_agent(server: Server, seconds: float) -> list[str]:
    """Return the command of an agent for Tango's gateway."""
    program = _built("agent", "-pthread", "-lcurl", "-ldl")
    return [program, "zeromq", gateway_address(server.url), _libzmq(), f"{seconds:g}"]


def gateway_address(url: str) -> str:
    """Return the address of Tango's gateway for agents."""
    return f"tcp://127.0.0.1:{parse_qs(urlsplit(url).query)['agents'][0]}"


@functools.cache
def _built(name: str, *flags: str) -> str:
    """Build a program, once per run; with our client it takes a minute."""
    program = Path(os.environ.get(PROGRAMS) or _folder().name) / name
    if not program.exists():
        subprocess.run(
            [
                *(os.environ.get("CXX", "g++"), "-std=c++17"),
                os.environ.get("CXXFLAGS", "-O2"),
                *("-Wall", "-Wextra", "-Wpedantic", "-Werror"),
                *("-I", str(CLIENTS / "cpp/include"), str(_SOURCES / f"{name}.cpp")),
                *("-o", str(program), *flags),
            ],
            check=True,
            timeout=_BUILD_SECONDS,
        )
    return str(program)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bench-external-")


def _libzmq() -> str:
    """Return the path of pyzmq's libzmq, which the gateway uses too.

    Raises:
        FileNotFoundError: pyzmq does not contain the library.
    """
    folder = Path(zmq.__file__).parent.parent / "pyzmq.libs"
    for path in sorted(folder.glob("libzmq*.so*")):
        return str(path)
    raise FileNotFoundError(f"no libzmq in {folder}: expected pyzmq from its wheel")
