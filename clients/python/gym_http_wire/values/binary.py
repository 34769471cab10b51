"""The binary form: a signature of the value's tree, and the bytes of its leaves.

A message, all of its numbers little-endian, all of its parts padded to 8 bytes::

    0      4 size of the signature, blanks at its end included
    4      4 zero
    8      a signature: JSON in UTF-8, and blanks
           b the leaves, in the order in which the signature names them

A leaf of varying size begins with its size in bytes, 8 bytes long. Between leaves, and
after the last, there are zeros to the next multiple of 8.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from gym_http_wire.frames import VALUE_HEADER
from gym_http_wire.values.compiling import Compiling
from gym_http_wire.values.refusal import BadValue, UnsupportedValue
from gym_http_wire.values.signing import MAX_SIGNATURE_BYTES, Leaf, signed
from gym_http_wire.values.texts import parse

__all__ = [
    "compile_reader",
    "decode",
    "decode_in_place",
    "encode",
    "encode_parts",
    "split",
]

Reader = Callable[[bytes | memoryview, int], Any]

_MAX_REMEMBERED_BYTES = 4096


def encode(value: Any) -> bytes:
    """Write a value.

    Raises:
        UnsupportedValue: It, or something in it, cannot be sent.
    """
    signature, leaves = signed(value)
    return b"".join((_head_of(signature), *leaves))


def encode_parts(value: Any) -> list[Leaf]:
    """Write a value as buffers that make up what `encode` returns.

    Large arrays are not copied: send them before they change.

    Raises:
        UnsupportedValue: It, or something in it, cannot be sent.
    """
    signature, leaves = signed(value)
    return [_head_of(signature), *leaves]


def split(value: Any) -> tuple[bytes, list[Leaf]]:
    """Write a value as signature and leaves, to send a signature only once.

    Returns:
        The signature, and buffers that make up the leaves, padding included. Large
        arrays are not copied: send them before they change.

    Raises:
        UnsupportedValue: The value, or something in it, cannot be sent.
    """
    signature, leaves = signed(value)
    return _head_of(signature)[VALUE_HEADER.size :], leaves


def _head_of(text: str) -> bytes:
    return _known_head(text) if len(text) <= _MAX_REMEMBERED_BYTES else _head(text)


def _head(text: str) -> bytes:
    signature = text.encode()
    signature += b" " * (-len(signature) % 8)
    if len(signature) > MAX_SIGNATURE_BYTES:
        raise UnsupportedValue("has more parts than a signature may have")
    return VALUE_HEADER.pack(len(signature), 0) + signature


_known_head = lru_cache(maxsize=256)(_head)


def decode(data: bytes | bytearray | memoryview) -> Any:
    """Read a value; the bytes need not be trusted.

    Returns:
        A new value; its arrays are writeable and own their memory.

    Raises:
        BadValue: These bytes are not what `encode` writes.
    """
    # The caller keeps its buffer.
    if isinstance(data, bytes):
        return decode_in_place(data)
    return decode_in_place(memoryview(data).cast("B").toreadonly())


def decode_in_place(buffer: bytes | memoryview) -> Any:
    """Read a value; the bytes need not be trusted.

    Returns:
        A new value with writeable arrays. Large ones use the memory of a writeable
        buffer, which the caller leaves to them.

    Raises:
        BadValue: These bytes are not what `encode` writes.
    """
    if len(buffer) < 8:
        raise BadValue("is shorter than 8 bytes")
    size, reserved = VALUE_HEADER.unpack_from(buffer)
    start = 8 + size
    if reserved:
        raise BadValue("has bytes 4 to 8 that are not zero")
    if size % 8 or start > len(buffer):
        raise BadValue(f"has a signature of an impossible size: {size}")
    return compile_reader(bytes(buffer[8:start]))(buffer, start)


def compile_reader(signature: bytes) -> Reader:
    """Compile a signature into a function that reads its leaves.

    Returns:
        A function of a buffer and the position where the leaves begin in it, which must
        go to its end. It returns a new value each time, and raises `BadValue`. Large
        arrays use the memory of a writeable buffer.

    Raises:
        BadValue: The signature is malformed.
    """
    if len(signature) <= _MAX_REMEMBERED_BYTES:
        return _known_reader(signature)
    if len(signature) > MAX_SIGNATURE_BYTES:
        raise BadValue(f"has a signature of more than {MAX_SIGNATURE_BYTES} bytes")
    return _reader(signature)


def _reader(signature: bytes) -> Reader:
    try:
        node = Compiling().node(parse(signature), 1)
    except RecursionError:
        raise BadValue("is nested too deep") from None

    def read(data: bytes | memoryview, start: int) -> Any:
        try:
            value, end = node(data, start)
        except struct.error:
            raise BadValue("ends too early") from None
        if end != len(data):
            raise BadValue(f"ends at byte {end} of {len(data)}")
        return value

    return read


_known_reader = lru_cache(maxsize=128)(_reader)
