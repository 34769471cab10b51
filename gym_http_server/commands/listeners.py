"""Listeners: the sockets on which the server listens.

The launcher binds them, so it reports an address in use at once, and gunicorn gets
their descriptors. A Unix socket is a file, and outlives a server that is killed. The
process that holds the lock on the file beside it may remove it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import socket
import stat
from collections.abc import Iterator
from urllib.parse import quote

from gym_http_server.config.settings import Settings
from gym_http_server.errors import SettingError, StartError
from gym_http_server.rundir.sockets import SOCKET_PATH_BYTES, listen

__all__ = [
    "address",
    "file_name",
    "open_listener",
    "open_listeners",
]

BACKLOG = 2048
PROBE_SECONDS = 1.0
# A client whose network is lost is detected after two minutes. Connections inherit it,
# also those whose sockets are passed to hosts, or that a web worker relays.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
)
_MODE = re.compile(r"0?[0-7]{3}").fullmatch


@contextlib.contextmanager
def open_listeners(settings: Settings) -> Iterator[list[socket.socket]]:
    """Listen on the addresses of the settings, TCP first; close all in the end.

    Raises:
        StartError: There is no such place, or it is in use.
    """
    if settings.no_tcp and not settings.unix:
        raise SettingError("--no-tcp leaves nothing to listen on: add --unix PATH")
    with contextlib.ExitStack() as stack:
        listeners = []
        if not settings.no_tcp:
            found = _tcp(settings.listen, settings.port, "--port")
            listeners.append(stack.enter_context(found))
        if settings.unix:
            mode = _mode(settings.unix_mode)
            if mode & stat.S_IWOTH and not settings.guarded and not settings.no_token:
                raise SettingError(
                    f"--unix-mode {settings.unix_mode} lets every user of this machine "
                    "connect, and clients that create environments can run code: set a "
                    "token with --token (or --token auto), or use --no-token if you "
                    "accept that"
                )
            path = os.path.abspath(settings.unix)
            listeners.append(stack.enter_context(_unix(path, mode)))
        yield listeners


@contextlib.contextmanager
def open_listener(
    place: tuple[str, int] | None, flag: str
) -> Iterator[socket.socket | None]:
    """Listen for a protocol other than HTTP, if the settings have it; close at the end.

    Args:
        place: Host and port; ``None``: do not listen.
        flag: The flag of the setting.

    Raises:
        StartError: The address does not exist, or it is in use.
    """
    if place is None:
        yield None
        return
    with _tcp(*place, flag) as listener:
        yield listener


def address(listener: socket.socket, scheme: str = "http") -> str:
    """Return the URL at which clients reach a listener; Unix sockets have no TLS."""
    place = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"http+unix://{quote(place, safe='')}"
    host, port = place[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def file_name(listener: socket.socket) -> str:
    """Return a name for files that belong to the address of a listener."""
    place = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        # Its path is longer than the name of a file may be.
        return f"unix-{hashlib.sha256(os.fsencode(place)).hexdigest()[:32]}"
    host, port = place[:2]
    return f"{host}:{port}"


def _tcp(host: str, port: int, flag: str) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise StartError(f"cannot listen on {host!r}: {error.strerror}") from None
    family, kind, protocol, _, place = found[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for level, option, value in _KEEPALIVE:
        listener.setsockopt(level, option, value)
    try:
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StartError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another "
            f"port with {flag}"
        ) from None
    return listener


def _mode(text: str) -> int:
    if not _MODE(text):
        raise SettingError(
            f"--unix-mode is {text!r}: expected three octal digits, as 600 or 660"
        )
    return int(text, 8)


@contextlib.contextmanager
def _unix(path: str, mode: int) -> Iterator[socket.socket]:
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_BYTES:
        raise StartError(
            f"the path of the Unix socket {path} has {size} bytes, "
            f"{SOCKET_PATH_BYTES} are possible; choose a shorter one with --unix"
        )
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_lock(f"{path}.lock"))
            _clear(path)
            listener = stack.enter_context(listen(path, BACKLOG, mode))
            bound = os.lstat(path)
        except OSError as error:
            raise StartError(
                f"cannot listen on the Unix socket {path}: {error.strerror}"
            ) from None
        stack.callback(_remove, path, bound)
        yield listener


@contextlib.contextmanager
def _lock(path: str) -> Iterator[None]:
    """Hold a file's lock, and remove the file in the end.

    Raises:
        StartError: Another server holds it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        lock = os.open(path, flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise _in_use(path.removesuffix(".lock")) from None
        held = os.fstat(lock)
        if _is_there(path, held):
            break
        # A server that has just ended has removed it: this lock excludes no process.
        os.close(lock)
    try:
        yield
    finally:
        _remove(path, held)
        os.close(lock)


def _clear(path: str) -> None:
    """Remove only the socket of a server that was killed.

    Raises:
        StartError: A server listens on it, or it is not a socket.
    """
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(there.st_mode):
        raise StartError(
            f"{path} is there and is no socket; choose another path with --unix"
        )
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            _remove(path, there)
        except (BlockingIOError, TimeoutError):
            # A server with a full backlog is alive.
            raise _in_use(path) from None
        else:
            raise _in_use(path)


def _in_use(path: str) -> StartError:
    return StartError(
        f"another server listens on {path}; choose another path with --unix"
    )


def _is_there(path: str, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), file)
    except FileNotFoundError:
        return False


def _remove(path: str, file: os.stat_result) -> None:
    """Remove a file, unless another file has replaced it."""
    if _is_there(path, file):
        with contextlib.suppress(OSError):
            os.unlink(path)
