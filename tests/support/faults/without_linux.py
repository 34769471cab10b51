"""A pytest plugin that removes the parts of Python that Windows lacks.

It is loaded with ``-p tests.support.faults.without_linux``; other programs call
`remove_all`. Modules that run the tests are imported before it; the client and its
other imports see Python as on Windows. A file that is open can be neither removed nor
replaced.
"""

import ctypes
import errno
import fcntl
import mmap
import multiprocessing
import os
import select
import selectors
import shutil
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import gymnasium  # noqa: F401
import numpy  # noqa: F401
import pytest
import requests  # noqa: F401

import tests.conftest  # noqa: F401

MISSING_MODULES = (
    "curses",
    "fcntl",
    "grp",
    "pty",
    "pwd",
    "readline",
    "resource",
    "syslog",
    "termios",
    "tty",
)
# Of `ALL`, those with a name that begins so.
MISSING_PREFIXES = {
    mmap: ("MADV_", "MAP_", "PROT_"),
    os: ("CLD_", "F_", "MFD_", "POSIX_", "P_PID", "RTLD_", "SCHED_", "SPLICE_"),
    select: ("EPOLL", "POLL"),
    signal: ("ITIMER_", "SIG_BLOCK", "SIG_SETMASK", "SIG_UNBLOCK", "SIGRT"),
    time: ("CLOCK_", "clock_", "pthread_"),
}
MISSING = {
    os: (
        "O_ASYNC",
        "O_CLOEXEC",
        "O_DIRECT",
        "O_DIRECTORY",
        "O_DSYNC",
        "O_NOATIME",
        "O_NOCTTY",
        "O_NOFOLLOW",
        "O_NONBLOCK",
        "O_PATH",
        "O_SYNC",
        "O_TMPFILE",
        "chown",
        "copy_file_range",
        "eventfd",
        "fchdir",
        "fchmod",
        "fchown",
        "fdatasync",
        "fork",
        "forkpty",
        "getegid",
        "geteuid",
        "getgid",
        "getloadavg",
        "getpgid",
        "getrandom",
        "getuid",
        "killpg",
        "memfd_create",
        "mkfifo",
        "nice",
        "pidfd_open",
        "posix_fadvise",
        "posix_fallocate",
        "posix_spawn",
        "pread",
        "preadv",
        "pwrite",
        "pwritev",
        "register_at_fork",
        "sched_getaffinity",
        "sched_setaffinity",
        "sendfile",
        "setpgid",
        "setsid",
        "statvfs",
        "sync",
        "uname",
        "wait3",
        "wait4",
    ),
    select: ("epoll", "poll"),
    signal: (
        "SIGALRM",
        "SIGCHLD",
        "SIGHUP",
        "SIGKILL",
        "SIGPIPE",
        "SIGQUIT",
        "SIGUSR1",
        "SIGUSR2",
        "pthread_sigmask",
        "setitimer",
        "siginterrupt",
        "sigtimedwait",
        "sigwait",
    ),
    socket: (
        "AF_NETLINK",
        "AF_UNIX",
        "MSG_CMSG_CLOEXEC",
        "MSG_DONTWAIT",
        "MSG_NOSIGNAL",
        "SCM_RIGHTS",
        "SO_BUSY_POLL",
        "SO_INCOMING_CPU",
        "SO_PEERCRED",
        "SO_REUSEPORT",
        "TCP_QUICKACK",
        "TCP_USER_TIMEOUT",
        "recv_fds",
        "send_fds",
    ),
}
_LIBRARY = ctypes.CDLL
_SELECT = select.select
# Of Linux: as a lock of msvcrt, it belongs to an open file.
_F_OFD_SETLK, _FLOCK = 37, struct.Struct("hhqqi4x")


def _connected_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        return ours, listener.accept()[0]


class _Socket(socket.socket):
    """A socket whose messages have no descriptors."""

    @property
    def sendmsg(self) -> Any:
        raise AttributeError("sendmsg")

    @property
    def recvmsg(self) -> Any:
        raise AttributeError("recvmsg")


def _load_library(name: Any, *args: Any, **more: Any) -> Any:
    if name is None:
        raise TypeError("bad argument type for built-in operation")
    return _LIBRARY(name, *args, **more)


def _select_sockets(*sources: Any) -> Any:
    for each in (each for one in sources[:3] for each in one):
        number = each if isinstance(each, int) else each.fileno()
        if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
            raise OSError(errno.ENOTSOCK, f"select() of {each!r}, which is no socket")
    return _SELECT(*sources)


def _lock_bytes(descriptor: int, mode: int, count: int) -> None:
    """Lock bytes from the position on, as ``msvcrt.locking``, without waiting."""
    kind = fcntl.F_UNLCK if mode == 0 else fcntl.F_WRLCK
    start = os.lseek(descriptor, 0, os.SEEK_CUR)
    wanted = _FLOCK.pack(kind, os.SEEK_SET, start, count, 0)
    fcntl.fcntl(descriptor, _F_OFD_SETLK, wanted)


def _is_open(path: Any) -> bool:
    there = os.path.realpath(path)
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == there:
                return True
        except OSError:
            # The one of the list itself.
            continue
    return False


def _unless_open(call: Callable[..., Any], *, replaces: bool) -> Callable[..., Any]:
    """Return a function of files that refuses those that are open."""

    def checked(path: Any, *others: Any, **more: Any) -> Any:
        if more.get("dir_fd") is None and more.get("src_dir_fd") is None:
            for each in (path, *others):
                if os.path.isfile(each) and _is_open(each):
                    raise PermissionError(errno.EACCES, "the file is open", each)
            if others and not replaces and os.path.exists(others[0]):
                raise FileExistsError(errno.EEXIST, "the file exists", others[0])
        return call(path, *others, **more)

    return checked


def remove_all() -> None:
    """Remove what Windows lacks; modules of the client have to be imported anew."""
    for name in MISSING_MODULES:
        # Importing it raises ImportError from now on.
        sys.modules[name] = None  # type: ignore[assignment]
    for module, prefixes in MISSING_PREFIXES.items():
        for name in [each for each in vars(module) if each.startswith(prefixes)]:
            delattr(module, name)
    for module, names in MISSING.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    for name in [each for each in sys.modules if each.startswith("gym_http_")]:
        del sys.modules[name]
    changed: Any = os
    for name, replaces in (("remove", True), ("rename", False), ("replace", True)):
        call = getattr(changed, name)
        setattr(changed, name, _unless_open(call, replaces=replaces))
    changed.unlink = changed.remove
    # It has looked for what is removed when it was imported.
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]
    locks: Any = types.ModuleType("msvcrt")
    locks.locking, locks.LK_NBLCK, locks.LK_UNLCK = _lock_bytes, 2, 0
    sys.modules["msvcrt"] = locks
    selectors.DefaultSelector = selectors.SelectSelector  # type: ignore
    socket.socketpair = lambda *_: _connected_pair()  # type: ignore
    socket.socket = _Socket  # type: ignore
    ctypes.CDLL = _load_library  # type: ignore
    select.select = _select_sockets
    multiprocessing.get_all_start_methods = lambda: ["spawn"]
    sys.platform = "win32"


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Remove what Windows lacks, before tests are imported."""
    remove_all()
