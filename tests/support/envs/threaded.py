"""A module that starts a thread when it is imported, as some libraries do."""

import os
import sys
import threading
from typing import Any

import gymnasium

from tests.support.envs.hostile import Hostile
from tests.support.envs.intruder import Intruder

threading.Thread(target=threading.Event().wait, daemon=True).start()


class Threaded(Hostile):
    """Returns how its process was started."""

    def misbehave(self) -> dict[str, object]:
        return {"argv": sys.argv, "command": sys.orig_argv, "pid": os.getpid()}


class ThreadedArguments(Hostile):
    """Keeps an argument."""

    def __init__(self, map: Any, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.kept = map


gymnasium.register("hostile/Threaded-v0", Threaded)
gymnasium.register("hostile/ThreadedArguments-v0", ThreadedArguments)
gymnasium.register("intruder/Apart-v0", Intruder)
