"""The data model: types of values, and their substitutes for other types."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from gymnasium import Space
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode
from msgspec import Struct

from gym_http_wire.specs import describe_spec
from gym_http_wire.values.refusal import UnsupportedValue

MAX_DEPTH = 64
"""How deep lists, tuples, dicts and the like may be nested."""

MAX_OTHER_KEYS = 10_000
"""How many keys of a dict may be of other types than strings."""

MAX_SAME_HASH = 64
"""How many of those may have the same hash."""

MAX_REPR = 200
"""Characters of an object's ``repr`` that stand for it if it cannot be sent."""


class Unsent(Struct, frozen=True):
    """Stands for a value of an info that cannot be sent.

    Attributes:
        repr: The beginning of the value's ``repr``.
        type: The name of its class, with its module unless that is ``builtins``.
    """

    repr: str
    type: str

    @classmethod
    def of(cls, value: object) -> Self:
        """Describe a value."""
        kind = type(value)
        try:
            text = repr(value)[:MAX_REPR]
        except (Exception, SystemExit):
            text = f"<{kind.__qualname__}>"
        return cls(text, name_of(kind))


BASES: tuple[type, ...] = (
    np.generic,
    np.ndarray,
    GraphInstance,
    int,
    float,
    complex,
    str,
    bytes,
    dict,
    list,
    tuple,
    Space,
)
"""Types that stand for their subclasses, a subclass before its base."""

SCALARS: tuple[type[np.generic], ...] = (
    np.bool_,
    *(np.dtype(f"{kind}{size}").type for kind in "iu" for size in (1, 2, 4, 8)),
    *(np.dtype(f"f{size}").type for size in (2, 4, 8)),
    np.longdouble,
    np.complex64,
    np.complex128,
    np.datetime64,
    np.timedelta64,
    np.str_,
    np.bytes_,
)
"""The types of NumPy's scalars that arrive as exactly that."""

KEYS = (type(None), bool, int, float, str, bytes, np.generic)
"""Types of keys, which may also be tuples of such."""

EXACT = frozenset(
    {type(None), bool, AutoresetMode, Unsent, np.ndarray, GraphInstance, *SCALARS}
    | {int, float, complex, str, bytes, dict, list, tuple}
)
"""Types whose objects arrive unchanged; spaces are not among them."""


def name_of(kind: type) -> str:
    """Name a type in full."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def standing_for(value: Any) -> tuple[type, Any]:
    """Find the substitute for an object whose type is not of the model.

    Returns:
        The base type, and an object of it; for NumPy's scalars and spaces, the base
        type and the object itself.

    Raises:
        UnsupportedValue: There is no substitute, or the object raises an exception.
    """
    try:
        return _standing_for(value)
    except UnsupportedValue:
        raise
    except Exception as error:
        name, raised = name_of(type(value)), type(error).__qualname__
        raise UnsupportedValue(f"of type {name} raises {raised} if read") from error


def _standing_for(value: Any) -> tuple[type, Any]:
    kind = type(value)
    base = next((each for each in BASES if isinstance(value, each)), None)
    if base in (np.generic, Space):
        return base, value
    if base is np.ndarray:
        if isinstance(value, np.ma.MaskedArray):
            raise UnsupportedValue("is a masked array, whose mask would be lost")
        return np.ndarray, np.asarray(value)
    if base is not None:
        return base, _PLAIN[base](value)
    if isinstance(value, EnvSpec):
        return dict, describe_spec(value)
    if not hasattr(kind, "__array__"):
        raise UnsupportedValue(f"is of a type that cannot be sent: {name_of(kind)}")
    try:
        array = np.asarray(value)
    except Exception as error:
        raise UnsupportedValue(
            f"of type {name_of(kind)} does not become a NumPy array: {error}"
        ) from error
    return np.ndarray, array


_PLAIN: dict[Any, Any] = {
    GraphInstance: lambda value: GraphInstance(*value),
    # Not through the subclass's own methods: an enum's __str__ is its name.
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
    dict: lambda value: dict(value.items()),
    list: list,
    tuple: tuple,
}


def key_problem(keys: Iterable[object]) -> str | None:
    """Return the error of the keys of a dict that are not strings, if there is one.

    A dict is fast only while the hashes of its keys differ. A sender can predict all
    hashes but those of strings and bytes.
    """
    hashes: Counter[int] = Counter()
    for key in keys:
        if not _is_key(key):
            return f"has a key of a type that no key may have: {name_of(type(key))}"
        try:
            hashes[hash(key)] += 1
        except (TypeError, ValueError):  # NumPy raises either.
            return f"has a key that has no hash, of type {name_of(type(key))}"
    if hashes.total() > MAX_OTHER_KEYS:
        return f"has more than {MAX_OTHER_KEYS} keys that are no strings"
    if hashes and max(hashes.values()) > MAX_SAME_HASH:
        return f"has more than {MAX_SAME_HASH} keys with the same hash"
    return None


def _is_key(key: object) -> bool:
    if isinstance(key, tuple):
        return all(_is_key(each) for each in key)
    return isinstance(key, KEYS)
