"""Processes below this one: whose they are, and how to end them.

A host may start processes, and those may start others, leave its session, and be
orphaned. The supervisor is the reaper of such orphans, so everything that a host
ever started is below the supervisor, and carries the host's mark in its
environment unless it took pains to lose it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection

from gym_http_server.envhost.isolation import INSTANCE_VARIABLE

__all__ = ["children", "descendants", "kill_strays", "kill_tree"]


def children(pid: int) -> list[int]:
    """List the children of a process; none if it is gone."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        pass
    return found


def descendants(pid: int) -> list[int]:
    """List everything below a process, parents before children."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def kill_tree(pid: int) -> None:
    """Kill a process and everything below it."""
    below = descendants(pid)
    _kill(pid)
    for each in below:
        _kill(each)


def kill_strays(hosts: dict[str, int], spared: Collection[int] = ()) -> bool:
    """Kill what hosts that have ended left behind.

    Args:
        hosts: Instance IDs with the process IDs of the hosts that live.
        spared: Further children of this process, which no host started.

    Returns:
        Whether there was something: while it is being killed it may start more.
    """
    found = False
    alive = {*hosts.values(), *spared}
    for child in children(os.getpid()):
        if child not in alive and not _belongs_to_living(child, hosts):
            kill_tree(child)
            found = True
    return found


def _belongs_to_living(pid: int, hosts: dict[str, int]) -> bool:
    try:
        if os.getsid(pid) in hosts.values():
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return False
    mark = INSTANCE_VARIABLE.encode() + b"="
    for variable in variables:
        if variable.startswith(mark):
            return variable[len(mark) :].split(b":")[0].decode() in hosts
    return False


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
