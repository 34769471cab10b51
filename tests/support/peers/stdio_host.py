"""The host's end of a command: speaks plain JSON on its standard input and output."""

import json
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

LIMITS = {"max_message": 1_000_000}


class StdioHost:
    """Starts a command as a host does, but with pipes, as containers have them.

    Args:
        words: The command line.
        cwd: The working directory.
        env: The environment variables; ``None`` for those of this process.

    Attributes:
        process: The process.
    """

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            words, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self._input = self.process.stdin
        self._output = self.process.stdout
        self._errors = self.process.stderr
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self._input, self._output, self._errors):
            each.close()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._input.write(data)
        self._input.flush()

    def send_message(self, **members: Any) -> None:
        """Send a message."""
        data = json.dumps(members).encode()
        self.send(struct.pack("<I", len(data)) + data)

    def receive(self) -> Any:
        """Return the next message."""
        (size,) = struct.unpack("<I", self._output.read(4))
        return json.loads(self._output.read(size))

    def welcome(self, heartbeat_s: float = 9.0) -> None:
        """Receive the hello, and welcome the command."""
        assert self.receive()["type"] == "hello"
        welcome = {"protocol": 1, "connection": "1", "resume": "", "resumed": False}
        welcome |= {"heartbeat_s": heartbeat_s, "grace_s": 0.0, "limits": LIMITS}
        self.send_message(type="welcome", **welcome)

    def begin(self, kind: str, **members: Any) -> None:
        """Send a request, and do not wait for its answer."""
        self._number += 1
        self.send_message(type=kind, id=self._number, deadline_s=9.0, **members)

    def request(self, kind: str, **members: Any) -> Any:
        """Send a request, and return its result."""
        self.begin(kind, **members)
        answer = self.receive()
        assert answer["id"] == self._number, answer
        return answer["result"]

    def wait_for_line(self, words: str) -> None:
        """Read the lines that it prints, up to one with these words."""
        for line in self._errors:
            if words in line.decode():
                return
        raise AssertionError(f"there is no line with {words!r}")

    def end_input(self) -> None:
        """Close its standard input."""
        self._input.close()

    def wait_exit(self) -> tuple[int, bytes, str]:
        """Wait until it ends by itself.

        Returns:
            Its exit status, the rest of its standard output, and that of its standard
            error.
        """
        status = self.process.wait(10.0)
        return status, self._output.read(), self._errors.read().decode()
