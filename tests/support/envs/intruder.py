"""An environment that tries forbidden actions for a test, and returns the result.

A server loads this module with ``--import tests.support.envs.intruder``. The options
of a reset name a function and its arguments; the info has the result, or the name of
the errno with which the function failed.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import psutil

from tests.support.envs.hostile import Hostile

_KEPT: list[socket.socket] = []
#: Operation by which a host requests connections from the broker.
LEASE = 98


def write(path: str) -> None:
    """Make or change a file."""
    with open(path, "a") as file:
        file.write("x")


def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_text(errors="replace")


def names(path: str) -> list[str]:
    """List a directory."""
    return os.listdir(path)


def rename(source: str, target: str) -> None:
    """Move a file to another directory."""
    os.rename(source, target)


def kill(pid: int) -> None:
    """Stop a process for good."""
    os.kill(pid, signal.SIGKILL)


def command() -> list[list[str]]:
    """Return this program's arguments, and how its interpreter was started."""
    return [sys.argv, sys.orig_argv]


def child() -> int:
    """Start a child and end it by a signal."""
    process = subprocess.Popen(["sleep", "600"])
    process.terminate()
    return process.wait()


def run(*command: str) -> str:
    """Run a program and return what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def connect(path: str, op: int, daemon: bool = False) -> None:
    """Send a request to a Unix socket of the server, and wait for the answer."""
    if daemon and (pid := os.fork()):
        if os.waitpid(pid, 0)[1]:
            raise OSError(errno.ECONNREFUSED, "not answered")
        return
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            if daemon:
                os.setsid()
            sock.connect(path)
            sock.sendall(struct.pack("<IIHBBI", 0, 0, 0, op, 0x11, 1))
            if not sock.recv(1):
                raise OSError(errno.ECONNREFUSED, "closed without an answer")
    except (BrokenPipeError, ConnectionResetError) as error:
        raise OSError(errno.ECONNREFUSED, "closed without an answer") from error
    finally:
        if daemon:
            os._exit(int(sys.exc_info()[0] is not None))


def connect_often(path: str, seconds: float) -> int:
    """Connect to a Unix socket in a loop; return how often."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            count += 1
    return count


def lease(path: str, name: str) -> int:
    """Request a connection of an external environment; return how many came."""
    body = json.dumps({"name": name, "count": 1, "wait_s": 0}).encode()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(path)
        try:
            sock.sendall(struct.pack("<IIHBBI", len(body), 0, 0, LEASE, 0, 1) + body)
            return len(socket.recv_fds(sock, 1 << 16, 1)[1])
        except (BrokenPipeError, ConnectionResetError):
            return 0


def interfaces() -> list[str]:
    """List the network interfaces."""
    return [name for _, name in socket.if_nameindex()]


def exchange() -> str:
    """Send something over the loopback interface."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as near:
        peer, _ = listener.accept()
        with peer:
            near.sendall(b"word")
            return peer.recv(4).decode()


def reach(host: str, port: int) -> None:
    """Connect by TCP."""
    socket.create_connection((host, port), timeout=5).close()


def send_lingering(seconds: int) -> int:
    """Send the supervisor TCP sockets whose close waits; return how many."""
    sent = 0
    for number in range(3, 4096):
        try:
            sock = socket.socket(fileno=os.dup(number))
        except OSError:
            continue
        with sock:
            # The channel alone is of a pair: others have a path, or are TCP.
            if sock.family == socket.AF_UNIX and not sock.getsockname():
                sent += _send_lingering(sock, seconds)
    return sent


def send_broker_lingering(path: str, count: int) -> int:
    """Send the broker TCP sockets whose close waits; return how many it took."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        try:
            return sum(_send_lingering(sock, 600) for _ in range(count))
        except BrokenPipeError:
            return 0


def _send_lingering(sock: socket.socket, seconds: int) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    peer, _ = listener.accept()
    # Its other end stays open, and nothing is ever read there.
    _KEPT.append(peer)
    near.setblocking(False)
    with listener, near:
        with contextlib.suppress(BlockingIOError):
            while True:
                near.send(bytes(1 << 16))
        linger = struct.pack("ii", 1, seconds)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        try:
            return socket.send_fds(sock, [b"\0"], [near.fileno()])
        except BrokenPipeError:
            # It would wait itself.
            linger = struct.pack("ii", 0, 0)
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            raise


def set_linger() -> None:
    """Have the close of a socket wait."""
    with socket.socket() as sock:
        linger = struct.pack("ii", 1, 600)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def limit(pid: int) -> None:
    """Set a process a limit of CPU time that ends it."""
    resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))


def limits(pid: int) -> list[int]:
    """Read a limit of a process."""
    return list(resource.prlimit(pid, resource.RLIMIT_NOFILE))


def slow_down(how: str, pid: int) -> None:
    """Return a process the lowest priority."""
    if how == "nice":
        os.setpriority(os.PRIO_PROCESS, pid, 19)
    elif how == "user":
        os.setpriority(os.PRIO_USER, os.getuid(), 19)
    elif how == "scheduler":
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    else:
        try:
            psutil.Process(pid).ionice(psutil.IOPRIO_CLASS_IDLE)
        except psutil.AccessDenied as error:
            raise PermissionError(errno.EPERM, "not permitted") from error


def limit_own() -> list[int]:
    """Set the permitted limits on this process, its children and its threads."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(1)
    cores = os.sched_getaffinity(0)
    thread = threading.Thread(
        target=lambda: os.sched_setaffinity(threading.get_native_id(), cores)
    )
    thread.start()
    thread.join()
    subprocess.run(["nice", "-n", "1", "true"], check=True)
    return sorted(cores)


def ring() -> None:
    """Set up io_uring, on x86-64 and ARM."""
    number = ctypes.CDLL(None, use_errno=True).syscall(425, 1, bytes(120))
    if number < 0:
        raise OSError(ctypes.get_errno(), "no ring")
    os.close(number)


def chmod(path: str, mode: int) -> None:
    """Change the permissions of a file."""
    os.chmod(path, mode)


def status(name: str) -> str:
    """Return a line of this process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(name)).split(":")[1].strip()


def death_signal() -> int:
    """Return the signal that the process receives when its parent ends."""
    number = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0) == 0
    return number.value


DEEDS: dict[str, Callable[..., Any]] = {
    deed.__name__: deed
    for deed in (
        *(write, read, names, rename, kill, child, run, connect, command),
        *(interfaces, lease, connect_often),
        *(exchange, reach, send_lingering, status, death_signal),
        *(send_broker_lingering, set_linger, limit, limits, slow_down, limit_own),
        *(ring, chmod),
    )
}


class Intruder(Hostile):
    """Tries what a reset's options name; action 1 writes to a file of root's."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        given = dict(options or {})
        name = given.pop("deed", None)
        if name is None:
            return 0, {}
        try:
            return 0, {"result": DEEDS[name](*given["arguments"])}
        except OSError as error:
            return 0, {"failed": errno.errorcode[error.errno or 0]}

    def misbehave(self) -> None:
        write("/etc/gym-http-intruder")


gymnasium.register("intruder/Intruder-v0", Intruder)
