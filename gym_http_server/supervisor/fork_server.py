"""The fork server: a process that forks hosts, and keeps one spare host ready.

A host shares the memory of its parent process, page by page, until either of them
writes to it. The supervisor writes all the time; the fork server only forks. A create
request uses the spare host, so it does not wait for a fork.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Collection
from typing import NoReturn

import msgspec

from gym_http_server import inherited_settings, prctl
from gym_http_server.envhost import process
from gym_http_server.envhost.isolation import print_to
from gym_http_server.frame_socket import receive_with_descriptors
from gym_http_server.poller import Poller
from gym_http_server.service_process import isolate
from gym_http_server.supervisor.forks import fork
from gym_http_server.supervisor.services import ServiceProcess
from gym_http_server.titles import set_title

__all__ = ["ForkServer", "fork_host"]

#: Delay before the next spare host, after one that ended without an instance.
PAUSE_SECONDS = 1.0
# Waits of a spare host until its first parent has ended.
_REPARENT_PAUSE_S = 0.0002
_PID = struct.Struct("=i")
_START = b"\n"
# Created before the forks, since that takes 2 ms.
_STARTS = msgspec.json.Decoder(process.HostStart)
# A spare host receives these with a start: the start itself, listener and output.
_DESCRIPTORS = 3


class ForkServer(ServiceProcess):
    """The supervisor's handle of the fork server.

    Args:
        descriptors: Descriptors that hosts need.
        poller: Polls for new spare hosts.
    """

    name = "fork server"

    def __init__(self, descriptors: list[int], poller: Poller) -> None:
        super().__init__()
        self.wanted = True
        self._descriptors = descriptors
        self._poller = poller
        self._control: socket.socket | None = None
        self._ready: dict[int, socket.socket] = {}

    @property
    def spare_pids(self) -> Collection[int]:
        """Process IDs of the spare hosts that wait."""
        return self._ready.keys()

    def forget(self, pid: int) -> None:
        """Forget a spare host that has ended.

        Args:
            pid: ID of a process that has ended.
        """
        if (channel := self._ready.pop(pid, None)) is not None:
            channel.close()

    def start(self) -> None:
        """Start the process, which makes a spare host at once.

        Raises:
            ForkFailed: No process can be started.
            OSError: No socket can be opened.
        """
        # The spare hosts of an earlier process end with their channels.
        self._close()
        while self._ready:
            self._ready.popitem()[1].close()
        control, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
        )
        with theirs:
            keep = [theirs.fileno(), *self._descriptors]
            try:
                self._fork(keep, lambda parent: _serve(theirs, parent))
            except BaseException:
                control.close()
                raise
        self._control = control
        self._poller.add(control, lambda events: self._receive_spare())

    def _close(self) -> None:
        if self._control is not None:
            self._poller.remove(self._control)
            self._control.close()
            self._control = None

    def start_host(
        self, start: process.HostStart, listener: socket.socket, output: int
    ) -> tuple[int, socket.socket] | None:
        """Make the spare host the host of an instance.

        Args:
            start: The parameters of the host.
            listener: The socket to which web workers connect.
            output: Descriptor for the output of the environment.

        Returns:
            Process ID of the host, and the channel to it; ``None`` if there is no spare
            host at the moment.
        """
        with inherited_settings.memory_file(msgspec.json.encode(start)) as memory:
            passed = [memory.fileno(), listener.fileno(), output]
            while (spare := self._next_spare()) is not None:
                pid, channel = spare
                try:
                    socket.send_fds(channel, [_START], passed)
                except OSError:
                    # It has ended.
                    channel.close()
                else:
                    return pid, channel
        return None

    def _next_spare(self) -> tuple[int, socket.socket] | None:
        self._receive_spare()
        return self._ready.popitem() if self._ready else None

    def _receive_spare(self) -> None:
        if self._control is None:
            return
        try:
            data, descriptors = receive_with_descriptors(self._control, _PID.size)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            # The fork server has ended.
            self._close()
        elif descriptors:
            # Otherwise this process may open no file, and the spare host ends.
            self._ready[_PID.unpack(data)[0]] = socket.socket(fileno=descriptors[0])


def fork_host(
    start: process.HostStart, listener: socket.socket, output: int
) -> tuple[int, socket.socket]:
    """Fork this process into a host, without a spare host.

    Args:
        start: The parameters of the host.
        listener: The socket to which web workers connect.
        output: Descriptor for the output of the environment.

    Returns:
        Process ID of the host, and the channel to it.

    Raises:
        OSError: No socket can be opened.
        ForkFailed: No process can be started.
    """
    ours, channel = socket.socketpair()
    with channel, contextlib.ExitStack() as stack:
        stack.enter_context(ours)
        pid = fork()
        if not pid:
            _end_after(lambda: _become_host(start, channel, listener, output))
        stack.pop_all()
    return pid, ours


def _serve(control: socket.socket, supervisor: int) -> int:
    """Keep one spare host ready."""
    isolate(supervisor)
    control.setblocking(True)
    while True:
        used, writer = os.pipe()
        with contextlib.suppress(OSError):
            if not (child := os.fork()):
                os.close(used)
                _fork_spare(control, writer, supervisor)
            os.waitpid(child, 0)
        os.close(writer)
        if not os.read(used, 1):
            # It has ended without an instance, or could not be forked.
            time.sleep(PAUSE_SECONDS)
        os.close(used)


def _fork_spare(control: socket.socket, used: int, supervisor: int) -> NoReturn:
    """Fork a spare host and end, so that the host becomes a child of the supervisor.

    The supervisor is the reaper of orphans below it, and needs the exit status.
    """
    try:
        parent = os.getpid()
        if not os.fork():
            _end_after(lambda: _wait_for_start(control, used, parent, supervisor))
    finally:
        os._exit(0)


def _wait_for_start(
    control: socket.socket, used: int, parent: int, supervisor: int
) -> int:
    """Wait as a spare host until there is an instance for it, and become its host."""
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    while os.getppid() == parent:
        time.sleep(_REPARENT_PAUSE_S)
    prctl.die_with_parent(supervisor, signal.SIGKILL)
    process.warm_up()
    ours, channel = socket.socketpair()
    with control, ours:
        socket.send_fds(control, [_PID.pack(os.getpid())], [ours.fileno()])
    set_title("spare host")
    data, passed = receive_with_descriptors(channel, len(_START))
    if not data or len(passed) != _DESCRIPTORS:
        return 0
    # The fork server may have ended.
    with contextlib.suppress(BrokenPipeError):
        os.write(used, data)
    os.close(used)
    memory, listener, output = passed
    start = _STARTS.decode(inherited_settings.read_and_close(memory))
    with socket.socket(fileno=listener) as listening:
        return _become_host(start, channel, listening, output)


def _become_host(
    start: process.HostStart,
    channel: socket.socket,
    listener: socket.socket,
    output: int,
) -> int:
    print_to(output)
    set_title(f"{start.instance_id} {start.request.env_id}")
    if start.path:
        _execute(start, channel, listener)
    return process.run(start, channel, listener)


def _execute(
    start: process.HostStart, channel: socket.socket, listener: socket.socket
) -> None:
    """Become a fresh interpreter."""
    # Not in the command line, which every user can read.
    memory = inherited_settings.memory_file(msgspec.json.encode(start))
    ends = (channel.fileno(), listener.fileno(), memory.fileno())
    for end in (*ends, *start.sandbox.descriptors):
        os.set_inheritable(end, True)
    arguments = ["-P", "-m", "gym_http_server.envhost", *map(str, ends)]
    os.execv(sys.executable, [sys.executable, *arguments])


def _end_after(run: Callable[[], int]) -> NoReturn:
    """End this process with the status that a function returns."""
    status = 1
    try:
        status = run()
    except BaseException:
        traceback.print_exc()
    finally:
        # Flushing the output may fail, and this process must end here.
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
