"""What a world may get as an action: elements of its space, within bounds and rate.

`ActionCheck` refuses actions when they arrive. `ActionLimiter` changes those that the
world gets, between a policy and its motors.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from gym_http_core.opaque_calls import element_check
from gym_http_server.host.realtime.actions import Action
from gym_http_server.host.realtime.settings import SECOND, ActionLimits
from gym_http_wire.elements import NotAnElement
from gym_http_wire.opaque import is_opaque

__all__ = ["ActionCheck", "ActionLimiter", "LimitedAction"]

Space = gymnasium.Space[Any]


class ActionCheck:
    """Refuses actions that are not in an action space.

    It differs from ``contains`` in two points. Numbers of a Box may have any dtype, and
    are rounded to the Box's: 0.7 as float64 is within a bound of 0.7 as float32. And
    they have to be finite, also in a Box without bounds.

    Args:
        space: The action space.
        bounds: Whether numbers beyond the bounds of a Box are refused.
    """

    def __init__(self, space: Space, *, bounds: bool = True) -> None:
        self._space = space
        self._bounds = bounds

    def __call__(self, action: Any) -> None:
        """Check an action.

        Raises:
            NotAnElement: It is not in the space.
        """
        self._check(self._space, action)

    def _check(self, space: Space, value: Any) -> None:
        if is_opaque(space):
            if (check := element_check(space)) is not None:
                check(value)
        elif isinstance(space, gymnasium.spaces.Box):
            self._check_box(space, value)
        elif isinstance(space, gymnasium.spaces.Dict):
            keys = list(space.spaces)
            if not isinstance(value, dict) or value.keys() != space.spaces.keys():
                raise NotAnElement(value, f"an object with the keys {keys}")
            for key in keys:
                self._check_part(space.spaces[key], value[key], key)
        elif isinstance(space, gymnasium.spaces.Tuple):
            if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                raise NotAnElement(value, f"a list of {len(space.spaces)}")
            for index, inner in enumerate(space.spaces):
                self._check_part(inner, value[index], index)
        elif not _contains(space, value):
            raise NotAnElement(value, f"an element of {space}")

    def _check_part(self, space: Space, value: Any, key: str | int) -> None:
        try:
            self._check(space, value)
        except NotAnElement as error:
            raise error.under(key) from None

    def _check_box(self, space: gymnasium.spaces.Box, value: Any) -> None:
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.array(None)
        if array.dtype.kind not in "biuf" or array.shape != space.shape:
            raise NotAnElement(value, f"numbers in an array of the shape {space.shape}")
        given, floats = array, space.dtype.kind == "f"
        if floats:
            with np.errstate(over="ignore"):
                array = array.astype(space.dtype)
        good = np.isfinite(array)
        if not floats and array.dtype.kind == "f":
            good &= array == np.rint(array)
        if self._bounds:
            good &= (space.low <= array) & (array <= space.high)
        if good.all():
            return
        index = tuple(map(int, np.argwhere(~good)[0]))
        expected = "a finite number" if floats else "an integer"
        if self._bounds:
            expected += f" from {space.low[index]!s} to {space.high[index]!s}"
        # Each as the shortest decimal of its dtype.
        raise NotAnElement(float(str(given[index])), expected, index)


def _contains(space: Space, value: Any) -> bool:
    try:
        return bool(space.contains(value))
    except Exception:
        # A space raises on values that it does not know.
        return False


class LimitedAction(Action):
    """An action that was limited before the world got it.

    Attributes:
        asked: The value before that.
        limited: ``clip``, ``rate`` or both.
    """

    __slots__ = ("asked", "limited")

    def __init__(self, action: Action, value: Any, limited: list[str]) -> None:
        super().__init__(value, action.number, action.priority, action.valid_until)
        self.asked = action.value
        self.limited = limited

    def shown(self) -> dict[str, Any]:
        """Return the member of answers, which states what was asked for, too."""
        return {**super().shown(), "asked": self.asked, "limited": self.limited}


class ActionLimiter:
    """Keeps the actions that a world gets within bounds and within a rate.

    The change of an action is at most the rate times the time since the last one that
    the world got, and of that time at most a period counts. So a late tick gets no
    larger change, and several ticks at once get no more than one.

    Args:
        limits: The limits.
        period_ns: The period of the clock.

    Attributes:
        period_ns: The same; it may be changed.
        count: How many actions were limited.
    """

    def __init__(self, limits: ActionLimits, period_ns: int) -> None:
        self.period_ns = period_ns
        self.count = 0
        self._limits = limits
        self._at = self._next_at = 0
        self._last: Any = None
        self._next: Any = None

    def begin(self, value: Any, now: int) -> None:
        """Begin with an action that is not limited."""
        self._next, self._next_at = self._read(value), now
        self.confirm()

    def limit(self, action: Action, now: int) -> Action:
        """Return an action within the limits, which may be the same."""
        limits, by = self._limits, []
        value = self._read(action.value)
        if limits.clips:
            clipped = np.clip(value, limits.low, limits.high)
            if (clipped != value).any():
                by.append("clip")
            value = clipped
        if limits.rate is not None:
            most = limits.rate * (min(now - self._at, self.period_ns) / SECOND)
            near = np.clip(value, self._last - most, self._last + most)
            if (near != value).any():
                by.append("rate")
            value = near
        if by:
            self.count += 1
            given = value.astype(limits.dtype)
            action = LimitedAction(action, given, by)
            value = given.astype(np.float64)
        self._next, self._next_at = value, now
        return action

    def confirm(self) -> None:
        """Record that the world got the action that was limited last."""
        self._last, self._at = self._next, self._next_at

    def _read(self, value: Any) -> Any:
        array = np.asarray(value)
        if self._limits.dtype.kind == "f":
            array = array.astype(self._limits.dtype)
        return array.astype(np.float64)
