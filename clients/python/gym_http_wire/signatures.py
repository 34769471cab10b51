"""Numbered signatures: a stream sends the signature of a value's tree once.

With the first value of a signature, its sender assigns a number, in bytes 4 to 8 of the
value. Later values have this number and the size 0 in place of the signature. Each side
counts its own from 1::

    size  number
    n     0       a signature of n bytes follows
    n     m       it follows, and has the number m from now on
    0     m       it is the one with the number m

There are 255 numbers, for signatures of up to 16 KiB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_wire.frames import VALUE_HEADER, Pieces
from gym_http_wire.values import BadValue
from gym_http_wire.values.binary import compile_reader
from gym_http_wire.values.fixed import fixed_reader
from gym_http_wire.values.layouts import Layouts

__all__ = ["MAX_NUMBERED_BYTES", "MAX_NUMBERS", "ReceivedSignatures", "SentSignatures"]

MAX_NUMBERS = 255
MAX_NUMBERED_BYTES = 16 * 1024
Reader = Callable[[bytes | memoryview, int], Any]

_SIZE = VALUE_HEADER.size


class SentSignatures:
    """The signatures that this side has sent.

    Attributes:
        numbers: By signature, padded with blanks to a multiple of 8.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def header(self, signature: bytes) -> bytes:
        """Return the bytes before the leaves of a value.

        Args:
            signature: The signature, padded with blanks to a multiple of 8.
        """
        number = self.numbers.get(signature)
        if number is not None:
            return VALUE_HEADER.pack(0, number)
        number = len(self.numbers) + 1
        if number > MAX_NUMBERS or len(signature) > MAX_NUMBERED_BYTES:
            return VALUE_HEADER.pack(len(signature), 0) + signature
        self.numbers[signature] = number
        return VALUE_HEADER.pack(len(signature), number) + signature


class ReceivedSignatures:
    """The signatures that this side has received.

    Attributes:
        signatures: By number.
        readers: Decoders by number, of signatures that were repeated.
    """

    def __init__(self) -> None:
        self.signatures: dict[int, bytes] = {}
        self.readers: dict[int, Reader] = {}
        self._layouts = Layouts()

    def pieces(self, data: bytes, start: int) -> Pieces:
        """Split a value into signature and leaves, without decoding it.

        Args:
            data: A whole message.
            start: Position of the value in it.

        Raises:
            BadValue: The value is malformed, or its signature was not sent.
        """
        signature, number, leaves = self._signature(data, start)
        if number and number not in self.readers:
            self._compile(number, signature)
        rest = data[leaves:]
        return Pieces(signature, [rest], _SIZE + len(signature) + len(rest))

    def read(self, data: bytes | memoryview, start: int) -> Any:
        """Decode a value.

        Args:
            data: A whole message.
            start: Position of the value in it.

        Raises:
            BadValue: The value is malformed, or its signature was not sent.
        """
        if len(data) >= start + _SIZE:
            size, number = VALUE_HEADER.unpack_from(data, start)
            known = None if size else self.readers.get(number)
            if known is not None:
                # As nearly all values.
                return known(data, start + _SIZE)
        signature, number, leaves = self._signature(data, start)
        if not number:
            return self._reader_of_new(signature)(data, leaves)
        reader = self.readers.get(number) or self._compile(number, signature)
        return reader(data, leaves)

    def _signature(
        self, data: bytes | memoryview, start: int
    ) -> tuple[bytes, int, int]:
        """Return a value's signature, its number if it was sent before, and its end."""
        size, number = _header_of(data, start)
        leaves = start + _SIZE + size
        if size:
            signature = bytes(data[start + _SIZE : leaves])
            if number:
                self._remember(number, signature)
            # The number stands for it from the next value on.
            return signature, 0, leaves
        known = self.signatures.get(number)
        if known is None:
            raise _unknown(number)
        return known, number, leaves

    def _compile(self, number: int, signature: bytes) -> Reader:
        # It was repeated, so a generated reader pays.
        reader = self._layouts.reader(signature) or fixed_reader(
            signature, compile_reader(signature)
        )
        self.readers[number] = reader
        return reader

    def _reader_of_new(self, signature: bytes) -> Reader:
        reader = self._layouts.reader(signature)
        if reader is None:
            reader = compile_reader(signature)
            self._layouts.learn(signature)
        return reader

    def _remember(self, number: int, signature: bytes) -> None:
        if number > MAX_NUMBERS or number in self.signatures:
            raise BadValue(
                f"calls a signature {number}, which is taken or over {MAX_NUMBERS}"
            )
        if len(signature) > MAX_NUMBERED_BYTES:
            raise BadValue(
                f"gives a number to a signature of {len(signature)} bytes; the limit "
                f"is {MAX_NUMBERED_BYTES}"
            )
        self.signatures[number] = signature


def _header_of(data: bytes | memoryview, start: int = 0) -> tuple[int, int]:
    if len(data) < start + _SIZE:
        raise BadValue(f"has {len(data) - start} bytes; a value has 8 at least")
    size, number = VALUE_HEADER.unpack_from(data, start)
    if size % 8 or start + _SIZE + size > len(data):
        raise BadValue(f"has a signature of an impossible size: {size}")
    return size, number


def _unknown(number: int) -> BadValue:
    return BadValue(f"names signature {number}, which was not sent on this stream")
