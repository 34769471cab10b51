"""Episodes: the results of steps in columns, as arrays where that loses nothing.

Environments may use one array for all of their observations, so columns hold copies.
Arrays of one dtype and shape are copied into one array, which is cheapest.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gym_http_core.returns import plain_return, summed

__all__ = [
    "SIMPLE",
    "Column",
    "Episode",
    "is_batch",
    "kept",
    "packed",
    "plain_reward",
]

Values = dict[str, Any]

SIMPLE = frozenset({bool, bytes, complex, float, int, str, type(None)})
"""Types whose objects are immutable."""

# Size of a new array of rows; a full one is doubled.
_FIRST_BYTES = 64 * 1024
_MAX_STACKED_AXES = 8
#: Columns that are made plain, and the members of a step.
_MADE_PLAIN = {
    "rewards": "reward",
    "terminated": "terminated",
    "truncated": "truncated",
}
_NATIVE: dict[type, Any] = {bool: np.bool_, float: np.float64, int: np.int64}
# Without dates, each of which may have another unit.
_SCALARS = frozenset({np.dtype(code).type for code in "?bBhHiIlLqQefdgFD"})
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class Column:
    """Values of one kind, one for each step."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._rows: npt.NDArray[Any] | None = None
        self._shape: tuple[int, ...] = ()
        self._dtype: Any = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, value: Any) -> None:
        """Append a copy of a value."""
        count = self._count
        self._count = count + 1
        rows = self._rows
        if type(value) is not np.ndarray:
            kept_ = value if type(value) in SIMPLE else kept(value)
        elif rows is None:
            if not count and _can_stack(value):
                self._begin(value)
                return
            kept_ = kept(value)
        elif value.dtype is self._dtype and value.shape == self._shape:
            if count == len(rows):
                rows = self._rows = _longer(rows)
            rows[count] = value
            return
        else:
            kept_ = kept(value)
        if rows is not None:
            self._items, self._rows = list(rows[:count]), None
        self._items.append(kept_)

    def value(self, count: int | None = None) -> npt.NDArray[Any] | list[Any]:
        """Return the values, or the first of them, as one array or as a list.

        Returns:
            One array with an additional first axis, if all values are arrays of one
            dtype and shape with at least one axis; else a list.
        """
        count = self._count if count is None else count
        if self._rows is not None and count:
            return self._rows[:count]
        return self._items[:count]

    def _begin(self, value: npt.NDArray[Any]) -> None:
        rows = 1 + _FIRST_BYTES // max(value.nbytes, 1)
        self._rows = np.empty((rows, *value.shape), value.dtype)
        self._rows[0] = value
        self._shape, self._dtype = value.shape, value.dtype


def _can_stack(array: npt.NDArray[Any]) -> bool:
    return 0 < array.ndim <= _MAX_STACKED_AXES and array.dtype.kind in "biufcSU"


