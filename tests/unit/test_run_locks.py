"""A test that runs alone waits for running tests, delays new ones and never starves."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.server import ROOT
from tests.support.wait import wait_until

# Prints a line before its turn and one in it, and ends it on request.
PROGRAM = """
import sys
from tests.support import run_locks
print("asks", flush=True)
with run_locks.turn(alone=sys.argv[1] == "alone"):
    print("runs", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a separate run: this test itself holds a lock of another one."""
    monkeypatch.setenv("TEST_RUN_FOLDER", str(tmp_path))


class Asking:
    """A process that waits for a turn."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        assert self._output() == "asks"

    def runs(self) -> None:
        """Wait until it has its turn."""
        assert self._output() == "runs"

    def waits(self) -> None:
        """Wait until it waits for its turn, by proc_locks(5)."""

        def blocked() -> bool:
            lines = Path("/proc/locks").read_text().splitlines()
            waiting = [line.split() for line in lines if "->" in line]
            return any(str(self._process.pid) in words for words in waiting)

        wait_until(blocked, 20.0, "it to wait")

    def ends(self) -> None:
        """Make it end its turn."""
        self._process.communicate("\n", timeout=30)

    def _output(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()


@contextmanager
def asking(kind: str) -> Iterator[Asking]:
    """Wait for a turn in a process."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            yield Asking(process)
        finally:
            process.kill()


def test_tests_run_side_by_side() -> None:
    with asking("beside") as one, asking("beside") as other:
        one.runs()
        other.runs()


def test_a_test_alone_keeps_all_others_waiting() -> None:
    with asking("alone") as one:
        one.runs()
        with asking("beside") as other:
            other.waits()
            with asking("alone") as third:
                third.waits()
                one.ends()
                for each in (other, third):
                    each.runs()
                    each.ends()


def test_a_test_alone_waits_for_running_tests_and_comes_next() -> None:
    with asking("beside") as one, asking("beside") as two:
        one.runs()
        two.runs()
        with asking("alone") as third:
            third.waits()
            with asking("beside") as fourth:
                fourth.waits()
                one.ends()
                third.waits()
                two.ends()
                third.runs()
                fourth.waits()
                third.ends()
                fourth.runs()


def test_a_killed_process_keeps_none_waiting() -> None:
    with asking("alone") as one:
        one.runs()
    with asking("alone") as other:
        other.runs()
