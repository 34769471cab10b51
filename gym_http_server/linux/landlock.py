"""Landlock: restricts the files that a process can access, for the rest of its life.

A restriction is a list of file hierarchies with the accesses allowed below each; the
kernel refuses all other file accesses with EACCES. Child processes inherit it, and it
cannot be lifted. Supports ABI 1 (Linux 5.13) and later. Accesses that the kernel does
not support are left out.
"""

from __future__ import annotations

import ctypes
import functools
import os
import stat
import struct
import sys

__all__ = [
    "READ",
    "WRITE",
    "abi",
    "descriptors_of",
    "restrict",
    "rule",
    "scopes_signals",
]

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REMOVE_DIR, _REMOVE_FILE, _MAKE_CHAR, _MAKE_DIR = (1 << bit for bit in range(4, 8))
_MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK = (1 << bit for bit in range(8, 12))
_MAKE_SYM, _REFER, _TRUNCATE, _IOCTL_DEV = (1 << bit for bit in range(12, 16))

#: Reading, listing and executing.
READ = _EXECUTE | _READ_FILE | _READ_DIR
#: Writing, making and removing; not making devices.
WRITE = (
    _WRITE_FILE
    | _REMOVE_DIR
    | _REMOVE_FILE
    | _MAKE_DIR
    | _MAKE_REG
    | _MAKE_SOCK
    | _MAKE_FIFO
    | _MAKE_SYM
    | _REFER
    | _TRUNCATE
    | _IOCTL_DEV
)
_ALL = READ | WRITE | _MAKE_CHAR | _MAKE_BLOCK
#: The accesses that a rule for a file can have; a rule for a directory can have all.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
#: The first ABI that supports each of these.
_SINCE = {_REFER: 2, _TRUNCATE: 3, _IOCTL_DEV: 5}
_SCOPE_SIGNAL, _SCOPE_SINCE = 1 << 1, 6

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_RULE = struct.Struct("=Qi")

# Looked up at import: between fork and exec, nothing should be opened or loaded.
_SYSCALL = (
    ctypes.CDLL(None, use_errno=True).syscall if sys.platform == "linux" else None
)


@functools.cache
def abi() -> int:
    """Return the version of Landlock's ABI, 0 if the kernel has none or has it off."""
    if _SYSCALL is None:
        return 0
    return max(0, int(_SYSCALL(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def scopes_signals() -> bool:
    """Return whether the kernel can restrict the signals that a process sends."""
    return abi() >= _SCOPE_SINCE


def rule(path: str, access: int) -> bytes | None:
    """Open a file or directory, and return the rule that allows an access below it.

    The rule holds the descriptor, which the caller closes. Returns ``None`` if the path
    does not exist, or is a symbolic link: its target may have a separate rule.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISLNK(mode):
        os.close(descriptor)
        return None
    if not stat.S_ISDIR(mode):
        access &= _OF_FILES
    return _RULE.pack(access & _known(), descriptor)


def descriptors_of(rules: bytes) -> list[int]:
    """Return the descriptors that rules hold."""
    return [descriptor for _, descriptor in _RULE.iter_unpack(rules)]


def restrict(rules: bytes, *, signals: bool) -> None:
    """Restrict this process, which has one thread and no_new_privs set.

    Args:
        rules: Concatenated rules for the accesses to allow; all others are refused.
        signals: Whether to refuse signals to processes outside this one and its
            children, too; needs ABI 6.

    Raises:
        OSError: The kernel refuses it.
    """
    scoped = _SCOPE_SIGNAL if signals and scopes_signals() else 0
    # Older kernels have a shorter structure, and refuse one with unknown fields.
    size = 24 if scopes_signals() else 16 if abi() >= 4 else 8
    attributes = struct.pack("=QQQ", _known(), 0, scoped)[:size]
    ruleset = _call(_CREATE_RULESET, attributes, size, 0)
    try:
        for start in range(0, len(rules), _RULE.size):
            rule = rules[start : start + _RULE.size]
            _call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


@functools.cache
def _known() -> int:
    return _ALL & ~sum(bit for bit, since in _SINCE.items() if abi() < since)


def _call(number: int, *arguments: int | bytes) -> int:
    if _SYSCALL is None:
        raise NotImplementedError("Landlock is a part of Linux")
    result = int(_SYSCALL(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
