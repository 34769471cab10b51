"""The two servers, as processes."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from benchmarks.pinning import Cores, pinned

__all__ = ["Server", "original_server", "our_server"]

_ADDRESS = re.compile(rb"Listening on (http://\S+)")
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


class Server(NamedTuple):
    """A server that runs.

    Attributes:
        url: Its address.
        pid: The process that was started.
        folder: Where it may write.
    """

    url: str
    pid: int
    folder: Path


@contextlib.contextmanager
def our_server(cores: Cores) -> Iterator[Server]:
    """Run the server of this repository, with the settings that it has by itself."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        command = ["gym_http_server", "serve", "--port", "0"]
        places = ["--run-dir", f"{name}/run", "--data-dir", f"{name}/data"]
        with _started([*command, *places], cores, Path(name)) as server:
            yield server


@contextlib.contextmanager
def original_server(cores: Cores) -> Iterator[Server]:
    """Run the original's arrangement."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        _started(["benchmarks.original"], cores, Path(name)) as server,
    ):
        yield server


@contextlib.contextmanager
def _started(module: list[str], cores: Cores, folder: Path) -> Iterator[Server]:
    with open(folder / "log", "w+b") as log, pinned(cores):
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout
    try:
        url = _address(process.stdout)
        if not url:
            words = (folder / "log").read_text(errors="replace")
            raise RuntimeError(f"{module[0]} does not start:\n{words}")
        yield Server(url, process.pid, folder)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _address(output: IO[bytes]) -> str:
    """Read the address that a server prints; "" if it ends or takes too long."""
    deadline = time.monotonic() + _START_SECONDS
    printed = b""
    while select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
        data = os.read(output.fileno(), 4096)
        printed += data
        if not data:
            break
        if b"\n" in printed and (match := _ADDRESS.search(printed)):
            return match[1].decode()
    return ""
