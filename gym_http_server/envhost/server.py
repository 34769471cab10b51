"""The host's loop: one process, one instance, one thing at a time, on one thread.

Runs in a process that the supervisor forked, and never returns there. Web workers
connect to ``host.sock``; the supervisor holds the other end of the channel, over
which the host says once whether the environment could be made, and hears when it
is to close. If the channel ends, the supervisor is gone, and so goes the host.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time

import msgspec

from gym_http_server.envhost.answers import Answers
from gym_http_server.envhost.failures import note, problem_frame, unforeseen
from gym_http_server.envhost.inspection import Inspection
from gym_http_server.envhost.isolation import isolate
from gym_http_server.envhost.making import CreateRequest, make
from gym_http_server.rundir import RunDir, StatusPage
from gym_http_wire.exact import Exact
from gym_http_wire.frames import Frame, FrameError, FrameReader, encode
from gym_http_wire.messages import Op, answer
from gym_http_wire.operations import Operations
from gym_http_wire.problems import Problem

__all__ = ["HostStart", "run"]

RECEIVE_BYTES = 256 * 1024
SEND_SECONDS = 30
_QUIET = {Op.DESCRIBE}  # looking at an instance does not keep it alive


class HostStart(msgspec.Struct, frozen=True):
    """What a host needs to know.

    Attributes:
        modules: Modules to import before the environment is made.
        importable: Directories to look for modules in.
    """

    instance_id: str
    run_path: str
    parent_pid: int
    request: CreateRequest
    data_dir: str
    max_body: int
    max_answer: int
    strict_actions: bool
    modules: tuple[str, ...] = ()
    importable: tuple[str, ...] = ()


def run(start: HostStart, channel: socket.socket, listener: socket.socket) -> int:
    """Be the host: isolate, make the environment, serve it until the end.

    Returns:
        The exit status for this process.
    """
    run_dir = RunDir(start.run_path)
    keep = [channel.fileno(), listener.fileno()]
    isolate(run_dir, start.instance_id, start.parent_pid, keep)
    page = StatusPage(run_dir.status(start.instance_id))
    channel.setblocking(True)
    try:
        answers = _make(start)
    except Exception as error:
        note(error)
        problem = error if isinstance(error, Problem) else unforeseen(error)
        channel.sendall(encode(problem_frame(problem)))
        return 0
    page.end(time.monotonic_ns(), used=True)
    body = msgspec.json.encode({"instance_id": start.instance_id}) + b"\n"
    channel.sendall(encode(answer(200, body)))
    host = _Host(answers, page, channel, listener, start.max_body)
    host.serve()
    return 0


def _make(start: HostStart) -> Answers:
    sys.path += [each for each in start.importable if each not in sys.path]
    for module in start.modules:
        __import__(module)
    env = make(start.request)
    operations = Operations(
        env, first_seed=start.request.seed, strict_actions=start.strict_actions
    )
    exact = Exact(operations)
    return Answers(
        operations,
        exact,
        Inspection(operations, exact, start.instance_id, start.request.env_id),
        data_dir=start.data_dir,
        max_answer=start.max_answer,
    )


class _Host:
    def __init__(
        self,
        answers: Answers,
        page: StatusPage,
        channel: socket.socket,
        listener: socket.socket,
        max_body: int,
    ) -> None:
        self._answers = answers
        self._page = page
        self._channel = channel
        self._listener = listener
        self._max_body = max_body
        self._poll = select.poll()
        self._connections: dict[int, tuple[socket.socket, FrameReader]] = {}
        self._open = True

    def serve(self) -> None:
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._listener, select.POLLIN)
        channel, listener = self._channel.fileno(), self._listener.fileno()
        while self._open:
            for descriptor, _ in self._poll.poll():
                if descriptor == listener:
                    self._accept()
                elif descriptor == channel:
                    self._hear_supervisor()
                else:
                    self._receive(descriptor)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        # A web worker that does not read must not stop the instance for ever.
        limit = struct.pack("ll", SEND_SECONDS, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        reader = FrameReader(self._max_body)
        self._connections[connection.fileno()] = (connection, reader)
        self._poll.register(connection, select.POLLIN)

    def _hear_supervisor(self) -> None:
        if not self._channel.recv(4096):
            os._exit(1)
        # The only thing that the supervisor ever says is: close.
        self._open = False
        try:
            self._answers.close()
        except Problem as problem:
            note(problem)

    def _receive(self, descriptor: int) -> None:
        if descriptor not in self._connections:
            return
        connection, reader = self._connections[descriptor]
        try:
            data = connection.recv(RECEIVE_BYTES)
            if not data:
                self._drop(descriptor)
                return
            for frame in reader.feed(data):
                connection.sendall(self._execute(frame))
        except (OSError, FrameError):
            self._drop(descriptor)

    def _execute(self, frame: Frame) -> bytes:
        page, answers = self._page, self._answers
        page.begin(time.monotonic_ns())
        reply = answers.answer(frame)
        operations = answers.operations
        page.count(operations.steps, operations.episodes)
        used = frame.kind not in _QUIET
        page.end(time.monotonic_ns(), used=used)
        if used:
            answers.used()
        return encode(reply)

    def _drop(self, descriptor: int) -> None:
        connection, _ = self._connections.pop(descriptor)
        self._poll.unregister(descriptor)
        connection.close()
