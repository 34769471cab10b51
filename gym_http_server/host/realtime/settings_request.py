"""Parses the member ``realtime`` of a create request, and changes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
from msgspec.structs import replace

from gym_http_server.host.realtime.settings import (
    ELASTIC,
    FREE_RUNNING,
    SECOND,
    ActionLimits,
    ClockSettings,
    History,
    RewardSettings,
)
from gym_http_server.operations.clocks import CHANGE, MAX_PERIOD_S, REALTIME
from gym_http_server.operations.members import (
    Integer,
    Kind,
    Members,
    Number,
    Seconds,
    read,
    refusal,
)
from gym_http_wire.elements import NotAnElement, reader
from gym_http_wire.problems import BadParameter
from gym_http_wire.spaces import UndescribableSpace

__all__ = ["read_change", "read_settings", "zero_of"]

Json = dict[str, Any]

_PRESETS: dict[str, Json] = {
    "rtgym": {
        "mode": ELASTIC,
        "period_s": 0.05,
        "capture_s": None,
        "elasticity": 1,
        "reset_action": "default",
        "history": {"length": 1, "in_observation": True, "reset": True},
        "agent_timeout_s": None,
    },
    "myrtle": {
        "mode": FREE_RUNNING,
        "hz": 10,
        "no_action": "zero",
        "on_overrun": "catch_up",
        "most": None,
        "on_done": "reset",
        "rewards": {"scalar": "sum", "skipped": "last"},
        "agent_timeout_s": None,
    },
}
_ELASTIC_ONLY = ("capture_s", "elasticity")
_FREE_ONLY = ("no_action", "on_overrun", "most", "ticks_per_update")
# Settings that are what the request has for them.
_PLAIN = (
    "preset",
    "mode",
    "no_action",
    "reset_action",
    "on_overrun",
    "ticks_per_update",
    "on_done",
    "episodes",
    "on_agent_lost",
    "buffer",
    "spin_us",
)


def read_settings(
    given: object,
    *,
    action_space: gymnasium.Space[Any],
    max_hz: float,
    max_spin_us: int,
    external: bool,
    default_action: Any = None,
    strict_actions: bool = False,
) -> ClockSettings:
    """Parse the member ``realtime`` of a create request.

    Args:
        given: The member, in plain JSON; actions may also be elements of the space.
        action_space: The action space of the world.
        max_hz: The highest rate that the server permits.
        max_spin_us: The longest time to spin before a deadline that it permits.
        external: Whether the world goes on without the server: an external environment
            or an interface.
        default_action: The world's own default action; ``None``: it has none.
        strict_actions: Whether the server permits no other actions than those in the
            action space.

    Raises:
        BadParameter: A member is unknown, missing or has an invalid value.
    """
    table = _within(REALTIME, max_hz, max_spin_us)
    members = _with_preset(read(table, given, "realtime"))
    mode = members.get("mode")
    if mode is None:
        raise BadParameter(
            f"mode is missing: expected {REALTIME['mode'].kind.expected}"
        )
    _check_mode(members, mode)
    if members.keys().isdisjoint(("hz", "period_s")):
        raise BadParameter("realtime has neither hz nor period_s: expected one of them")
    if external and "preset" not in members:
        members.setdefault("agent_timeout_s", 1)
    zero = zero_of(action_space)
    if members.get("no_action") == "zero" and zero is None:
        raise BadParameter(
            f"no_action is 'zero': expected 'hold' or 'default', since {action_space} "
            "has no zero"
        )
    strict = _read_strict(members, strict_actions)
    plain = {name: members[name] for name in _PLAIN if name in members}
    return _with_elasticity(
        ClockSettings(
            **plain,
            **_read_times(members),
            default_action=_read_default(members, action_space, default_action, zero),
            zero_action=zero,
            history=History(**members.get("history", {})),
            most=_read_most(members),
            rewards=_read_rewards(members.get("rewards", {})),
            strict_actions=strict,
            limits=_read_limits(members.get("limits", {}), action_space, strict),
        )
    )


def read_change(
    given: object,
    settings: ClockSettings,
    *,
    action_space: gymnasium.Space[Any],
    max_hz: float,
) -> ClockSettings:
    """Parse a change of settings that holds from the next time step on.

    Raises:
        BadParameter: A member is unknown or fixed, or has an invalid value.
    """
    for name in given if isinstance(given, dict) else ():
        if name in REALTIME and name not in CHANGE:
            raise BadParameter(
                f"{name} is fixed when an instance is created: a change may have "
                f"{', '.join(CHANGE)}"
            )
    members = read(_within(CHANGE, max_hz), given, "the change")
    _check_mode(members, settings.mode)
    changes = _read_times(members)
    if "default_action" in members:
        changes["default_action"] = _read_default(members, action_space, None, None)
    return _with_elasticity(replace(settings, **changes))


def zero_of(space: gymnasium.Space[Any]) -> Any:
    """Return the element of a space that is zero everywhere; ``None`` without one."""
    spaces = gymnasium.spaces
    zero: Any = None
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        zero = np.zeros(space.shape, space.dtype)
    elif isinstance(space, spaces.Discrete):
        zero = space.dtype.type(0)
    elif isinstance(space, spaces.Dict):
        zero = {key: zero_of(inner) for key, inner in space.spaces.items()}
        if any(each is None for each in zero.values()):
            return None
    elif isinstance(space, spaces.Tuple):
        zero = tuple(zero_of(inner) for inner in space.spaces)
        if any(each is None for each in zero):
            return None
    return zero if zero is not None and space.contains(zero) else None


def _within(members: Members, max_hz: float, max_spin_us: int = 0) -> Members:
    """Return members with the limits that a server's settings give them."""
    kinds: dict[str, Kind] = {
        "hz": Number(1 / MAX_PERIOD_S, max_hz, note="(--max-hz)"),
        "period_s": Seconds(1 / max_hz, MAX_PERIOD_S, note="(from 1/--max-hz)"),
        "spin_us": Integer(0, max_spin_us, "(--spin-us)"),
    }
    return {
        name: replace(member, kind=kinds.get(name, member.kind))
        for name, member in members.items()
    }


