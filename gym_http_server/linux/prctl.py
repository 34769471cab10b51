"""Process attributes of Linux that the standard library does not offer.

Every function is a no-op that returns ``False`` on other systems.
"""

from __future__ import annotations

import ctypes
import os
import signal as signals
import struct
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_TIMERSLACK = 29
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_CAPABILITY_VERSION = 0x20080522
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID. Not DAC_READ_SEARCH, which opens files by number.
_FILE_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4

# Looked up at import: between fork and exec, nothing should be opened or loaded.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_PRCTL, _CAPSET = (_LIBC.prctl, _LIBC.capset) if _LIBC is not None else (None, None)
_ZERO = ctypes.c_ulong(0)
_CAPABILITY_HEADER = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
# Sets of capabilities (effective, permitted, inheritable): lower 32 bits, then upper.
_CAPABILITIES = struct.pack("=6I", _FILE_CAPABILITIES, _FILE_CAPABILITIES, 0, 0, 0, 0)


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


def become_subreaper(*, wanted: bool = True) -> bool:
    """Make this process the new parent of orphans below it, or stop being that.

    Returns:
        Whether the attribute was set.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))


def set_dumpable(dumpable: bool) -> bool:
    """Allow or refuse other processes of this user to read this one's memory.

    A refusal also disables core dumps, ptrace, and most of /proc/<pid>.

    Args:
        dumpable: Whether to allow it.

    Returns:
        Whether the attribute was set.
    """
    return _prctl(_PR_SET_DUMPABLE, int(dumpable))


def set_timer_slack(ns: int) -> bool:
    """Set by how much the kernel may delay timers of this thread.

    Args:
        ns: Nanoseconds, from 1; the default is 50,000.

    Returns:
        Whether it is set.
    """
    return _prctl(_PR_SET_TIMERSLACK, ns)


def set_no_new_privs() -> bool:
    """Keep this process and its children from gaining privileges by an exec.

    Set-user-ID programs run without their owner's privileges then. It cannot be undone.

    Returns:
        Whether it is set.
    """
    return _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> bool:
    """Drop all capabilities except those that let root use the files of other users.

    With no_new_privs set, no exec restores them.

    Returns:
        Whether they are dropped.
    """
    if _CAPSET is None:
        return False
    return bool(_CAPSET(_CAPABILITY_HEADER, _CAPABILITIES) == 0)


def leave_network(*, in_user_namespace: bool) -> bool:
    """Move this process to a new network namespace, in which no interface is up.

    Args:
        in_user_namespace: Whether to make a user namespace, too, which needs no
            privileges if the system permits it.

    Returns:
        Whether the process was moved.
    """
    if _LIBC is None:
        return False
    flags = _CLONE_NEWNET | (_CLONE_NEWUSER if in_user_namespace else 0)
    return bool(_LIBC.unshare(ctypes.c_int(flags)) == 0)


def _prctl(option: int, value: int) -> bool:
    if _PRCTL is None:
        return False
    # The call is variadic, and the kernel reads unsigned longs.
    return bool(_PRCTL(option, ctypes.c_ulong(value), _ZERO, _ZERO, _ZERO) == 0)
