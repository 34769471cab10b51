"""Layout of the parts of a recording of steps, and what reads their headers.

This needs no NumPy, which web workers do not load. `gym_http_wire.step_records` has the
codec of all records.
"""

from __future__ import annotations

import enum
import struct
import zlib
from typing import Any

from gym_http_wire.outline import OutlineError, outline

__all__ = [
    "BODY",
    "HEAD",
    "HEADER_START",
    "MAGIC",
    "Kind",
    "header_member",
    "header_size",
]

#: The first 16 bytes of a part; the last four are the version.
MAGIC = b"gym-steps\r\n\x1a" + struct.pack("<I", 1)
#: Size of the rest of a record, and its CRC-32.
HEAD = struct.Struct("<II")
#: Kind of a record, and its time.
BODY = struct.Struct("<BQ")
#: Bytes of a part before its header.
HEADER_START = len(MAGIC) + HEAD.size
_MAX_HEADER_BYTES = 64 * 1024 * 1024


class Kind(enum.IntEnum):
    """What a record is about."""

    HEADER = 1
    RESET = 2
    STEP = 3
    END = 4
    FAILURE = 5
    CHANGE = 6


class _AllBut:
    """All names but one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __contains__(self, name: object) -> bool:
        return name != self._name


def header_size(start: bytes) -> int:
    """Return the bytes of the header of a part; 0 if it can have none.

    Args:
        start: The first `HEADER_START` bytes of the part.
    """
    if len(start) < HEADER_START or start[: len(MAGIC)] != MAGIC:
        return 0
    size: int = HEAD.unpack_from(start, len(MAGIC))[0]
    return size if BODY.size <= size <= _MAX_HEADER_BYTES else 0


def header_member(data: bytes, name: str) -> Any:
    """Return a member of the header of a part, as a tree of typed JSON.

    Args:
        data: The part, or its beginning with the whole header.
        name: Name of the member.

    Returns:
        The member; ``None`` if the header is cut or damaged, or has none.
    """
    size = header_size(data)
    body = data[HEADER_START : HEADER_START + size]
    if not size or len(body) < size:
        return None
    _, checksum = HEAD.unpack_from(data, len(MAGIC))
    if zlib.crc32(body) != checksum:
        return None
    kind, _ = BODY.unpack_from(body)
    if kind != Kind.HEADER:
        return None
    try:
        return outline(body[BODY.size :], _AllBut(name)).get(name)
    except OutlineError:
        return None
