"""NumPy's arrays and scalars among the values."""

from collections.abc import Iterator
from typing import Any

import numpy as np

_DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")


def arrays() -> dict[str, Any]:
    """Return arrays by the names of their cases."""
    made: dict[str, Any] = {}
    for name in _DTYPES:
        if name[0] in "iu":
            limits = np.iinfo(name)
            numbers: Any = [limits.min, 0, 1, limits.max]
        else:
            largest = np.finfo(name).max
            numbers = [0.1, -1.5, -largest, largest, np.finfo(name).smallest_subnormal]
        made[f"nd-{name}"] = np.array(numbers, name)
        made[f"nd-{name}-alone"] = np.array(numbers[-1], name)
    return made | {
        "nd-b1": np.array([True, False, True]),
        "nd-b1-2x2": np.array([[True, False], [False, False]]),
        "nd-b1-alone": np.array(True),
        "nd-i8-beyond-2-53": np.array([2**53 + 1, -(2**53) - 1], "i8"),
        "nd-u1-picture": np.arange(24, dtype="u1").reshape(2, 4, 3),
        "nd-f4-2x3": np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], "f4"),
        "nd-f8-3-axes": np.arange(8, dtype="f8").reshape(2, 2, 2),
        "nd-f4-size-0": np.zeros((0,), "f4"),
        "nd-i8-size-0-inside": np.zeros((3, 0, 2), "i8"),
        "nd-b1-size-0": np.zeros((0, 4), "b1"),
        "nd-f4-1x1": np.zeros((1, 1), "f4"),
        "nd-f4-16-axes": np.zeros((1,) * 16, "f4"),
        "nd-str-big-endian": np.array(["a\u73af"], ">U2"),
        "nd-str": np.array(["go", "left", ""]),
        "nd-str-beyond-bmp": np.array(["\U0001f600"]),
        "nd-bytes": np.array([b"ab", b"c"]),
        "nd-c8": np.array([1 + 2j, -0.5j], "c8"),
        "nd-c16": np.array([1 + 2j], "c16"),
        "nd-datetime": np.array(["2024-02-29T12:00:00", "NaT"], "M8[s]"),
        "nd-timedelta": np.array([-1, 5], "m8[ms]"),
        "nd-big-endian-f4": np.array([1.0, 2.0], ">f4"),
        "nd-big-endian-i8": np.array([[1], [-2]], ">i8"),
        "nd-big-endian-u2": np.array([1, 256], ">u2"),
    }


def scalars() -> dict[str, Any]:
    """Return scalars by the names of their cases."""
    made: dict[str, Any] = {}
    for name in _DTYPES:
        limit: Any = np.iinfo(name).max if name[0] in "iu" else 0.1
        made[f"ns-{name}"] = np.dtype(name).type(limit)
    return made | {
        "ns-i8-min": np.int64(-(2**63)),
        "ns-b1-true": np.True_,
        "ns-b1-false": np.False_,
        "ns-str": np.str_("left"),
        "ns-bytes": np.bytes_(b"ab\x00"),
        "ns-c16": np.complex128(1 - 2j),
        "ns-timedelta": np.timedelta64(-3, "us"),
        "ns-datetime": np.datetime64("2024-02-29", "D"),
    }


def bits_of_arrays() -> Iterator[tuple[str, str, list[str]]]:
    """Yield names, dtypes and bits of elements that have no literal."""
    yield "f2-special", "<f2", ["7e00", "7c00", "fc00", "8000", "0001", "7e01"]
    bits = "7fc00000 7f800000 ff800000 80000000 00000001 7fc12345 ffc00000 7fa00000"
    yield "f4-special", "<f4", bits.split()
    bits = "7ff8000000000000 7ff0000000000000 fff0000000000000 8000000000000000"
    bits += " 0000000000000001 7ff8000000abcdef fff8000000000000 7ff4000000000000"
    yield "f8-special", "<f8", bits.split()
