"""Forks of the supervisor."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence

from gym_http_server.errors import ForkFailed
from gym_http_server.host.isolation import close_descriptors, reseed
from gym_http_server.processes.log_lines import SUPERVISOR
from gym_http_server.processes.log_stream import STDERR
from gym_http_server.processes.titles import set_title
from gym_http_server.supervisor.prefork import threads

__all__ = ["start_child"]

log = logging.getLogger(SUPERVISOR)


def _fork() -> int:
    """Fork this process; return the child's ID in the parent, and 0 in the child.

    Raises:
        ForkFailed: The system has no room for another process; this process cannot open
            a file to count its threads; or a fork would copy locks of other threads.
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


def start_child(keep: Sequence[int], run: Callable[[int], int], title: str) -> int:
    """Fork a process that is not a host, and return its ID; the child never returns.

    Args:
        keep: Descriptors that it keeps open, besides 0, 1 and 2.
        run: Its main function: takes the ID of this process, returns the exit status.
        title: Its title.

    Raises:
        ForkFailed: No process can be started.
    """
    parent = os.getpid()
    pid = _fork()
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
        log.exception("the %s failed", title)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
