"""The text of an update: what happened last, and what was counted, as JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
from gymnasium import Space
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import iterate

from gym_http_core.operations import Operations
from gym_http_server.envhost import plain_json
from gym_http_server.envhost.show.pictures import Picture, View
from gym_http_wire.messages import Op

__all__ = ["State", "shared_members", "text_of"]

Json = dict[str, Any]

#: Bytes of an action in an update; a longer one is left out.
MAX_ACTION = 4096
_NAMES = {int(Op.RESET): "reset", int(Op.STEP): "step"}
_STEP = int(Op.STEP)


class State(NamedTuple):
    """A state of the environment, as its last operation left it.

    Attributes:
        op: The operation, or ``None`` before the first one.
        value: The value of its answer; ``None`` if it failed.
        request: Its request: ``action``; or ``seed`` and ``options``.
        ticks: Whether a clock took the step.
        error: The message of the problem with which it was answered.
    """

    op: int | None = None
    value: Any = None
    request: Json | None = None
    ticks: bool = False
    error: str | None = None


def shared_members(state: State, operations: Operations) -> bytes:
    """Return the members of an update that all watchers get, without the braces."""
    value, env = state.value or {}, operations.env
    returned, length = operations.episode_log.latest()
    many = isinstance(env, VectorEnv)
    op = _NAMES.get(state.op) if state.op is not None else None
    members: Json = {
        "op": "tick" if state.ticks and op == "step" else op,
        "action": None,
        "reward": None,
        "terminated": None,
        "truncated": None,
        "return": returned,
        "length": length,
        "episodes": operations.episode_log.total,
        "steps": operations.steps,
        "error": state.error,
    }
    if many:
        members["envs"] = env.num_envs
    if state.op == _STEP:
        for name in ("reward", "terminated", "truncated"):
            given = value.get(name)
            members[name] = _first(given) if many else given
    encoded = plain_json.dumps(members).rstrip()
    action = _action(state.request or {}, env.action_space, many=many)
    if action is not None:
        encoded = encoded.replace(b'"action":null', b'"action":' + action, 1)
    return encoded[1:-1]


def text_of(
    shared: bytes,
    number: int,
    view: View,
    picture: Picture | None,
    next_picture_ns: int | None,
    ended: list[Json],
) -> bytes:
    """Return the text of an update.

    Args:
        shared: What `shared_members` returned.
        number: Number of the update.
        view: What there is to see.
        picture: The picture that follows; ``None`` without one.
        next_picture_ns: Time until the next picture; ``None`` if unknown.
        ended: Episodes that ended since the last update.
    """
    about = None
    if picture is not None:
        about = {
            "type": "image/jpeg",
            "width": picture.width,
            "height": picture.height,
        }
    members: Json = {
        "show": number,
        "ansi": view.text,
        "picture": about,
        "why": view.why,
        "next_picture_s": None,
        "ended": ended,
    }
    if next_picture_ns is not None:
        members["next_picture_s"] = round(next_picture_ns / 1e9, 3)
    if view.error is not None:
        members["render_error"] = view.error
    return msgspec.json.encode(members)[:-1] + b"," + shared + b"}"


def _action(request: Json, space: Space[Any], *, many: bool) -> bytes | None:
    """Return the action as JSON, of a vector that of its first environment."""
    if "action" not in request:
        return None
    action = request["action"]
    try:
        if many:
            action = next(iter(iterate(space, action)))
        encoded = plain_json.dumps(action).rstrip()
    except Exception:
        # A lossless form carries actions that JSON does not.
        return None
    return encoded if len(encoded) <= MAX_ACTION else None


def _first(batch: Any) -> Any:
    """Return the first of a vector's rewards or flags."""
    array = np.asarray(batch)
    return array.flat[0] if array.size else None
