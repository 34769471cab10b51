"""Merges the infos of a vector's shards into those of one vector.

Gymnasium makes an array for each key, of the type of the first environment that has the
key. A shard can make such arrays only if all its environments agree in types; then the
arrays of the shards are concatenated. Otherwise, each info is added separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from gym_http_wire.values.infos import Replacing

__all__ = ["Columns", "Each", "Folding", "kept", "merged", "sendable"]

Info = dict[Any, Any]
Each = Sequence[tuple[int, Info]]
"""Environments by number, and their infos."""

_OBJECT = "object"
_NUMBERS = (int, float, bool)
# How deep infos are in the answers of shards.
_DEPTH = 4


class Columns(NamedTuple):
    """The infos of a shard, by column.

    Attributes:
        values: As a vector of the shard's environments returns them.
        kinds: By key, the type of all its values.
    """

    values: dict[str, Any]
    kinds: dict[str, Any]


def kept(info: Info) -> Info:
    """Copy an info as Gymnasium does, since the environment may change it later."""
    copied = dict(info.items())
    for key, value in copied.items():
        if isinstance(value, dict):
            copied[key] = kept(value)
        elif isinstance(value, np.ndarray) and key != "final_obs":
            copied[key] = value.copy()
    return copied


def sendable(each: Each) -> tuple[Each, str]:
    """Return infos in which `Unsent` stands for values that cannot be sent.

    Returns:
        The infos; and place and problem of the first such value, "" without one.
    """
    replacing = Replacing()
    made = [(number, replacing.info(info, _DEPTH)) for number, info in each]
    return made, replacing.first


class Folding:
    """Merges the infos of environments.

    Args:
        num_envs: Number of environments in the shard, or in the vector.
    """

    def __init__(self, num_envs: int) -> None:
        self._vector: VectorEnv[Any, Any, Any] = VectorEnv()
        self._vector.num_envs = num_envs

    def folded(self, each: Each) -> Columns | None:
        """Merge infos; ``None`` if they differ in types."""
        kinds: dict[str, Any] = {}
        for _, info in each:
            if not _agrees(kinds, info):
                return None
        return Columns(self.added(each), _named(kinds))

    def added(self, each: Each) -> Info:
        """Merge infos of any types as Gymnasium does."""
        values: Info = {}
        for number, info in each:
            values = self._vector._add_info(values, info, number)
        return values


def merged(
    parts: list[Columns | None], bounds: list[tuple[int, int]], num_envs: int
) -> Info | None:
    """Concatenate the infos of shards; ``None`` if they differ in types.

    Args:
        parts: The infos of each shard, if it has any.
        bounds: By shard, its first environment, and the first one of the next shard.
        num_envs: Number of environments in the vector.
    """
    merging = _Merging(num_envs)
    whole: Info = {}
    known: dict[str, Any] = {}
    for part, (start, stop) in zip(parts, bounds, strict=True):
        if part is not None and not merging.add(whole, known, part, slice(start, stop)):
            return None
    return whole


class _Merging:
    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs

    def add(
        self, whole: Info, known: dict[str, Any], part: Columns, where: slice
    ) -> bool:
        """Add a shard; return whether its types agree with those so far."""
        for name, value in part.values.items():
            # Masks have no kind.
            kind = part.kinds.get(name, "")
            if isinstance(kind, dict):
                inner = known.setdefault(name, {})
                if not isinstance(inner, dict):
                    return False
                whole.setdefault(name, {})
                if not self.add(whole[name], inner, Columns(value, kind), where):
                    return False
                continue
            if known.setdefault(name, kind) != kind:
                return False
            if name not in whole:
                whole[name] = self._empty(kind, value)
            whole[name][where] = value
        return True

    def _empty(self, kind: str, value: Any) -> Any:
        if kind == _OBJECT:
            return np.full(self._num_envs, None, object)
        return np.zeros((self._num_envs, *value.shape[1:]), value.dtype)


def _agrees(kinds: dict[str, Any], info: Info) -> bool:
    for key, value in info.items():
        # Other keys could be mistaken for masks, or have masks with equal names.
        if type(key) is not str or key.startswith("_"):
            return False
        kind: Any = type(value)
        if key == "final_obs":
            kind = object
        elif isinstance(value, dict):
            inner = kinds.setdefault(key, {})
            if type(inner) is not dict or not _agrees(inner, value):
                return False
            continue
        elif isinstance(value, np.ndarray):
            kind = (value.dtype, value.shape)
        elif kind not in _NUMBERS and not issubclass(kind, np.number):
            kind = object
        if kinds.setdefault(key, kind) != kind:
            return False
    return True


def _named(kinds: dict[str, Any]) -> dict[str, Any]:
    """Return names of kinds, which can be sent and compared."""
    names: dict[str, Any] = {}
    for key, kind in kinds.items():
        if isinstance(kind, dict):
            names[key] = _named(kind)
        elif isinstance(kind, tuple):
            names[key] = f"{kind[0].str} {kind[1]}"
        else:
            names[key] = _OBJECT if kind is object else f"{kind.__name__} of numbers"
    return names
