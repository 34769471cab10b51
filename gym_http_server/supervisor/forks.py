"""Forks of the supervisor that are no hosts: the services beside it."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence

from gym_http_server.envhost.isolation import close_descriptors, reseed
from gym_http_server.supervisor.modules import threads

__all__ = ["fork_service"]


def fork_service(keep: Sequence[int], run: Callable[[int], int]) -> int:
    """Fork a process; give its ID here, and never return there.

    Args:
        keep: Descriptors that it keeps open.
        run: What it does; called with the ID of this process, gives its exit status.
            What it imports itself, hosts do not have to share.

    Raises:
        OSError: The system has no room for another process.
    """
    if threads() != 1:
        # A fork would copy the locks that other threads hold.
        raise RuntimeError("the supervisor has started threads and must not fork")
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        close_descriptors(list(keep))
        reseed()
        status = run(parent)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
