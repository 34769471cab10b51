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
import socket
import stat
import sys
import time
from typing import Any

import msgspec

from gym_http_server.access.shares import share_used_up
from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.datadir.recording_files import (
    ABOUT_FILE,
    ARGUMENTS_FILE,
    EPISODES_FILE,
    OWNER_FILE,
    VIDEO,
    About,
    arguments_file,
    being_written,
    check_free,
    check_owner,
    is_large,
    open_recorded,
    owner_of,
    part_name,
    part_numbers,
    path_parts,
    recorded_bytes,
    take_lock,
)
from gym_http_server.datadir.whole_files import write
from gym_http_server.errors import NotFound, RecordingActive
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, answer, problem_answer, problem_of
from gym_http_wire.problems import BadParameter, DiskFull, Problem

__all__ = [
    "FileRequest",
    "answer_file",
    "open_file",
    "request_file",
]

#: Seconds that opening a file may take; a disk that takes longer is defective.
FILE_SECONDS = 10
_ANSWER_BYTES = 64 * 1024
_LIKE = "'episode-000010.mp4'"
# Videos with the same name, after which the next is refused.
_MAX_SAME = 100_000
# Times that a directory is made, if it is deleted before the file in it is opened.
_TRIES = 10
_KINDS = {
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFLNK: "a symbolic link",
}


_DELETE = "delete some with DELETE /v1/recordings/<directory>/"
_NOTHING = About()


class FileRequest(msgspec.Struct, frozen=True):
    """A host's request for the file of a monitor.

    Attributes:
        directory: The path from the client; an absolute one, too, is below the data
            directory.
        force: Delete the data of an earlier monitor there.
        resume: Append to the data of an earlier monitor there.
        steps: Open the next part of a recording of steps, a new file, instead.
        video: Open a new file for a video with this name, or nearly this name, instead.
        num_envs: Environments of a vector.
        goes_on: Append to a recording that this instance resumes, and that no other
            may write.
        arguments: Open a new file for arguments with this SHA-256 instead.
        part: Open a part of a recording for reading instead: the index of its number
            among those of all parts.
        new: Begin the recording of a new instance, which replaces no other.
        large: Large files follow that of the monitor, so there must be room for them.
    """

    directory: str
    force: bool
    resume: bool
    steps: bool = False
    video: str = ""
    num_envs: int | None = None
    goes_on: bool = False
    arguments: str = ""
    part: int | None = None
    new: bool = False
    large: bool = False

    @property
    def replaces(self) -> bool:
        """Whether the data of an earlier monitor is deleted."""
        return self.force and not self.resume

    @property
    def begins(self) -> bool:
        """Whether the file of a monitor is opened, with which a recording begins."""
        beside = self.steps or self.video or self.arguments
        return not beside and self.part is None


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
    sock: socket.socket,
    data_dir: DataDir,
    request: FileRequest,
    about: About,
    recordings_disk: int = sys.maxsize,
) -> None:
    """Open the file that a host has requested, and send it the descriptor."""
    try:
        grows = request.steps or request.video or request.arguments
        if grows or request.large:
            _check_disk(data_dir.path, recordings_disk, about.owner)
        file = open_file(data_dir, request, about)
    except Problem as problem:
        file, frame = None, problem_answer(problem)
    else:
        frame = answer(200)
    # The host may have ended meanwhile.
    with contextlib.suppress(ConnectionError):
        FrameSocket(sock).send(frame, file)
    if file is not None:
        os.close(file)


