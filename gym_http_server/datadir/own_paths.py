"""Paths that the server itself uses, in which clients make no recordings.

Clients name directories below the data directory, in which the server keeps IDs, the
archive and thumbnails, and in which the directory of the relay and the run directory
may lie, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from gym_http_server.config.settings import Settings
from gym_http_server.errors import InvalidDirectory

__all__ = [
    "ARCHIVE",
    "BODIES",
    "DATABASE",
    "INSTANCE_IDS",
    "LOCK",
    "RESERVE",
    "THUMBNAILS",
    "DataDir",
]

#: Directory in the data directory with the files of ended instances.
ARCHIVE = "ended-instances"
#: Directory in the data directory with the IDs of instances.
INSTANCE_IDS = "instance-ids"
#: Directory in the data directory with pictures of environments.
THUMBNAILS = "thumbnails-of-environments"
#: Names in the directory of the relay.
BODIES, DATABASE, LOCK, RESERVE = "bodies", "relay.sqlite3", "lock", "reserve"
# SQLite opens no database beside which its journal is a directory.
_SQLITE = tuple(DATABASE + end for end in ("", "-journal", "-shm", "-wal"))
_RELAY = (BODIES, *_SQLITE, LOCK, RESERVE)


class DataDir:
    """The data directory, and the paths that the server itself uses.

    Args:
        settings: The settings.
        run_path: Path of the run directory.

    Attributes:
        path: The data directory.
    """

    def __init__(self, settings: Settings, run_path: str) -> None:
        self.path = settings.data_dir
        relay_dir = settings.relay_dir
        self._own = (
            f"{self.path}/{ARCHIVE}",
            f"{self.path}/{INSTANCE_IDS}",
            f"{self.path}/{THUMBNAILS}",
            relay_dir,
            # If that is the data directory.
            *(f"{relay_dir}/{name}" for name in _RELAY),
            run_path,
        )

    def own(self) -> list[str]:
        """Return the real paths of the server, present or future ones.

        A directory that contains the data directory is none of them.
        """
        top = os.path.realpath(self.path)
        paths = [os.path.realpath(path) for path in self._own if path]
        return [path for path in paths if not _is_within(top, path)]

    def check(self, parts: Sequence[str]) -> None:
        """Check that a path does not lead to the server's own paths, nor by links.

        Args:
            parts: The path below the data directory. It need not exist.

        Raises:
            InvalidDirectory: The path leads to them.
        """
        path = os.path.realpath(os.path.join(self.path, *parts))
        if any(_is_within(path, each) for each in self.own()):
            raise _invalid(parts)

    def check_open(self, folder: int, parts: Sequence[str]) -> None:
        """Check that an open directory is none of the server's own.

        Between `check` and the opening, an environment may have renamed directories.

        Args:
            folder: Its descriptor.
            parts: Its path below the data directory, for the message.

        Raises:
            InvalidDirectory: It is one of them.
        """
        opened = os.fstat(folder)
        for path in self.own():
            with contextlib.suppress(OSError):
                if os.path.samestat(opened, os.stat(path)):
                    raise _invalid(parts)


def _is_within(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder


def _invalid(parts: Sequence[str]) -> InvalidDirectory:
    return InvalidDirectory(
        f"directory is {'/'.join(parts)!r:.120}, where the server keeps its own files: "
        "expected another directory"
    )
