"""Detects kills by the kernel for lack of memory, by the count of the control group.

The supervisor and its hosts are in one control group, that of a container for example.
If the kernel kills a host there, it uses SIGKILL, which alone does not show the reason.
"""

from __future__ import annotations

import contextlib
import os
import time

__all__ = ["OomKills"]

#: A process with much memory takes some time to end after it was killed.
RECENT_SECONDS = 10.0
_ROOT = "/sys/fs/cgroup"
_COUNTER = b"oom_kill "


class OomKills:
    """Watches the count of this process's control group.

    Args:
        cgroup: File that names the group.
        root: Where control groups are mounted.
    """

    def __init__(self, cgroup: str = "/proc/self/cgroup", root: str = _ROOT) -> None:
        self._path = _counting_file(cgroup, root)
        self._count = self._read()
        self._at = float("-inf")

    def tick(self) -> None:
        """Read the count; to be called a few times a second."""
        count = self._read()
        if count > self._count:
            self._at = time.monotonic()
        self._count = count

    def recent(self) -> bool:
        """Return whether a process of the group was killed a moment ago."""
        self.tick()
        return time.monotonic() - self._at < RECENT_SECONDS

    def _read(self) -> int:
        if self._path:
            with contextlib.suppress(OSError, ValueError), open(self._path, "rb") as f:
                for line in f:
                    if line.startswith(_COUNTER):
                        return int(line.split()[1])
        return 0


def _counting_file(cgroup: str, root: str) -> str:
    """Return the file with the count; "" if there is none."""
    found = []
    with contextlib.suppress(OSError), open(cgroup) as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            # In a container, the group may be mounted as if it were the root.
            places = [path.rstrip("/"), ""]
            if "memory" in controllers.split(","):
                found += [f"{root}/memory{each}/memory.oom_control" for each in places]
            elif not controllers:
                found += [f"{root}{each}/memory.events" for each in places]
    return next(filter(os.path.exists, found), "")
