"""Requests that bring actions beside those of steps: `act`."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from gym_http_server.envhost.realtime.actions import MAX_CHUNK, Actions
from gym_http_server.errors import did_you_mean
from gym_http_wire.problems import BadParameter, InvalidAction

__all__ = ["ActReceiver", "ActRequest", "Sequences", "read_act"]

Json = dict[str, Any]

MAX_NUMBER = 2**53 - 1
MAX_PRIORITY = 100
MAX_AHEAD = 65_536
MAX_VALID_S = 3600
MAX_SESSION_CHARS = 200
SECOND = 1_000_000_000
MAX_SESSIONS = 64
# Of a session: older ones than these count as repeated.
_REMEMBERED = 1024
_MEMBERS = (
    "action",
    "actions",
    "at",
    "blend",
    "for",
    "sequence",
    "session",
    "valid_s",
    "priority",
)


class ActRequest(NamedTuple):
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
    if not isinstance(given, dict):
        raise BadParameter(f"the action is {given!r:.80}: expected an object")
    for name in given:
        if name not in _MEMBERS:
            raise BadParameter(
                f"the member {name!r:.80} is unknown: expected some of "
                f"{', '.join(_MEMBERS)}{did_you_mean(str(name), _MEMBERS)}"
            )
    actions, chunk = _read_actions(given)
    at = _integer(given, "at", 0, upcoming + MAX_AHEAD)
    blend = _read_blend(given, blends)
    for name in ("at", "blend"):
        if given.get(name) is not None and not chunk:
            raise BadParameter(f"{name} is {given[name]!r:.80}: expected with actions")
    session = given.get("session")
    if session is not None and (
        not isinstance(session, str) or not 1 <= len(session) <= MAX_SESSION_CHARS
    ):
        raise BadParameter(
            f"session is {session!r:.80}: expected a string of 1 to "
            f"{MAX_SESSION_CHARS} characters"
        )
    return ActRequest(
        actions,
        chunk,
        at,
        blend,
        _integer(given, "for", 0, MAX_NUMBER),
        _integer(given, "sequence", 1, MAX_NUMBER),
        caller if session is None else session,
        _read_valid(given),
        _integer(given, "priority", -MAX_PRIORITY, MAX_PRIORITY) or 0,
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
    if isinstance(actions, np.ndarray) and actions.ndim:
        return len(actions)
    return 1 if "action" in given or actions is not None else 0


def _read_actions(given: Json) -> tuple[list[Any], bool]:
    if "actions" not in given:
        return ([given["action"]] if "action" in given else []), False
    actions = given["actions"]
    if "action" in given:
        raise BadParameter("the request has action and actions: expected one of them")
    if isinstance(actions, np.ndarray) and actions.ndim:
        # In a lossless form, a chunk may be one array.
        actions = list(actions)
    if not isinstance(actions, list | tuple) or not actions:
        raise BadParameter(f"actions is {actions!r:.80}: expected a list of actions")
    if len(actions) > MAX_CHUNK:
        raise BadParameter(
            f"actions has {len(actions)} actions: expected {MAX_CHUNK} at most"
        )
    return list(actions), True


def _integer(given: Json, name: str, least: int, most: int) -> int | None:
    value: object = given.get(name)
    if value is None:
        return None
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not least <= value <= most
    ):
        raise BadParameter(
            f"{name} is {value!r:.80}: expected an integer from {least} to {most}"
        )
    return value


def _read_blend(given: Json, blends: bool) -> float | None:
    blend: object = given.get("blend")
    if blend is None:
        return None
    if not blends:
        raise BadParameter(
            f"blend is {blend!r:.80}: only actions of a Box can be blended"
        )
    if not _is_number(blend) or not 0 <= blend <= 1:
        raise BadParameter(
            f"blend is {blend!r:.80}: expected the share of the new action, 0 to 1"
        )
    return float(blend)


def _read_valid(given: Json) -> int | None:
    seconds: object = given.get("valid_s")
    if seconds is None:
        return None
    if not _is_number(seconds) or not 0 < seconds <= MAX_VALID_S:
        raise BadParameter(
            f"valid_s is {seconds!r:.80}: expected more than 0 and at most "
            f"{MAX_VALID_S} seconds"
        )
    return round(seconds * SECOND)


def _is_number(value: object) -> TypeGuard[float]:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        # Also if it is an integer that no float can represent.
        and -math.inf < value < math.inf
    )
