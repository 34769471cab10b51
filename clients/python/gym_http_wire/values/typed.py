"""Values as JSON: natives where JSON has them, else an object with a ``$t``."""

from typing import Any

import msgspec

from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.texts import parse
from gym_http_wire.values.treereading import Reading
from gym_http_wire.values.treewriting import write

__all__ = ["decode", "encode"]

_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> bytes:
    """Write a value as compact JSON in UTF-8.

    Raises:
        UnsupportedValue: It, or something in it, cannot be sent.
    """
    return _encode(write(value))


def decode(data: bytes | bytearray | memoryview) -> Any:
    """Read a value; the bytes need not be trusted.

    Returns:
        A new value; its arrays are writeable and own their memory.

    Raises:
        BadValue: The bytes are not a value in this form.
    """
    try:
        return Reading().value(parse(data), 1)
    except RecursionError:
        raise BadValue("is nested too deep") from None
