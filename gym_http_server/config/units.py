"""Sizes and durations as people write them: ``512M``, ``2G``, ``10s``, ``5m``.

A plain number is bytes or seconds.
"""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["read_duration", "read_size", "show_duration", "show_size"]

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.I).fullmatch
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)").fullmatch
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_size(text: str) -> int:
    """Read a number of bytes; units are powers of 1024.

    Raises:
        ValueError: It is malformed, or no whole number of bytes.
    """
    match = _SIZE(text.strip())
    if match is None:
        raise ValueError(text)
    size = Fraction(match[1]) * _BYTES[match[2].lower()]
    if size.denominator != 1:
        raise ValueError(text)
    return int(size)


def read_duration(text: str) -> float:
    """Read a number of seconds.

    Raises:
        ValueError: It is malformed.
    """
    match = _DURATION(text.strip())
    return float(text) if match is None else float(match[1]) * _SECONDS[match[2]]


def show_size(size: float) -> str:
    """Write a number of bytes as `read_size` reads it, with a unit if that is exact."""
    for unit in ("t", "g", "m", "k"):
        if size and size % _BYTES[unit] == 0:
            return f"{int(size) // _BYTES[unit]}{unit.upper()}"
    return str(int(size))


def show_duration(seconds: float) -> str:
    """Write a number of seconds as `read_duration` reads it."""
    for unit in ("h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{int(seconds // _SECONDS[unit])}{unit}"
    return f"{seconds:f}".rstrip("0").rstrip(".") + "s" if seconds else "0"
