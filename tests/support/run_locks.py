"""Locks and a folder that the processes of one test run share.

Under pytest-xdist several processes run tests in parallel. A test that measures time
or load runs alone. The locks are file locks, so they end with their process.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_VARIABLE = "TEST_RUN_FOLDER"


def begin() -> None:
    """Create the folder of a run; its worker processes inherit the path."""
    os.environ[_VARIABLE] = tempfile.mkdtemp(prefix="ghst-run-")


def end() -> None:
    """Remove the folder of the run."""
    shutil.rmtree(os.environ.pop(_VARIABLE))


def folder() -> Path:
    """Return the folder that all processes of this run share."""
    return Path(os.environ[_VARIABLE])


@contextlib.contextmanager
def exclusive(what: str) -> Iterator[None]:
    """Hold the lock of this name until the block ends."""
    with _locked(what, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """Run beside other tests, or alone until the block ends.

    Args:
        alone: Whether no other test may run until the end of the block.
    """
    with contextlib.ExitStack() as stack:
        # A test that waits to run alone keeps others from starting.
        with _locked("next", fcntl.LOCK_EX):
            kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
            stack.enter_context(_locked("running", kind))
        yield


@contextlib.contextmanager
def _locked(what: str, kind: int) -> Iterator[None]:
    with (folder() / f"{what}.lock").open("w") as file:
        fcntl.flock(file, kind)
        try:
            yield
        finally:
            # Closing is not enough: processes forked meanwhile have the file, too.
            fcntl.flock(file, fcntl.LOCK_UN)
