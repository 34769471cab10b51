"""The fork server: a process that forks hosts, some of them in advance.

A host shares the memory of its parent process, page by page, until either of them
writes to it. The supervisor writes all the time; the fork server only forks. It forks
as many hosts as the supervisor orders: one for each create request that waits, and
spare ones, as many as were taken lately. So the supervisor never waits for a fork.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection
from typing import NoReturn

import msgspec

from gym_http_server.config import inherited_settings
from gym_http_server.errors import ForkFailed
from gym_http_server.host import process
from gym_http_server.host.isolation import default_signals, find_state, print_to
from gym_http_server.host.mark import SPARE, set_mark
from gym_http_server.linux import prctl
from gym_http_server.processes.frame_socket import receive_with_descriptors
from gym_http_server.processes.poller import Poller, Source
from gym_http_server.processes.service_process import isolate
from gym_http_server.processes.titles import set_title
from gym_http_server.supervisor import prefork
from gym_http_server.supervisor.services import ServiceProcess

__all__ = ["Demand", "ForkServer"]

#: Spare hosts that are kept at most; each takes about 5 MiB.
MOST_SPARES = 8
#: Seconds for which a create request counts for the number of spare hosts.
DEMAND_SECONDS = 5.0
#: Delay before the next spare host, after one that ended without an instance.
PAUSE_SECONDS = 1.0
#: Seconds without a host that was ordered, after which the fork server is replaced.
STUCK_SECONDS = 5.0
#: A spare host that has waited for so long prepares itself further.
WARM_UP_SECONDS = 0.02
#: Seconds after the first order in which trials wait for the second one. They take some
#: 20 ms.
TRIAL_SECONDS = 0.2
# With fewer, hosts have more memory of their own (0: 0.7 MiB more); with 60 no less.
_TRIALS = 8
# Between two looks for the end of a parent, on kernels that do not report it.
_REPARENT_PAUSE_S = 0.0002
# A message of the fork server: ID of a spare host, or 0 and an error number.
_REPORT = struct.Struct("=ii")
_ORDER = struct.Struct("=i")
_START = b"\n"
# The signals that have a handler in the supervisor.
_HANDLED = int(signal.SIGTERM), int(signal.SIGCHLD)
# Created before the forks, since that takes 2 ms.
_STARTS = msgspec.json.Decoder(process.HostStart)
# A spare host receives these with a start: the start itself, listener, output, and the
# memory with arguments that are not in the start.
_DESCRIPTORS = (3, 4)


class Demand:
    """The number of spare hosts to keep: as many as were taken lately.

    Args:
        most: Limit of that number.
    """

    def __init__(self, most: int) -> None:
        self._taken: deque[float] = deque(maxlen=most)

    def add(self, now: float) -> None:
        """Count a spare host that was taken.

        Args:
            now: Monotonic seconds.
        """
        self._taken.append(now)

    def spares(self, now: float) -> int:
        """Return the number of spare hosts to keep, at least 1.

        Args:
            now: Monotonic seconds.
        """
        while self._taken and now - self._taken[0] >= DEMAND_SECONDS:
            self._taken.popleft()
        return max(1, len(self._taken))


class ForkServer(ServiceProcess):
    """The supervisor's handle of the fork server.

    Args:
        descriptors: Descriptors that hosts need.
        poller: Polls for new spare hosts.
        most: Limit of spare hosts.
    """

    name = "fork server"

    def __init__(
        self, descriptors: list[int], poller: Poller, most: int = MOST_SPARES
    ) -> None:
        super().__init__()
        self.wanted = True
        self._descriptors = descriptors
        self._poller = poller
        self._control: socket.socket | None = None
        self._ready: dict[int, socket.socket] = {}
        self._demand = Demand(most)
        self._ordered = 0
        self._last_news = 0.0
        self._rests_until = 0.0
        self._failure = (0, float("-inf"))

    @property
    def spare_pids(self) -> Collection[int]:
        """Process IDs of the spare hosts that wait."""
        return self._ready.keys()

    @property
    def ready(self) -> bool:
        """Whether there is a spare host."""
        return bool(self._ready)

    def forget(self, pid: int) -> None:
        """Forget a spare host that has ended.

        Args:
            pid: ID of a process that has ended.
        """
        if (channel := self._ready.pop(pid, None)) is not None:
            channel.close()
            self._rests_until = time.monotonic() + PAUSE_SECONDS

    def start(self) -> None:
        """Start the process.

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
        self._poller.add(control, lambda events: self._receive())
        self.keep(0)

    def _close(self) -> None:
        self._ordered = 0
        if self._control is not None:
            self._poller.remove(self._control)
            self._control.close()
            self._control = None

    def start_host(
        self,
        start: process.HostStart,
        listener: socket.socket,
        output: int,
        memory: int | None = None,
    ) -> tuple[int, socket.socket] | None:
        """Make the spare host that has waited longest the host of an instance.

        Args:
            start: The parameters of the host.
            listener: The socket to which web workers connect.
            output: Descriptor for the output of the environment.
            memory: Descriptor of the memory with the arguments of the environment;
                ``None`` if they are in the start.

        Returns:
            Process ID of the host, and the channel to it; ``None`` if there is no spare
            host at the moment.
        """
        with inherited_settings.memory_file(msgspec.json.encode(start)) as file:
            passed = [file.fileno(), listener.fileno(), output]
            passed += [] if memory is None else [memory]
            while self._ready:
                pid = next(iter(self._ready))
                channel = self._ready.pop(pid)
                try:
                    socket.send_fds(channel, [_START], passed)
                except OSError:
                    # It has ended.
                    channel.close()
                else:
                    self._demand.add(time.monotonic())
                    return pid, channel
        return None

    def keep(self, waiting: int) -> None:
        """Order as many hosts as are needed, and end spare ones that are not.

        Args:
            waiting: Create requests that wait for a spare host.
        """
        if self._control is None:
            return
        now = time.monotonic()
        spares = self._demand.spares(now) if now >= self._rests_until else 0
        wanted = waiting + spares
        missing = wanted - len(self._ready) - self._ordered
        if missing > 0:
            self._order(self._control, missing, now)
        elif self._ordered and self.pid and now - self._last_news > STUCK_SECONDS:
            # Another one is started when its end has been noticed.
            os.kill(self.pid, signal.SIGKILL)
            self._close()
        while len(self._ready) > max(wanted, 1):
            self._ready.popitem()[1].close()

    def _order(self, control: socket.socket, count: int, now: float) -> None:
        with contextlib.suppress(OSError):
            control.send(_ORDER.pack(count))
            if not self._ordered:
                self._last_news = now
            self._ordered += count

    def failure(self, since: float) -> ForkFailed | None:
        """Return why a host could not be forked, or ``None``.

        Args:
            since: Monotonic seconds; earlier failures do not count.
        """
        number, at = self._failure
        if at < since:
            return None
        return ForkFailed(
            f"the server cannot start another process ({os.strerror(number)}): close "
            "instances, or raise the limit of processes, memory or files of the server"
        )

    def _receive(self) -> None:
        while self._control is not None:
            try:
                data, descriptors = receive_with_descriptors(
                    self._control, _REPORT.size
                )
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                # The fork server has ended.
                self._close()
                return
            self._last_news = time.monotonic()
            self._ordered = max(0, self._ordered - 1)
            pid, failure = _REPORT.unpack(data)
            if descriptors:
                self._ready[pid] = socket.socket(fileno=descriptors[0])
            else:
                # Without a descriptor, this process may open no file, and the spare
                # host ends.
                self._failure = (failure or errno.EMFILE, self._last_news)
                self._rests_until = self._last_news + PAUSE_SECONDS


