"""Environments whose host hangs in a call or after it, at action 1.

Before they hang, they create the file ``stuck`` in their working directory.
A server loads this module with ``--import tests.support.envs.stuck``.
"""

import ctypes
import signal
import threading
import time
from pathlib import Path

import gymnasium

from tests.support.envs.hostile import Hostile


class HoldLock(Hostile):
    """Has a thread that takes the interpreter's lock and never releases it."""

    def misbehave(self) -> None:
        def hold() -> None:
            time.sleep(0.1)
            Path("stuck").touch()
            ctypes.PyDLL(None).sleep(600)

        threading.Thread(target=hold, daemon=True).start()


class StopLoop(Hostile):
    """Has a signal handler that never returns."""

    def misbehave(self) -> None:
        def handle(*_: object) -> None:
            Path("stuck").touch()
            time.sleep(600)

        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.1)


class Gate(Hostile):
    """Waits in a call until the file ``go`` is there."""

    def misbehave(self) -> None:
        Path("stuck").touch()
        while not Path("go").exists():
            time.sleep(0.01)


for _kind in (Gate, HoldLock, StopLoop):
    gymnasium.register(f"stuck/{_kind.__name__}-v0", _kind)
