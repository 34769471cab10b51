"""Forks of the supervisor that are no hosts: the services beside it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence

from gym_http_server.envhost.isolation import close_descriptors, reseed
from gym_http_server.log_stream import STDERR
from gym_http_server.supervisor.modules import threads

__all__ = ["ServiceProcess", "forked"]


class ServiceProcess:
    """A service, as the supervisor sees it.

    Attributes:
        pid: Of its process; 0 if there is none.
    """

    def __init__(self) -> None:
        self.pid = 0

    def stop(self) -> None:
        """Have it say goodbye and end."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def _fork(self, keep: Sequence[int], run: Callable[[int], int]) -> None:
        """Start it.

        Args:
            keep: Descriptors that it keeps open.
            run: What it does; called with the ID of this process, gives its exit
                status. What it imports itself, hosts do not have to share.

        Raises:
            OSError: The system has no room for another process.
        """
        self.pid = forked(keep, run)


def forked(keep: Sequence[int], run: Callable[[int], int]) -> int:
    """Fork a process; give its ID here, and never return there."""
    if threads() != 1:
        # A fork would copy the locks that other threads hold.
        raise RuntimeError("the supervisor has started threads and must not fork")
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        close_descriptors([*keep, *STDERR.descriptors()])
        reseed()
        status = run(parent)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