def _serve(control: socket.socket, supervisor: int) -> int:
    """Fork as many hosts as are ordered."""
    isolate(supervisor)
    prefork.suspend_fork_hooks()
    find_state()
    control.setblocking(True)
    tried = False
    while order := control.recv(_ORDER.size):
        (count,) = _ORDER.unpack(order)
        try:
            if not (child := os.fork()):
                _fork_spares(count, control, supervisor)
        except OSError as error:
            _report_failure(control, error, count)
        else:
            os.waitpid(child, 0)
        if not tried:
            # Not before the first spare host, while web workers start, too.
            _is_readable(control, TRIAL_SECONDS)
            prefork.gather_code(process.warm_up)
            for _ in range(_TRIALS):
                process.warm_up()
            tried = True
    return 0


def _fork_spares(count: int, control: socket.socket, supervisor: int) -> NoReturn:
    """Fork spare hosts and end, so that they become children of the supervisor.

    The supervisor is the reaper of orphans below it, and needs their exit status.
    """
    try:
        # Where the kernel groups processes by session, each group has its share of the
        # processors: what hosts do must not count against the supervisor's.
        os.setsid()
        set_mark(SPARE)
        parent = os.getpid()
        while count:
            if not os.fork():
                _end_after(lambda: _wait_for_start(control, parent, supervisor))
            count -= 1
    except OSError as error:
        _report_failure(control, error, count)
    finally:
        os._exit(0)


def _report_failure(control: socket.socket, error: OSError, count: int) -> None:
    # The supervisor may have ended.
    with contextlib.suppress(OSError):
        for _ in range(count):
            control.send(_REPORT.pack(0, error.errno or errno.EAGAIN))


def _wait_for_start(control: socket.socket, parent: int, supervisor: int) -> int:
    """Wait as a spare host until there is an instance for it, and become its host."""
    default_signals(_HANDLED)
    ours, channel = socket.socketpair()
    with control, ours:
        report = _REPORT.pack(os.getpid(), 0)
        socket.send_fds(control, [report], [ours.fileno()])
    set_title("spare host")
    os.setsid()
    _await_end(parent)
    prctl.die_with_parent(supervisor, signal.SIGKILL)
    if not _is_readable(channel, WARM_UP_SECONDS):
        process.warm_up()
    data, passed = receive_with_descriptors(channel, len(_START))
    if not data or len(passed) not in _DESCRIPTORS:
        return 0
    file, listener, output, *rest = passed
    start = _STARTS.decode(inherited_settings.read_and_close(file))
    if rest:
        start = msgspec.structs.replace(start, memory=rest[0])
    prefork.resume_fork_hooks()
    with socket.socket(fileno=listener) as listening:
        return _become_host(start, channel, listening, output)


def _await_end(parent: int) -> None:
    """Wait until the parent of this process has ended, and another one has it."""
    while os.getppid() == parent:
        try:
            ended = os.pidfd_open(parent)
        except OSError:
            # Not every kernel has these descriptors.
            time.sleep(_REPARENT_PAUSE_S)
        else:
            _is_readable(ended, None)
            os.close(ended)


def _is_readable(source: Source, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


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
    kept = [start.memory] if start.memory >= 0 else []
    for end in (*ends, *kept, *start.sandbox.descriptors):
        os.set_inheritable(end, True)
    arguments = ["-P", "-m", "gym_http_server.host", *map(str, ends)]
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
