"""Masks, which a client puts on all that it sends."""

from __future__ import annotations

import os

__all__ = ["Masks", "masked"]

_MASKS_AT_ONCE = 1024


class Masks:
    """Masks that nobody can foresee, as a client has to send them."""

    def __init__(self) -> None:
        self._drawn = b""
        self._used = 0

    def next(self) -> bytes:
        """Give another one."""
        used = self._used
        if used == len(self._drawn):
            self._drawn = os.urandom(4 * _MASKS_AT_ONCE)
            used = 0
        self._used = used + 4
        return self._drawn[used : used + 4]


def masked(payload: bytes | memoryview, mask: bytes) -> bytes:
    """Mask a payload, or unmask it."""
    size = len(payload)
    key = int.from_bytes((mask * (size + 3 >> 2))[:size], "little")
    return (int.from_bytes(payload, "little") ^ key).to_bytes(size, "little")
