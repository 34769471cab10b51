"""Instance IDs that servers on this address have issued, kept in a file.

After a restart, the file distinguishes IDs of earlier instances from IDs that never
existed. A line is an ID and the time in seconds since 1970; other lines are ignored.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence

from gym_http_server.datadir.own_paths import INSTANCE_IDS
from gym_http_server.processes.log_lines import SUPERVISOR

__all__ = ["IssuedIDs"]

MAX_IDS = 10_000
MAX_AGE_S = 24 * 3600
_LINE = re.compile(rb"([0-9a-f]{8}) ([0-9]{1,12})", re.ASCII).fullmatch
_LINE_BYTES = 22
# A file is rewritten when it has grown to twice its size.
_MAX_LINES = 2 * MAX_IDS

log = logging.getLogger(SUPERVISOR)


class IssuedIDs:
    """The IDs that earlier servers and this one have issued.

    Args:
        data_dir: The data directory.
        addresses: Names of the addresses on which the server listens.
    """

    def __init__(self, data_dir: str, addresses: Sequence[str]) -> None:
        folder = f"{data_dir}/{INSTANCE_IDS}"
        self._files = [_File(f"{folder}/{address}") for address in addresses]
        self._earlier: dict[str, int] = {}
        for file in list(self._files):
            with self._failing(file):
                self._earlier |= file.read()

    def __contains__(self, instance_id: object) -> bool:
        """Whether an earlier server issued this ID, less than a day ago."""
        issued = self._earlier.get(str(instance_id))
        return issued is not None and _is_recent(issued)

    def add(self, instance_id: str) -> None:
        """Record an ID that this server issues."""
        for file in list(self._files):
            with self._failing(file):
                file.append(instance_id)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    @contextlib.contextmanager
    def _failing(self, file: _File) -> Iterator[None]:
        """Stop using a file, and log a warning, if the context raises OSError."""
        try:
            yield
        except OSError as error:
            self._files.remove(file)
            file.close()
            log.warning(
                "cannot note instance IDs in %s (%s): after a restart, they are "
                "unknown to the next server",
                file.path,
                error.strerror,
            )


class _File:
    """The file of one address; it is created with the first ID."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1
        self._lines = 0

    def read(self) -> dict[str, int]:
        """Return recent IDs with their times, the last ones if there are many.

        Raises:
            OSError: The file cannot be read, or is not a regular file.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            return {}
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "no plain file")
            size = MAX_IDS * _LINE_BYTES
            data = os.pread(descriptor, size, max(0, found.st_size - size))
        finally:
            os.close(descriptor)
        lines = list(filter(None, map(_LINE, data.split(b"\n"))))[-MAX_IDS:]
        times = {line[1].decode(): int(line[2]) for line in lines}
        return {each: issued for each, issued in times.items() if _is_recent(issued)}

    def append(self, instance_id: str) -> None:
        """Add an ID with the time.

        Raises:
            OSError: That cannot be written.
        """
        if self._descriptor < 0 or self._lines >= _MAX_LINES:
            self._write_anew()
        line = _line(instance_id, int(time.time()))
        if os.write(self._descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._lines += 1

    def _write_anew(self) -> None:
        """Write the recent IDs to a new file, and rename it to the name of this one.

        So only this user can read the file, and it never mixes old and new content.
        """
        folder = os.path.dirname(self.path)
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        if self._descriptor < 0:
            _remove_old(folder)
        kept = self.read()
        self.close()
        temporary = f"{self.path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(temporary, flags, 0o600)
        data = b"".join(_line(*each) for each in kept.items())
        if os.write(self._descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.rename(temporary, self.path)
        self._lines = len(kept)

    def close(self) -> None:
        """Close it, if it is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _line(instance_id: str, issued: int) -> bytes:
    return b"%s %d\n" % (instance_id.encode(), issued)


def _is_recent(issued: int) -> bool:
    # A clock may have been set back since.
    return abs(time.time() - issued) < MAX_AGE_S


def _remove_old(folder: str) -> None:
    """Remove the files of addresses that no server has used for a day.

    A server that listens on any free port has a new address at each start.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and not _is_recent(int(found.st_mtime)):
                    os.unlink(entry.path)
