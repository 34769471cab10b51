"""What parts of a vector tell in infos, put together as one vector would have it.

Gymnasium gives each key an array of the type of the first environment that told it. So
parts may put together what they have only while all environments agree in types; then
their arrays are laid side by side. If they do not, every info is added by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

__all__ = ["Columns", "Each", "Folding", "kept", "merged"]

Info = dict[Any, Any]
Each = list[tuple[int, Info]]
"""Numbers of environments, and what they told."""

_OBJECT = "object"
_NUMBERS = (int, float, bool)


class Columns(NamedTuple):
    """The infos of a part.

    Attributes:
        values: As a vector of this part's environments has them.
        kinds: By key, the type that all its values had.
    """

    values: dict[str, Any]
    kinds: dict[str, Any]


def kept(info: Info) -> Info:
    """Copy what Gymnasium would copy now; the environment may change it later."""
    copied = dict(info.items())
    for key, value in copied.items():
        if isinstance(value, dict):
            copied[key] = kept(value)
        elif isinstance(value, np.ndarray) and key != "final_obs":
            copied[key] = value.copy()
    return copied


class Folding:
    """Puts the infos of a part together.

    Args:
        num_envs: How many environments the part, or the whole, has.
    """

    def __init__(self, num_envs: int) -> None:
        self._vector: VectorEnv[Any, Any, Any] = VectorEnv()
        self._vector.num_envs = num_envs

    def folded(self, each: Each) -> Columns | None:
        """Put infos together, if they agree in types."""
        kinds: dict[str, Any] = {}
        for _, info in each:
            if not _agrees(kinds, info):
                return None
        return Columns(self.added(each), _told(kinds))

    def added(self, each: Each) -> Info:
        """Put infos together as Gymnasium does, whatever their types."""
        values: Info = {}
        for number, info in each:
            values = self._vector._add_info(values, info, number)
        return values


def merged(
    parts: list[Columns | None], bounds: list[tuple[int, int]], num_envs: int
) -> Info | None:
    """Lay the infos of parts side by side; ``None`` if they differ in types.

    Args:
        parts: What each told, if anything.
        bounds: By part, its first environment and the next one's.
        num_envs: How many there are in all.
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
        """Add a part; whether its types are those known so far."""
        for name, value in part.values.items():
            # What has no kind is a mask.
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
        # Others could be taken for masks, or have them named like others'.
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


def _told(kinds: dict[str, Any]) -> dict[str, Any]:
    """Name kinds, so that they can be sent and compared."""
    told: dict[str, Any] = {}
    for key, kind in kinds.items():
        if isinstance(kind, dict):
            told[key] = _told(kind)
        elif isinstance(kind, tuple):
            told[key] = f"{kind[0].str} {kind[1]}"
        else:
            told[key] = _OBJECT if kind is object else f"{kind.__name__} of numbers"
    return told
