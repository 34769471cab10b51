"""Requests that bring actions beside those of steps: `act`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_server.host.realtime.actions import Actions
from gym_http_server.operations.clocks import ACT
from gym_http_server.operations.members import Integer, read_optional, refusal
from gym_http_wire.problems import BadParameter, InvalidAction

__all__ = ["ActReceiver", "ActRequest", "Sequences", "read_act"]

MAX_AHEAD = 65_536
SECOND = 1_000_000_000
MAX_SESSIONS = 64
# Of a session: older ones than these count as repeated.
_REMEMBERED = 1024


class ActRequest(msgspec.Struct, frozen=True):
    """A parsed request.

    Attributes:
        actions: The actions as they were sent; empty in a sign of life.
        chunk: Whether they are one a tick, from ``at`` on.
        answers: Number of the update that they answer.
    """

    actions: list[Any]
    chunk: bool
    at: int | None
    blend: float | None
    answers: int | None
    sequence: int | None
    session: str
    valid_ns: int | None
    priority: int


class _Session:
    """The sequence numbers that a session has used."""

    __slots__ = ("forgotten", "last", "seen")

    def __init__(self) -> None:
        self.seen: dict[int, None] = {}
        self.last = 0
        # The highest that is no longer among those seen.
        self.forgotten = 0


class Sequences:
    """The sequence numbers of each session, so that a repeat acts once."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def state_of(self, name: str, sequence: int) -> str:
        """Return ``new``, ``repeated``, or ``late`` if a later one came before."""
        session = self._sessions.get(name)
        if session is None or sequence > session.last:
            return "new"
        if sequence in session.seen or sequence <= session.forgotten:
            return "repeated"
        return "late"

    def add(self, name: str, sequence: int) -> None:
        """Record an accepted request."""
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = _Session()
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(name)
        session.last = max(session.last, sequence)
        session.seen[sequence] = None
        if len(session.seen) > _REMEMBERED:
            oldest = next(iter(session.seen))
            del session.seen[oldest]
            session.forgotten = max(session.forgotten, oldest)


class ActReceiver:
    """Receives requests with actions, and counts those that it refuses.

    Args:
        actions: Where the actions go.
    """

    def __init__(self, actions: Actions) -> None:
        self._actions = actions
        self._sequences = Sequences()

    def parse(
        self, request: object, caller: str, upcoming: int, blends: bool
    ) -> ActRequest:
        """Parse a request, as `read_act` does."""
        try:
            return read_act(request, caller, upcoming, blends)
        except BadParameter:
            self._actions.reject(_count_of(request))
            raise

    def is_repeated(self, given: ActRequest) -> bool:
        """Whether a request was accepted before."""
        return self._state_of(given) == "repeated"

    def receive(
        self,
        given: ActRequest,
        upcoming: int,
        now: int,
        read_action: Callable[[Any], Any] | None,
    ) -> None:
        """Receive the actions of a request that is not repeated.

        Args:
            given: The request.
            upcoming: The next tick.
            now: The time.
            read_action: Converts an action to an element of the action space.

        Raises:
            BadParameter: Too many actions are waiting.
            InvalidAction: An action is no element of the action space.
        """
        values = given.actions
        if self._state_of(given) == "late":
            self._actions.expire(len(values))
        elif values:
            try:
                if read_action is not None:
                    values = _read_values(values, given.chunk, read_action)
                if given.chunk:
                    self._actions.check_room(len(values))
            except (BadParameter, InvalidAction):
                self._actions.reject(len(values))
                raise
            self._offer(given, values, upcoming, now)
        if given.sequence is not None:
            self._sequences.add(given.session, given.sequence)

    def _offer(
        self, given: ActRequest, values: list[Any], upcoming: int, now: int
    ) -> None:
        until = None if given.valid_ns is None else now + given.valid_ns
        if not given.chunk:
            self._actions.offer(values[0], given.priority, until)
            return
        self._actions.offer_chunk(
            values,
            upcoming if given.at is None else given.at,
            upcoming,
            blend=given.blend,
            priority=given.priority,
            valid_until=until,
        )

    def _state_of(self, given: ActRequest) -> str:
        if given.sequence is None:
            return "new"
        return self._sequences.state_of(given.session, given.sequence)


def read_act(given: object, caller: str, upcoming: int, blends: bool) -> ActRequest:
    """Parse a request.

    Args:
        given: The request; actions stay as they are.
        caller: The session, if the request names none.
        upcoming: The next tick.
        blends: Whether the action space can be blended.

    Raises:
        BadParameter: A member is unknown or has an invalid value.
    """
    members = read_optional(ACT, given)
    get = members.get
    actions, at, blend = get("actions"), get("at"), get("blend")
    valid_s = get("valid_s")
    if actions is None:
        for name in ("at", "blend"):
            if name in members:
                raise BadParameter(f"{name} is {members[name]}: expected with actions")
    elif "action" in members:
        raise BadParameter("the request has action and actions: expected one of them")
    if at is not None and at > upcoming + MAX_AHEAD:
        raise refusal("at", at, Integer(0, upcoming + MAX_AHEAD).expected)
    if blend is not None and not blends:
        raise BadParameter(f"blend is {blend}: only actions of a Box can be blended")
    one = [members["action"]] if "action" in members else []
    return ActRequest(
        one if actions is None else actions,
        actions is not None,
        at,
        blend,
        get("for"),
        get("sequence"),
        get("session", caller),
        None if valid_s is None else round(valid_s * SECOND),
        get("priority", 0),
    )


def _read_values(
    values: list[Any], chunk: bool, read_action: Callable[[Any], Any]
) -> list[Any]:
    read: list[Any] = []
    for index, value in enumerate(values):
        try:
            read.append(read_action(value))
        except InvalidAction as error:
            if not chunk:
                raise
            raise InvalidAction(f"actions[{index}]: {error.message}") from None
    return read


def _count_of(given: object) -> int:
    """Return how many actions a request has, even if it is refused."""
    if not isinstance(given, dict):
        return 0
    actions = given.get("actions")
    if isinstance(actions, list | tuple):
        return len(actions)
    return 1 if "action" in given or actions is not None else 0
