"""Opaque spaces: of a class that Gymnasium does not have, or that behaves differently.

Only the class knows which values such a space contains. Its description names the
class; it is constructed elsewhere only where its module is imported already.
`RemoteSpace` stands for it everywhere else.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Iterator
from typing import Any, Final, Protocol, Self

import numpy as np
from gymnasium import Space, spaces
from gymnasium.utils import seeding

__all__ = [
    "METHODS",
    "OPAQUE",
    "Caller",
    "Path",
    "RemoteSpace",
    "bind",
    "class_name",
    "constructor_arguments",
    "imported_space",
    "is_opaque",
    "members",
    "nearest",
    "opaque_parts",
    "repr_of",
]

OPAQUE = "Opaque"
"""The ``type`` of the description of an opaque space."""

METHODS: Final = ("sample", "contains", "seed")
"""The methods that a `RemoteSpace` calls in the process that has the space."""

Path = tuple[str | int, ...]
"""Keys and indices that lead from a space to a part of it."""

_GYMNASIUM: tuple[type[Space[Any]], ...] = (
    spaces.Box,
    spaces.Dict,
    spaces.Discrete,
    spaces.Graph,
    spaces.MultiBinary,
    spaces.MultiDiscrete,
    spaces.OneOf,
    spaces.Sequence,
    spaces.Text,
    spaces.Tuple,
)
# Tested first, since most are that: to test all classes takes more of a host's memory.
_USUAL = (spaces.Box, spaces.Discrete)
_BEHAVIOUR = ("sample", "contains", "seed", "__contains__", "__eq__")
_REPR_CHARS = 1000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_GENERATOR = {"_np_random", "_np_random_seed"}
_MISSING = object()


class Caller(Protocol):
    """Calls a method of a space, or of a part of it, where the space is."""

    def __call__(
        self, path: Path, method: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Call one of `METHODS` and return its result."""


def is_opaque(space: Space[Any]) -> bool:
    """Whether only the class of a space knows its elements.

    A subclass of Gymnasium's that samples, seeds and compares as its base is not.
    """
    base = nearest(type(space))
    if base is None:
        return True
    kind = type(space)
    # Described as its base, a subclass that behaves differently would lie.
    return any(getattr(kind, name) != getattr(base, name) for name in _BEHAVIOUR)


def nearest(kind: type) -> type[Space[Any]] | None:
    """Return the first class of Gymnasium's spaces that a class derives from."""
    for base in kind.__mro__:
        if base in _GYMNASIUM:
            return base
    return None


def members(space: Space[Any]) -> Iterator[tuple[str | int, Space[Any]]]:
    """Iterate over the spaces directly inside a space, with their keys or indices."""
    match space:
        case spaces.Dict():
            yield from space.spaces.items()
        case spaces.Tuple() | spaces.OneOf():
            yield from enumerate(space.spaces)
        case spaces.Sequence():
            yield "space", space.feature_space
        case spaces.Graph():
            yield "node_space", space.node_space
            if space.edge_space is not None:
                yield "edge_space", space.edge_space


def opaque_parts(space: Space[Any], path: Path = ()) -> list[tuple[Path, Space[Any]]]:
    """List the opaque spaces in a space, itself included, with their paths."""
    if is_opaque(space):
        return [(path, space)]
    if isinstance(space, _USUAL):
        return []
    return [
        part
        for key, inner in members(space)
        for part in opaque_parts(inner, (*path, key))
    ]


def class_name(space: Space[Any]) -> str:
    """Return the name of a space's class, as ``module:Class``."""
    if isinstance(space, RemoteSpace):
        return str(space.description["class"])
    kind = type(space)
    return f"{kind.__module__}:{kind.__qualname__}"


def repr_of(space: Space[Any]) -> str | None:
    """Return the beginning of a space's repr without addresses, or None."""
    try:
        text = _ADDRESS.sub("", repr(space))[:_REPR_CHARS]
    except (Exception, SystemExit):
        return None
    return text.encode(errors="backslashreplace").decode()


def constructor_arguments(space: Space[Any]) -> dict[str, Any] | None:
    """Find plain arguments from which the class of a space makes the same space.

    They are the attributes of the space that have the parameters' names. Here they are
    tried once: the space that the class makes of them must have the same attributes.

    Returns:
        Arguments by name; ``None`` if there are none that JSON can carry.
    """
    kind: Any = type(space)
    found = {}
    try:
        for name, parameter in inspect.signature(kind).parameters.items():
            value = getattr(space, name, _MISSING)
            if name != "seed" and _is_plain(value):
                found[name] = value
            elif parameter.default is parameter.empty:
                return None
        return found if _same(_state(kind(**found)), _state(space)) else None
    except (Exception, SystemExit):
        return None


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(type(key) is str for key in value) and all(
            map(_is_plain, value.values())
        )
    return value is None or type(value) in (bool, int, str)