def open_file(data_dir: DataDir, request: FileRequest, about: About = _NOTHING) -> int:
    """Open the file of a monitor below the data directory; return its descriptor.

    Args:
        data_dir: The data directory.
        request: The file, and whether to keep its content.
        about: The instance. Its owner owns the directory from now on.

    Raises:
        BadParameter: The directory contains "..", belongs to another token or is inside
            such a directory, or holds data and neither ``force`` nor ``resume`` is set.
        InvalidDirectory: It leads to the server's own paths.
        DiskFull: There is no room.
    """
    parts = path_parts(request.directory)
    data_dir.check(parts)
    with _translated(request.directory):
        for _ in range(_TRIES - 1):
            # A recording there, and its directory, may be deleted meanwhile.
            with contextlib.suppress(FileNotFoundError):
                return _open_in(data_dir, parts, request, about)
        return _open_in(data_dir, parts, request, about)


def _open_in(
    data_dir: DataDir, parts: list[str], request: FileRequest, about: About
) -> int:
    folder, above = _open_folder(data_dir, parts, about.owner)
    try:
        data_dir.check_open(folder, parts)
        # Another token may be about to own it.
        fcntl.flock(folder, fcntl.LOCK_EX)
        owned = owner_of(folder)
        check_owner(owned or above, parts, about.owner)
        before = set(os.listdir(folder))
        file = _open_requested(folder, request)
        try:
            if request.begins:
                _write_about(folder, request, about)
            if about.owner and not owned:
                write(folder, OWNER_FILE, about.owner.encode())
        except BaseException:
            os.close(file)
            for name in {*os.listdir(folder)} - before:
                os.unlink(name, dir_fd=folder)
            raise
        return file
    finally:
        os.close(folder)


