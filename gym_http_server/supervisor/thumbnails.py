"""Thumbnails of environments, which short-lived children of the supervisor draw.

One is drawn at a time. Its child forks a process that makes the environment in the
sandbox of hosts, receives the picture from it, and writes the file. So neither a slow
disk nor an environment that hangs holds up the supervisor. No instance is made: a
drawing takes no slot.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import select
import time

import msgspec

from gym_http_core.env_errors import env_exceptions
from gym_http_server.access.shares import share_used_up
from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.datadir.thumbnails import (
    MAX_FILE_BYTES,
    MAX_PICTURE_BYTES,
    Drawn,
    write_thumbnail,
)
from gym_http_server.errors import ForkFailed, QueueFull, ShareUsedUp
from gym_http_server.host import isolation
from gym_http_server.host.mark import DRAWING
from gym_http_server.host.thumbnail import UNKNOWN, draw
from gym_http_server.linux.sandbox import Sandbox
from gym_http_server.processes.log_lines import SUPERVISOR
from gym_http_server.processes.poller import Poller
from gym_http_server.processes.service_process import isolate
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.removal import remove
from gym_http_server.supervisor.forks import start_child
from gym_http_server.supervisor.hosts import Hosts
from gym_http_server.supervisor.prefork import Modules
from gym_http_server.supervisor.processes import kill_tree
from gym_http_server.supervisor.request_socket import RequestSocket
from gym_http_wire.messages import answer
from gym_http_wire.problems import Problem

__all__ = ["Thumbnails"]

#: Seconds for the environment, and then for the disk.
DRAW_SECONDS, WRITE_SECONDS = 30.0, 10.0
#: Environments that wait to be drawn.
MAX_WAITING = 256
#: Seconds after which a refused request may be sent again.
RETRY_AFTER_S = 5
FILE_BYTES = 64 * 1024 * 1024
#: Below all hosts, whose agents wait for them.
NICENESS = 19

log = logging.getLogger(SUPERVISOR)


class Thumbnails:
    """Has thumbnails drawn, one after the other.

    Args:
        run: The run directory.
        modules: The modules of hosts.
        sandbox: The sandbox in which environments are made.
        data_dir: The data directory.
        poller: The supervisor's poller.
        hosts: The instances, beside which children run.
        seconds: Seconds that an environment may take.
    """

    def __init__(
        self,
        run: RunDir,
        modules: Modules,
        *,
        sandbox: Sandbox,
        data_dir: DataDir,
        poller: Poller,
        hosts: Hosts,
        seconds: float,
    ) -> None:
        self._run = run
        self._modules = modules
        self._sandbox = sandbox
        self._data_dir = data_dir
        self._poller = poller
        self._hosts = hosts
        self._seconds = min(seconds, DRAW_SECONDS)
        # Those that wait for each environment, of which the first one is being drawn.
        self._waiting: dict[str, list[RequestSocket]] = {}
        # The token that first wanted each of them.
        self._owners: dict[str, str] = {}
        self._drawing: _Drawing | None = None
        self._last_failure = b""

    def add(self, env_id: str, owner: str, connection: RequestSocket) -> None:
        """Draw an environment, and then answer a request.

        Args:
            env_id: The environment.
            owner: The token that wants it; "" if the server does not distinguish them.
            connection: The request.

        Raises:
            QueueFull: As many environments wait as may.
            ShareUsedUp: The token has too many of them.
        """
        if env_id not in self._waiting:
            self._check_room(owner)
            self._owners[env_id] = owner
        self._waiting.setdefault(env_id, []).append(connection)
        self._begin()

    def _check_room(self, owner: str) -> None:
        taken, after = len(self._waiting), {"Retry-After": str(RETRY_AFTER_S)}
        if taken >= MAX_WAITING:
            raise Problem(
                f"{taken} environments wait for their thumbnails, the most that may; "
                "send the request again later",
                status=QueueFull.default_status,
                code=QueueFull.default_code,
                headers=after,
            )
        held = sum(self._owners[each] == owner for each in self._waiting)
        counts = {"held": held, "taken": taken, "most": MAX_WAITING}
        if why := share_used_up(owner, "thumbnails that are being drawn", **counts):
            raise ShareUsedUp(why, headers=after)

    def tick(self) -> None:
        """End a drawing that takes too long."""
        drawing = self._drawing
        if drawing is not None and time.monotonic() > drawing.deadline:
            self._end(drawing, b"")

    def _begin(self) -> None:
        """Begin to draw the environment that waits longest, unless one is drawn."""
        while self._drawing is None and self._waiting:
            env_id, waiters = next(iter(self._waiting.items()))
            if all(each.closed for each in waiters):
                self._remove(env_id)
                continue
            try:
                drawing = self._fork(env_id)
            except (ForkFailed, OSError) as error:
                log.warning("cannot draw %.200r: %s", env_id, error)
                self._answer(self._remove(env_id), b"")
                continue
            self._drawing = drawing
            self._hosts.exempt.add(drawing.pid)
            self._poller.add(drawing.reader, functools.partial(self._read, drawing))

    def _remove(self, env_id: str) -> list[RequestSocket]:
        del self._owners[env_id]
        return self._waiting.pop(env_id)

    def _fork(self, env_id: str) -> _Drawing:
        reader, writer = os.pipe()
        try:
            pid = start_child(
                [writer, *self._sandbox.descriptors],
                lambda parent: self._make(env_id, writer, parent),
                "thumbnails",
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        deadline = time.monotonic() + self._seconds + WRITE_SECONDS
        return _Drawing(env_id, pid, reader, deadline)

    def _read(self, drawing: _Drawing, events: int) -> None:
        if data := os.read(drawing.reader, 4096):
            drawing.message += data
        else:
            self._end(drawing, drawing.message)

    def _end(self, drawing: _Drawing, message: bytes) -> None:
        """End a child, answer the requests that wait for it, and begin the next."""
        self._poller.remove(drawing.reader)
        os.close(drawing.reader)
        self._hosts.end_spared(drawing.pid)
        self._drawing = None
        if message != UNKNOWN:
            if message not in (b"", self._last_failure):
                words = message.decode(errors="replace")
                log.warning("cannot keep thumbnails in %s", words)
            self._last_failure = message
        self._answer(self._remove(drawing.env_id), message)
        self._begin()

    def _answer(self, waiters: list[RequestSocket], message: bytes) -> None:
        body = msgspec.json.encode({"known": message != UNKNOWN})
        for connection in waiters:
            connection.answer(answer(200, body))

    def _make(self, env_id: str, writer: int, parent: int) -> int:
        """Draw an environment and write its file; the main function of a child."""
        isolate(parent)
        os.nice(NICENESS)
        received = self._draw_apart(env_id)
        if received == UNKNOWN:
            os.write(writer, UNKNOWN)
            return 0
        line, _, picture = received.partition(b"\n")
        try:
            drawn = msgspec.json.decode(line, type=Drawn)
        except (msgspec.MsgspecError, ValueError):
            drawn = Drawn(env_id)
        # An environment can write anything into the pipe.
        if len(picture) > MAX_PICTURE_BYTES or drawn.env_id != env_id:
            drawn, picture = Drawn(env_id), b""
        try:
            write_thumbnail(self._data_dir, drawn, picture)
        except OSError as error:
            os.write(writer, f"{self._data_dir.path}: {error.strerror}".encode())
        return 0

    def _draw_apart(self, env_id: str) -> bytes:
        """Draw an environment in a process of its own; return what that has sent."""
        folder = self._run.instance(DRAWING)
        # Of a child that was killed.
        remove(folder)
        os.mkdir(folder, 0o700)
        self._sandbox.open(folder)
        for path in self._run.own(DRAWING):
            os.mkdir(path, 0o700)
            self._sandbox.own(path)
        parent = os.getpid()
        reader, end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._draw(env_id, parent, end)
            finally:
                os._exit(0)
        os.close(end)
        try:
            return _receive(reader, self._seconds)
        finally:
            kill_tree(pid)
            os.waitpid(pid, 0)
            remove(folder)

    def _draw(self, env_id: str, parent: int, end: int) -> None:
        """Draw an environment in this process, in the sandbox."""
        os.setsid()
        null = os.open(os.devnull, os.O_WRONLY)
        isolation.print_to(null)
        isolation.isolate(
            self._run,
            DRAWING,
            parent,
            [end, *self._sandbox.descriptors],
            file_bytes=FILE_BYTES,
            sandbox=self._sandbox,
        )
        with contextlib.suppress(*env_exceptions()):
            draw(env_id, self._modules.apart, lambda data: _send(end, data))


class _Drawing:
    """A child that draws.

    Args:
        env_id: The environment.
        pid: Its process ID.
        reader: Descriptor of the pipe on which its message arrives.
        deadline: When it is ended, in seconds of the monotonic clock.

    Attributes:
        message: What has arrived: why the picture is not kept, or nothing.
    """

    def __init__(self, env_id: str, pid: int, reader: int, deadline: float) -> None:
        self.env_id = env_id
        self.pid = pid
        self.reader = reader
        self.deadline = deadline
        self.message = b""


def _receive(reader: int, seconds: float) -> bytes:
    """Read a pipe to its end, or as long as there is time and room."""
    received = b""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while len(received) <= MAX_FILE_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            break
        data = os.read(reader, MAX_FILE_BYTES)
        if not data:
            break
        received += data
    return received


def _send(end: int, data: bytes) -> None:
    while data:
        data = data[os.write(end, data) :]
