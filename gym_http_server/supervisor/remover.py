"""The remover: a child process that removes the directories of ended instances.

An environment may leave hundreds of thousands of files, and removing them takes
seconds. The supervisor only renames a directory into the trash, and wakes the child.
"""

from __future__ import annotations

import contextlib
import logging
import os

from gym_http_server.log_lines import SUPERVISOR
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.removal import empty, move
from gym_http_server.services import isolate
from gym_http_server.supervisor.forks import ServiceProcess

__all__ = ["Remover"]

# A tenth of the share of others where all processors are busy; at 19 it would be a
# hundredth, and files would be made faster than they are removed.
NICENESS = 10

log = logging.getLogger(SUPERVISOR)


class Remover(ServiceProcess):
    """Removes directories in a child process of low priority.

    The trash itself is the list of work. So nothing is lost if the child ends, or
    cannot be started for a while.

    Args:
        run: The run directory.
    """

    name = "remover"

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.wanted = True
        self._trash = run.trash
        self._moved = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def remove(self, folder: str) -> None:
        """Move a directory out of the way, and have the child remove it."""
        self._moved += 1
        target = f"{self._trash}/{os.path.basename(folder)}.{self._moved}"
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._trash, 0o700)
            move(folder, target)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("cannot remove %s before the server ends: %s", folder, error)
            return
        # A pipe that is full wakes the child as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"\n")

    def start(self) -> None:
        """Start the child.

        Raises:
            ForkFailed: No process can be started.
        """
        self._fork([self._reader], self._run)

    def _run(self, parent: int) -> int:
        isolate(parent)
        os.nice(NICENESS)
        # Where the kernel groups processes by session, niceness acts inside a group.
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
            file.write(str(NICENESS))
        while True:
            with contextlib.suppress(OSError):
                empty(self._trash)
            if not os.read(self._reader, 1 << 16):
                return 0
