"""The directory itself: its paths, and how it is made, swept and removed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from gym_http_server.errors import StartError
from gym_http_server.rundir.removal import LOCK, move, remove
from gym_http_server.rundir.sockets import SOCKET_PATH_BYTES

__all__ = ["NAME_PREFIX", "RunDir", "is_full", "open_plain_file"]

NAME_PREFIX = "gym-http-"
#: Room that an instance needs on the disk of the run directory, for a folder with two
#: in it, a socket, a status page and a log, and a reserve for the server itself.
INSTANCE_BYTES = 64 * 1024
INSTANCE_FILES = 12
YOUNG_SECONDS = 5


class RunDir:
    """Paths in a run directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def supervisor_socket(self) -> str:
        """Socket of the supervisor."""
        return f"{self.path}/supervisor.sock"

    @property
    def progress(self) -> str:
        """File in which the supervisor counts what it does."""
        return f"{self.path}/progress"

    @property
    def broker_socket(self) -> str:
        """Socket of the broker."""
        return f"{self.path}/broker.sock"

    @property
    def control_socket(self) -> str:
        """Socket of the launcher, for `gym-http-server reload`."""
        return f"{self.path}/control.sock"

    @property
    def requests(self) -> str:
        """Directory in which web workers count requests."""
        return f"{self.path}/requests"

    @property
    def relay_socket(self) -> str:
        """Socket of the relay."""
        return f"{self.path}/relay.sock"

    @property
    def draining(self) -> str:
        """Path of the file that exists when the server makes no new instances."""
        return f"{self.path}/draining"

    @property
    def stopping(self) -> str:
        """Path of the file that exists when no request may wait any more."""
        return f"{self.path}/stopping"

    def begin_draining(self) -> None:
        """Mark the server as one that makes no new instances.

        Raises:
            OSError: The run directory is damaged.
        """
        # A full disk may have no room for a new file; a rename needs none.
        os.rename(self._serving, self.draining)

    def begin_stopping(self) -> None:
        """Mark the server as one whose instances end now.

        Raises:
            OSError: The run directory is damaged.
        """
        os.rename(self._waiting, self.stopping)

    @property
    def _serving(self) -> str:
        return f"{self.path}/serving"

    @property
    def _waiting(self) -> str:
        return f"{self.path}/waiting"

    def shortage(self) -> str:
        """Return the resource that the disk lacks for another instance, or ""."""
        disk = os.statvfs(self.path)
        # Some file systems have no fixed number of blocks or files, and report 0.
        free = disk.f_bavail * disk.f_frsize
        if disk.f_blocks and free < INSTANCE_BYTES:
            return (
                f"the disk of the run directory {self.path} has {free} bytes free; "
                f"an instance needs {INSTANCE_BYTES}"
            )
        if disk.f_files and disk.f_favail < INSTANCE_FILES:
            return (
                f"the disk of the run directory {self.path} has room for "
                f"{disk.f_favail} more files; an instance needs {INSTANCE_FILES}"
            )
        return ""

    @property
    def tickets(self) -> str:
        """Folder of unused tickets."""
        return f"{self.path}/tickets"

    @property
    def tango(self) -> str:
        """Path of the file with the ID of the last instance of a Tango agent."""
        return f"{self.path}/tango"

    @property
    def trash(self) -> str:
        """Path of the directory whose content the remover removes."""
        return f"{self.path}/trash"

    def instance(self, instance_id: str) -> str:
        """Folder of an instance."""
        return f"{self.path}/{instance_id}"

    def host_socket(self, instance_id: str) -> str:
        """Socket of the host of an instance."""
        return f"{self.path}/{instance_id}/host.sock"

    def clock(self, instance_id: str) -> str:
        """Path of the file that exists if an instance has a clock."""
        return f"{self.path}/{instance_id}/clock"

    def own(self, instance_id: str) -> tuple[str, str]:
        """Working and temporary directory of the host of an instance."""
        folder = self.instance(instance_id)
        return f"{folder}/work", f"{folder}/tmp"  # noqa: S108

    def log(self, instance_id: str) -> str:
        """Path of the output of the environment of an instance."""
        return f"{self.path}/{instance_id}/log"

    def restore_permissions(self, instance_ids: Iterable[str]) -> str:
        """Restore permissions that an environment of the server's user has changed.

        Args:
            instance_ids: The instances that are made.

        Returns:
            The path of a file or directory that had been changed, or "".
        """
        changed = ""
        # A directory comes before its content.
        for folder in (self.path, self.trash, self.tickets):
            changed = _restore(folder, 0o700) or changed
        for socket in (
            self.control_socket,
            self.supervisor_socket,
            self.broker_socket,
            self.relay_socket,
        ):
            changed = _restore(socket, 0o600) or changed
        for instance_id in instance_ids:
            changed = _restore(self.instance(instance_id), 0o700) or changed
            changed = _restore(self.host_socket(instance_id), 0o600) or changed
        return changed

    @classmethod
    def found_in(cls, place: str) -> list[RunDir]:
        """List the run directories in a directory, or the directory if it is one.

        Args:
            place: The directory; "" is the temporary one.
        """
        base = Path(place or tempfile.gettempdir())
        if (base / LOCK).exists():
            return [cls(str(base))]
        paths = sorted(base.glob(f"{NAME_PREFIX}????????"))
        return [cls(str(path)) for path in paths]

    @classmethod
    @contextlib.contextmanager
    def make(cls, parent: str) -> Iterator[RunDir]:
        """Make a run directory, hold its lock, and remove it at the end.

        Args:
            parent: Its parent directory; "" is the temporary directory. The parent is
                created if it does not exist and its own parent does.

        Raises:
            StartError: It cannot be made there, or sockets' paths would be too long.
        """
        try:
            base = Path(parent or tempfile.gettempdir())
            if parent:
                _make(base)
            path = tempfile.mkdtemp(prefix=NAME_PREFIX, dir=base.resolve())
        except OSError as error:
            raise _not_made(parent or "the temporary directory", error) from None
        run = cls(path)
        try:
            lock = _create(f"{path}/{LOCK}")
            os.close(_create(run._serving))
            os.close(_create(run._waiting))
            os.mkdir(run.trash, 0o700)
            os.mkdir(run.requests, 0o700)
        except OSError as error:
            remove(path)
            raise _not_made(str(base), error) from None
        try:
            longest = len(os.fsencode(run.host_socket("0" * 8)))
            if longest > SOCKET_PATH_BYTES:
                raise StartError(
                    f"the run directory {path} is too deep: a socket's path in it "
                    f"would have {longest} bytes, {SOCKET_PATH_BYTES} are possible; "
                    "choose a shorter one with --run-dir"
                )
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sweep(base, run)
            yield run
        finally:
            remove(path)
            os.close(lock)


