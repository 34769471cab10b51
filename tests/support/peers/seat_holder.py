"""A program that holds a seat, and writes down what it does and sees.

Its command line is ``python -m tests.support.peers.seat_holder URL SEAT JOURNAL BASE
STEPS``. Its actions are the numbers from BASE + 1 on, and it ends after STEPS steps.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from gym_http_client import RemoteEnv
from tests.support.server import ROOT


class Entry(NamedTuple):
    """A step in a journal.

    Attributes:
        action: The action.
        seen: The actions of all; ``None``: there was no answer, or the episode was cut.
    """

    action: int
    seen: list[int] | None


class SeatHolder:
    """Holds a seat in another process, which is killed and started again.

    Args:
        url: The server's.
        seat: The seat's ID.
        journal: The file for its journal.
        steps: The number of steps that the process takes.
    """

    def __init__(self, url: str, seat: str, journal: Path, steps: int) -> None:
        self._args = (url, seat, str(journal))
        self._journal = journal
        self._steps = steps
        self._lives = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", __name__, *self._args]
        command += [str(self._lives * 100_000), str(self._steps)]
        self._lives += 1
        self._process = subprocess.Popen(command, cwd=ROOT)

    def wait(self) -> int:
        """Wait until the process has taken all its steps; return its exit status."""
        assert self._process
        return self._process.wait()

    def kill(self) -> None:
        """Kill the process if it runs."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def written(self) -> list[dict[str, Any]]:
        """Return the lines of the journal, but an incomplete one."""
        if not self._journal.exists():
            return []
        *lines, _ = self._journal.read_text().split("\n")
        return [json.loads(line) for line in lines]

    def instance(self) -> str:
        """Return the ID of the last instance."""
        ids = [line["instance"] for line in self.written() if "instance" in line]
        return str(ids[-1])

    def entries(self) -> list[Entry]:
        """Return all steps."""
        found: list[Entry] = []
        for line in self.written():
            if "action" in line:
                found.append(Entry(line["action"], None))
            elif "seen" in line:
                found[-1] = found[-1]._replace(seen=line["seen"])
        return found


def main(url: str, seat: str, journal: str, base: str, steps: str) -> None:
    """Play."""
    with open(journal, "a", buffering=1) as file:

        def write(**line: Any) -> None:
            file.write(json.dumps(line) + "\n")

        with RemoteEnv(url, seat, wait_s=20) as env:
            write(instance=env.instance_id)
            env.reset()
            for action in range(int(base) + 1, int(base) + 1 + int(steps)):
                write(action=action)
                seen, _, terminated, truncated, info = env.step(action)
                if "cut" in info:
                    write(cut=info["cut"])
                else:
                    write(seen=seen.tolist())
                if terminated or truncated:
                    env.reset()


if __name__ == "__main__":
    main(*sys.argv[1:])
