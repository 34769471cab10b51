"""ExternalConnections: all far sides of one host, and the line to the broker.

One descriptor tells that something has come from any of them, so that the host's loop
has one thing to look at.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gym_http_server.envhost.external.calls import Awaited
from gym_http_server.envhost.external.connection import ExternalConnection
from gym_http_server.envhost.external.state import State
from gym_http_server.frame_socket import FrameSocket, limit_sending
from gym_http_server.rundir import RunDir
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, problem_of, request
from gym_http_wire.problems import ExternalAway

if TYPE_CHECKING:
    from gym_http_server.envhost.external.fast_step import FastStep

__all__ = ["LONGEST_TICK", "ExternalConnections", "ExternalSettings"]

#: Longest time between two looks at what is due, in seconds.
LONGEST_TICK = 0.25
#: Seconds that the broker may take to answer, besides its wait for connections.
BROKER_SECONDS = 5.0
# Memory for so many events is made at each look; the others come at the next.
_EVENTS = 64
#: Descriptors that may arrive from the broker before they are taken.
MAX_DESCRIPTORS = 16


class ExternalSettings(msgspec.Struct, frozen=True):
    """What far sides are held to.

    Attributes:
        deadline_s: For an answer.
        grace_s: For one that was lost to come back.
        heartbeat_s: Of silence, after which it is pinged.
        max_message: Bytes that a message of its may have.
        max_observation: Bytes that one element of a space may take.
    """

    deadline_s: float
    grace_s: float
    heartbeat_s: float
    max_message: int
    max_observation: int


class ExternalConnections:
    """The far sides of one host.

    Args:
        run: The run directory.
        terms: What they are held to.

    Attributes:
        far_sides: In the order of the environments.
        crossing: The short way to the only one; ``None`` where there is none.
        key: Of the request that the agent makes at the moment, or "".
        pause: Waits until something has happened, for a call at most until its
            deadline.
        due: Monotonic seconds of the next look at what nobody tells of.
    """

    def __init__(self, run: RunDir, terms: ExternalSettings) -> None:
        self.terms = terms
        self.far_sides: list[ExternalConnection] = []
        self.crossing: FastStep | None = None
        self.key = ""
        self.pause: Callable[[Awaited], None] = self._pause
        self._run = run
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, ExternalConnection] = {}
        self._broker: FrameSocket | None = None
        self.due = 0.0

    @property
    def alone(self) -> bool:
        """Whether there is but one far side, so that it may be waited for alone."""
        return len(self.far_sides) == 1

    def fileno(self) -> int:
        """Give the descriptor that is readable when something has come."""
        return self._epoll.fileno()

    def take(self, name: str, count: int, wait_s: float) -> list[ExternalConnection]:
        """Take connections from the broker, all or none.

        Raises:
            ExternalAway: There are not as many free ones, and were not in time.
        """
        broker = self._connect_broker()
        if broker is None:
            raise ExternalAway("the broker does not answer; ask again")
        # If the broker is stopped, a create must fail before its deadline.
        broker.socket.settimeout(wait_s + BROKER_SECONDS)
        wanted = {"name": name, "count": count, "wait_s": wait_s}
        body = msgspec.json.encode(wanted)
        try:
            broker.send(request(Op.EXTERNAL_TAKE, body))
        except OSError:
            raise ExternalAway("the broker does not answer; ask again") from None
        while len(self.far_sides) < count:
            frames = broker.receive()
            if frames is None:
                raise ExternalAway("the broker does not answer; ask again")
            for frame in frames:
                if frame.status != 200:
                    raise problem_of(frame)
                self._enter(frame, broker)
        self._watch_broker(broker)
        return self.far_sides

    def _enter(self, frame: Frame, broker: FrameSocket) -> None:
        line = broker.take_socket()
        if line is None:
            raise ExternalAway("a connection was lost on its way; ask again")
        state = msgspec.json.decode(frame.body, type=State)
        far = ExternalConnection(state, line, self.terms.max_message, self._watch)
        self.far_sides.append(far)

    def _watch(self, far: ExternalConnection) -> None:
        descriptor = far.fileno()
        self._by_descriptor[descriptor] = far
        with contextlib.suppress(FileExistsError):
            self._epoll.register(descriptor, select.EPOLLIN)

    def _connect_broker(self) -> FrameSocket | None:
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(self._run.broker_socket)
        except OSError:
            end.close()
            return None
        limit_sending(end)
        self._broker = FrameSocket(end, max_descriptors=MAX_DESCRIPTORS)
        return self._broker

    def _watch_broker(self, broker: FrameSocket) -> None:
        broker.socket.setblocking(False)
        self._epoll.register(broker.fileno(), select.EPOLLIN)

    def attend(self, seconds: float = 0.0) -> None:
        """Take what has come, wait for it if need be, and do what is due."""
        now = time.monotonic()
        seconds = min(seconds, max(0.0, self.due - now)) if seconds else 0.0
        for descriptor, _ in self._epoll.poll(seconds, _EVENTS):
            far = self._by_descriptor.get(descriptor)
            if far is not None and far.fileno() == descriptor:
                far.receive()
            elif self._broker is not None and self._broker.fileno() == descriptor:
                self._hear_broker(self._broker)
        now = time.monotonic()
        if now >= self.due:
            self.due = now + min(LONGEST_TICK, self.terms.heartbeat_s / 4)
            for far in self.far_sides:
                far.tick(now, self.terms.heartbeat_s)
            if self._broker is None:
                self._find_broker()

    @property
    def overdue(self) -> ExternalConnection | None:
        """The far side that was lost and has not come back in time, if there is one."""
        now = time.monotonic()
        for far in self.far_sides:
            since = far.away_since
            grace = self.terms.grace_s if far.comes_back else 0.0
            if since is not None and now - since > grace:
                return far
        return None

    def _pause(self, call: Awaited) -> None:
        self.attend(max(0.0, call.deadline - time.monotonic()))

    def _hear_broker(self, broker: FrameSocket) -> None:
        frames = broker.receive()
        if frames is None:
            self._epoll.unregister(broker.fileno())
            broker.close()
            self._broker = None
            return
        for frame in frames:
            line = broker.take_socket()
            if frame.kind != Op.EXTERNAL_RESUMED or line is None:
                continue
            state = msgspec.json.decode(frame.body, type=State)
            for far in self.far_sides:
                if far.state.resume == state.resume:
                    far.come_back(state, line)
                    break
            else:
                line.close()

    def _find_broker(self) -> None:
        """Tell another broker what this host has, after the first one ended."""
        broker = self._connect_broker()
        if broker is None:
            return
        states = msgspec.json.encode([far.state for far in self.far_sides])
        try:
            broker.send(request(Op.EXTERNAL_ADOPT, states))
        except OSError:
            broker.close()
            self._broker = None
            return
        self._watch_broker(broker)

    def give_back(self) -> None:
        """Give all connections back to the broker, or end them if that cannot be."""
        far_sides, self.far_sides = self.far_sides, []
        broker = self._broker
        if broker is not None:
            broker.socket.setblocking(True)
        for far in far_sides:
            if far.away_since is None:
                # The broker's copy of the socket would go on telling of what comes.
                self._epoll.unregister(far)
            line = far.surrender()
            words = "the instance was closed"
            if broker is not None and line is not None:
                with contextlib.suppress(OSError):
                    state = msgspec.json.encode(far.state)
                    broker.send(request(Op.EXTERNAL_RELEASE, state), line.fileno())
                    words = ""
            far.close(words)
        if broker is not None:
            broker.close()
            self._broker = None
