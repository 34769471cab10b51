"""Parses the member ``realtime`` of a create request, and changes of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import gymnasium
import msgspec
import numpy as np

from gym_http_server.envhost.realtime.settings import (
    ELASTIC,
    FREE_RUNNING,
    SECOND,
    ActionLimits,
    ClockSettings,
    History,
    RewardSettings,
)
from gym_http_server.errors import did_you_mean
from gym_http_wire.elements import NotAnElement, reader
from gym_http_wire.problems import BadParameter
from gym_http_wire.spaces import UndescribableSpace

__all__ = ["read_change", "read_settings", "zero_of"]

Json = dict[str, Any]

MAX_PERIOD_S = 10
MAX_ELASTICITY = 1000
MAX_TIMEOUT_S = 3600
MAX_BUFFER = 1024
MAX_HISTORY = 1024
MAX_CHANNELS = 64
MAX_TICKS = 1000
MAX_COUNT = 2**53 - 1
_LARGEST = sys.float_info.max

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
_MEMBERS = (
    "preset",
    "mode",
    "hz",
    "period_s",
    "capture_s",
    "elasticity",
    "default_action",
    "no_action",
    "reset_action",
    "history",
    "on_overrun",
    "most",
    "ticks_per_update",
    "on_done",
    "episodes",
    "agent_timeout_s",
    "on_agent_lost",
    "rewards",
    "buffer",
    "spin_us",
    "strict_actions",
    "limits",
)
_CHANGEABLE = (
    "hz",
    "period_s",
    "capture_s",
    "elasticity",
    "default_action",
    "agent_timeout_s",
)


class _Limits(NamedTuple):
    action_space: gymnasium.Space[Any]
    max_hz: float


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
    members = _with_preset(_object(given, "realtime", _MEMBERS))
    limits = _Limits(action_space, max_hz)
    mode = _choice(members, "mode", (ELASTIC, FREE_RUNNING), None)
    _check_mode(members, mode)
    period = _read_period(members, limits)
    if period is None:
        raise BadParameter("realtime has neither hz nor period_s: expected one of them")
    elasticity = _read_elasticity(members)
    no_action = _choice(members, "no_action", ("hold", "default", "zero"), "hold")
    zero = zero_of(action_space)
    if no_action == "zero" and zero is None:
        raise BadParameter(
            f"no_action is 'zero': expected 'hold' or 'default', since {action_space} "
            "has no zero"
        )
    on_overrun = _choice(members, "on_overrun", ("skip", "catch_up", "shift"), "skip")
    done = ("wait",) if mode == ELASTIC else ("wait", "reset")
    timeout = 1 if external and "preset" not in members else None
    strict = _read_strict(members, strict_actions)
    return ClockSettings(
        mode=mode,
        preset=members.get("preset"),
        period=period,
        capture_ns=_read_seconds(members, "capture_s", 0, MAX_PERIOD_S, None),
        elasticity=elasticity,
        elastic_ns=_elastic_ns(elasticity, period),
        default_action=_read_default(members, limits, default_action, zero),
        zero_action=zero,
        no_action=no_action,
        reset_action=_choice(members, "reset_action", ("default", "last"), "default"),
        history=_read_history(members.get("history")),
        on_overrun=on_overrun,
        most=_read_most(members, on_overrun),
        ticks_per_update=_integer(members, "ticks_per_update", 1, MAX_TICKS, 1),
        on_done=_choice(members, "on_done", done, "wait"),
        episodes=_integer(members, "episodes", 1, MAX_COUNT, None),
        agent_timeout_ns=_read_timeout(members, timeout),
        on_agent_lost=_choice(
            members, "on_agent_lost", ("default", "hold", "pause", "close"), "default"
        ),
        rewards=_read_rewards(members.get("rewards")),
        buffer=_integer(members, "buffer", 1, MAX_BUFFER, 64),
        spin_us=_read_spin(members, max_spin_us),
        strict_actions=strict,
        limits=_read_limits(members.get("limits"), action_space, strict),
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
    members = _object(given, "the change", _CHANGEABLE, fixed=_MEMBERS)
    limits = _Limits(action_space, max_hz)
    _check_mode(members, settings.mode)
    changes: Json = {}
    period = _read_period(members, limits)
    if period is not None:
        changes["period"] = period
    if "capture_s" in members:
        changes["capture_ns"] = _read_seconds(
            members, "capture_s", 0, MAX_PERIOD_S, None
        )
    if members.get("elasticity") is not None:
        changes["elasticity"] = _read_elasticity(members)
    if members.get("default_action") is not None:
        changes["default_action"] = _read_default(members, limits, None, None)
    if "agent_timeout_s" in members:
        changes["agent_timeout_ns"] = _read_timeout(members, None)
    changed = msgspec.structs.replace(settings, **changes)
    elastic_ns = _elastic_ns(changed.elasticity, changed.period)
    return msgspec.structs.replace(changed, elastic_ns=elastic_ns)


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


def _object(
    given: object, name: str, known: Sequence[str], fixed: Sequence[str] = ()
) -> Json:
    if not isinstance(given, dict):
        raise BadParameter(f"{name} is {given!r:.80}: expected an object")
    for member in given:
        if member in known:
            continue
        if member in fixed:
            raise BadParameter(
                f"{member} is fixed when an instance is created: a change may have "
                f"{', '.join(known)}"
            )
        raise BadParameter(
            f"{name} has the unknown member {member!r:.80}: expected some of "
            f"{', '.join(known)}{did_you_mean(str(member), known)}"
        )
    return given


def _with_preset(given: Json) -> Json:
    """Return the members with those of the preset, over which given ones prevail."""
    name = _choice(given, "preset", tuple(_PRESETS), "")
    if not name:
        return {key: value for key, value in given.items() if key != "preset"}
    preset = dict(_PRESETS[name])
    mode = given.get("mode")
    if mode is not None and mode != preset["mode"]:
        raise BadParameter(
            f"mode is {mode!r:.80} with the preset {name!r}: expected "
            f"{preset['mode']!r}, or no mode"
        )
    if given.get("hz") is not None or given.get("period_s") is not None:
        preset.pop("hz", None)
        preset.pop("period_s", None)
    for key, value in given.items():
        inner = preset.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            preset[key] = inner | value
        elif value is not None or key in ("agent_timeout_s", "most"):
            preset[key] = value
    return preset


def _check_mode(members: Json, mode: str) -> None:
    elastic = mode == ELASTIC
    other = FREE_RUNNING if elastic else ELASTIC
    names = _FREE_ONLY if elastic else _ELASTIC_ONLY
    for name in names:
        if members.get(name) is not None:
            raise BadParameter(
                f"{name} is {members[name]!r:.80} with mode {mode!r}: only the mode "
                f"{other!r} has {name}"
            )


def _read_period(members: Json, limits: _Limits) -> tuple[int, int] | None:
    hz, seconds = members.get("hz"), members.get("period_s")
    if hz is not None and seconds is not None:
        raise BadParameter(
            f"hz is {hz!r:.80} and period_s {seconds!r:.80}: expected one of them"
        )
    least = 1 / MAX_PERIOD_S
    if hz is not None:
        rate = _number(
            hz, "hz", least, limits.max_hz, f"{least:g} to {limits.max_hz:g} (--max-hz)"
        )
        period = SECOND / rate
    elif seconds is not None:
        shortest = 1 / Fraction(repr(limits.max_hz))
        period = SECOND * _number(
            seconds,
            "period_s",
            shortest,
            MAX_PERIOD_S,
            f"{float(shortest):g} (1/--max-hz) to {MAX_PERIOD_S} seconds",
        )
    else:
        return None
    return period.numerator, period.denominator


def _number(given: object, name: str, least: Any, most: Any, expected: str) -> Fraction:
    """Read a number as the decimal fraction that was written."""
    if (
        not isinstance(given, int | float)
        or isinstance(given, bool)
        # Also if it is an integer that no float can represent.
        or not max(least, -_LARGEST) <= given <= min(most, _LARGEST)
    ):
        raise BadParameter(
            f"{name} is {given!r:.80}: expected a number from {expected}"
        )
    return Fraction(repr(float(given)) if isinstance(given, float) else given)


def _read_seconds(
    members: Json, name: str, least: float, most: float, default: int | None
) -> int | None:
    given = members.get(name)
    if given is None:
        return default
    number = _number(given, name, least, most, f"{least:g} to {most:g} seconds")
    return round(number * SECOND)


def _read_elasticity(members: Json) -> float:
    given = members.get("elasticity")
    if given is None:
        return 1
    expected = f"0 to {MAX_ELASTICITY}, the periods by which a time step may be late"
    _number(given, "elasticity", 0, MAX_ELASTICITY, expected)
    return given  # type: ignore[no-any-return]


def _elastic_ns(elasticity: float, period: tuple[int, int]) -> int:
    # Times are integers, so that "later by less than this" needs the next integer.
    return math.ceil(Fraction(repr(elasticity)) * Fraction(*period))


def _read_timeout(members: Json, default_s: int | None) -> int | None:
    if "agent_timeout_s" not in members:
        return None if default_s is None else default_s * SECOND
    return _read_seconds(members, "agent_timeout_s", 0.001, MAX_TIMEOUT_S, None)


def _choice(
    members: Json, name: str, choices: Sequence[str], default: str | None
) -> str:
    given = members.get(name)
    if given is None and default is not None:
        return default
    if not isinstance(given, str) or given not in choices:
        words = did_you_mean(given, choices) if isinstance(given, str) else ""
        named = " or ".join(repr(each) for each in choices)
        shown = "missing" if given is None else f"{given!r:.80}"
        raise BadParameter(f"{name} is {shown}: expected {named}{words}")
    return given


def _integer(members: Json, name: str, least: int, most: int, default: Any) -> Any:
    given = members.get(name)
    if given is None:
        return default
    if type(given) is not int or not least <= given <= most:
        raise BadParameter(
            f"{name} is {given!r:.80}: expected an integer from {least} to {most}"
        )
    return given


def _read_most(members: Json, on_overrun: str) -> int | None:
    given = members.get("most")
    if on_overrun != "catch_up":
        if given is not None:
            raise BadParameter(
                f"most is {given!r:.80} with on_overrun {on_overrun!r}: only "
                "'catch_up' has most"
            )
        return None
    if "most" in members and given is None:
        return None
    most: int = _integer(members, "most", 1, MAX_TICKS, 5)
    return most


def _read_spin(members: Json, max_spin_us: int) -> int:
    given = members.get("spin_us")
    if given is None:
        return 0
    if type(given) is not int or not 0 <= given <= max_spin_us:
        raise BadParameter(
            f"spin_us is {given!r:.80}: expected an integer from 0 to {max_spin_us} "
            "(--spin-us)"
        )
    return given


def _read_flag(members: Json, name: str, default: bool) -> bool:
    given = members.get(name.rpartition(".")[2])
    if given is None:
        return default
    if type(given) is not bool:
        raise BadParameter(f"{name} is {given!r:.80}: expected true or false")
    return given


def _read_strict(members: Json, always: bool) -> bool:
    strict = _read_flag(members, "strict_actions", True)
    if always and not strict:
        raise BadParameter(
            "strict_actions is False: expected true, since this server accepts no "
            "actions outside the action space (--strict-actions)"
        )
    return strict


def _read_limits(
    given: object, space: gymnasium.Space[Any], strict: bool
) -> ActionLimits | None:
    if given is None:
        return None
    members = _object(given, "limits", ("clip", "rate"))
    clips = _read_flag(members, "limits.clip", False)
    rate = members.get("rate")
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


def _read_history(given: object) -> History:
    if given is None:
        return History()
    members = _object(given, "history", ("length", "in_observation", "reset"))
    length = members.get("length")
    if length is None:
        length = 1
    if type(length) is not int or not 0 <= length <= MAX_HISTORY:
        raise BadParameter(
            f"history.length is {length!r:.80}: expected an integer from 0 to "
            f"{MAX_HISTORY}"
        )
    return History(
        length,
        _read_flag(members, "history.in_observation", False),
        _read_flag(members, "history.reset", True),
    )


def _read_rewards(given: object) -> RewardSettings:
    if given is None:
        return RewardSettings()
    members = _object(given, "rewards", ("channels", "scalar", "skipped"))
    channels = _read_channels(members.get("channels"))
    skipped = members.get("skipped")
    if skipped not in (None, "sum", "last"):
        raise BadParameter(
            f"rewards.skipped is {skipped!r:.80}: expected 'sum' or 'last'"
        )
    scalar = _read_scalar(members.get("scalar"), channels)
    return RewardSettings(channels, scalar, skipped or "sum")


def _read_channels(given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if type(given) is int and 1 <= given <= MAX_CHANNELS:
        return tuple(str(each) for each in range(given))
    if (
        not isinstance(given, list)
        or not 1 <= len(given) <= MAX_CHANNELS
        or not all(isinstance(each, str) and each.isprintable() for each in given)
        or len(set(given)) < len(given)
    ):
        raise BadParameter(
            f"rewards.channels is {given!r:.80}: expected 1 to {MAX_CHANNELS} "
            "different names, or their number"
        )
    return tuple(given)


def _read_scalar(
    given: object, channels: tuple[str, ...] | None
) -> str | tuple[float, ...]:
    if given is None:
        return "sum"
    if isinstance(given, str) and given in ("sum", "mean", "hold"):
        return given
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_CHANNELS:
        raise BadParameter(
            f"rewards.scalar is {given!r:.80}: expected 'sum', 'mean', 'hold' or a "
            "list of weights, one for each channel"
        )
    for index, each in enumerate(given):
        name = f"rewards.scalar[{index}]"
        _number(each, name, -math.inf, math.inf, "all finite ones")
    if channels is not None and len(given) != len(channels):
        raise BadParameter(
            f"rewards.scalar has {len(given)} weights: expected {len(channels)}, one "
            "for each of rewards.channels"
        )
    return tuple(float(each) for each in given)


def _read_default(
    members: Mapping[str, Any], limits: _Limits, own: Any, zero: Any
) -> Any:
    given, space = members.get("default_action"), limits.action_space
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
        raise BadParameter(
            f"default_action is {given!r:.80}: expected an element of {space}"
        )
    return action
