"""A process that provides environments to a server by `serve_env`.

Its command line is ``python -m tests.support.peers.provider_process URL NAME …``.
"""

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium

from tests.support.server import ROOT

STEP_LOG = "tally:"


class StepLog(gymnasium.Env[int, int]):
    """Counts its steps, and appends each action to a file.

    Args:
        path: The file.
    """

    observation_space = gymnasium.spaces.Discrete(100_000)
    action_space = gymnasium.spaces.Discrete(100_000)

    def __init__(self, path: str) -> None:
        self._path = path
        self._count = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._count = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        with open(self._path, "a") as file:
            file.write(f"{action}\n")
        self._count += 1
        return self._count, 1.0, False, False, {}


@contextlib.contextmanager
def provided_env(
    url: str,
    env_id: str,
    *,
    name: str = "provided",
    n: int = 1,
    dialect: str = "binary",
    transport: str = "websocket",
) -> Iterator[subprocess.Popen[bytes]]:
    """Provide environments to a server from another process.

    Args:
        url: The server's, with the token.
        env_id: The environment, or a `STEP_LOG` and a path.
        name: The name after ``external/``.
        n: The number of environments.
        dialect: The dialect of the connections.
        transport: The transport of the connections.
    """
    paths = [str(ROOT), str(ROOT / "clients" / "python")]
    command = [
        sys.executable,
        "-m",
        "tests.support.peers.provider_process",
        url,
        env_id,
        name,
    ]
    process = subprocess.Popen(
        [*command, str(n), dialect, transport],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MUJOCO_GL": "egl"},
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def main(
    url: str, env_id: str, name: str, n: str, dialect: str, transport: str
) -> None:
    """Provide environments until the process is ended."""
    from gym_http_client import serve_env

    factory = functools.partial(gymnasium.make, env_id)
    if env_id.startswith(STEP_LOG):
        factory = functools.partial(StepLog, env_id.removeprefix(STEP_LOG))
    serve_env(factory, url, name=name, n=int(n), dialect=dialect, transport=transport)


if __name__ == "__main__":
    main(*sys.argv[1:])
