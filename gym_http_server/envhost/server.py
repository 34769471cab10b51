"""The host's loop: one process, one instance, one thing at a time, on one thread.

Runs in a process that the supervisor forked, and never returns there. Web workers
connect to ``host.sock``, with requests, or with the socket of a client who wants a
stream; the supervisor holds the other end of the channel, over which the host says
once whether the environment could be made, and hears when it is to close. If the
channel ends, the supervisor is gone, and so goes the host.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time

import msgspec

from gym_http_server.envhost.answers import Answers
from gym_http_server.envhost.connections import Connection
from gym_http_server.envhost.create_request import CreateRequest
from gym_http_server.envhost.external.outside import LONGEST_TICK, Outside, Terms
from gym_http_server.envhost.failures import note, problem_frame, unforeseen
from gym_http_server.envhost.inspection import Inspection
from gym_http_server.envhost.isolation import isolate
from gym_http_server.envhost.making import make
from gym_http_server.envhost.stepping import Stepping, frame_of
from gym_http_server.envhost.streams import MAX_STREAMS, Stream
from gym_http_server.envhost.watchers import MAX_WATCHERS, Watcher
from gym_http_server.rundir import RunDir, StatusPage
from gym_http_wire.exact import Exact
from gym_http_wire.frames import Frame, FrameError, encode
from gym_http_wire.handshakes import Hello
from gym_http_wire.lanes import AnsweringLane
from gym_http_wire.messages import Op, answer, problem_answer, request_head
from gym_http_wire.problems import Problem, TooManyStreams
from gym_http_wire.spinning import Spinning, may_spin
from gym_http_wire.streams import ACKNOWLEDGED, Refused
from gym_http_wire.vectors import operations_of
from gym_http_wire.websocket import Close

__all__ = ["HostStart", "run"]

_QUIET = {Op.DESCRIBE}  # looking at an instance does not keep it alive


class HostStart(msgspec.Struct, frozen=True):
    """What a host needs to know.

    Attributes:
        modules: Modules to import before the environment is made.
        importable: Directories to look for modules in.
        spin_us: Microseconds to look for a stream's next request before sleeping.
        terms: What environments that live elsewhere are held to.
    """

    instance_id: str
    run_path: str
    parent_pid: int
    request: CreateRequest
    terms: Terms
    data_dir: str
    max_body: int
    max_answer: int
    strict_actions: bool
    spin_us: int = 0
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
    host = _Host(answers, page, channel, listener, start)
    host.serve()
    return 0


def _make(start: HostStart) -> Answers:
    sys.path += [each for each in start.importable if each not in sys.path]
    for module in start.modules:
        __import__(module)
    outside: Outside | None = None
    if start.request.external:
        # Not before: other hosts would share it, and do not need it.
        from gym_http_server.envhost.external.making import make_external

        outside = Outside(RunDir(start.run_path), start.terms)
        env = make_external(start.request, outside)
    else:
        env = make(start.request)
    operations = operations_of(
        env, first_seed=start.request.seed, strict_actions=start.strict_actions
    )
    exact = Exact(operations)
    return Answers(
        operations,
        exact,
        Inspection(operations, exact, start.instance_id, start.request.env_id),
        data_dir=start.data_dir,
        max_answer=start.max_answer,
        outside=outside,
    )


class _Host:
    def __init__(
        self,
        answers: Answers,
        page: StatusPage,
        channel: socket.socket,
        listener: socket.socket,
        start: HostStart,
    ) -> None:
        self._answers = answers
        # A batch may take long, as long as none of its steps does.
        answers.progress = lambda: page.begin(time.monotonic_ns())
        self._page = page
        self._channel = channel
        self._listener = listener
        self._max_body = start.max_body
        self._stepping = Stepping(answers, page)
        self._spinning = Spinning(start.spin_us * 1000, self._may_spin)
        self._poll = select.poll()
        self._connections: dict[int, Connection] = {}
        self._streams: dict[int, Stream] = {}
        # What each stream is watched for; which of them have requests that wait for
        # their turn, which have answers that wait for their client, and which of these
        # are the environment's own arrays still.
        self._watched: dict[int, int] = {}
        self._queued: dict[int, Stream] = {}
        self._writing: dict[int, Stream] = {}
        self._unsettled: dict[int, Stream] = {}
        self._audience = answers.audience
        self._audience.attend = lambda each: self._watch(each.fileno(), each)
        self._open = True
        # Of an environment that lives elsewhere: what else there is to look at, and
        # the milliseconds between two looks.
        self._outside = answers.outside
        self._rest_ms: float | None = None

    def serve(self) -> None:
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._listener, select.POLLIN)
        channel, listener = self._channel.fileno(), self._listener.fileno()
        if self._outside is not None:
            self._poll.register(self._outside, select.POLLIN)
            self._rest_ms = LONGEST_TICK * 1000
        streams, connections = self._streams, self._connections
        while self._open:
            for descriptor, event in self._wait():
                if descriptor in streams:
                    self._serve_stream(descriptor, event)
                elif descriptor in connections:
                    self._receive(descriptor)
                elif descriptor == listener:
                    self._accept()
                elif descriptor == channel:
                    self._hear_supervisor()
            if self._outside is not None:
                self._attend(self._outside)

    def _attend(self, outside: Outside) -> None:
        """Look at an environment that lives elsewhere, between calls."""
        if not self._open:
            return
        outside.attend()
        lost = outside.overdue
        if lost is not None:
            print(f"{lost.name} has not come back in time", flush=True)
            self._channel.sendall(encode(answer(410)))
            self._open = False
            outside.give_back()

    def _wait(self) -> list[tuple[int, int]]:
        """Wait until something happens, or for the next turns of what has."""
        if not self._streams:
            return self._poll.poll(self._rest_ms)
        if self._writing:
            self._drop_stuck()
        if self._queued:
            ready = dict.fromkeys(self._queued, 0) | dict(self._poll.poll(0))
            return list(ready.items())
        spinning = self._spinning
        if spinning.rest and not self._writing:
            spinning.rest -= 1
            return self._poll.poll(self._rest_ms)
        until = spinning.until(time.monotonic_ns())
        while time.monotonic_ns() < until:
            if events := self._poll.poll(0):
                spinning.found()
                return events
        if until:
            spinning.missed()
        return self._poll.poll(self._patience() if self._writing else self._rest_ms)

    def _may_spin(self) -> bool:
        return may_spin(stream.line for stream in self._streams.values())

    def _patience(self) -> float:
        """Give the milliseconds until a client has taken nothing for too long."""
        first = min(each.deadline for each in self._writing.values())
        return max(0.0, first - time.monotonic()) * 1000 + 1

    def _drop_stuck(self) -> None:
        now = time.monotonic()
        stuck = {fd: each for fd, each in self._writing.items() if each.deadline <= now}
        if not stuck:
            return
        # Who would take something by now has waited for this host, not it for them.
        willing = {fd for fd, event in self._poll.poll(0) if event & select.POLLOUT}
        for descriptor in stuck.keys() - willing:
            stuck[descriptor].close()
            self._watch(descriptor, stuck[descriptor])

    def _accept(self) -> None:
        line, _ = self._listener.accept()
        self._connections[line.fileno()] = Connection(line, self._max_body)
        self._poll.register(line, select.POLLIN)

    def _hear_supervisor(self) -> None:
        if not self._channel.recv(4096):
            os._exit(1)
        # The only thing that the supervisor ever says is: close.
        self._open = False
        for stream in self._streams.values():
            stream.bid_farewell(Close.GOING_AWAY, "the instance was closed")
        try:
            self._answers.close()
        except Problem as problem:
            note(problem)
        if self._outside is not None:
            self._outside.give_back()

    def _receive(self, descriptor: int) -> None:
        connection = self._connections[descriptor]
        try:
            frames = connection.receive()
            if frames is None:
                self._drop(descriptor)
                return
            for frame in frames:
                if frame.kind == Op.STREAM:
                    self._take_over(descriptor, connection, frame)
                else:
                    connection.line.sendall(encode(self._execute(frame)))
        except (OSError, FrameError):
            self._drop(descriptor)

    def _drop(self, descriptor: int) -> None:
        connection = self._connections.pop(descriptor, None)
        if connection is not None:
            self._poll.unregister(descriptor)
            connection.close()

    def _take_over(self, descriptor: int, connection: Connection, frame: Frame) -> None:
        """Begin a stream: on the socket that came along, or on this very connection.

        The latter is for a web worker that passes the bytes on itself.
        """
        hello = msgspec.json.decode(request_head(frame).value or "", type=Hello)
        full = self._full(watching=bool(hello.watch))
        if full is not None:
            connection.line.sendall(encode(problem_answer(full, frame.number)))
            return
        connection.line.sendall(encode(answer(204, number=frame.number)))
        line = connection.taken()
        if line is None:
            del self._connections[descriptor]
            self._poll.unregister(descriptor)
            line = connection.line
        line.setblocking(False)
        stream: Stream
        if hello.watch:
            stream = watcher = Watcher(line, hello, time.monotonic)
            self._audience.admit(watcher)
        else:
            stream = Stream(line, hello, self._max_body, time.monotonic)
        if stream.closed:
            # The client has gone since it asked.
            return
        descriptor = stream.fileno()
        self._streams[descriptor] = stream
        self._poll.register(descriptor, select.POLLIN)
        self._watched[descriptor] = select.POLLIN
        self._count_streams()
        if frame.body:
            stream.take(frame.body)
        self._watch(descriptor, stream)

    def _full(self, *, watching: bool) -> TooManyStreams | None:
        watchers = len(self._audience.watchers)
        if watching:
            most = watchers >= MAX_WATCHERS
            return TooManyStreams(MAX_WATCHERS, "watchers") if most else None
        most = len(self._streams) - watchers >= MAX_STREAMS
        return TooManyStreams(MAX_STREAMS) if most else None

    def _count_streams(self) -> None:
        # To be watched is not to be used.
        count = len(self._streams) - len(self._audience.watchers)
        self._page.set_streams(count)
        self._answers.set_streams(count)

    def _serve_stream(self, descriptor: int, event: int) -> None:
        stream = self._streams[descriptor]
        watched = self._watched[descriptor]
        if event & select.POLLOUT:
            stream.flush()
        elif event & watched:
            lane = stream.quick
            if lane is None or self._unsettled:
                stream.receive()
            elif self._step(stream, lane):
                return
        elif event:
            # It is gone, and nobody will read what is still to be done for it.
            stream.close()
        if stream.inbox and not stream.writing:
            self._answer(stream)
        if stream.inbox or stream.writing or stream.closed or watched != select.POLLIN:
            self._watch(descriptor, stream)

    def _step(self, stream: Stream, lane: AnsweringLane) -> bool:
        """Read what has come; take it, if it is a step, and tell if all is done."""
        data = stream.read()
        asked = lane.asked(data)
        if asked is None:
            if data:
                stream.take(data)
        elif self._stepping.take(stream, lane, asked):
            return not (stream.writing or stream.closed)
        else:
            stream.inbox.append(frame_of(asked))
        return False

    def _answer(self, stream: Stream) -> None:
        asked = stream.inbox.popleft()
        if isinstance(asked, Refused):
            stream.answer(asked.answer)
            return
        acknowledged = asked.status == ACKNOWLEDGED
        reply = self._execute(asked, stream.session, acknowledged=acknowledged)
        stream.answer(reply)

    def _watch(self, descriptor: int, stream: Stream) -> None:
        """See to what a stream is to be watched for from now on."""
        if stream.closed:
            self._poll.unregister(descriptor)
            for known in (self._streams, self._watched, self._queued, self._writing):
                known.pop(descriptor, None)
            self._unsettled.pop(descriptor, None)
            if isinstance(stream, Watcher):
                self._audience.dismiss(stream)
            self._count_streams()
            return
        wanted = select.POLLIN
        self._writing.pop(descriptor, None)
        self._unsettled.pop(descriptor, None)
        self._queued.pop(descriptor, None)
        if stream.writing:
            wanted = select.POLLOUT
            self._writing[descriptor] = stream
            if not isinstance(stream, Watcher):
                self._unsettled[descriptor] = stream
        elif stream.inbox:
            wanted = 0
            self._queued[descriptor] = stream
        if wanted != self._watched[descriptor]:
            self._watched[descriptor] = wanted
            self._poll.modify(descriptor, wanted)

    def _execute(
        self, frame: Frame, session: str = "", *, acknowledged: bool = False
    ) -> Frame:
        page, answers = self._page, self._answers
        for stream in self._unsettled.values():
            stream.settle()
        page.begin(time.monotonic_ns())
        reply = answers.answer(frame, session, acknowledged=acknowledged)
        operations = answers.operations
        now = time.monotonic_ns()
        if frame.kind in _QUIET:
            page.end(now, used=False)
        else:
            page.finish(now, operations.steps, operations.episodes)
            answers.used(now)
        return reply
