"""Ends a host in the same way as a process that makes a part of its environment ended.

So clients get signal, exit status and last line of that process, as of a host that ends
by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import NoReturn

from gymnasium.vector import AsyncVectorEnv

__all__ = ["end_alike", "flush", "follow_dead_worker"]

#: Seconds for a worker that has closed its pipe to end, before it is killed.
ENDING_SECONDS = 1.0


def end_alike(exit_code: int) -> NoReturn:
    """End this process with an exit status, or by a signal.

    Args:
        exit_code: The status, or the negative number of the signal.
    """
    flush()
    if exit_code < 0:
        if -exit_code != signal.SIGKILL:
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    os._exit(exit_code)


def flush() -> None:
    """Flush the output of the environment."""
    # The environment may have closed it.
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()


def follow_dead_worker(error: BaseException) -> None:
    """End this process if an `AsyncVectorEnv` raised an error since a worker has died.

    Gymnasium raises one without a reason, and another one in each later call.
    """
    workers = _workers_behind(error)
    if not workers:
        return
    ended = connection.wait([each.sentinel for each in workers], ENDING_SECONDS)
    dead = next((each for each in workers if each.sentinel in ended), workers[0])
    # One that has closed all of its descriptors may be alive.
    dead.join(ENDING_SECONDS)
    # The others must not print that their pipes have ended, too.
    for each in workers:
        each.kill()
    dead.join()
    # There is no exit code if the environment has waited for the process.
    end_alike(1 if dead.exitcode is None else dead.exitcode)


def _workers_behind(error: BaseException) -> list[BaseProcess]:
    """Return the workers of the vector whose pipe broke; an empty list if none did."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    # An exception of an environment in a worker is raised elsewhere.
    if not isinstance(error, EOFError | OSError) or not frames:
        return []
    if frames[-1].f_globals.get("__name__") != connection.__name__:
        return []
    for frame in reversed(frames):
        vector = frame.f_locals.get("self")
        if isinstance(vector, AsyncVectorEnv):
            pipes = zip(
                getattr(vector, "processes", ()),
                getattr(vector, "parent_pipes", ()),
                strict=False,
            )
            return [process for process, pipe in pipes if pipe is not None]
    return []
