"""Requests to the relay, its answers, and its settings.

A request has a `RelayHead` and a small body; a large body is a file, which the head
names. With a bundle in a file come the digests of its larger batches. Most answers are
JSON. Bundles, weights and checkpoints are `BodyPieces`: parts of files, whose
descriptors arrive with the frame, and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from gym_http_wire.bundles import BUNDLE, MOST_BATCHES
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    AnswerHead,
    Form,
    Op,
    answer,
    media_type_of,
    problem_answer,
)
from gym_http_wire.problems import Problem

__all__ = [
    "ADMITTED",
    "MOST_DIGESTS_BYTES",
    "MOST_FILES",
    "BodyPieces",
    "Piece",
    "RelayHead",
    "RelaySettings",
    "digests_body",
    "digests_of",
    "is_bundle",
    "pieces_answer",
    "pieces_of",
    "relay_problem",
    "relay_request",
    "request_of",
]

#: Files that one answer may refer to.
MOST_FILES = 200
#: The requests that upload, which `Op.RELAY_ADMIT` may ask about.
ADMITTED = (Op.SAMPLES_PUT, Op.WEIGHTS_PUT, Op.STATE_PUT, Op.RECORDS_PUT)
_SIZE = struct.Struct("<I")
_DIGEST = struct.Struct("<IB32s")
#: The longest body of a request whose bundle is in a file.
MOST_DIGESTS_BYTES = MOST_BATCHES * _DIGEST.size


class RelaySettings(msgspec.Struct, frozen=True):
    """The relay's settings.

    Attributes:
        folder: Its directory.
        disk_limit: Bytes that it may use on the disk.
        max_upload: Bytes that one body may have.
        max_body: Bytes that a body in a frame may have.
    """

    folder: str
    disk_limit: int
    max_upload: int
    max_body: int


class RelayHead(msgspec.Struct, omit_defaults=True):
    """The head of a request to the relay.

    Attributes:
        run: Name of the run; "" if the request is about none.
        token: SHA-256 in hex of the run token that the caller showed; "" if the
            caller's identity has the scope for all runs.
        value: The last part of the path, where it is an argument: ID of a token or a
            session, name of a reader, version of weights or "best".
        args: The checked members of the query, and `wait_s` of a body.
        key: The idempotency key, or "".
        file: Name of the file with the body; "" if the body is in the frame.
        size: Bytes of the body; of one that was not read yet -1, if that is unknown.
        digest: SHA-256 of the body in hex.
        content_type: Media type of the body.
        owner: Name of the caller's identity; "" if it has none, or with the token of a
            run.
    """

    run: str = ""
    token: str = ""
    value: str = ""
    args: dict[str, Any] = {}
    key: str = ""
    file: str = ""
    size: int = 0
    digest: str = ""
    content_type: str = ""
    owner: str = ""


class Piece(NamedTuple):
    """Consecutive bytes of an answer's body.

    Attributes:
        file: Number of the file among the descriptors of the answer; -1 for the bytes
            that are in the frame.
        offset: Where the piece begins in the file, or in those bytes.
        size: Its bytes.
    """

    file: int
    offset: int
    size: int


class BodyPieces(NamedTuple):
    """The body of an answer: pieces, in their order, and the bytes in the frame."""

    pieces: list[Piece]
    inline: memoryview

    @property
    def size(self) -> int:
        """Bytes of the whole body."""
        return sum(piece.size for piece in self.pieces)


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(RelayHead).decode
_decode_pieces = msgspec.json.Decoder(list[Piece]).decode


def relay_request(op: Op, head: RelayHead, body: bytes = b"") -> Frame:
    """Make the frame of a request."""
    return Frame(op, 0, 0, Form.OTHER, _encode(head), body)


def request_of(frame: Frame) -> RelayHead:
    """Decode the head of a request.

    Raises:
        msgspec.MsgspecError: It is malformed.
    """
    return _decode_head(frame.head) if frame.head else RelayHead()


def is_bundle(content_type: str) -> bool:
    """Return whether a body of this media type is a bundle."""
    return media_type_of(content_type) == BUNDLE


def digests_body(digests: Iterable[tuple[int, bytes]]) -> bytes:
    """Make the body of a request whose bundle is in a file.

    Args:
        digests: SHA-256 or XXH3 of batches that a web worker has computed, behind the
            number of the batch in the bundle, from 0.
    """
    return b"".join(_DIGEST.pack(at, len(each), each) for at, each in digests)


def digests_of(body: bytes) -> dict[int, bytes]:
    """Decode the body of a request whose bundle is in a file.

    Returns:
        SHA-256 or XXH3 by the number of the batch.

    Raises:
        ValueError: It is malformed.
    """
    if len(body) % _DIGEST.size:
        raise ValueError(f"digests of batches end after {len(body)} bytes")
    found = _DIGEST.iter_unpack(body)
    return {number: digest[:size] for number, size, digest in found}


def pieces_answer(
    pieces: list[Piece], inline: bytes, head: AnswerHead, status: int = 200
) -> Frame:
    """Make the frame of an answer whose body is in pieces; its form is `Form.OTHER`.

    Descriptors of the files, in their order, are sent with it.
    """
    index = _encode(pieces)
    body = b"".join((_SIZE.pack(len(index)), index, inline))
    return answer(status, body, head, form=Form.OTHER)


def pieces_of(frame: Frame) -> BodyPieces:
    """Decode the body of an answer in the form `Form.OTHER`.

    Raises:
        ValueError: It is malformed.
    """
    view = memoryview(frame.body)
    (size,) = _SIZE.unpack_from(view)
    start = _SIZE.size + size
    index = _decode_pieces(view[_SIZE.size : start])
    return BodyPieces(index, view[start:])


def relay_problem(problem: Problem) -> Frame:
    """Make the frame of an answer that reports a problem, with its headers."""
    frame = problem_answer(problem)
    if not problem.headers:
        return frame
    return frame._replace(head=_encode(AnswerHead(headers=problem.headers)))
