"""Runs our server, and the servers that it is compared with, as processes."""

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

__all__ = ["Server", "no_server", "original_server", "our_server", "program"]

_ADDRESS = re.compile(rb"Listening on (http://\S+)")
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


class Server(NamedTuple):
    """A running server.

    Attributes:
        url: Its address.
        pid: ID of the started process.
        folder: Directory for its files.
    """

    url: str
    pid: int
    folder: Path


@contextlib.contextmanager
def our_server(
    cores: Cores, *flags: str, over_unix_socket: bool = False
) -> Iterator[Server]:
    """Run the server of this repository, with its default settings.

    Args:
        cores: Cores on which it runs.
        flags: More flags for ``serve``.
        over_unix_socket: Whether its address is that of a Unix socket.
    """
    with _folder() as folder:
        command = ["gym_http_server", "serve", "--port", "0", *flags]
        command += ["--run-dir", f"{folder}/run", "--data-dir", f"{folder}/data"]
        path = folder / "http.sock"
        if over_unix_socket:
            command += ["--unix", str(path)]
        with _started(command, cores, folder) as server:
            if over_unix_socket:
                server = server._replace(url=f"http+unix://{path}")
            yield server


def original_server(cores: Cores) -> contextlib.AbstractContextManager[Server]:
    """Run the original server."""
    return program(cores, "benchmarks.original")


@contextlib.contextmanager
def program(
    cores: Cores, module: str, *arguments: str, python: str | Path = sys.executable
) -> Iterator[Server]:
    """Run a module that serves, and prints its address as our server does.

    Args:
        cores: Cores on which it runs.
        module: The module.
        arguments: Its arguments.
        python: The Python that runs it.
    """
    command = [module, *arguments]
    with _folder() as folder, _started(command, cores, folder, python) as server:
        yield server


@contextlib.contextmanager
def no_server(_cores: Cores) -> Iterator[Server]:
    """Yield a placeholder, for agents that need no server."""
    with _folder() as folder:
        yield Server("", os.getpid(), folder)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        yield Path(name)


@contextlib.contextmanager
def _started(
    module: list[str], cores: Cores, folder: Path, python: str | Path = sys.executable
) -> Iterator[Server]:
    with open(folder / "log", "w+b") as log, pinned(cores):
        process = subprocess.Popen(
            [python, "-m", *module],
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
