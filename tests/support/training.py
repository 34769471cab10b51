"""Runs the programs of a training, and kills them and the server's processes."""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support import processes
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

__all__ = ["Program", "Training", "documented", "training"]

EXAMPLES = ROOT / "examples" / "relay"
_DOCUMENTED = "http://127.0.0.1:5000"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RECOVERY_SECONDS = 60.0


def documented(begin: str, url: str) -> list[str]:
    """Return the words of a command in the README of the examples.

    Args:
        begin: The first words of the command.
        url: The server's address, in place of the one in the README.
    """
    blocks = _BLOCK.findall((EXAMPLES / "README.md").read_text(encoding="utf-8"))
    (line,) = (block for block in blocks if block.startswith(begin))
    return [word.replace(_DOCUMENTED, url) for word in shlex.split(line)]


class Program:
    """A program in Python that is started anew when it was killed.

    Args:
        words: The script or module, and its arguments.
        log: The file to which its output is appended.
    """

    def __init__(self, words: list[str], log: Path) -> None:
        self.kills = 0
        self._words = words
        self._log = log
        self._process = self._start()

    @property
    def output(self) -> str:
        """All output so far, of all starts."""
        return self._log.read_text(errors="replace")

    @property
    def status(self) -> int | None:
        """The exit status, or None while the program runs."""
        return self._process.poll()

    @property
    def over(self) -> bool:
        """Whether the program has ended by itself.

        Raises:
            AssertionError: It has failed.
        """
        status = self._process.poll()
        assert status in (None, 0), f"{self._words} failed:\n{self.output[-4000:]}"
        return status == 0

    def kill(self) -> bool:
        """Kill the program and start it anew; return False if it was over."""
        if self.over:
            return False
        self._process.kill()
        # It may have ended at the same moment.
        if self._process.wait() == 0:
            return False
        self.kills += 1
        self._process = self._start()
        return True

    def end(self) -> None:
        """Kill the program for good."""
        self._process.kill()
        self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *self._words],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


class Training:
    """A server with a training run, and the programs that use it.

    Args:
        server: The server.
        programs: Words of each program by its name; ``trainer`` is one of them.
        folder: A folder for logs.
    """

    def __init__(
        self, server: Server, programs: Mapping[str, list[str]], folder: Path
    ) -> None:
        self.server = server
        self.programs = {
            name: Program(words, folder / f"{name}.log")
            for name, words in programs.items()
        }
        self._kinds: dict[str, Callable[[], bool]] = {
            "relay": self._kill_relay,
            "web worker": self._kill_web_worker,
            "server": self._kill_server,
            "worker": self._kill_worker,
            "trainer": self.programs["trainer"].kill,
        }
        self.kills = dict.fromkeys(self._kinds, 0)

    @property
    def trainer(self) -> Program:
        """The trainer's program."""
        return self.programs["trainer"]

    def kill_in_turn(
        self, count: int, progress: Callable[[], int], step: int, seed: int = 0
    ) -> None:
        """Kill the relay, a web worker, the server, a worker and the trainer in turn.

        Args:
            count: Number of kills.
            progress: Returns how far the training is.
            step: Progress between two kills.
            seed: Seed of the moments and of the victims.
        """
        draw = random.Random(seed)
        for number, kind in zip(range(count), self._turns(), strict=False):
            begun = progress()
            wait_until(
                lambda begun=begun: self.trainer.over or progress() >= begun + step,
                RECOVERY_SECONDS,
                f"the training to go on before kill {number + 1}",
            )
            # Any moment between two publications, not always the one after it.
            time.sleep(draw.random() * 0.02)
            self._draw = draw
            # A relay or web worker that was killed before may not run again yet.
            wait_until(
                lambda kill=self._kinds[kind]: self.trainer.over or kill(),
                RECOVERY_SECONDS,
                f"a {kind} to kill",
            )
            self.kills[kind] += not self.trainer.over

    def wait_over(self, seconds: float) -> str:
        """Wait until all programs are over, and return the trainer's output."""
        wait_until(
            lambda: all(each.over for each in self.programs.values()),
            seconds,
            "the programs to end",
        )
        return self.trainer.output

    def end(self) -> None:
        """Kill all programs."""
        for each in self.programs.values():
            each.end()

    def _turns(self) -> Iterator[str]:
        while True:
            yield from self._kinds

    def _kill_relay(self) -> bool:
        return _kill(self.server.services("relay"))

    def _kill_web_worker(self) -> bool:
        _, workers = processes.gunicorn(self.server.pid)
        ordered = sorted(workers, key=lambda each: each.pid)
        return bool(ordered) and _kill([self._draw.choice(ordered)])

    def _kill_server(self) -> bool:
        self.server.kill_and_restart()
        return True

    def _kill_worker(self) -> bool:
        names = [name for name in self.programs if name != "trainer"]
        return self.programs[self._draw.choice(names)].kill()


def _kill(found: Iterator[psutil.Process] | list[psutil.Process]) -> bool:
    killed = False
    for each in found:
        each.kill()
        killed = True
    return killed


@contextmanager
def training(
    server: Server, programs: Mapping[str, list[str]], folder: Path
) -> Iterator[Training]:
    """Start the programs of a training, and kill them in the end."""
    started = Training(server, programs, folder)
    try:
        yield started
    finally:
        started.end()