def _with_preset(given: Json) -> Json:
    """Return the members with those of the preset, over which given ones prevail."""
    if "preset" not in given:
        return given
    preset = dict(_PRESETS[given["preset"]])
    mode = given.get("mode", preset["mode"])
    if mode != preset["mode"]:
        raise BadParameter(
            f"mode is {mode!r} with the preset {given['preset']!r}: expected "
            f"{preset['mode']!r}, or no mode"
        )
    if not given.keys().isdisjoint(("hz", "period_s")):
        preset.pop("hz", None)
        preset.pop("period_s", None)
    inner = {
        name: preset.get(name, {}) | given.get(name, {})
        for name in ("history", "rewards")
    }
    return preset | given | inner


def _check_mode(members: Json, mode: str) -> None:
    elastic = mode == ELASTIC
    other = FREE_RUNNING if elastic else ELASTIC
    for name in _FREE_ONLY if elastic else _ELASTIC_ONLY:
        if members.get(name) is not None:
            raise BadParameter(
                f"{name} is {members[name]!r} with mode {mode!r}: only the mode "
                f"{other!r} has {name}"
            )
    if elastic and members.get("on_done") == "reset":
        raise refusal("on_done", "reset", f"'wait' in the mode {mode!r}")


def _read_times(members: Json) -> Json:
    """Return those settings that are times, and which a change may have."""
    found: Json = {}
    hz, seconds = members.get("hz"), members.get("period_s")
    if hz is not None and seconds is not None:
        raise BadParameter(
            f"hz is {hz!r} and period_s {seconds!r}: expected one of them"
        )
    if hz is not None:
        found["period"] = (SECOND / _exact(hz)).as_integer_ratio()
    elif seconds is not None:
        found["period"] = (SECOND * _exact(seconds)).as_integer_ratio()
    if "elasticity" in members:
        found["elasticity"] = members["elasticity"]
    for name in ("capture", "agent_timeout"):
        if f"{name}_s" in members:
            time = members[f"{name}_s"]
            found[f"{name}_ns"] = None if time is None else round(_exact(time) * SECOND)
    return found


def _exact(number: float) -> Fraction:
    """Return a number as the decimal fraction that was written."""
    return Fraction(repr(float(number)) if isinstance(number, float) else number)


