"""The form of a value in plain JSON (docs/api.md, “Conventions”)."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator
from typing import Any

from gym_http_server.validation.forms import Form

__all__ = ["plain_of", "shortest"]

LARGEST = 1e100
_FLOATS = {"f2": ("<e", "<e"), "f4": ("<f", "<f"), "f8": ("<d", "<d")}


def plain_of(form: Form) -> Any:
    """Return parsed plain JSON.

    Raises:
        ValueError: Plain JSON has no form for this kind.
    """
    kind, *rest = form
    match kind:
        case "none":
            return None
        case "float":
            return _finite(struct.unpack(">d", bytes.fromhex(rest[0]))[0])
        case "list" | "tuple":
            return [plain_of(item) for item in rest[0]]
        case "dict":
            return {str(key[1]): plain_of(value) for key, value in rest[0]}
        case "nd":
            dtype, shape, raw = rest
            return _shaped(_numbers(dtype, raw), shape)
        case "ns":
            return next(_numbers(*rest))
        case "bool" | "int" | "str":
            return rest[0]
    raise ValueError(f"nothing is reply about {kind} in plain JSON")


def shortest(number: float, kind: str) -> float:
    """Return the number with the fewest digits that represents a float of this kind.

    Args:
        number: The float.
        kind: Its kind: f2, f4 or f8.
    """
    if kind == "f8" or not math.isfinite(number):
        return number
    packed = struct.pack(_FLOATS[kind][0], number)
    for digits in itertools.count(1):
        short = float(f"{number:.{digits}g}")
        try:
            if struct.pack(_FLOATS[kind][0], short) == packed:
                return short
        except OverflowError:  # rounded up, beyond the largest one
            continue
    raise AssertionError


def _finite(number: float) -> float | None:
    if number != number:
        return None
    return max(-LARGEST, min(LARGEST, number)) if math.isinf(number) else number


def _numbers(dtype: str, raw: bytes) -> Iterator[Any]:
    order, kind = dtype[0], dtype[1:]
    if kind in _FLOATS and order == "<":
        for (number,) in struct.iter_unpack(_FLOATS[kind][0], raw):
            yield _finite(shortest(number, kind))
    elif kind == "b1":
        yield from map(bool, raw)
    elif kind[0] in "iu" and order in "<|":
        size = int(kind[1:])
        for at in range(0, len(raw), size):
            piece = raw[at : at + size]
            yield int.from_bytes(piece, "little", signed=kind[0] == "i")
    else:
        raise ValueError(f"nothing is reply about {dtype} in plain JSON")


def _shaped(numbers: Iterator[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return next(numbers)
    return [_shaped(numbers, shape[1:]) for _ in range(shape[0])]
