"""Infos with values that cannot be sent: `Unsent` takes their places."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance

from gym_http_wire.spaces import elided
from gym_http_wire.values.arrays import check_shape
from gym_http_wire.values.model import EXACT, Unsent, standing_for
from gym_http_wire.values.refusal import UnsupportedValue
from gym_http_wire.values.signing import MAX_SIGNATURE_BYTES, sign
from gym_http_wire.values.treewriting import check_depth, write_keys

__all__ = ["Replacing", "first_unsent", "with_unsent"]

# Signatures of more parts are refused.
_MAX_PARTS = MAX_SIGNATURE_BYTES
_LISTS = ("episodes", "updates")


class Replacing:
    """Replaces the values of infos that cannot be sent.

    Attributes:
        first: Place and problem of the first one; "" if there was none.
    """

    def __init__(self) -> None:
        self.first = ""
        self._path: list[object] = []
        self._around: list[int] = []
        self._left = _MAX_PARTS

    def info(self, info: Any, depth: int) -> Any:
        """Return an info whose values can be sent.

        Args:
            info: The info; it stays as it is.
            depth: How deep it is in the value to be sent.

        Raises:
            UnsupportedValue: It has too many parts.
        """
        if isinstance(info, dict):
            # Its keys are looked up, so it stays a dict.
            info = {self._key(key): value for key, value in info.items()}
        return self._value(info, depth)

    def answer(self, value: Any, depth: int = 1) -> Any:
        """Return the value of an answer whose infos can be sent.

        Args:
            value: The value; it stays as it is.
            depth: How deep it is.

        Raises:
            UnsupportedValue: An info has too many parts.
        """
        if not isinstance(value, dict):
            return value
        made = dict(value)
        if "info" in made:
            made["info"] = self.info(made["info"], depth + 1)
        if isinstance(made.get("infos"), list):
            made["infos"] = [self.info(each, depth + 2) for each in made["infos"]]
        for name in _LISTS:
            if isinstance(made.get(name), list):
                made[name] = [self.answer(each, depth + 2) for each in made[name]]
        return made

    def _key(self, key: Any) -> Any:
        try:
            write_keys({key: None}, 1)
        except UnsupportedValue as error:
            self._note(error)
            return Unsent.of(key).repr
        return key

    def _value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise UnsupportedValue("has more parts than a signature may have")
        try:
            if id(value) in self._around:
                raise UnsupportedValue("holds itself")
            exact = type(value) in EXACT
            kind, plain = (type(value), value) if exact else standing_for(value)
            is_objects = kind is np.ndarray and plain.dtype.char == "O"
            if kind not in _PARTS and not is_objects:
                sign(plain, [], depth)
                return value
            check_depth(depth)
            if is_objects:
                check_shape(plain)
            if kind is dict:
                write_keys(plain, depth)
        except UnsupportedValue as error:
            self._note(error)
            return Unsent.of(value)
        self._around.append(id(value))
        try:
            return (
                _objects(self, plain, depth)
                if is_objects
                else _PARTS[kind](self, plain, depth)
            )
        finally:
            self._around.pop()

    def _part(self, key: object, value: Any, depth: int) -> Any:
        self._path.append(key)
        made = self._value(value, depth + 1)
        self._path.pop()
        return made

    def _items(self, values: Any, depth: int) -> list[Any]:
        return [self._part(key, each, depth) for key, each in enumerate(values)]

    def _note(self, error: UnsupportedValue) -> None:
        if not self.first:
            for key in reversed(self._path):
                error.under(key)
            error.root = "info"
            self.first = str(error)


def _objects(replacing: Replacing, array: Any, depth: int) -> Any:
    made = np.empty(array.shape, object)
    flat = made.reshape(-1)
    for index, each in enumerate(replacing._items(array.ravel().tolist(), depth)):
        flat[index] = each
    return made


_PARTS: dict[Any, Callable[[Replacing, Any, int], Any]] = {
    list: Replacing._items,
    tuple: lambda self, value, depth: tuple(self._items(value, depth)),
    dict: lambda self, value, depth: {
        key: self._part(key, each, depth) for key, each in value.items()
    },
    GraphInstance: lambda self, value, depth: GraphInstance(*self._items(value, depth)),
}


def with_unsent(value: Any) -> tuple[Any, str]:
    """Return the value of an answer whose infos can be sent.

    Args:
        value: With ``info``, or ``infos``, or ``episodes`` or ``updates`` of such; it
            stays as it is.

    Returns:
        The value; and place and problem of the first value that `Unsent` replaces, ""
        if there is none.

    Raises:
        UnsupportedValue: An info has too many parts.
    """
    replacing = Replacing()
    return replacing.answer(value), replacing.first


def first_unsent(value: Any, path: str = "info") -> str:
    """Return place and type of the first `Unsent` in an info; "" without one."""
    if isinstance(value, Unsent):
        return f"{path} is of a type that cannot be sent: {value.type}"
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    elif isinstance(value, np.ndarray) and value.dtype.char == "O":
        parts = enumerate(value.ravel().tolist())
    for key, each in parts:
        if found := first_unsent(each, f"{path}[{elided(key)}]"):
            return found
    return ""
