"""Thumbnails of environments: small pictures, in files of the data directory.

A file has what the picture was drawn from as JSON in its first line, and then the
picture; none if the environment cannot be drawn. Several servers may share the files.
The oldest ones are removed first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time

import msgspec

from gym_http_server.datadir.own_paths import THUMBNAILS, DataDir
from gym_http_server.datadir.whole_files import FOLDER, opened, write

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_PICTURE_BYTES",
    "Drawn",
    "read_thumbnail",
    "write_thumbnail",
]

#: Bytes of a picture, and files that are kept.
MAX_PICTURE_BYTES, MAX_FILES = 24 * 1024, 256
#: Bytes of the first line, in which paths have up to six for each character.
_LINE_BYTES = 32 * 1024
#: Bytes of a file.
MAX_FILE_BYTES = _LINE_BYTES + MAX_PICTURE_BYTES
#: Seconds after which an environment that could not be drawn is tried again.
_RETRY_SECONDS = 3600.0
_NAME = re.compile(r"\.?[0-9a-f]{32}(\.[0-9]{1,10})?", re.ASCII).fullmatch


class Drawn(msgspec.Struct, frozen=True):
    """What a thumbnail was drawn from.

    Attributes:
        env_id: The environment.
        module: Path of the file with its class, which a new version of a package
            replaces; "" if it has none.
        changed_ns: When that file was changed last, in Unix nanoseconds.
    """

    env_id: str
    module: str = ""
    changed_ns: int = 0

    @property
    def is_current(self) -> bool:
        """Whether the environment is still the same."""
        return self.module == "" or changed_ns(self.module) == self.changed_ns


def changed_ns(path: str) -> int:
    """Return when a file was changed last, in Unix nanoseconds; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


def read_thumbnail(data_dir: DataDir, env_id: str) -> bytes | None:
    """Return the picture of an environment, as JPEG.

    Args:
        data_dir: The data directory.
        env_id: The environment.

    Returns:
        The picture; empty if the environment cannot be drawn, and ``None`` if nobody
        has tried lately.
    """
    try:
        with opened(f"{data_dir.path}/{THUMBNAILS}", _name(env_id)) as file:
            content = os.read(file, MAX_FILE_BYTES)
            written = os.fstat(file).st_mtime
        line, _, picture = content.partition(b"\n")
        drawn = msgspec.json.decode(line, type=Drawn)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    # A clock may have been set back since.
    is_old = not picture and abs(time.time() - written) > _RETRY_SECONDS
    return None if is_old or drawn.env_id != env_id or not drawn.is_current else picture


def write_thumbnail(data_dir: DataDir, drawn: Drawn, picture: bytes) -> None:
    """Write the picture of an environment, and remove the oldest if there are too many.

    Args:
        data_dir: The data directory.
        drawn: What it was drawn from.
        picture: A JPEG file; empty if the environment cannot be drawn.

    Raises:
        OSError: There is no room, or the directory cannot be written.
    """
    path = f"{data_dir.path}/{THUMBNAILS}"
    # Somebody may remove it while the server runs, to clear it.
    os.makedirs(data_dir.path, mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    folder = os.open(path, FOLDER)
    try:
        content = msgspec.json.encode(drawn) + b"\n" + picture
        write(folder, _name(drawn.env_id), content)
        _remove_oldest(folder)
    finally:
        os.close(folder)


def _remove_oldest(folder: int) -> None:
    found = []
    for name in filter(_NAME, os.listdir(folder)):
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            found.append((status.st_mtime_ns, name))
    for _, name in sorted(found)[:-MAX_FILES]:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)


def _name(env_id: str) -> str:
    return hashlib.sha256(env_id.encode(errors="replace")).hexdigest()[:32]
