"""Isolates a host's process from the supervisor, before it makes an environment."""

from __future__ import annotations

# The functions of `signal` make enums of numbers, which would write to 200 KiB of the
# memory that hosts share.
import _signal  # type: ignore[import-not-found]
import contextlib
import ctypes
import faulthandler
import os
import random
import resource
import signal
import sys
import tempfile
from collections.abc import Iterable

from gym_http_server.host.mark import set_mark
from gym_http_server.linux import prctl
from gym_http_server.linux.sandbox import Sandbox
from gym_http_server.processes.log_stream import STDERR
from gym_http_server.rundir.directory import RunDir

__all__ = [
    "close_descriptors",
    "default_signals",
    "find_state",
    "isolate",
    "print_to",
    "reseed",
    "reseed_unused",
]

OOM_SCORE = b"500"
_DEFAULT = tuple(
    map(
        int,
        (
            signal.SIGTERM,
            signal.SIGINT,
            signal.SIGHUP,
            signal.SIGCHLD,
            signal.SIGALRM,
        ),
    )
)
# A write beyond a limit, or to a closed pipe, raises OSError instead of ending the
# process.
_IGNORED = (int(signal.SIGPIPE), int(signal.SIGXFSZ))
# Size of the state of NumPy's global generator, and its memory if that is known.
_STATE_WORDS = 624
_STATE_BYTES = 4 * _STATE_WORDS
_state: memoryview | None = None


def isolate(
    run: RunDir,
    instance_id: str,
    parent_pid: int,
    keep: list[int],
    *,
    file_bytes: int,
    sandbox: Sandbox,
) -> None:
    """Separate this process from its parent, so that it can become a host.

    Args:
        run: The run directory.
        instance_id: The instance that this process will hold.
        parent_pid: The supervisor; the process ends with it.
        keep: Descriptors to keep open; all others but 0, 1 and 2 are closed.
        file_bytes: Bytes that a file written by it may have; 0: any number.
        sandbox: The sandbox that this process enters.
    """
    prctl.die_with_parent(parent_pid, signal.SIGKILL)
    set_mark(instance_id)
    prctl.set_dumpable(True)
    _reset_signals()
    _limit_files(file_bytes)
    _set_up_streams()
    _prefer_as_victim()
    work, temporary = run.own(instance_id)
    sandbox.enter((work, temporary), parent_pid)
    # Not earlier: the rules of the sandbox are descriptors.
    close_descriptors(keep)
    os.chdir(work)
    os.environ["TMPDIR"] = temporary
    tempfile.tempdir = None
    reseed_unused()
    faulthandler.enable()


def default_signals(numbers: Iterable[int]) -> None:
    """Give signals back the effect that they have without handlers.

    Args:
        numbers: Their numbers, no enums.
    """
    for number in numbers:
        _signal.signal(number, _signal.SIG_DFL)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    default_signals(_DEFAULT)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _limit_files(most: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most and (hard == resource.RLIM_INFINITY or most < hard):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def print_to(output: int) -> None:
    """Send standard output and standard error to a descriptor, also after an exec."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    # The supervisor's log does not wait for its reader; output of environments does.
    STDERR.block()
    sys.stderr = sys.__stderr__


def _set_up_streams() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def close_descriptors(keep: list[int]) -> None:
    """Close all descriptors except the listed ones and 0, 1 and 2."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    start = 3
    for descriptor in sorted(keep):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, most)


def _prefer_as_victim() -> None:
    # When memory runs out, a host is killed before the server.
    with contextlib.suppress(OSError):
        # No file object: making one takes longer than all the rest.
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, OOM_SCORE)
        finally:
            os.close(file)


def reseed() -> None:
    """Seed the global random generators, which a fork has copied."""
    # Every host would draw the same numbers otherwise.
    random.seed()
    _seed_numpy(os.urandom(_STATE_BYTES))


def reseed_unused() -> None:
    """Do the same where nothing has drawn a number since `find_state`."""
    if _state is None:
        reseed()
        return
    random.seed()
    _state[:] = os.urandom(_STATE_BYTES)


def find_state() -> None:
    """Let forks of this process seed NumPy's global generator in its memory.

    To call NumPy writes to 100 KiB more of the memory that hosts share.
    """
    import numpy as np

    global _state
    words = os.urandom(_STATE_BYTES)
    _seed_numpy(words)
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
    address = generator.ctypes.state_address
    found = (ctypes.c_ubyte * _STATE_BYTES).from_address(address)
    # A later NumPy may have it elsewhere.
    _state = memoryview(found).cast("B") if bytes(found) == words else None


def _seed_numpy(words: bytes) -> None:
    import numpy as np

    # Not seed(), which writes to 200 KiB more of the memory that hosts share.
    state = np.frombuffer(words, np.uint32)
    np.random.set_state(("MT19937", state, _STATE_WORDS, 0, 0.0))