def _longer(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    longer = np.empty((2 * len(rows), *rows.shape[1:]), rows.dtype)
    longer[: len(rows)] = rows
    return longer


def kept(value: Any) -> Any:
    """Return a copy that later changes of the value do not affect."""
    kind = type(value)
    if kind is dict and not value:
        return {}
    if kind in SIMPLE or isinstance(value, np.generic):
        return value
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:
        # It cannot be copied; its later state is better than nothing.
        return value


def packed(
    values: npt.NDArray[Any] | list[Any],
) -> tuple[npt.NDArray[Any] | list[Any], bool]:
    """Make an array of numbers of one type, or of arrays of one dtype and shape.

    Returns:
        The array, or the values themselves; and whether the array holds NumPy's
        scalars and not Python's numbers.
    """
    if not isinstance(values, list) or not values:
        return values, False
    kinds = set(map(type, values))
    if len(kinds) > 1:
        return values, False
    (kind,) = kinds
    native = _NATIVE.get(kind)
    if native is not None:
        if kind is int and not (min(values) >= _LOWEST and max(values) <= _HIGHEST):
            return values, False
        return np.array(values, native), False
    if kind is np.ndarray:
        return _stacked(values), False
    if issubclass(kind, np.generic) and kind in _SCALARS:
        return np.array(values), True
    return values, False


def _stacked(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any] | list[Any]:
    column = Column()
    for array in arrays:
        column.append(array)
    return column.value()


class Episode:
    """Results of the steps of an episode, or of a part of it.

    Args:
        with_reset: Whether observations and infos begin with those of the reset, and
            actions are kept.
        make_plain: Makes reward and flags of a step plain, and adds ``done``; needed
            for values that are not exact.
    """

    def __init__(
        self,
        *,
        with_reset: bool = False,
        make_plain: Callable[[Values], None] = lambda step: None,
    ) -> None:
        self.length = 0
        self._make_plain = make_plain
        self._with_reset = with_reset
        self._observations = Column()
        self._actions = Column()
        self._rewards: list[Any] = []
        self._terminated: list[Any] = []
        self._truncated: list[Any] = []
        self._infos: list[Any] = []

    def begin(self, observation: Any, info: Any) -> None:
        """Add the results of a reset."""
        self._observations.append(observation)
        self._infos.append(kept(info))

    def add(self, action: Any, row: tuple[Any, Any, Any, Any, Any]) -> None:
        """Add an action and the results of its step."""
        observation, reward, terminated, truncated, info = row
        if self._with_reset:
            self._actions.append(action)
        self._observations.append(observation)
        simple = SIMPLE
        self._rewards.append(reward if type(reward) in simple else kept(reward))
        self._terminated.append(
            terminated if type(terminated) in simple else kept(terminated)
        )
        self._truncated.append(
            truncated if type(truncated) in simple else kept(truncated)
        )
        self._infos.append(kept(info))
        self.length += 1

    def values(self, count: int | None = None, *, exact: bool) -> Values:
        """Return the columns of all steps, or of the first ones.

        Args:
            count: Number of steps; ``None`` is all.
            exact: Return the environment's objects; else numbers and flags have the
                types that thin clients expect.
        """
        count = self.length if count is None else count
        first = int(self._with_reset)
        columns: Values = {
            "infos": self._infos[: count + first],
            "observations": self._observations.value(count + first),
            "rewards": self._rewards[:count],
            "terminated": self._terminated[:count],
            "truncated": self._truncated[:count],
        }
        if self._with_reset:
            columns["actions"] = self._actions.value(count)
            columns["length"] = count
            columns["return"] = plain_return(summed(columns["rewards"]))
        if exact:
            return _pack_columns(columns)
        return self._plain(columns)

    def _plain(self, columns: Values) -> Values:
        rewards, *flags = (columns[name] for name in _MADE_PLAIN)
        if {float}.issuperset(map(type, rewards)) and {bool}.issuperset(
            map(type, itertools.chain(*flags))
        ):
            # As nearly always, they are plain already.
            return columns | {"done": [a | b for a, b in zip(*flags, strict=True)]}
        each = zip(rewards, *flags, strict=True)
        steps = [dict(zip(_MADE_PLAIN.values(), step, strict=True)) for step in each]
        for step in steps:
            self._make_plain(step)
        made = {**_MADE_PLAIN, "done": "done"}
        return columns | {
            name: [step[member] for step in steps] for name, member in made.items()
        }


def _pack_columns(columns: Values) -> Values:
    scalars = []
    for name in ("actions", "observations", "rewards", "terminated", "truncated"):
        if name in columns:
            columns[name], is_numpy = packed(columns[name])
            scalars += [name] * is_numpy
    columns["scalars"] = scalars
    return columns


def plain_reward(reward: Any) -> Any:
    """Return the reward of a single environment as plain JSON has it.

    Returns:
        A float; or an array of floats, if the reward has other than one component.

    Raises:
        TypeError, ValueError, OverflowError: It is no number.
    """
    if type(reward) is float:
        return reward
    if not isinstance(reward, list | tuple) and not is_batch(reward):
        # NumPy's floats are written as their own shortest decimals.
        is_float = getattr(getattr(reward, "dtype", None), "kind", "") == "f"
        return reward if is_float else float(reward)
    parts = np.asarray(reward)
    if parts.dtype.kind != "f":
        parts = np.asarray(reward, np.float64)
    return parts.reshape(())[()] if parts.size == 1 else parts


def is_batch(value: Any) -> bool:
    """Whether a value is an array with axes, as those of a vector's environments."""
    return bool(getattr(value, "ndim", 0))
