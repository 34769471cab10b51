"""The run directory: where the processes of one server meet.

::

    RUN/                     0700
     ├─ lock                 locked while the launcher lives
     ├─ supervisor.sock      requests to the supervisor
     ├─ lobby.sock           requests to the lobby, once there is one
     ├─ draining             exists once the server is about to stop
     ├─ tickets/             tickets that nobody has used yet
     ├─ tango                ID of the instance that an agent of Tango's had last
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
import errno
import fcntl
import mmap
import os
import shutil
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from gym_http_server.errors import StartError

__all__ = ["RunDir", "Status", "StatusPage", "StatusReader", "open_log", "remove"]

SOCKET_PATH_BYTES = 107
NAME_PREFIX = "gym-http-"
LOCK = "lock"
YOUNG_SECONDS = 5
REMOVE_SECONDS = 10
_PAGE = struct.Struct("=QQQQQ")
_BUSY, _USED, _STEPS, _EPISODES, _STREAMS = range(5)


class RunDir:
    """Paths in a run directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def supervisor_socket(self) -> str:
        """Socket of the supervisor."""
        return f"{self.path}/supervisor.sock"

    @property
    def lobby_socket(self) -> str:
        """Socket of the lobby."""
        return f"{self.path}/lobby.sock"

    @property
    def draining(self) -> str:
        """File that exists once the server is about to stop."""
        return f"{self.path}/draining"

    @property
    def tickets(self) -> str:
        """Folder of the tickets that nobody has used yet."""
        return f"{self.path}/tickets"

    @property
    def tango(self) -> str:
        """File with the ID of the instance that an agent of Tango's had last."""
        return f"{self.path}/tango"

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
            remove(path)
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
                remove(str(path.parent))
            finally:
                os.close(lock)


def remove(folder: str) -> None:
    """Remove a folder and whatever environments have put into it."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        # Nested deeper than Python climbs; this tool does not mind.
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                ["rm", "-rf", "--", folder],
                check=False,
                stderr=subprocess.DEVNULL,
                timeout=REMOVE_SECONDS,
            )


def open_log(path: str, mode: str) -> IO[bytes]:
    """Open the log of an instance, and nothing else that may lie in its place.

    An environment can put a pipe there, which would hold whoever opens it, or a link.

    Raises:
        OSError: It is not there, or no plain file.
    """
    file = open(path, mode, opener=_open_plain)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no plain file", path)
    return cast("IO[bytes]", file)


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


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
    """The status page of a host, as the host writes it.

    Each number is stored at once: `struct.pack_into` clears the bytes and then writes
    them one by one, and whoever reads in between sees a call that began, or a use that
    was, hours ago.
    """

    def __init__(self, path: str) -> None:
        file = _open_page(path)
        try:
            self._map = mmap.mmap(file, mmap.PAGESIZE)
        finally:
            os.close(file)
        self._numbers = memoryview(self._map).cast("Q")

    def begin(self, now_ns: int) -> None:
        """Note that a call begins."""
        self._numbers[_BUSY] = now_ns

    def end(self, now_ns: int, *, used: bool) -> None:
        """Note that the call has ended."""
        if used:
            self._numbers[_USED] = now_ns
        self._numbers[_BUSY] = 0

    def finish(self, now_ns: int, steps: int, episodes: int) -> None:
        """Note that a call which counts as use has ended, and what there has been."""
        numbers = self._numbers
        numbers[_STEPS] = steps
        numbers[_EPISODES] = episodes
        numbers[_USED] = now_ns
        numbers[_BUSY] = 0

    def set_streams(self, streams: int) -> None:
        """Note how many streams are open."""
        self._numbers[_STREAMS] = streams

    def close(self) -> None:
        """Let go of the memory."""
        self._numbers.release()
        self._map.close()


class StatusReader:
    """The status page of a host, as the supervisor reads it.

    It is read as a file: were it mapped, an environment that cuts the file short
    would have the kernel kill the reader.
    """

    def __init__(self, path: str) -> None:
        self._file = _open_page(path)

    def read(self) -> Status:
        """Read all of it; what has been cut off counts as zeros."""
        page = os.pread(self._file, _PAGE.size, 0).ljust(_PAGE.size, b"\0")
        return Status(*_PAGE.unpack(page))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _open_page(path: str) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, mmap.PAGESIZE)
    except OSError:
        os.close(file)
        raise
    return file
