"""Settings and descriptors that the launcher passes to web workers, by name.

The settings lie in memory that has no name, so that the token is in no argument, no
variable and on no disk. The launcher replaces them there when it reads its files anew.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import IO

import msgspec

from gym_http_server.config.certificates import Certificate
from gym_http_server.config.settings import Settings
from gym_http_server.rundir.directory import RunDir

__all__ = [
    "LAUNCHER_PID",
    "LISTENER_FDS",
    "REPORT_FD",
    "SETTINGS_FD",
    "Inherited",
    "Replaced",
    "SettingsMemory",
    "memory_file",
    "read_and_close",
]

SETTINGS_FD = "GYM_HTTP_SETTINGS_FD"
LISTENER_FDS = "GYM_HTTP_LISTENER_FDS"
REPORT_FD = "GYM_HTTP_REPORT_FD"
LAUNCHER_PID = "GYM_HTTP_LAUNCHER_PID"

_PAGE = mmap.PAGESIZE
# The state of the memory is one number, so that it changes as a whole: how often the
# settings were replaced, the page at which they begin, and their bytes.
_PAGE_BIT, _COUNT_BIT, _END_BIT = 28, 48, 64
# Later there are pairs of numbers, one for each web worker: its process ID, and the
# state of the settings that it has.
_CONFIRMED = 2


class Inherited(msgspec.Struct, frozen=True):
    """What the launcher passes to other processes.

    Attributes:
        settings: The settings, with the tokens.
        run_path: Path of the run directory.
        certificate: The certificate of a server with TLS.
        fleet_token: The token that all servers of its fleet have; "" without a fleet.
    """

    settings: Settings
    run_path: str
    certificate: Certificate | None = None
    fleet_token: str = ""

    @property
    def run(self) -> RunDir:
        """The run directory."""
        return RunDir(self.run_path)


class Replaced(msgspec.Struct):
    """What the supervisor and its processes have to know of a reload.

    Attributes:
        quotas: Instances that each token may own at a time, by its name.
        gone: Names of tokens that the server accepted once, and does not accept now.
        log_level: Least level of the log's lines.
    """

    quotas: dict[str, int | None]
    gone: frozenset[str]
    log_level: str

    @classmethod
    def receive(cls, descriptor: int | None) -> Replaced | None:
        """Read it from the descriptor of `memory`; ``None`` if that has not arrived."""
        if descriptor is None:
            return None
        return msgspec.json.decode(read_and_close(descriptor), type=cls)

    def memory(self) -> IO[bytes]:
        """Write it to memory, for a process that gets its descriptor."""
        return memory_file(msgspec.json.encode(self))


def memory_file(data: bytes) -> IO[bytes]:
    """Write data to a file without a name, for a process that gets its descriptor."""
    file = os.fdopen(os.memfd_create("settings"), "wb")
    file.write(data)
    file.flush()
    return file


def read_and_close(descriptor: int) -> bytes:
    """Read data that `memory_file` wrote, and close the descriptor."""
    # Without a file object, which takes longer to make than all the rest.
    try:
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


class SettingsMemory:
    """Settings in memory that processes share by its descriptor.

    One process replaces the settings, and all others notice that at the cost of a look
    at a number. Web workers confirm there that they have the new ones.

    Args:
        descriptor: The descriptor.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._map = mmap.mmap(descriptor, _PAGE)
        self._state = memoryview(self._map).cast("Q")

    @classmethod
    def of(cls, inherited: Inherited) -> SettingsMemory:
        """Make the memory, for the processes that get its descriptor."""
        descriptor = os.memfd_create("settings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, _PAGE)
        # A process that looks at memory which was cut off would be killed.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        made = cls(descriptor)
        made.replace(inherited)
        return made

    @classmethod
    def inherited(cls) -> SettingsMemory:
        """Return the memory that the launcher passed to gunicorn and its workers."""
        return cls(int(os.environ[SETTINGS_FD]))

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the descriptor; the memory lasts as long as other processes have it."""
        self._state.release()
        self._map.close()
        os.close(self._descriptor)

    @property
    def state(self) -> int:
        """A number that changes when the settings are replaced."""
        return self._state[0]

    def confirm(self, place: int, state: int) -> None:
        """Note that this process has the settings of a state.

        Args:
            place: Number of the web worker, which no other one has meanwhile.
            state: The state.
        """
        self._state[_CONFIRMED + 2 * place + 1] = state
        self._state[_CONFIRMED + 2 * place] = os.getpid()

    def forget(self, place: int) -> None:
        """Forget a web worker that ends."""
        self._state[_CONFIRMED + 2 * place] = 0

    def unconfirmed(self) -> list[int]:
        """Return the process IDs of web workers that have earlier settings."""
        confirmed = self._state[_CONFIRMED:].tolist()
        pairs = zip(confirmed[::2], confirmed[1::2], strict=True)
        return [pid for pid, state in pairs if pid and state != self.state]

    def read(self) -> Inherited:
        """Return the settings."""
        while True:
            state = self.state
            _, page, size = _parts(state)
            data = os.pread(self._descriptor, size, page * _PAGE)
            if self.state == state:
                return msgspec.json.decode(data, type=Inherited)

    def replace(self, inherited: Inherited) -> None:
        """Replace the settings; only one process may do so.

        Raises:
            OSError: There is no memory for them; the former ones stay.
        """
        data = msgspec.json.encode(inherited)
        count, page, size = _parts(self.state)
        # Not over those that other processes may be reading.
        new = 1 if 1 + _pages(len(data)) <= page else page + _pages(size) or 1
        if os.pwrite(self._descriptor, data, new * _PAGE) != len(data):
            raise OSError("there is no memory for the settings")
        count = (count + 1) % (1 << _END_BIT - _COUNT_BIT)
        self._state[0] = count << _COUNT_BIT | new << _PAGE_BIT | len(data)


def _parts(state: int) -> tuple[int, int, int]:
    """Return how often settings were replaced, their first page, and their size."""
    page = state >> _PAGE_BIT & (1 << _COUNT_BIT - _PAGE_BIT) - 1
    return state >> _COUNT_BIT, page, state & (1 << _PAGE_BIT) - 1


def _pages(size: int) -> int:
    return -(-size // _PAGE)