def _open_folder(
    data_dir: DataDir, parts: list[str], owner: str
) -> tuple[int, str | None]:
    """Open a directory, and make what is missing of it.

    Returns:
        Its descriptor, and the owner of the nearest directory above it that has one.
    """
    os.makedirs(data_dir.path, mode=0o700, exist_ok=True)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    folder = os.open(data_dir.path, flags & ~os.O_NOFOLLOW)
    owned = None
    for number, part in enumerate(parts):
        try:
            data_dir.check_open(folder, parts)
            owned = owner_of(folder) or owned
            try:
                inner = os.open(part, flags, dir_fd=folder)
            except FileNotFoundError:
                check_owner(owned, parts[:number], owner)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=folder)
                inner = os.open(part, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder, owned


def _open_file(folder: int, request: FileRequest) -> int:
    directory, force, resume = request.directory, request.force, request.resume
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    # An environment can put a pipe there, which would block the host, or a link.
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK
    if not force and not resume:
        flags |= os.O_EXCL
    _check_plain(folder, directory)
    try:
        file = os.open(EPISODES_FILE, flags, 0o600, dir_fd=folder)
    except FileExistsError:
        choice = "set force to throw it away or resume to add to it"
        if request.new:
            choice = "choose another name, or go on with it by resume"
        raise BadParameter(
            f"directory is {directory!r:.120}, which has a recording already: {choice}"
        ) from None
    try:
        # The file may have been replaced since it was checked.
        _check_kind(os.fstat(file), directory)
    except BaseException:
        os.close(file)
        raise
    return file


def _open_requested(folder: int, request: FileRequest) -> int:
    if request.video:
        return _open_video(folder, request.video)
    if request.steps:
        return _open_part(folder, force=request.force)
    if request.arguments:
        return _open_arguments(folder, request.arguments)
    if request.part is not None:
        return _open_existing_part(folder, request.part)
    file = _open_file(folder, request)
    try:
        _lock(file, folder, request)
        if request.replaces:
            os.ftruncate(file, 0)
            for name in os.listdir(folder):
                if VIDEO.fullmatch(name) or ARGUMENTS_FILE.fullmatch(name):
                    os.unlink(name, dir_fd=folder)
    except BaseException:
        os.close(file)
        raise
    return file


def _lock(file: int, folder: int, request: FileRequest) -> None:
    """Lock the file of a monitor: while a host has it open, the recording is active.

    A recording that can be resumed has one host, and steps or videos are not replaced
    while another host writes them. Other monitors may share a file.

    Raises:
        CannotResume: Another host has it, and this one wants to go on with it.
        RecordingActive: Another host has it.
    """
    alone = request.new or request.goes_on
    if take_lock(file, fcntl.LOCK_EX):
        if not alone:
            take_lock(file, fcntl.LOCK_SH)
        return
    if request.goes_on:
        raise being_written(request.directory)
    lost = request.replaces and any(map(is_large, os.listdir(folder)))
    if alone or lost or not take_lock(file, fcntl.LOCK_SH):
        raise RecordingActive(
            f"directory is {request.directory!r:.120}, which an instance records in: "
            "expected another directory; or close that instance, or its monitor"
        )


def _write_about(folder: int, request: FileRequest, about: About) -> None:
    """Write what is recorded, unless an earlier monitor did whose data is kept."""
    if request.resume and ABOUT_FILE in os.listdir(folder):
        return
    began = msgspec.structs.replace(
        about, began_at=round(time.time(), 3), num_envs=request.num_envs
    )
    write(folder, ABOUT_FILE, msgspec.json.encode(began) + b"\n")


def _open_video(folder: int, name: str) -> int:
    """Create the file of a video; number it if the name is taken."""
    if not VIDEO.fullmatch(name):
        raise BadParameter(f"video is {name!r:.80}: expected a name like {_LIKE}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    for number in range(1, _MAX_SAME):
        numbered = name if number == 1 else f"{name[:-4]}-{number}.mp4"
        with contextlib.suppress(FileExistsError):
            return os.open(numbered, flags, 0o600, dir_fd=folder)
    raise BadParameter(f"directory has {_MAX_SAME} videos {name!r}: expected fewer")


def _open_part(folder: int, *, force: bool) -> int:
    """Create the next part of a recording; with ``force``, delete all before it."""
    numbers = part_numbers(os.listdir(folder))
    if force:
        for number in numbers:
            os.unlink(part_name(number), dir_fd=folder)
        numbers.clear()
    # Not the number of one that was deleted: they are read in their order.
    number = max(numbers, default=0) + 1
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(part_name(number), flags, 0o600, dir_fd=folder)


def _open_existing_part(folder: int, index: int) -> int:
    """Open a part for reading.

    Raises:
        NotFound: There is none with this index.
    """
    numbers = part_numbers(os.listdir(folder))
    if not 0 <= index < len(numbers):
        raise NotFound(f"the recording has {len(numbers)} parts")
    return open_recorded(folder, part_name(numbers[index]))


def _open_arguments(folder: int, digest: str) -> int:
    name = arguments_file(digest)
    if not ARGUMENTS_FILE.fullmatch(name):
        raise BadParameter(f"arguments is {digest!r:.80}: expected a SHA-256 in hex")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(name, flags, 0o600, dir_fd=folder)


def _check_disk(data_dir: str, recordings_disk: int, owner: str) -> None:
    """Check that the recordings of an owner below the data directory may grow.

    Raises:
        DiskFull: They, or those of all owners, are as large as they may be, or the disk
            is nearly full.
    """
    # It is made with the first recording.
    with contextlib.suppress(FileNotFoundError):
        check_free(os.statvfs(data_dir))
    held = recorded_bytes(data_dir)
    taken = held.total()
    if taken >= recordings_disk:
        raise DiskFull(
            f"recordings take {taken} bytes; the limit is {recordings_disk}: "
            f"{_DELETE}, or raise --recordings-disk"
        )
    counts = {"held": held[owner], "taken": taken, "most": recordings_disk}
    if why := share_used_up(owner, "bytes of recordings", **counts):
        raise DiskFull(f"{why}; {_DELETE}, or raise --recordings-disk")


def _check_plain(folder: int, directory: str) -> None:
    # Before it is opened: opening a device may do something.
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(EPISODES_FILE, dir_fd=folder, follow_symlinks=False)
        _check_kind(found, directory)


def _check_kind(found: os.stat_result, directory: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BadParameter(
            f"directory is {directory!r:.120}, in which {EPISODES_FILE} is "
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
