"""The directory itself: its paths, and how it is made, swept and removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gym_http_server.errors import StartError

__all__ = ["NAME_PREFIX", "SOCKET_PATH_BYTES", "RunDir", "remove"]

SOCKET_PATH_BYTES = 107
NAME_PREFIX = "gym-http-"
LOCK = "lock"
YOUNG_SECONDS = 5
REMOVE_SECONDS = 10


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

    def own(self, instance_id: str) -> tuple[str, str]:
        """Working and temporary directory of the host of an instance."""
        folder = self.instance(instance_id)
        return f"{folder}/work", f"{folder}/tmp"  # noqa: S108

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
