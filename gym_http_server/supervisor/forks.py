"""Forks of the supervisor, and the service processes that are not hosts."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence

from gym_http_server.envhost.isolation import close_descriptors, reseed
from gym_http_server.errors import ForkFailed
from gym_http_server.log_stream import STDERR
from gym_http_server.supervisor.modules import threads
from gym_http_server.titles import set_title

__all__ = ["ServiceProcess", "fork", "start_child"]

#: Between two starts, at least, so that one that cannot live does not hold up others.
PAUSE_SECONDS = 1.0


def fork() -> int:
    """Fork this process; return the child's ID here, and 0 in the child.

    Raises:
        ForkFailed: The system has no room for another process, this process may open
            no file to count its threads, or a fork would copy locks that others hold.
    """
    try:
        if threads() != 1:
            raise ForkFailed("the supervisor has started threads and must not fork")
        return os.fork()
    except OSError as error:
        raise ForkFailed(
            f"the server cannot start another process ({error.strerror}): close "
            "instances, or raise the limit of processes or memory of the server"
        ) from None


class ServiceProcess:
    """A service, as the supervisor sees it.

    Attributes:
        name: What to call it in the log, and the title of its process.
        pid: Of its process; 0 if there is none.
        wanted: Whether there is to be one.
    """

    name = ""

    def __init__(self) -> None:
        self.pid = 0
        self.wanted = False
        self._started = float("-inf")

    @property
    def due(self) -> bool:
        """Whether one is to be started now."""
        rested = time.monotonic() - self._started >= PAUSE_SECONDS
        return self.wanted and not self.pid and rested

    def start(self) -> None:
        """Start it, unless there is one.

        Raises:
            ForkFailed: No process can be started.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Have it say goodbye and end."""
        self.wanted = False
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def _fork(self, keep: Sequence[int], run: Callable[[int], int]) -> None:
        """Start its process.

        Args:
            keep: Descriptors that it keeps open.
            run: Its main function: takes the ID of this process, returns the exit
                status. Hosts do not share the modules that it imports.

        Raises:
            ForkFailed: No process can be started.
        """
        self._started = time.monotonic()
        self.pid = start_child(keep, run, self.name)


def start_child(keep: Sequence[int], run: Callable[[int], int], title: str) -> int:
    """Fork a process that is no host, and return its ID; the child never returns.

    Args:
        keep: Descriptors that it keeps open, besides 0, 1 and 2.
        run: Its main function: takes the ID of this process, returns the exit status.
        title: Its title.

    Raises:
        ForkFailed: No process can be started.
    """
    parent = os.getpid()
    pid = fork()
    if pid:
        return pid
    status = 1
    try:
        # Before its descriptor is closed: a signal may arrive at any time.
        signal.set_wakeup_fd(-1)
        close_descriptors([*keep, *STDERR.descriptors()])
        reseed()
        set_title(title)
        status = run(parent)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