def _restore(path: str, mode: int) -> str:
    """Set the permissions of a file; return its path if they were different."""
    with contextlib.suppress(OSError):
        if stat.S_IMODE(os.lstat(path).st_mode) != mode:
            os.chmod(path, mode)
            return path
    return ""


def is_full(error: OSError) -> bool:
    """Whether a file could not be written because the disk, or a quota, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def open_plain_file(path: str, mode: str) -> IO[bytes]:
    """Open a regular file of the run directory, and refuse any other kind.

    An environment can put a pipe there, which would block the open call, or a link.

    Raises:
        OSError: There is no such file, or it is not a regular one.
    """
    file = open(path, mode, opener=_open_no_link)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no plain file", path)
    return cast("IO[bytes]", file)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _make(base: Path) -> None:
    """Make a directory, if it does not exist and its parent does."""
    try:
        base.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        # Its owner and permissions would be a guess, and its name may be a slip.
        raise StartError(
            f"cannot make a run directory in {base}: there is no directory "
            f"{base.parent}; make it first, or choose another place with --run-dir"
        ) from None


def _create(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _not_made(base: str, error: OSError) -> StartError:
    # The name in the error is random, so the message shows its directory.
    return StartError(
        f"cannot make a run directory in {base}: {error.strerror}; choose another "
        "place with --run-dir"
    )


def _sweep(base: Path, run: RunDir) -> None:
    """Move directories that killed servers left into a run directory's trash."""
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
                # Removed by the server that is starting, while it serves.
                move(str(path.parent), f"{run.trash}/{path.parent.name}")
            finally:
                os.close(lock)
