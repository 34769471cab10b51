"""Process attributes of Linux that the standard library does not offer.

Every function is a no-op that returns ``False`` on other systems.
"""

from __future__ import annotations

import ctypes
import os
import signal as signals
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

# Looked up at import: between fork and exec nothing should be opened or loaded.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent_pid: int | None, signal: int = signals.SIGKILL) -> bool:
    """Have the kernel send this process a signal when its parent ends.

    The signal comes when the *thread* that forked this process ends, so parents
    fork from their main thread. It is cleared by a fork and by executing a
    set-user-ID program, and kept by any other exec.

    Args:
        parent_pid: The process that must still be the parent. If it has ended
            already, the signal is sent at once; ``None`` leaves that check out.
        signal: The signal to send.

    Returns:
        Whether the signal is set.
    """
    if not _prctl(_PR_SET_PDEATHSIG, int(signal)):
        return False
    if parent_pid is not None and os.getppid() != parent_pid:
        os.kill(os.getpid(), signal)
    return True


def become_subreaper() -> bool:
    """Make this process the new parent of orphans below it.

    Returns:
        Whether it is one now.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_dumpable(dumpable: bool) -> bool:
    """Allow or refuse other processes of this user to read this one's memory.

    What is refused with it: core dumps, ptrace, and most of /proc/<pid>.

    Args:
        dumpable: Whether to allow it.

    Returns:
        Whether it is set.
    """
    return _prctl(_PR_SET_DUMPABLE, int(dumpable))


def _prctl(option: int, value: int) -> bool:
    if _LIBC is None:
        return False
    # The call is variadic; the kernel reads unsigned longs.
    arguments = [ctypes.c_ulong(number) for number in (value, 0, 0, 0)]
    return bool(_LIBC.prctl(ctypes.c_int(option), *arguments) == 0)
