"""Parses requests that carry actions beside the steps: `act`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from gym_http_server.envhost.realtime.actions import MAX_CHUNK
from gym_http_server.errors import did_you_mean
from gym_http_wire.problems import BadParameter

__all__ = ["ActRequest", "count_of", "read_act"]

Json = dict[str, Any]

MAX_NUMBER = 2**53 - 1
MAX_PRIORITY = 100
MAX_AHEAD = 65_536
MAX_VALID_S = 3600
MAX_SESSION_CHARS = 200
SECOND = 1_000_000_000
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


def count_of(given: object) -> int:
    """Return how many actions a request has, even if it is refused."""
    if not isinstance(given, dict):
        return 0
    actions = given.get("actions")
    if isinstance(actions, list | tuple):
        return len(actions)
    if isinstance(actions, np.ndarray) and actions.ndim:
        return len(actions)
    return 1 if "action" in given or actions is not None else 0


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
        and math.isfinite(value)
    )
