"""Outside: all far sides of one host, and the line to the lobby.

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
from gym_http_server.envhost.external.far_side import FarSide
from gym_http_server.envhost.external.state import State
from gym_http_server.frame_socket import FrameSocket
from gym_http_server.rundir import RunDir
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, problem_of, request
from gym_http_wire.problems import ExternalAway

if TYPE_CHECKING:
    from gym_http_server.envhost.external.crossing import Crossing

__all__ = ["LONGEST_TICK", "Outside", "Terms"]

#: Longest time between two looks at what is due, in seconds.
LONGEST_TICK = 0.25
#: Seconds that the lobby may take to answer, besides its wait for connections.
LOBBY_SECONDS = 5.0
# Memory for so many events is made at each look; the others come at the next.
_EVENTS = 64


class Terms(msgspec.Struct, frozen=True):
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


class Outside:
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

    def __init__(self, run: RunDir, terms: Terms) -> None:
        self.terms = terms
        self.far_sides: list[FarSide] = []
        self.crossing: Crossing | None = None
        self.key = ""
        self.pause: Callable[[Awaited], None] = self._pause
        self._run = run
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, FarSide] = {}
        self._lobby: FrameSocket | None = None
        self.due = 0.0

    @property
    def alone(self) -> bool:
        """Whether there is but one far side, so that it may be waited for alone."""
        return len(self.far_sides) == 1

    def fileno(self) -> int:
        """Give the descriptor that is readable when something has come."""
        return self._epoll.fileno()

    def take(self, name: str, count: int, wait_s: float) -> list[FarSide]:
        """Take connections from the lobby, all or none.

        Raises:
            ExternalAway: There are not as many free ones, and were not in time.
        """
        lobby = self._connect_lobby()
        if lobby is None:
            raise ExternalAway("the lobby does not answer; ask again")
        # If the lobby is stopped, a create must fail before its deadline.
        lobby.end.settimeout(wait_s + LOBBY_SECONDS)
        wanted = {"name": name, "count": count, "wait_s": wait_s}
        body = msgspec.json.encode(wanted)
        try:
            lobby.send(request(Op.FAR_TAKE, body))
        except OSError:
            raise ExternalAway("the lobby does not answer; ask again") from None
        while len(self.far_sides) < count:
            frames = lobby.receive()
            if frames is None:
                raise ExternalAway("the lobby does not answer; ask again")
            for frame in frames:
                if frame.status != 200:
                    raise problem_of(frame)
                self._enter(frame, lobby)
        self._watch_lobby(lobby)
        return self.far_sides

    def _enter(self, frame: Frame, lobby: FrameSocket) -> None:
        line = lobby.taken()
        if line is None:
            raise ExternalAway("a connection was lost on its way; ask again")
        state = msgspec.json.decode(frame.body, type=State)
        far = FarSide(state, line, self.terms.max_message, self._watch)
        self.far_sides.append(far)

    def _watch(self, far: FarSide) -> None:
        descriptor = far.fileno()
        self._by_descriptor[descriptor] = far
        with contextlib.suppress(FileExistsError):
            self._epoll.register(descriptor, select.EPOLLIN)

    def _connect_lobby(self) -> FrameSocket | None:
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(self._run.lobby_socket)
        except OSError:
            end.close()
            return None
        self._lobby = FrameSocket(end)
        return self._lobby

    def _watch_lobby(self, lobby: FrameSocket) -> None:
        lobby.end.setblocking(False)
        self._epoll.register(lobby.fileno(), select.EPOLLIN)

    def attend(self, seconds: float = 0.0) -> None:
        """Take what has come, wait for it if need be, and do what is due."""
        now = time.monotonic()
        seconds = min(seconds, max(0.0, self.due - now)) if seconds else 0.0
        for descriptor, _ in self._epoll.poll(seconds, _EVENTS):
            far = self._by_descriptor.get(descriptor)
            if far is not None and far.fileno() == descriptor:
                far.receive()
            elif self._lobby is not None and self._lobby.fileno() == descriptor:
                self._hear_lobby(self._lobby)
        now = time.monotonic()
        if now >= self.due:
            self.due = now + min(LONGEST_TICK, self.terms.heartbeat_s / 4)
            for far in self.far_sides:
                far.tick(now, self.terms.heartbeat_s)
            if self._lobby is None:
                self._find_lobby()

    @property
    def overdue(self) -> FarSide | None:
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

    def _hear_lobby(self, lobby: FrameSocket) -> None:
        frames = lobby.receive()
        if frames is None:
            self._epoll.unregister(lobby.fileno())
            lobby.close()
            self._lobby = None
            return
        for frame in frames:
            line = lobby.taken()
            if frame.kind != Op.FAR_BACK or line is None:
                continue
            state = msgspec.json.decode(frame.body, type=State)
            for far in self.far_sides:
                if far.state.resume == state.resume:
                    far.come_back(state, line)
                    break
            else:
                line.close()

    def _find_lobby(self) -> None:
        """Tell another lobby what this host has, after the first one ended."""
        lobby = self._connect_lobby()
        if lobby is None:
            return
        states = msgspec.json.encode([far.state for far in self.far_sides])
        try:
            lobby.send(request(Op.FAR_ADOPT, states))
        except OSError:
            lobby.close()
            self._lobby = None
            return
        self._watch_lobby(lobby)

    def give_back(self) -> None:
        """Give all connections back to the lobby, or end them if that cannot be."""
        far_sides, self.far_sides = self.far_sides, []
        lobby = self._lobby
        if lobby is not None:
            lobby.end.setblocking(True)
        for far in far_sides:
            if far.away_since is None:
                # The lobby's copy of the socket would go on telling of what comes.
                self._epoll.unregister(far)
            line = far.surrender()
            words = "the instance was closed"
            if lobby is not None and line is not None:
                with contextlib.suppress(OSError):
                    state = msgspec.json.encode(far.state)
                    lobby.send(request(Op.FAR_RELEASE, state), line)
                    words = ""
            far.close(words)
        if lobby is not None:
            lobby.close()
            self._lobby = None
