"""Read what is made of other elements out of plain JSON."""

from collections.abc import Callable, Mapping
from typing import Any

from gym_http_wire.elements.refusal import NotAnElement
from gym_http_wire.spaces import UnsupportedSpace, elided

Read = Callable[[object], Any]


def under(key: str | int, read: Callable[[object], Any], value: object) -> Any:
    """Read the part of a value that stands under a key."""
    try:
        return read(value)
    except NotAnElement as error:
        raise error.under(key) from None


def keyed(readers: Mapping[Any, Read]) -> Read:
    """Make a reader of an object with one value for each key."""
    names = {str(key): key for key in readers}
    if len(names) < len(readers):
        raise UnsupportedSpace('Plain JSON cannot tell the key 1 from the key "1"')
    parts = [(name, key, readers[key]) for name, key in names.items()]
    expected = f"an object with the keys {elided(sorted(names))}"

    def read(value: object) -> dict[Any, Any]:
        if type(value) is not dict or value.keys() != names.keys():
            raise NotAnElement(value, expected)
        return {key: under(name, part, value[name]) for name, key, part in parts}

    return read


def positional(readers: list[Read]) -> Read:
    """Make a reader of a list with one value for each position."""
    parts = list(enumerate(readers))

    def read(value: object) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(parts):
            raise NotAnElement(value, f"a list of {len(parts)}")
        return tuple(under(index, part, value[index]) for index, part in parts)

    return read


def repeated(part: Read) -> Read:
    """Make a reader of a list of any length."""

    def read(value: object) -> tuple[Any, ...]:
        if type(value) is not list:
            raise NotAnElement(value, "a list")
        return tuple(under(index, part, item) for index, item in enumerate(value))

    return read
