"""Opens the files of monitors, which clients name, below the data directory.

It opens a path from a client one part at a time, and follows no symbolic link in it. A
host cannot access the data directory. Instead, a child of the supervisor opens the file
(`open_file`) and sends the host its descriptor (`request_file`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
import sys
from typing import Any

import msgspec

from gym_http_server.frame_socket import FrameSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, answer, problem_answer, problem_of
from gym_http_wire.problems import BadParameter, DiskFull, Problem

__all__ = [
    "FILE",
    "FileRequest",
    "answer_file",
    "open_file",
    "path_parts",
    "request_file",
]

#: Name of the file in a monitor's directory.
FILE = "episodes.jsonl"
MAX_PATH_CHARS = 512
MAX_PARTS = 16
#: Of the data directory; the supervisor keeps the IDs of instances in it.
RESERVED = "instance-ids"
#: File in a monitor's directory with the name of the token that owns it.
OWNER_FILE = ".owner"
#: Seconds that opening a file may take; a disk that takes longer is defective.
FILE_SECONDS = 10
_ANSWER_BYTES = 64 * 1024
_OWNER_BYTES = 4096
_PART = re.compile(r"steps(\.[1-9][0-9]{0,8})?\.gym")
_KINDS = {
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFLNK: "a symbolic link",
}


class FileRequest(msgspec.Struct, frozen=True):
    """A host's request for the file of a monitor.

    Attributes:
        directory: The path from the client; an absolute one, too, is below the data
            directory.
        force: Delete the data of an earlier monitor there.
        resume: Append to the data of an earlier monitor there.
        steps: Open the next part of a recording of steps, a new file, instead.
    """

    directory: str
    force: bool
    resume: bool
    steps: bool = False


def request_file(channel: socket.socket, request: FileRequest) -> int:
    """Request the file of a monitor from the supervisor; return its descriptor.

    Args:
        channel: To the supervisor.
        request: The file, and whether to keep its content.

    Raises:
        Problem: The problem that `open_file` raised.
        DiskFull: There was no answer in time.
    """
    # Here as well: the supervisor takes the descriptor with the first part of a frame,
    # and a path that is allowed fits into one.
    path_parts(request.directory)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            frame = Frame(Op.MONITOR_FILE, body=msgspec.json.encode(request))
            FrameSocket(channel).send(frame, theirs.fileno())
        ours.settimeout(FILE_SECONDS + 1)
        connection = FrameSocket(ours, _ANSWER_BYTES, max_descriptors=1)
        answered = connection.receive_one()
        file = connection.take_descriptor()
    if answered is not None and answered.status >= 400:
        raise problem_of(answered)
    if file is None:
        raise DiskFull(
            f"the server could not open a file in {request.directory!r:.120} within "
            f"{FILE_SECONDS} s"
        )
    return file


def answer_file(
    line: socket.socket,
    data_dir: str,
    request: FileRequest,
    owner: str,
    recordings_disk: int = sys.maxsize,
) -> None:
    """Open the file that a host has requested, and send it the descriptor."""
    try:
        if request.steps:
            _check_disk(data_dir, recordings_disk)
        file = open_file(data_dir, request, owner)
    except Problem as problem:
        FrameSocket(line).send(problem_answer(problem))
        return
    FrameSocket(line).send(answer(200), file)
    os.close(file)


def open_file(data_dir: str, request: FileRequest, owner: str = "") -> int:
    """Open the file of a monitor below the data directory; return its descriptor.

    Args:
        data_dir: The data directory.
        request: The file, and whether to keep its content.
        owner: Token that owns the instance, and from now on the directory; "" if the
            server does not distinguish tokens.

    Raises:
        BadParameter: The directory contains "..", belongs to another token or is inside
            such a directory, or holds data and neither ``force`` nor ``resume`` is set.
        DiskFull: There is no room.
    """
    directory = request.directory
    parts = path_parts(directory)
    with _translated(directory):
        folder = _open_folder(data_dir, parts, owner)
    try:
        with _translated(directory):
            # Another token may be about to own it.
            fcntl.flock(folder, fcntl.LOCK_EX)
            owned = _check_owner(folder, parts, owner)
            if request.steps:
                file = _open_part(folder, force=request.force)
            else:
                file = _open_file(
                    folder, directory, force=request.force, resume=request.resume
                )
            try:
                if owner and not owned:
                    _write_owner(folder, owner)
            except BaseException:
                os.close(file)
                raise
            return file
    finally:
        os.close(folder)


def path_parts(directory: str) -> list[str]:
    """Split the path of a monitor's directory.

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
    if parts[0] == RESERVED or OWNER_FILE in parts:
        raise BadParameter(
            f"directory is {directory!r:.120}: {RESERVED} and {OWNER_FILE} are the "
            "server's own; expected another name"
        )
    longest = max(len(os.fsencode(part)) for part in parts)
    if len(directory) > MAX_PATH_CHARS or len(parts) > MAX_PARTS or longest > 255:
        raise BadParameter(
            f"directory has {len(directory)} characters in {len(parts)} parts: "
            f"expected {MAX_PATH_CHARS} characters and {MAX_PARTS} parts at most"
        )
    return parts