def _with_elasticity(settings: ClockSettings) -> ClockSettings:
    """Return settings with the time that results from elasticity and period."""
    # Times are integers, so that "later by less than this" needs the next integer.
    late = math.ceil(_exact(settings.elasticity) * Fraction(*settings.period))
    return replace(settings, elastic_ns=late)


def _read_most(members: Json) -> int | None:
    on_overrun, most = members.get("on_overrun", "skip"), members.get("most")
    if on_overrun == "catch_up":
        return most if "most" in members else 5
    if most is not None:
        raise BadParameter(
            f"most is {most} with on_overrun {on_overrun!r}: only 'catch_up' has most"
        )
    return None


def _read_strict(members: Json, always: bool) -> bool:
    strict: bool = members.get("strict_actions", True)
    if always and not strict:
        raise BadParameter(
            "strict_actions is False: expected true, since this server accepts no "
            "actions outside the action space (--strict-actions)"
        )
    return strict


def _read_limits(
    given: Json, space: gymnasium.Space[Any], strict: bool
) -> ActionLimits | None:
    clips, rate = given.get("clip", False), given.get("rate")
    if not clips and rate is None:
        return None
    if not isinstance(space, gymnasium.spaces.Box):
        raise BadParameter(
            f"limits is {given!r:.80}: expected null, since the action space is "
            f"{space}, and only actions of a Box are limited"
        )
    if not strict:
        raise BadParameter(
            f"limits is {given!r:.80} with strict_actions False: expected true, since "
            "only numbers in the shape of the action space can be limited"
        )
    if clips and not (space.bounded_below.any() or space.bounded_above.any()):
        raise BadParameter(
            f"limits.clip is True: expected false, since {space} has no bounds"
        )
    if rate is not None:
        rate = _read_rate(rate, space)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    return ActionLimits(clips, rate, low, high, space.dtype)


def _read_rate(given: object, space: gymnasium.spaces.Box) -> Any:
    if space.dtype.kind != "f":
        raise BadParameter(
            f"limits.rate is {given!r:.80}: expected null, since {space} has integers, "
            "which do not change by fractions"
        )
    try:
        rate = np.asarray(given)
    except ValueError:
        rate = np.array(None)
    if rate.dtype.kind not in "iuf" or rate.shape not in ((), space.shape):
        rate = np.array(0)
    rate = rate.astype(np.float64)
    if not (np.isfinite(rate) & (rate > 0)).all():
        raise BadParameter(
            f"limits.rate is {given!r:.80}: expected a number above 0, the change in a "
            f"second, or an array of the shape {space.shape} with one for each element"
        )
    return rate


def _read_rewards(given: Json) -> RewardSettings:
    channels, scalar = given.get("channels"), given.get("scalar", "sum")
    if isinstance(channels, int):
        channels = [str(each) for each in range(channels)]
    if channels is not None and len(set(channels)) < len(channels):
        raise refusal("rewards.channels", channels, "different names, or their number")
    if not isinstance(scalar, str):
        if channels is not None and len(scalar) != len(channels):
            raise BadParameter(
                f"rewards.scalar has {len(scalar)} weights: expected {len(channels)}, "
                "one for each of rewards.channels"
            )
        scalar = tuple(float(each) for each in scalar)
    return RewardSettings(
        None if channels is None else tuple(channels),
        scalar,
        given.get("skipped", "sum"),
    )


def _read_default(
    members: Mapping[str, Any], space: gymnasium.Space[Any], own: Any, zero: Any
) -> Any:
    given = members.get("default_action")
    if given is None:
        if own is not None:
            return own
        if isinstance(space, gymnasium.spaces.Box) and zero is not None:
            return zero
        raise BadParameter(
            f"default_action is missing: expected an element of {space}, since the "
            "world has no default action and zero is not known to be safe"
        )
    if isinstance(given, np.ndarray | np.generic | tuple) and space.contains(given):
        return given
    try:
        action = reader(space)(given)
    except NotAnElement as error:
        error.root = "default_action"
        raise BadParameter(str(error)) from None
    except UndescribableSpace as error:
        raise BadParameter(f"default_action cannot be read: {error}") from None
    if not space.contains(action):
        raise refusal("default_action", given, f"an element of {space}")
    return action
