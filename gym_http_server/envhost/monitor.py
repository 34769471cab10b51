"""Monitor: statistics of episodes, written beside the environment.

A passive tap: it sees what passes and changes nothing. An episode is a line of
``episodes.jsonl``, a JSON object with return, length and seconds. If an episode cannot
be written, as on a full disk, it is counted as lost, and the environment goes on.

Directories come from clients, so they are confined below the data directory: the
path is walked one part at a time and no symbolic link in it is followed. A host may
not reach the data directory itself: a child of the supervisor opens the file
(`open_file`) and sends the host its descriptor (`request_file`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import time
from collections import deque
from typing import Any

import msgspec

from gym_http_server.envhost import plain_json
from gym_http_server.frame_socket import FrameSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, answer, problem_answer, problem_of
from gym_http_wire.problems import BadParameter, DiskFull, Problem

__all__ = [
    "NO_MONITOR",
    "FileRequest",
    "Monitor",
    "answer_file",
    "open_file",
    "request_file",
]

FILE = "episodes.jsonl"
MAX_PATH_CHARS = 512
MAX_PARTS = 16
#: Episodes that a monitor keeps for its report; the file has all of them.
MAX_REPORTED = 1000
#: The report of an instance that was never monitored.
NO_MONITOR: dict[str, Any] = {
    "active": False,
    "directory": None,
    "episodes": [],
    "episodes_lost": 0,
    "episodes_written": 0,
}
#: Of the data directory; the supervisor keeps the IDs of instances in it.
RESERVED = "instance-ids"
#: File in a monitor's directory with the name of the token that owns it.
OWNER_FILE = ".owner"
#: Seconds that opening a file may take; a disk that takes longer is defective.
FILE_SECONDS = 10
_ANSWER_BYTES = 64 * 1024
_OWNER_BYTES = 4096
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
        directory: What the client asked for; an absolute path is taken as below
            the data directory.
        force: Throw away what an earlier monitor wrote there.
        resume: Add to what an earlier monitor wrote there.
    """

    directory: str
    force: bool
    resume: bool


def request_file(channel: socket.socket, request: FileRequest) -> int:
    """Have the supervisor open the file of a monitor; return its descriptor.

    Args:
        channel: To the supervisor.
        request: The file, and whether to keep its content.

    Raises:
        Problem: What `open_file` raised.
        DiskFull: There was no answer in time.
    """
    # Here as well: the supervisor takes the descriptor with the first part of a frame,
    # and a path that is allowed fits into one.
    _parts(request.directory)
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
    line: socket.socket, data_dir: str, request: FileRequest, owner: str
) -> None:
    """Open the file that a host has requested, and send it the descriptor."""
    try:
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
        BadParameter: The directory climbs, is another token's or in one that is, or
            holds data and neither ``force`` nor ``resume`` is set.
        DiskFull: There is no room.
    """
    directory = request.directory
    parts = _parts(directory)
    with _told(directory):
        folder = _open_folder(data_dir, parts, owner)
    try:
        with _told(directory):
            # Another token may be about to own it.
            fcntl.flock(folder, fcntl.LOCK_EX)
            owned = _check_owner(folder, parts, owner)
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


class Monitor:
    """Writes the statistics of one instance's episodes.

    Args:
        file: Descriptor of the file to append to; the monitor closes it.
        directory: What the client asked for.

    Attributes:
        directory: Where the file is, below the data directory.
        written: Episodes written.
        error: How many episodes were not written, and why; "" if all were.
    """

    def __init__(self, file: int, directory: str) -> None:
        self._file = file
        # Kept, since a host in the sandbox cannot read the file.
        self._episodes: deque[dict[str, Any]] = deque(maxlen=MAX_REPORTED)
        self.directory = "/".join(_parts(directory))
        self.written = 0
        self.error = ""
        self._lost = 0
        self._begun = time.monotonic()
        self._seed: int | None = None
        self._return = 0.0
        self._length = 0
        self._active = False

    def reset(self, seed: int | None) -> None:
        """Note that an episode begins, and write the one that it cuts short."""
        self._write(terminated=False, truncated=False)
        self._begun = time.monotonic()
        self._seed = seed
        self._return = 0.0
        self._length = 0
        self._active = True

    def step(self, reward: float, terminated: bool, truncated: bool) -> None:
        """Note a step, and write the episode that it ends."""
        if not self._active:
            return
        self._return += float(reward)
        self._length += 1
        if terminated or truncated:
            self._write(terminated=terminated, truncated=truncated)

    def report(self) -> dict[str, Any]:
        """Return the directory, the last episodes, and how many there were."""
        return {
            "directory": self.directory,
            "episodes": list(self._episodes),
            "episodes_lost": self._lost,
            "episodes_written": self.written,
        }

    def close(self) -> None:
        """Write what is left and close the file.

        Raises:
            DiskFull: Episodes were not written, this one or earlier ones.
        """
        self._write(terminated=False, truncated=False)
        try:
            os.close(self._file)
        except OSError as error:
            # Network file systems may report a failed write only here.
            self._lose(error)
        if self._lost:
            raise DiskFull(
                f"the monitor is closed; it wrote {self.written} of "
                f"{self.written + self._lost} episodes: {self.error}",
                extras={"episodes_lost": self._lost, "episodes_written": self.written},
            )

    def _write(self, *, terminated: bool, truncated: bool) -> None:
        if not self._active or not self._length:
            return
        self._active = False
        episode = {
            "length": self._length,
            "return": self._return,
            "seconds": round(time.monotonic() - self._begun, 6),
            "seed": self._seed,
            "terminated": bool(terminated),
            "truncated": bool(truncated),
        }
        try:
            self._append(plain_json.dumps(episode))
        except OSError as error:
            # FastStepper matters more than its statistics.
            self._lose(error)
        else:
            self.written += 1
            self._episodes.append(episode)

    def _append(self, line: bytes) -> None:
        """Write a whole line, or no part of it.

        Raises:
            OSError: There is no room.
        """
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError:
            if written:
                self._cut_back(written)
            raise

    def _cut_back(self, size: int) -> None:
        """Remove the bytes written last, unless another monitor has added more."""
        end = os.lseek(self._file, 0, os.SEEK_CUR)
        if os.fstat(self._file).st_size == end:
            os.ftruncate(self._file, end - size)

    def _lose(self, error: OSError) -> None:
        self._lost += 1
        count = f"{self._lost} episode{'s' if self._lost > 1 else ''}"
        self.error = f"{count} could not be written to {FILE}: {error.strerror}"


def _parts(directory: str) -> list[str]:
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
        BadParameter: It is another one.
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
    # An environment can put a pipe there, which would hold the host, or a link.
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
def _told(directory: str) -> Any:
    """Turn what the file system says into what the client is told."""
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
