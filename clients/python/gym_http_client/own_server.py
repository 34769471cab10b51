"""Starts a server for one purpose, and ends it afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from gym_http_client.errors import ServerUnreachable

__all__ = ["own_server"]

SERVER = "gym_http_server"
_ADDRESS = re.compile(rb"Listening on (http://\S+)")
_PR_SET_PDEATHSIG = 1
# Loaded at import: between fork and exec, nothing should be.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0


@contextlib.contextmanager
def own_server(
    *flags: str, directory: str = "", python_path: Sequence[str] = ()
) -> Iterator[str]:
    """Run a server on a free port of this machine, and yield its URL.

    It has the default settings, besides the flags, and its own temporary directories.

    Args:
        flags: Flags for ``gym-http-server serve``.
        directory: The directory in which it starts, where it also finds modules; by
            default an empty one.
        python_path: More directories with modules.

    Raises:
        ServerUnreachable: It is not installed, or does not start.
    """
    if importlib.util.find_spec(SERVER) is None:
        raise ServerUnreachable(
            "there is no gym_http_server here to start: install it with pip install "
            "gymnasium-http-server, or give the URL of a server"
        )
    with tempfile.TemporaryDirectory(prefix="gym-http-") as folder:
        command = [sys.executable, "-m", SERVER, "serve", "--port", "0"]
        command += ["--run-dir", f"{folder}/r", "--data-dir", f"{folder}/d", *flags]
        with open(f"{folder}/log", "wb") as log:
            process = subprocess.Popen(
                command,
                cwd=directory or folder,
                env=_environment(python_path),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C is for this process, which ends the server when it is done.
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        assert process.stdout  # noqa: S101 - it is a pipe
        try:
            url = _address(process.stdout)
            if not url:
                text = Path(folder, "log").read_text(errors="replace").strip()
                raise ServerUnreachable(f"the server did not start: {text[-2000:]}")
            yield url
        finally:
            _end(process)
            process.stdout.close()


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent is killed, on Linux."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))


def _environment(python_path: Sequence[str]) -> dict[str, str]:
    env = {name: text for name, text in os.environ.items() if name[:4] != "GHS_"}
    # The packages of this process, wherever it found them.
    paths = [*python_path, *(path for path in sys.path if os.path.isabs(path))]
    return {**env, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def _address(output: IO[bytes]) -> str:
    """Read the address that the server prints; "" if it ends or takes too long."""
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


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