def _check_owner(folder: int, parts: list[str], owner: str) -> bool:
    """Return whether a directory has an owner.

    Raises:
        BadParameter: The owner is another token.
    """
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(OWNER_FILE, flags, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        owned = os.read(file, _OWNER_BYTES).decode(errors="replace")
    finally:
        os.close(file)
    if owner and owned != owner:
        raise BadParameter(
            f"directory is in {'/'.join(parts)!r:.120}, which an instance of another "
            "token made: expected another directory"
        )
    return True


def _write_owner(folder: int, owner: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(OWNER_FILE, flags, 0o600, dir_fd=folder)
    try:
        os.write(file, owner.encode())
    finally:
        os.close(file)


def _open_folder(data_dir: str, parts: list[str], owner: str) -> int:
    os.makedirs(data_dir, mode=0o700, exist_ok=True)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(data_dir, flags)
    for number, part in enumerate(parts):
        try:
            _check_owner(folder, parts[:number], owner)
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=folder)
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open_file(folder: int, directory: str, *, force: bool, resume: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    # An environment can put a pipe there, which would block the host, or a link.
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK
    if not force and not resume:
        flags |= os.O_EXCL
    _check_plain(folder, directory)
    try:
        file = os.open(FILE, flags, 0o600, dir_fd=folder)
    except FileExistsError:
        raise BadParameter(
            f"directory is {directory!r:.120}, which holds the {FILE} of an earlier "
            "monitor: set force to throw it away or resume to add to it"
        ) from None
    try:
        # The file may have been replaced since it was checked.
        _check_kind(os.fstat(file), directory)
        if force and not resume:
            os.ftruncate(file, 0)
    except BaseException:
        os.close(file)
        raise
    return file


def _open_part(folder: int, *, force: bool) -> int:
    """Create the next part of a recording; with ``force``, delete all before it."""
    names = {name for name in os.listdir(folder) if _PART.fullmatch(name)}
    if force:
        for name in names:
            os.unlink(name, dir_fd=folder)
        names.clear()
    number = 1
    while _part_name(number) in names:
        number += 1
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(_part_name(number), flags, 0o600, dir_fd=folder)


def _part_name(number: int) -> str:
    return "steps.gym" if number == 1 else f"steps.{number}.gym"


def _check_disk(data_dir: str, recordings_disk: int) -> None:
    """Check that the recordings below the data directory may grow.

    Raises:
        DiskFull: They are as large as they may be.
    """
    taken = 0
    for _, _, names, folder in os.fwalk(data_dir):
        for name in filter(_PART.fullmatch, names):
            with contextlib.suppress(FileNotFoundError):
                taken += os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    if taken >= recordings_disk:
        raise DiskFull(
            f"recordings of steps take {taken} bytes; the limit is {recordings_disk}: "
            "delete some, or raise --recordings-disk"
        )


def _check_plain(folder: int, directory: str) -> None:
    # Before it is opened: opening a device may do something.
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(FILE, dir_fd=folder, follow_symlinks=False)
        _check_kind(found, directory)


def _check_kind(found: os.stat_result, directory: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BadParameter(
            f"directory is {directory!r:.120}, in which {FILE} is "
            f"{_KINDS.get(stat.S_IFMT(found.st_mode), 'a socket')}: expected a regular "
            "file, or none"
        )


@contextlib.contextmanager
def _translated(directory: str) -> Any:
    """Translate errors of the file system for the client."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise DiskFull(
                f"the server cannot write to {directory!r:.120}: {error.strerror}"
            ) from None
        raise BadParameter(
            f"directory is {directory!r:.120}, which the server cannot use: "
            f"{error.strerror}"
        ) from None
