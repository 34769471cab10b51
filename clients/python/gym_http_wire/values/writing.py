"""A writer of successive values in the binary form, fast for repeated signatures."""

from __future__ import annotations

from collections import deque
from typing import Any

from gym_http_wire.frames import VALUE_HEADER, Pieces
from gym_http_wire.values.fixed import MAX_RECORD_BYTES, Writer, fixed_writer
from gym_http_wire.values.signing import Leaf, signed

__all__ = ["Writing"]

# Longer signatures have more parts than are worth a record.
_MAX_SIGNATURE_BYTES = 4096
_REMEMBERED = 4


class Writing:
    """Splits successive values; those of recent signatures are fast."""

    def __init__(self) -> None:
        self._writers: list[tuple[Writer, bytes]] = []
        self._seen: deque[bytes] = deque(maxlen=_REMEMBERED)

    def pieces(self, value: Any) -> Pieces:
        """Return a value in pieces; large arrays are not copied.

        Raises:
            UnsupportedValue: The value, or something in it, cannot be sent.
        """
        for writer, signature in self._writers:
            leaves = writer(value)
            if leaves is not None:
                size = VALUE_HEADER.size + len(signature) + len(leaves)
                return Pieces(signature, [leaves], size)
        signature, parts = self.split(value)
        size = sum(memoryview(each).nbytes for each in parts)
        whole = VALUE_HEADER.size + len(signature) + size
        if size <= MAX_RECORD_BYTES:
            return Pieces(signature, [b"".join(parts)], whole)
        return Pieces(signature, parts, whole, lasting=False)

    def split(self, value: Any) -> tuple[bytes, list[Leaf]]:
        """Split a value as `gym_http_wire.values.binary.split` does, but faster.

        Raises:
            UnsupportedValue: The value, or something in it, cannot be sent.
        """
        for writer, signature in self._writers:
            leaves = writer(value)
            if leaves is not None:
                return signature, [leaves]
        text, parts = signed(value)
        signature = text.encode()
        signature += b" " * (-len(signature) % 8)
        # Generating a writer takes as long as many values do.
        if signature in self._seen:
            self._seen.remove(signature)
            fixed = fixed_writer(signature)
            if fixed is not None:
                self._writers = [(fixed, signature), *self._writers[: _REMEMBERED - 1]]
        elif len(signature) <= _MAX_SIGNATURE_BYTES:
            self._seen.append(signature)
        return signature, parts
