"""Names and owners of recordings, which are directories below the data directory.

Clients name the directories. A path from a client is opened one part at a time, and no
symbolic link in it is followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.errors import CannotResume, NotFound, RecordingActive
from gym_http_wire.problems import BadParameter, DiskFull, Problem

__all__ = [
    "ABOUT_FILE",
    "ARGUMENTS_FILE",
    "EPISODES_FILE",
    "MAX_PATH_CHARS",
    "OWNER_FILE",
    "PART",
    "VIDEO",
    "About",
    "RecordingFiles",
    "arguments_file",
    "being_written",
    "check_free",
    "check_owner",
    "delete_recording",
    "describe",
    "find_recordings",
    "is_active",
    "is_large",
    "named_by",
    "open_existing",
    "open_recorded",
    "owner_of",
    "part_name",
    "part_numbers",
    "path_parts",
    "recorded_bytes",
    "take_lock",
]

#: The lines of a monitor; each recording has this file.
EPISODES_FILE = "episodes.jsonl"
#: What was recorded, as JSON.
ABOUT_FILE = "recording.json"
#: Name of the token that owns the directory.
OWNER_FILE = ".owner"
#: Names of the parts of a recording of steps.
PART = re.compile(r"steps(\.[1-9][0-9]{0,8})?\.gym", re.ASCII)
#: Names of videos: episode, environment of a vector, and a number if the name is taken.
VIDEO = re.compile(
    r"episode-[0-9]{6,12}(-env[0-9]{1,6})?(-[1-9][0-9]{0,5})?\.mp4", re.ASCII
)
#: Names of files with arguments of create requests, by their SHA-256.
ARGUMENTS_FILE = re.compile(r"arguments-[0-9a-f]{64}\.bin", re.ASCII)
#: Free bytes of the file system below which a recording ends.
MIN_FREE_BYTES = 256 * 1024 * 1024
MAX_PATH_CHARS = 512
MAX_PARTS = 16
# Linux has no longer names.
_MAX_PART_BYTES = 255
# Files that count as taken space.
_LARGE = (PART, VIDEO, ARGUMENTS_FILE)
_OWNER_BYTES = 4096
_ABOUT_BYTES = 64 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# An environment without the sandbox can put a pipe there, which would block.
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class About(msgspec.Struct, frozen=True):
    """What `ABOUT_FILE` says.

    Attributes:
        env_id: ID of the environment; "" if it is unknown, as for older recordings.
        instance_id: The instance.
        label: Its label.
        owner: Token that owns it; "" if the server has no file of tokens.
        began_at: When the recording began, in Unix seconds.
        num_envs: Environments of a vector.
    """

    env_id: str = ""
    instance_id: str = ""
    label: str | None = None
    owner: str = ""
    began_at: float = 0.0
    num_envs: int | None = None


class RecordingFiles(NamedTuple):
    """Files of a recording, and what they record.

    Attributes:
        directory: Its path below the data directory.
        about: What was recorded.
        files: Name and size of each file, by name.
        active: Whether a monitor writes to it.
    """

    directory: str
    about: About
    files: dict[str, int]
    active: bool


def path_parts(directory: str) -> list[str]:
    """Split the path of a recording's directory.

    Raises:
        BadParameter: The path leaves the data directory, or is too long.
    """
    parts = [part for part in directory.split("/") if part not in ("", ".")]
    bad = next((part for part in parts if part == ".." or "\\" in part), None)
    if bad is not None or not parts or not directory.isprintable():
        raise BadParameter(
            f"directory is {directory!r:.120}: expected a path without '..', "
            "backslashes and control characters; it is taken as below the server's "
            "data directory"
        )
    reserved = next(filter(_is_reserved, parts), None)
    if reserved is not None:
        raise BadParameter(
            f"directory is {directory!r:.120}: files of recordings have such names as "
            f"{reserved!r:.80}; expected another name"
        )
    if parts[-2:-1] == ["files"] and len(parts) > 2:
        raise BadParameter(
            f"directory is {directory!r:.120}, which is the path of a file of "
            f"{'/'.join(parts[:-2])!r:.120}; expected another name"
        )
    longest = max(parts, key=lambda part: len(os.fsencode(part)))
    size = len(os.fsencode(longest))
    for what, count, most in (
        (f"{len(directory)} characters", len(directory), MAX_PATH_CHARS),
        (f"{len(parts)} parts", len(parts), MAX_PARTS),
        (f"a part of {size} bytes, {longest!r:.80}", size, _MAX_PART_BYTES),
    ):
        if count > most:
            raise BadParameter(f"directory has {what}: expected {most} at most")
    return parts


@contextlib.contextmanager
def named_by(member: str) -> Iterator[None]:
    """Name the member of a request that names the directory, where that is refused.

    Args:
        member: Its name; monitors have ``directory``.
    """
    try:
        yield
    except Problem as problem:
        if problem.message.startswith("directory "):
            problem.message = member + problem.message.removeprefix("directory")
        raise


def check_owner(owned: str | None, parts: list[str], owner: str) -> None:
    """Check that a token may write in a directory.

    Args:
        owned: The owner of the directory, or of the nearest one above it that has one.
        parts: The path of the directory, for the message.
        owner: Token that wants to use it; "" may use all.

    Raises:
        BadParameter: The owner is another token.
    """
    if owner and owned is not None and owned != owner:
        raise BadParameter(
            f"directory is in {'/'.join(parts)!r:.120}, which an instance of another "
            "token made: expected another directory"
        )


def find_recordings(data_dir: DataDir, owner: str) -> Iterator[RecordingFiles]:
    """Yield the recordings below the data directory.

    Args:
        data_dir: The data directory. The server's own paths in it are left out.
        owner: Token whose recordings to yield; "": all.
    """
    owners: dict[str, str | None] = {}
    top, own = os.path.realpath(data_dir.path), set(data_dir.own())
    for path, folders, names, folder in os.fwalk(top):
        owned = owner_of(folder)
        if owned is None:
            owned = owners.get(os.path.dirname(path))
        owners[path] = owned
        depth = path[len(top) :].count("/")
        folders[:] = sorted(
            each
            for each in folders
            if depth < MAX_PARTS and os.path.join(path, each) not in own
        )
        if path == top or EPISODES_FILE not in names or (owner and owned != owner):
            continue
        directory = os.path.relpath(path, top)
        if directory.isprintable():
            yield describe(folder, directory)


def recorded_bytes(data_dir: str) -> Counter[str]:
    """Return the size of all recordings below the data directory, by owner."""
    owners: dict[str, str] = {}
    found: Counter[str] = Counter()
    for path, _, names, folder in os.fwalk(data_dir):
        owner = owner_of(folder) or owners.get(os.path.dirname(path), "")
        owners[path] = owner
        for name in names:
            if is_large(name):
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    found[owner] += status.st_size
    return found


def is_large(name: str) -> bool:
    """Whether a file of this name has steps, videos or arguments."""
    return any(each.fullmatch(name) for each in _LARGE)


def check_free(disk: os.statvfs_result, wanted: int = 0) -> None:
    """Check that a disk has room for a recording.

    Args:
        disk: Its figures.
        wanted: Bytes to allocate.

    Raises:
        DiskFull: It has not.
    """
    if disk.f_bavail * disk.f_frsize - wanted < MIN_FREE_BYTES:
        raise DiskFull(f"less than {MIN_FREE_BYTES // 2**20} MiB of the disk are free")


def part_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the parts among the names of files, in order."""
    found = map(PART.fullmatch, names)
    return sorted(int((each[1] or ".1")[1:]) for each in found if each is not None)


