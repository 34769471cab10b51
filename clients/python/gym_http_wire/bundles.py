"""Bundles: batches of samples in a row, each a frame with a small head.

A bundle is the body of a request or an answer, a segment of a spool, and the file in
which a relay keeps it. Each batch is a frame of kind `Op.BATCH`: its head is a
`BatchHead` in JSON, and its body has the bytes of the batch. `split` finds the batches
without copying their bodies.

This module does no I/O: bytes in, heads and positions out, and back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, NamedTuple

import msgspec
import xxhash

from gym_http_wire.frames import HEADER, MAX_HEAD_BYTES, Frame, FrameError
from gym_http_wire.messages import Op

__all__ = [
    "BUNDLE",
    "MAX_BATCH_BYTES",
    "MOST_BATCHES",
    "MOST_HEADS_BYTES",
    "BatchHead",
    "BatchPlace",
    "BundleError",
    "batch_ends",
    "batch_head",
    "checksum_of",
    "decode_batch_head",
    "encode_batch",
    "encode_batch_start",
    "hash_for",
    "is_intact",
    "split",
    "split_from",
]

#: Media type of a bundle.
BUNDLE = "application/vnd.gym-http.bundle"
#: The largest body that a frame can announce.
MAX_BATCH_BYTES = 2**32 - 1
#: Batches in the bundle of a request, which a relay stores in about 50 ms.
MOST_BATCHES = 4096
#: Bytes of all their heads together, which take time to parse, too.
MOST_HEADS_BYTES = 8 * 1024 * 1024

# Larger numbers lose digits in JavaScript.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
_Session = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
_MediaType = Annotated[str, msgspec.Meta(pattern=r"\A[!-~][ -~]{0,254}\Z")]
_Token = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9-]{0,32}\Z")]
_Digest = Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{64})?\Z")]
_Checksum = Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{16})?\Z")]
_Name = Annotated[str, msgspec.Meta(max_length=256)]


class BundleError(FrameError):
    """The bytes are not a bundle.

    Args:
        message: The error.
        offset: Position of the frame with the error; the batches before it are fine.
    """

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(f"{message} (batch at byte {offset} of the bundle)")
        self.offset = offset


class BatchHead(msgspec.Struct, omit_defaults=True, gc=False):
    """The head of a batch.

    A sender sets the members up to `digest`, and `checksum`; a relay sets the others.

    Attributes:
        session: The session that numbers the batch.
        number: Its number in the session, from 1.
        policy: Version of the weights that acted; 0 is before any.
        count: Number of transitions.
        dropped: Number of batches just before this one that the session dropped.
        content_type: Media type of the body, before it was packed.
        packing: How the body is packed, as "deflate"; "" if it is not.
        unpacked: Bytes of the body before it was packed; 0 if it is not packed.
        digest: SHA-256 of the body as it is in the bundle, in hex digits; "" if it is
            not known.
        position: Position in the log of the run, from 1.
        worker: Name of the worker.
        lag: Number of versions that were newer than `policy` when the batch arrived.
        stale: Whether that is more than the run allows.
        received: When the batch arrived, in seconds since 1970.
        lease: ID of the lease by which the batch is delivered.
        delivery: Number of the delivery, from 1; 0 without a lease.
        checksum: XXH3 of the body, 64 bits in hex digits, as its specification writes
            them; "" if it is not known. It takes a tenth of the time of `digest`, and
            shows damage, but not what somebody changed on purpose. With a `digest` it
            is ignored.
    """

    session: _Session
    number: _Number
    policy: _Count
    count: _Count
    dropped: _Count = 0
    content_type: _MediaType = "application/octet-stream"
    packing: _Token = ""
    unpacked: _Count = 0
    digest: _Digest = ""
    position: _Count = 0
    worker: _Name = ""
    lag: _Count = 0
    stale: bool = False
    received: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    lease: _Name = ""
    delivery: _Count = 0
    checksum: _Checksum = ""


class BatchPlace(NamedTuple):
    """A batch in a bundle.

    Attributes:
        head: Its head.
        offset: Position of its body in the bundle.
        size: Bytes of its body.
    """

    head: BatchHead
    offset: int
    size: int

    @property
    def end(self) -> int:
        """Position after its body, where the next batch begins."""
        return self.offset + self.size


_BATCH = int(Op.BATCH)
_encode_head = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(BatchHead).decode


def checksum_of(parts: Iterable[bytes | memoryview]) -> str:
    """Return the `checksum` of a body in parts."""
    found = xxhash.xxh3_64()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def hash_for(head: BatchHead) -> Any:
    """Return a hash for the body of a batch, as those of `hashlib`.

    It is XXH3 if the head has a checksum and no digest, and SHA-256 otherwise.
    """
    return xxhash.xxh3_64() if head.checksum and not head.digest else hashlib.sha256()


def is_intact(head: BatchHead, body: bytes | memoryview) -> bool:
    """Return whether a body is the one that the digest or checksum of a head names."""
    found = hash_for(head)
    found.update(body)
    return bool(found.hexdigest() == (head.digest or head.checksum))


def encode_batch_start(head: BatchHead, size: int) -> bytes:
    """Encode a batch up to its body, for senders that do not copy bodies.

    Args:
        head: The head.
        size: Bytes of the body, which must follow.

    Raises:
        BundleError: Head or body is larger than a frame allows.
    """
    encoded = _encode_head(head)
    encoded += b" " * (-len(encoded) % 8)
    if len(encoded) > MAX_HEAD_BYTES:
        raise BundleError(
            f"the head has {len(encoded)} bytes; the limit is {MAX_HEAD_BYTES}"
        )
    if size > MAX_BATCH_BYTES:
        raise BundleError(f"the body has {size} bytes; the limit is {MAX_BATCH_BYTES}")
    return HEADER.pack(size, len(encoded), 0, Op.BATCH, 0, 0) + encoded


def encode_batch(head: BatchHead, body: bytes) -> bytes:
    """Encode a batch; a bundle is any number of them in a row.

    Raises:
        BundleError: Head or body is larger than a frame allows.
    """
    return encode_batch_start(head, len(body)) + body


def batch_head(frame: Frame) -> BatchHead:
    """Decode the head of a batch that was received as a frame.

    Raises:
        BundleError: The frame is not a batch.
    """
    if frame.kind != Op.BATCH:
        raise BundleError(f"the frame is of kind {frame.kind}: expected {Op.BATCH:d}")
    return decode_batch_head(frame.head)


def split(
    data: bytes | bytearray | memoryview, max_body_bytes: int = MAX_BATCH_BYTES
) -> Iterator[BatchPlace]:
    """Iterate over the batches of a bundle, without copying their bodies.

    Args:
        data: The bundle: bytes, or another buffer, such as a view of a mapped file.
        max_body_bytes: A larger batch is an error.

    Raises:
        BundleError: The bytes are not a bundle. The batches before the error were
            returned: to store all or none, a caller lists them first.
    """
    view = memoryview(data).cast("B")
    total, header_size = len(view), HEADER.size
    unpack, new = HEADER.unpack_from, tuple.__new__
    start = 0
    while start < total:
        if total - start < header_size:
            raise BundleError(_ends_early(total - start, header_size), start)
        head_end, end = _ends(unpack(view, start), start, total, max_body_bytes)
        head = decode_batch_head(view[start + header_size : head_end], start)
        # Without the call that BatchPlace(…) makes: bundles have thousands of batches.
        yield new(BatchPlace, (head, head_end, end - head_end))
        start = end


def split_from(
    read: Callable[[int, int], bytes | memoryview],
    total: int,
    max_body_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[BatchPlace]:
    """Iterate over the batches of a bundle of which only the heads are read.

    Args:
        read: Returns the bytes at a position, given the position and their number.
        total: Bytes of the bundle.
        max_body_bytes: A larger batch is an error.

    Raises:
        BundleError: As for `split`.
    """
    start = 0
    while start < total:
        header = read(start, HEADER.size)
        if len(header) < HEADER.size:
            raise BundleError(_ends_early(total - start, HEADER.size), start)
        head_end, end = _ends(HEADER.unpack(header), start, total, max_body_bytes)
        at = start + HEADER.size
        yield BatchPlace(
            decode_batch_head(read(at, head_end - at), start),
            head_end,
            end - head_end,
        )
        start = end


def _ends(
    header: tuple[int, ...], start: int, total: int, max_body_bytes: int
) -> tuple[int, int]:
    """Return where the head and the body of a batch end.

    Args:
        header: The unpacked header.
        start: Where the batch starts.
        total: Bytes of the bundle.
        max_body_bytes: A larger batch is an error.

    Raises:
        BundleError: The header is not that of a batch, or the batch is cut off.
    """
    size, head_size, status, kind, form, number = header
    if kind != _BATCH or status or form or number:
        raise BundleError(
            f"a frame of kind {kind}, status {status}, form {form} and number "
            f"{number} is not a batch: expected kind {Op.BATCH:d}, and zeros",
            start,
        )
    if size > max_body_bytes:
        raise BundleError(
            f"a batch announces {size} bytes; the limit is {max_body_bytes}", start
        )
    if head_size > MAX_HEAD_BYTES or head_size % 8:
        raise BundleError(
            f"a batch announces a head of {head_size} bytes: expected a multiple "
            f"of 8 up to {MAX_HEAD_BYTES}",
            start,
        )
    head_end = start + HEADER.size + head_size
    if head_end + size > total:
        needed = HEADER.size + head_size + size
        raise BundleError(_ends_early(total - start, needed), start)
    return head_end, head_end + size


def batch_ends(data: bytes | memoryview, most: int = MOST_BATCHES) -> list[int]:
    """Return where the first whole batches of a piece of a bundle end.

    Only headers are read, which is much faster than `split`. The last batch may be cut
    off, and is left out then.

    Args:
        data: The piece.
        most: Batches that are looked at.

    Raises:
        BundleError: The piece does not begin with a batch, or has something else in it.
    """
    ends: list[int] = []
    start, total, kind = 0, len(data), Op.BATCH
    unpack, header_size = HEADER.unpack_from, HEADER.size
    while start + header_size <= total and len(ends) < most:
        size, head_size, _, found, _, _ = unpack(data, start)
        if found != kind:
            raise BundleError(f"a frame of kind {found} is not a batch", start)
        start += header_size + head_size + size
        if start > total:
            break
        ends.append(start)
    return ends


def decode_batch_head(encoded: bytes | memoryview, start: int = 0) -> BatchHead:
    """Decode the head of a batch.

    Args:
        encoded: Its bytes, with the blanks at their end.
        start: Position of the batch in a bundle, for the error.

    Raises:
        BundleError: It is malformed.
    """
    try:
        head = _decode_head(encoded)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"the head of a batch is malformed: {error}", start) from None
    if bool(head.packing) != bool(head.unpacked):
        raise BundleError(
            f"the head of a batch has packing {head.packing!r} and unpacked "
            f"{head.unpacked}: expected both or neither",
            start,
        )
    return head


def _ends_early(got: int, needed: int) -> str:
    return f"a batch ends after {got} of {needed} bytes"
