"""Seccomp: refuses system calls that reach processes which Landlock does not protect.

The filter is a program of classic BPF, which the kernel runs before each call. Children
inherit it, and it cannot be removed. It sees the numbers in a call's arguments, and not
the memory that they point to.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
import sys
from typing import NamedTuple

__all__ = ["install", "supported"]

_PRIO_USER, _IOPRIO_WHO_USER = 2, 3
_SOL_SOCKET, _SO_LINGER = 1, 13

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_GET_ACTION_AVAILABLE = 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
# Load a word, compare it with a number, return a number.
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_STEP = struct.Struct("=HBBI")
# Offsets in the data of a filter: the call's number, the architecture, the arguments.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
#: Calls of the x32 ABI have this bit in their number.
_X32 = 0x40000000


class _Machine(NamedTuple):
    """Numbers of an architecture; both architectures are little-endian.

    Attributes:
        audit: The kernel's number for it; 32-bit programs have a different one.
        seccomp: The number of the system call ``seccomp``.
        calls: The calls that are filtered.
    """

    audit: int
    seccomp: int
    calls: dict[str, int]


_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        317,
        {
            "setsockopt": 54,
            "setpriority": 141,
            "sched_setparam": 142,
            "sched_setscheduler": 144,
            "ioprio_set": 251,
            "prlimit64": 302,
            "sched_setattr": 314,
            "io_uring_setup": 425,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        277,
        {
            "ioprio_set": 30,
            "sched_setparam": 118,
            "sched_setscheduler": 119,
            "setpriority": 140,
            "setsockopt": 208,
            "prlimit64": 261,
            "sched_setattr": 274,
            "io_uring_setup": 425,
        },
    ),
}

# Looked up at import, as in `prctl`.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _Test(NamedTuple):
    """A comparison of the lower or upper half of an argument with a number."""

    argument: int
    equal: bool
    value: int
    upper: bool = False


# Calls with the tests that must all hold for a call to be refused, and its error.
_REFUSED: tuple[tuple[str, tuple[_Test, ...], int], ...] = (
    # New limits of another process, the address of which is not null.
    ("prlimit64", (_Test(0, False, 0), _Test(2, False, 0)), errno.EPERM),
    ("prlimit64", (_Test(0, False, 0), _Test(2, False, 0, True)), errno.EPERM),
    # The close of a socket that lingers blocks each process that has received it.
    (
        "setsockopt",
        (_Test(1, True, _SOL_SOCKET), _Test(2, True, _SO_LINGER)),
        errno.EPERM,
    ),
    # Priorities of other processes. sched_setaffinity is allowed: OpenMP calls it with
    # the IDs of its threads, and the filter cannot distinguish those from processes.
    ("setpriority", (_Test(1, False, 0),), errno.EPERM),
    ("setpriority", (_Test(0, True, _PRIO_USER),), errno.EPERM),
    ("ioprio_set", (_Test(1, False, 0),), errno.EPERM),
    ("ioprio_set", (_Test(0, True, _IOPRIO_WHO_USER),), errno.EPERM),
    ("sched_setparam", (_Test(0, False, 0),), errno.EPERM),
    ("sched_setscheduler", (_Test(0, False, 0),), errno.EPERM),
    ("sched_setattr", (_Test(0, False, 0),), errno.EPERM),
    # Operations of a ring bypass the filter. Libraries work without io_uring.
    ("io_uring_setup", (), errno.ENOSYS),
)


@functools.cache
def supported() -> bool:
    """Return whether this kernel and architecture support the filter."""
    machine = _machine()
    if _LIBC is None or machine is None:
        return False
    action = struct.pack("=I", _ERRNO)
    arguments = (machine.seccomp, _GET_ACTION_AVAILABLE, 0, action)
    return bool(_LIBC.syscall(*arguments) == 0)


def install() -> None:
    """Filter the calls of this process, which has no_new_privs set.

    Its threads that run already are not concerned. 32-bit programs get ENOSYS for every
    call.

    Raises:
        OSError: The kernel refuses it.
    """
    machine = _machine()
    if _LIBC is None or machine is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    steps = _program(machine)
    buffer = ctypes.create_string_buffer(b"".join(steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    unused = ctypes.c_ulong(0)
    mode = ctypes.c_ulong(_MODE_FILTER)
    if _LIBC.prctl(_PR_SET_SECCOMP, mode, program, unused, unused) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _machine() -> _Machine | None:
    if sys.maxsize < 1 << 32:
        # A 32-bit program on a 64-bit kernel.
        return None
    return _MACHINES.get(os.uname().machine)


def _program(machine: _Machine) -> list[bytes]:
    """Return the steps of the filter."""
    no_such_call = _STEP.pack(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    steps = [
        _STEP.pack(_LOAD, 0, 0, _ARCHITECTURE),
        _STEP.pack(_EQUAL, 1, 0, machine.audit),
        no_such_call,
        _STEP.pack(_LOAD, 0, 0, _NUMBER),
        _STEP.pack(_AT_LEAST, 0, 1, _X32),
        no_such_call,
    ]
    for name, tests, error in _REFUSED:
        steps += _refusal(machine.calls[name], tests, error)
    return [*steps, _STEP.pack(_RETURN, 0, 0, _ALLOW)]


def _refusal(number: int, tests: tuple[_Test, ...], error: int) -> list[bytes]:
    """Return the steps that refuse a call if all tests hold; else they fall through."""
    left = 2 * len(tests) + 1
    steps = [
        _STEP.pack(_LOAD, 0, 0, _NUMBER),
        _STEP.pack(_EQUAL, 0, left, number),
    ]
    for test in tests:
        left -= 2
        offset = _ARGUMENTS + 8 * test.argument + 4 * test.upper
        jumps = (0, left) if test.equal else (left, 0)
        steps += [
            _STEP.pack(_LOAD, 0, 0, offset),
            _STEP.pack(_EQUAL, *jumps, test.value),
        ]
    return [*steps, _STEP.pack(_RETURN, 0, 0, _ERRNO | error)]
