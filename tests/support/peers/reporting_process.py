"""A provider in another language that reports the calls of its handlers in JSON."""

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self

from tests.support.wait import wait_until


class ReportingProcess:
    """A process that provides an environment, and prints a JSON line for each call.

    Args:
        words: Its command line.
        cwd: Its working directory.
        token: The value of ``GHS_TOKEN``.

    Attributes:
        reports: All lines so far, parsed.
    """

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        token: str | None = None,
    ) -> None:
        variables = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
        if token:
            variables["GHS_TOKEN"] = token
        self._process = subprocess.Popen(
            words,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
        )
        self.reports: list[dict[str, Any]] = []
        self._rest = b""
        self._over = False
        self._taking = Lock()
        self._reading = Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reading.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._process.poll() is None:
                self.ask_to_stop()
                self._process.wait(20.0)
        finally:
            self.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe
                pipe.close()

    def ask_to_stop(self) -> None:
        """Request the process to end, without waiting."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(b"stop\n")

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._reading.join()

    def end(self) -> None:
        """Request the process to end, and read all its lines."""
        self.ask_to_stop()
        self._reading.join(20.0)
        assert not self._process.wait(20.0)

    def _read(self) -> None:
        # Without end, so that the process never waits for room in the pipe.
        while not self._over:
            select.select([self._process.stdout], [], [])
            self._take()

    def _take(self) -> None:
        """Read the lines printed so far."""
        pipe = self._process.stdout
        assert pipe
        with self._taking:
            while not self._over and select.select([pipe], [], [], 0)[0]:
                data = os.read(pipe.fileno(), 65536)
                self._over = not data
                *lines, self._rest = (self._rest + data).split(b"\n")
                self.reports += map(json.loads, lines)

    def done(self, kind: str) -> list[dict[str, Any]]:
        """Return the reports of its handlers of one kind.

        Reports printed before an answer are in the pipe when the answer arrives.
        """
        self._take()
        return [each for each in self.reports if each.get("request") == kind]

    def wait_for(self, words: str) -> None:
        """Wait until the process logs a line with these words."""

        def there() -> bool:
            logged = any(words in each.get("log", "") for each in self.reports)
            assert logged or self._process.poll() is None, self.reports[-5:]
            return logged

        wait_until(there, 30.0, f"a line with {words!r}")
