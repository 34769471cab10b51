"""Fresh processes: interpreters that start, make a CartPole and wait.

It is what an instance with a process of its own costs without a process to fork.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

__all__ = ["BASELINE", "fresh_process"]

#: What rows call them.
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
    """A process that holds an environment."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def step(self) -> None:
        """Have it take its steps."""
        assert self._process.stdin
        assert self._process.stdout
        print(file=self._process.stdin, flush=True)
        self._process.stdout.readline()


@contextlib.contextmanager
def fresh_process(steps: int = 0) -> Iterator[Fresh]:
    """Run one, which is there when it has made its environment."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(steps=steps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield Fresh(process)
