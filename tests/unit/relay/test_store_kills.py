"""The store after kills, and the order of its syncs, answers and removals."""

import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults.syscalls import preloaded, read_calls, unsynced
from tests.support.relay_steps import AFTER

pytestmark = pytest.mark.toolchain


@pytest.fixture
def in_memory() -> Iterator[str]:
    """A directory in memory, if there is one: a kill is no loss of power."""
    shared = Path("/dev/shm")
    path = tempfile.mkdtemp(prefix="ghst-", dir=shared if shared.is_dir() else None)
    yield path
    shutil.rmtree(path)


def test_a_kill_before_any_call_leaves_a_whole_store(in_memory: str) -> None:
    assert int(take_steps("kill", in_memory)) > 100


def test_all_is_synced_before_answers_and_removals(tmp_path: Path) -> None:
    folder, log = f"{tmp_path}/relay", tmp_path / "calls"
    take_steps("answer", folder, log)
    calls = read_calls(log)
    answers = [at for at, call in enumerate(calls) if call.data == "answer"]
    assert len(answers) == len(AFTER) - 1
    removals = [
        at
        for at, call in enumerate(calls)
        if call.name == "unlink" and call.path.endswith(".body")
    ]
    assert len(removals) == 3
    for at in answers + removals:
        assert not unsynced(calls[:at], folder)
    bodies = [call for call in calls if "/bodies" in call.path]
    assert [call.name for call in bodies[:3]] == ["write", "sync", "sync"]
    # Each step writes something.
    for start, end in itertools.pairwise(answers):
        assert any(call.name == "sync" for call in calls[start:end])


def take_steps(kind: str, folder: str, log: Path | None = None) -> str:
    command = [sys.executable, "-m", "tests.support.relay_steps", kind, folder]
    done = subprocess.run(command, env=preloaded(log), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
