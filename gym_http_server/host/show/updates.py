"""The text of an update: what happened last, and what was counted, as JSON."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from gymnasium import Space
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import iterate

from gym_http_core.operations import Operations
from gym_http_server.host import plain_json
from gym_http_server.host.show.pictures import Picture, View
from gym_http_wire.messages import Op

__all__ = ["State", "shared_members", "text_of"]

Json = dict[str, Any]

#: Bytes of an action, reward or flag in an update; a longer one is left out.
MAX_VALUE = 4096
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
        "return": returned,
        "length": length,
        "episodes": operations.episode_log.total,
        "steps": operations.steps,
        "error": state.error,
    }
    if many:
        members["envs"] = env.num_envs
    given: Json = dict.fromkeys(("reward", "terminated", "truncated"))
    if state.op == _STEP:
        given = {name: value.get(name) for name in given}
    of_env = {name: _text(_first, each, many=many) for name, each in given.items()}
    first = functools.partial(_first_action, env.action_space)
    of_env["action"] = _text(first, (state.request or {}).get("action"), many=many)
    encoded = [b'"%b":%b' % (name.encode(), text) for name, text in of_env.items()]
    return b",".join([msgspec.json.encode(members)[1:-1], *encoded])


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


def _text(first: Callable[[Any], Any], value: Any, *, many: bool) -> bytes:
    """Return what an environment took or returned as JSON, or null.

    Args:
        first: Returns the part of the first environment of a vector.
        value: The value; of a vector that of all environments.
        many: Whether it is a vector.
    """
    try:
        text = plain_json.dumps(first(value) if many else value).rstrip()
    except Exception:
        # An environment may return anything, and JSON does not carry all of it.
        return b"null"
    return text if len(text) <= MAX_VALUE else b"null"


def _first_action(space: Space[Any], action: Any) -> Any:
    return None if action is None else next(iter(iterate(space, action)))


def _first(batch: Any) -> Any:
    """Return the reward or flag of a vector's first environment."""
    return None if batch is None else np.asarray(batch)[0]