def _state(space: Space[Any]) -> dict[str, Any]:
    return {key: each for key, each in vars(space).items() if key not in _GENERATOR}


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        bits = [(each.dtype, each.shape, each.tobytes()) for each in (one, two)]
        return bits[0] == bits[1] and not one.dtype.hasobject
    if isinstance(one, dict):
        return list(one) == list(two) and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)


def imported_space(description: dict[str, Any]) -> Space[Any] | None:
    """Construct an opaque space here, if its module is imported already.

    Nothing is imported, and no code is run but that of a class of spaces.

    Args:
        description: The description of an opaque space.

    Returns:
        The space; ``None`` if its class is unknown here or makes another space.
    """
    module, _, qualified = description["class"].partition(":")
    arguments = description.get("arguments")
    found = sys.modules.get(module)
    if arguments is None or found is None or module == "__main__":
        return None
    kind: Any = found
    for name in qualified.split("."):
        # A module's own __getattr__ might import what is named.
        kind = object.__getattribute__(kind, "__dict__").get(name)
        if not isinstance(kind, type):
            return None
    if not issubclass(kind, Space) or kind in (*_GYMNASIUM, RemoteSpace):
        return None
    try:
        space = kind(**arguments)
        same = class_name(space), repr_of(space)
    except Exception:
        return None
    return space if same == (description["class"], description["repr"]) else None


class _Link:
    """The way to the process that has a space, which copies of a space share."""

    call: Caller | None = None
    path: Path = ()


class RemoteSpace(Space[Any]):
    """An opaque space in another process, where `sample`, `contains` and `seed` run.

    Copies of it, as batched spaces have them, draw from the one random generator that
    the space has there. The seed of a copy is set before the copy's next sample.

    Args:
        description: Its description.
        base: The space of its ``base``: the nearest class that Gymnasium has.

    Attributes:
        description: Its description, which names its ``class``.
        base: The nearest space of Gymnasium's, or ``None``. Its elements may differ.
    """

    def __init__(
        self, description: dict[str, Any], base: Space[Any] | None = None
    ) -> None:
        shape, dtype = (None, None) if base is None else (base.shape, base.dtype)
        super().__init__(shape, dtype)
        self.description = description
        self.base = base
        self._link = _Link()
        self._is_copy = False
        self._next_seed: list[Any] = []

    @property
    def is_np_flattenable(self) -> bool:
        """False: its elements are not known here."""
        return False

    @property
    def np_random(self) -> np.random.Generator:
        """A generator of this process, from which `sample` does not draw."""
        # Gymnasium draws the seeds of batched spaces from it.
        if self._np_random is None:
            self._np_random, self._np_random_seed = seeding.np_random()
        return self._np_random

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw an element where the space is.

        Args:
            mask: As the space's own `sample` accepts it.
            probability: Likewise.
        """
        given = {"mask": mask, "probability": probability}
        kwargs = {name: each for name, each in given.items() if each is not None}
        if self._next_seed:
            self._call("seed", self._next_seed, {})
            self._next_seed = []
        return self._call("sample", [], kwargs)

    def contains(self, x: Any) -> bool:
        """Return what the space's own `contains` returns."""
        return bool(self._call("contains", [x], {}))

    def seed(self, seed: Any = None) -> Any:
        """Seed the space where it is, and return what its own `seed` returns."""
        if self._is_copy:
            self._next_seed = [seed]
            return seed
        return self._call("seed", [] if seed is None else [seed], {})

    def _call(self, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        link = self._link
        if link.call is None:
            raise RuntimeError(
                f"{self!r} is only described here, so {method} has nothing to call: "
                "use the space of the environment itself, or import "
                f"{class_name(self)} before"
            )
        return link.call(link.path, method, args, kwargs)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same class of space with the same repr."""
        return (
            isinstance(other, Space)
            and class_name(self) == class_name(other)
            and self.description["repr"] == _described_repr(other)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # A server may send any text, and users print spaces.
        text = (self.description["repr"] or class_name(self))[:_REPR_CHARS]
        shown = (each if each.isprintable() else ascii(each)[1:-1] for each in text)
        return f"RemoteSpace({''.join(shown)})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = type(self)(self.description, self.base)
        copied._link, copied._is_copy = self._link, True
        return copied

    def __getstate__(self) -> dict[str, Any]:
        # Another process has no connection.
        return {**self.__dict__, "_link": _Link(), "_np_random": None}


def _described_repr(space: Space[Any]) -> Any:
    if isinstance(space, RemoteSpace):
        return space.description["repr"]
    return repr_of(space)


def bind(space: Space[Any], call: Caller) -> None:
    """Connect each `RemoteSpace` in a space with the process that has the space.

    Args:
        space: The space.
        call: Calls a method of the part at a path.
    """
    for path, part in opaque_parts(space):
        if isinstance(part, RemoteSpace):
            part._link.call, part._link.path = call, path
