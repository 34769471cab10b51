"""The run directory: where the processes of one server meet.

::

    RUN/                     0700
     ├─ lock                 locked while the launcher lives
     ├─ supervisor.sock      requests to the supervisor
     ├─ draining             exists once the server is about to stop
     └─ 3c657dbc/            an instance
         ├─ host.sock        requests to its host
         ├─ status           the host's status page
         ├─ log              what the environment prints
         ├─ work/  tmp/      the host's working and temporary directories

The status page is memory that the host writes and the supervisor reads, so that
deadlines, idle reaping and figures need no message to a busy host.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gym_http_server.errors import StartError

__all__ = ["RunDir", "Status", "StatusPage"]

SOCKET_PATH_BYTES = 107
NAME_PREFIX = "gym-http-"
LOCK = "lock"
YOUNG_SECONDS = 5
_PAGE = struct.Struct("<QQQQII")
_BUSY, _USED, _STEPS, _EPISODES, _STREAMS = 0, 8, 16, 24, 32
_U64 = struct.Struct("<Q")
_U32 = struct.Struct("<I")


class RunDir:
    """Paths in a run directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def supervisor_socket(self) -> str:
        """Socket of the supervisor."""
        return f"{self.path}/supervisor.sock"

    @property
    def draining(self) -> str:
        """File that exists once the server is about to stop."""
        return f"{self.path}/draining"

    def instance(self, instance_id: str) -> str:
        """Folder of an instance."""
        return f"{self.path}/{instance_id}"

    def host_socket(self, instance_id: str) -> str:
        """Socket of the host of an instance."""
        return f"{self.path}/{instance_id}/host.sock"

    def status(self, instance_id: str) -> str:
        """Status page of the host of an instance."""
        return f"{self.path}/{instance_id}/status"

    def log(self, instance_id: str) -> str:
        """What the environment of an instance printed."""
        return f"{self.path}/{instance_id}/log"

    @classmethod
    @contextlib.contextmanager
    def make(cls, parent: str) -> Iterator[RunDir]:
        """Make a run directory, hold its lock, and remove it in the end.

        Args:
            parent: Where to make it; "" is the temporary directory.

        Raises:
            StartError: It cannot be made there, or sockets' paths would be too long.
        """
        base = Path(parent or tempfile.gettempdir())
        try:
            if parent:
                base.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(base)
            path = tempfile.mkdtemp(prefix=NAME_PREFIX, dir=base.resolve())
        except OSError as error:
            raise StartError(
                f"cannot make a run directory in {base}: {error}"
            ) from None
        run = cls(path)
        lock = os.open(f"{path}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            longest = len(os.fsencode(run.host_socket("0" * 8)))
            if longest > SOCKET_PATH_BYTES:
                raise StartError(
                    f"the run directory {path} is too deep: a socket's path in it "
                    f"would have {longest} bytes, {SOCKET_PATH_BYTES} are possible; "
                    "choose a shorter one with --run-dir"
                )
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield run
        finally:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _sweep(base: Path) -> None:
    # A server that was killed leaves its directory; its lock is free, though.
    for path in base.glob(f"{NAME_PREFIX}????????/{LOCK}"):
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                young = time.time() - path.stat().st_mtime < YOUNG_SECONDS
                if young or path.stat().st_uid != os.getuid():
                    # One this young may be about to be locked.
                    continue
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
            finally:
                os.close(lock)


class Status(NamedTuple):
    """What a status page says; times are of the monotonic clock, nanoseconds.

    Attributes:
        busy_since_ns: When the present call began; 0 if there is none.
        last_used_ns: When the last call that counts as use ended.
        steps: Steps so far.
        episodes: Episodes ended so far.
        streams: Open streams.
    """

    busy_since_ns: int
    last_used_ns: int
    steps: int
    episodes: int
    streams: int


class StatusPage:
    """The status page of a host, for writing (the host) or reading (the supervisor)."""

    def __init__(self, path: str, *, writable: bool = False) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, mmap.PAGESIZE)
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(file, mmap.PAGESIZE, access=access)
        finally:
            os.close(file)

    def read(self) -> Status:
        """Read all of it."""
        return Status(*_PAGE.unpack_from(self._map)[:5])

    def begin(self, now_ns: int) -> None:
        """Note that a call begins."""
        _U64.pack_into(self._map, _BUSY, now_ns)

    def end(self, now_ns: int, *, used: bool) -> None:
        """Note that the call has ended."""
        if used:
            _U64.pack_into(self._map, _USED, now_ns)
        _U64.pack_into(self._map, _BUSY, 0)

    def count(self, steps: int, episodes: int) -> None:
        """Note how many steps and episodes there have been."""
        _U64.pack_into(self._map, _STEPS, steps)
        _U64.pack_into(self._map, _EPISODES, episodes)

    def set_streams(self, streams: int) -> None:
        """Note how many streams are open."""
        _U32.pack_into(self._map, _STREAMS, streams)

    def close(self) -> None:
        """Let go of the memory."""
        self._map.close()