def part_name(number: int) -> str:
    """Return the name of a part."""
    return "steps.gym" if number == 1 else f"steps.{number}.gym"


def arguments_file(digest: str) -> str:
    """Return the name of the file with arguments of this SHA-256, in hex."""
    return f"arguments-{digest}.bin"


def being_written(directory: str) -> CannotResume:
    """Return the refusal to resume a recording to which a host writes."""
    return CannotResume(
        f"the recording in {directory!r:.120} is being written: expected one whose "
        "instance has ended; close that instance, or wait until its end is noticed"
    )


def take_lock(file: int, lock: int) -> bool:
    """Lock a file or directory; return false if another lock excludes this one.

    A host has the monitor's file locked for as long as it is open. Others lock the
    file only for a moment, and the directory before it.

    Args:
        file: Its descriptor.
        lock: ``fcntl.LOCK_SH`` or ``fcntl.LOCK_EX``.
    """
    try:
        fcntl.flock(file, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def describe(folder: int, directory: str) -> RecordingFiles:
    """Describe the recording in an open directory.

    Args:
        folder: Its descriptor.
        directory: Its path below the data directory.
    """
    return RecordingFiles(directory, _about(folder), _files(folder), is_active(folder))


def open_existing(data_dir: DataDir, directory: str, owner: str) -> int:
    """Open the directory of a recording; return its descriptor.

    Args:
        data_dir: The data directory.
        directory: The path from the client.
        owner: Token that wants to read it; "" may read all.

    Raises:
        BadParameter: The path leaves the data directory.
        InvalidDirectory: It leads to the server's own paths. A recording that was made
            there by an earlier version can be read.
        NotFound: No recording is there, or it belongs to another token.
    """
    parts = path_parts(directory)
    missing = _missing(directory)
    with contextlib.ExitStack() as stack:
        try:
            folder = os.open(data_dir.path, _FOLDER)
            stack.callback(lambda: os.close(folder))
            owned = None
            for part in parts:
                inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
                owned = owner_of(folder) or owned
            found = os.stat(EPISODES_FILE, dir_fd=folder, follow_symlinks=False)
        except OSError:
            data_dir.check(parts)
            raise missing from None
        if not stat.S_ISREG(found.st_mode) or (owner and owned != owner):
            raise missing
        stack.pop_all()
        return folder


def open_recorded(folder: int, name: str) -> int:
    """Open a file of a recording for reading; return its descriptor.

    Args:
        folder: Descriptor of the recording's directory.
        name: Name of the file, from the client.

    Raises:
        NotFound: The recording has no such file.
    """
    if _is_recorded(name):
        with contextlib.suppress(OSError):
            file = os.open(name, _FILE, dir_fd=folder)
            if stat.S_ISREG(os.fstat(file).st_mode):
                return file
            os.close(file)
    raise NotFound(f"the recording has no file {name!r:.80}")


def delete_recording(data_dir: DataDir, directory: str, owner: str) -> None:
    """Delete the files of a recording, and the directories that are empty then.

    Other files there stay. Files that are being read can still be read.

    Args:
        data_dir: The data directory.
        directory: The path from the client.
        owner: Token that wants to delete it; "" may delete all.

    Raises:
        BadParameter, InvalidDirectory, NotFound: As for `open_existing`.
        RecordingActive: A monitor writes to it.
        DiskFull: A file cannot be deleted, as on a read-only disk.
    """
    folder = open_existing(data_dir, directory, owner)
    try:
        # No monitor begins there meanwhile.
        fcntl.flock(folder, fcntl.LOCK_EX)
        _delete_files(folder, directory)
    finally:
        os.close(folder)
    _remove_empty(data_dir.path, path_parts(directory))


def _delete_files(folder: int, directory: str) -> None:
    with contextlib.ExitStack() as stack:
        try:
            file = os.open(EPISODES_FILE, _FILE, dir_fd=folder)
        except OSError:
            # Another request has deleted it.
            raise _missing(directory) from None
        stack.callback(os.close, file)
        if not take_lock(file, fcntl.LOCK_EX):
            raise RecordingActive(
                f"the recording in {directory!r:.120} is being written, by instance "
                f"{_about(folder).instance_id or 'unknown'}: expected one that has "
                "ended; close its monitor or the instance"
            )
        try:
            # Last the one that makes it a recording: after a failure, what is left can
            # still be deleted.
            for name in sorted(_files(folder), key=EPISODES_FILE.__eq__):
                os.unlink(name, dir_fd=folder)
            if os.listdir(folder) == [OWNER_FILE]:
                os.unlink(OWNER_FILE, dir_fd=folder)
        except OSError as error:
            raise DiskFull(
                f"the server cannot delete the recording in {directory!r:.120}: "
                f"{error.strerror}"
            ) from None


def _remove_empty(top: str, parts: list[str]) -> None:
    """Remove a directory if it is empty, and then those above it."""
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        above = []
        folder = os.open(top, _FOLDER)
        stack.callback(os.close, folder)
        for part in parts:
            above.append((part, folder))
            folder = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            stack.callback(os.close, folder)
        for part, outer in reversed(above):
            os.rmdir(part, dir_fd=outer)


def _missing(directory: str) -> NotFound:
    return NotFound(
        f"no recording is in {directory!r:.120}; GET /v1/recordings/ lists them"
    )


def _files(folder: int) -> dict[str, int]:
    found = {}
    for name in sorted(filter(_is_recorded, os.listdir(folder))):
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                found[name] = status.st_size
    return found


def _is_reserved(name: str) -> bool:
    return name == OWNER_FILE or _is_recorded(name)


def _is_recorded(name: str) -> bool:
    if name in (EPISODES_FILE, ABOUT_FILE):
        return True
    return is_large(name)


def is_active(folder: int) -> bool:
    """Return whether a host has a lock of the monitor's file, or is about to."""
    if not take_lock(folder, fcntl.LOCK_EX):
        return True
    try:
        file = os.open(EPISODES_FILE, _FILE, dir_fd=folder)
    except OSError:
        return False
    else:
        try:
            return not take_lock(file, fcntl.LOCK_EX)
        finally:
            os.close(file)
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def owner_of(folder: int) -> str | None:
    """Return the token that owns a directory itself, or ``None``."""
    owned = _content(folder, OWNER_FILE, _OWNER_BYTES)
    # Earlier versions left an empty file where the disk was full.
    return owned.decode(errors="replace") if owned else None


def _about(folder: int) -> About:
    content = _content(folder, ABOUT_FILE, _ABOUT_BYTES)
    try:
        return msgspec.json.decode(content or b"{}", type=About)
    except msgspec.DecodeError:
        # An environment without the sandbox can write there.
        return About()


def _content(folder: int, name: str, size: int) -> bytes | None:
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        return os.read(file, size)
    except OSError:
        return None
    finally:
        os.close(file)
