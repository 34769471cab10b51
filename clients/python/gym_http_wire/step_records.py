"""Step records: the codec of ``steps.gym``, a recording of every reset and step.

A part of a recording is 16 bytes, the magic and the version, and then records::

    bytes  field
    4      size of the payload plus 9; 0: the end of what was written
    4      CRC-32 of the rest of the record
    1      kind
    8      Unix time in nanoseconds
    n      payload: a value in the binary form

All numbers are little-endian. The signature of a value is written once in a part, as on
a stream (`gym_http_wire.signatures`), so each part can be decoded alone.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from gym_http_wire.fast_frames import FastAnswer, FastRequest
from gym_http_wire.frames import VALUE_HEADER
from gym_http_wire.signatures import MAX_NUMBERS, ReceivedSignatures, SentSignatures
from gym_http_wire.step_parts import BODY, HEAD, MAGIC, Kind
from gym_http_wire.values import BadValue
from gym_http_wire.values.fixed import Unfit, fixed_size
from gym_http_wire.values.texts import parse
from gym_http_wire.values.writing import Writing

__all__ = [
    "MAGIC",
    "MAX_RECORD_BYTES",
    "Kind",
    "Record",
    "StepDecoder",
    "StepEncoder",
]

#: Bytes that a record may have, its head included.
MAX_RECORD_BYTES = 256 * 1024 * 1024

_START = HEAD.size + BODY.size
# Faster than the lookup in an enumeration.
_KINDS = {int(kind): kind for kind in Kind}
_STEP = int(Kind.STEP)
# Start of the record of a step whose signature is already in the file.
_STEP_START = BODY.format + VALUE_HEADER.format.removeprefix("<")
# The members of an answer to a step, in their order.
_RESULTS = ["info", "observation", "reward", "terminated", "truncated"]
_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Record(NamedTuple):
    """A decoded record.

    Attributes:
        kind: What it is about.
        at_ns: When it was recorded, in Unix nanoseconds.
        value: Its members.
    """

    kind: Kind
    at_ns: int
    value: Any


# For steps with a signature that is already in the file: the function that packs a
# record without its head, the number of the signature, and the bytes of the info.
_Step = tuple[Callable[..., bytes], int, int]


class StepEncoder:
    """Encodes the records of one part, in order; `MAGIC` goes before the first."""

    def __init__(self) -> None:
        self._sent = SentSignatures()
        self._writing = Writing()
        # By the signatures of request and answer.
        self._steps: dict[tuple[bytes, bytes], _Step] = {}

    def encode(self, kind: Kind, at_ns: int, value: Any) -> bytes:
        """Encode a record, as `encode_body` does, with its head."""
        body = self.encode_body(kind, at_ns, value)
        return HEAD.pack(len(body), zlib.crc32(body)) + body

    def encode_body(self, kind: Kind, at_ns: int, value: Any) -> bytes:
        """Encode a record without its head.

        Args:
            kind: What it is about.
            at_ns: Unix time in nanoseconds.
            value: Its members.

        Raises:
            UnsupportedValue: The value has no binary form; nothing has changed.
            ValueError: The record would have more than `MAX_RECORD_BYTES`.
        """
        signature, leaves = self._writing.split(value)
        values = b"".join(leaves)
        size = _START + 8 + len(signature) + len(values)
        if size > MAX_RECORD_BYTES:
            raise ValueError(
                f"a record would have {size} bytes: expected {MAX_RECORD_BYTES} at most"
            )
        return BODY.pack(kind, at_ns) + self._sent.header(signature) + values

    def encode_step(
        self, at_ns: int, request: FastRequest, answer: FastAnswer
    ) -> bytes | None:
        """Encode a step from its messages, to the same bytes as `encode_body`.

        Args:
            at_ns: Unix time in nanoseconds.
            request: The request.
            answer: The answer.

        Returns:
            The bytes; ``None`` if the record has to be encoded from its members.
        """
        known = self._steps.get((request[4], answer[1]))
        if known is None:
            self._learn(request, answer)
            return None
        pack, number, info_bytes = known
        leaves = answer[2]
        if info_bytes:
            leaves = leaves[info_bytes:] + leaves[:info_bytes]
        return pack(_STEP, at_ns, 0, number, request[5], leaves)

    def _learn(self, request: FastRequest, answer: FastAnswer) -> None:
        """Learn the signature of steps; their leaves always have as many bytes."""
        found = _step_signature(request[4], answer[1])
        number = None if found is None else self._sent.numbers.get(found[0])
        if found is None or number is None:
            return
        body = struct.Struct(f"{_STEP_START}{len(request[5])}s{len(answer[2])}s")
        if len(self._steps) >= MAX_NUMBERS:
            self._steps.clear()
        self._steps[request[4], answer[1]] = body.pack, number, found[1]


@lru_cache(maxsize=64)
def _step_signature(
    request_signature: bytes, answer_signature: bytes
) -> tuple[bytes, int] | None:
    """Return the signature of the record of a step, and the bytes of its info.

    Its leaves are those of the action, and of the answer with the info at the end.
    """
    try:
        given, results = parse(request_signature), parse(answer_signature)
        ((name, action),), members = given["dict"], results["dict"]
        if name != "action" or [each for each, _ in members] != _RESULTS:
            return None
        for tree in (given, results):
            fixed_size(tree)
        info_bytes = fixed_size(members[0][1])
    except (Unfit, BadValue, KeyError, RecursionError, TypeError, ValueError):
        return None
    text = _json({"dict": [["action", action], *members[1:], members[0]]}).encode()
    return text + b" " * (-len(text) % 8), info_bytes


class StepDecoder:
    """Decodes the records of one part from its bytes, in pieces of any size.

    A cut or damaged record ends the decoding without an error.

    Attributes:
        ended: Whether further bytes are ignored: the end was reached, or damage.
    """

    def __init__(self) -> None:
        self._received = ReceivedSignatures()
        self._rest = bytearray()
        self._begun = False
        self._damaged = False
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether all that was written so far could be decoded."""
        return self._begun and not self._damaged and not self._rest

    def feed(self, data: bytes | memoryview) -> list[Record]:
        """Decode further bytes of a part; return the records that they complete.

        Raises:
            BadValue: The bytes are no recording, or one of another version.
        """
        records: list[Record] = []
        for body in self.feed_bodies(data):
            if (record := self.decode(body)) is None:
                break
            records.append(record)
        return records

    def feed_bodies(self, data: bytes | memoryview) -> list[bytes]:
        """Do as `feed`, but return the bytes of each record, from its kind on.

        Raises:
            BadValue: The bytes are no recording, or one of another version.
        """
        if self.ended:
            return []
        self._rest += data
        if not self._begun and not self._begin():
            return []
        bodies: list[bytes] = []
        # A slice of a view is copied once, and that of a bytearray twice.
        with memoryview(self._rest) as rest:
            start = self._read_whole(rest, bodies)
        del self._rest[:start]
        return bodies

    def decode(self, body: bytes) -> Record | None:
        """Decode a record from its bytes; ``None`` if it is damaged.

        Records that were left out must not be the first ones of their signature.
        """
        kind, at_ns = BODY.unpack_from(body)
        try:
            # A copy: arrays of a value are views, which need their alignment.
            value = self._received.read(body[BODY.size :], 0)
            return Record(_KINDS[kind], at_ns, value)
        except (KeyError, ValueError):
            self._damage()
            return None

    def _read_whole(self, rest: memoryview, bodies: list[bytes]) -> int:
        """Append the bodies of whole records; return the bytes that these have."""
        start, most = 0, len(rest)
        while not self.ended and most >= start + HEAD.size:
            size, checksum = HEAD.unpack_from(rest, start)
            if not size:
                self.ended = True
                return most
            end = start + HEAD.size + size
            if not BODY.size <= size <= MAX_RECORD_BYTES:
                self._damage()
            elif most < end:
                break
            else:
                body = bytes(rest[start + HEAD.size : end])
                if zlib.crc32(body) != checksum:
                    self._damage()
                    break
                bodies.append(body)
                start = end
        return start

    def _begin(self) -> bool:
        if bytes(self._rest[: len(MAGIC)]) != MAGIC[: len(self._rest)]:
            raise BadValue(
                f"begins with {bytes(self._rest[:16])!r}: expected {MAGIC!r}, the "
                "beginning of a steps.gym of version 1"
            )
        if len(self._rest) < len(MAGIC):
            return False
        del self._rest[: len(MAGIC)]
        self._begun = True
        return True

    def _damage(self) -> None:
        self._damaged = True
        self.ended = True
