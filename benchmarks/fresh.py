"""Fresh processes: new interpreters that create a CartPole and wait.

They show what an instance in its own process costs without forking.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

__all__ = ["BASELINE", "fresh_process"]

#: Name of the fresh processes in rows.
BASELINE = "fresh process"

_PROGRAM = """
import gymnasium
env = gymnasium.make("CartPole-v1")
print("ready", flush=True)
try:
    input()
    env.reset()
    for number in range({steps}):
        if any(env.step(number % 2)[2:4]):
            env.reset()
    print("stepped", flush=True)
    input()
except EOFError:
    pass
"""


class Fresh:
    """A process with an environment."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def step(self) -> None:
        """Let the process take its steps, and wait for the end."""
        assert self._process.stdin
        assert self._process.stdout
        print(file=self._process.stdin, flush=True)
        self._process.stdout.readline()


@contextlib.contextmanager
def fresh_process(steps: int = 0) -> Iterator[Fresh]:
    """Run a fresh process; yields it once it has created its environment."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(steps=steps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield Fresh(process)
