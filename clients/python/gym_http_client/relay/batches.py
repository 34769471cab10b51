"""Batches: columns of transitions as bytes, and back.

The columns of an episode have the names that ``rollout`` answers: ``observations``,
``actions``, ``rewards``, ``terminated``, ``truncated``, ``infos``, ``length`` and
``return``. Further columns may be added, such as ``log_probability``.

Pickles are never loaded.
"""

from __future__ import annotations

import importlib
import json
import warnings
import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np

from gym_http_wire.bundles import BatchHead, split
from gym_http_wire.messages import MEDIA_TYPES, Form, media_type_of
from gym_http_wire.values import BadValue, UnsupportedValue, binary, typed
from gym_http_wire.values.infos import with_unsent

__all__ = [
    "COLUMNS_TYPE",
    "MAX_UNPACKED",
    "BadBatch",
    "Batch",
    "Packing",
    "batches_of",
    "decode_columns",
    "encode_columns",
    "encode_columns_in_parts",
    "pack",
    "unpack",
]

#: Media type of the columns that Python workers send: the binary form of values.
COLUMNS_TYPE = MEDIA_TYPES[Form.BINARY]
#: The largest batch that is unpacked, in bytes.
MAX_UNPACKED = 1024 * 1024 * 1024

Packing = Literal["", "deflate", "zstd"]

_TYPED, _PLAIN = MEDIA_TYPES[Form.TYPED], MEDIA_TYPES[Form.PLAIN]
# As programs name it: application/x-pickle, application/python-pickle.
_PICKLE = "pickle"
# Faster than the network, and nearly as small as the slow levels.
_LEVEL = 1


class BadBatch(ValueError):
    """The bytes of a batch are not what its head announces."""


class Batch:
    """A batch of samples, as the relay delivers it.

    Args:
        head: The head.
        body: The body as it is in the bundle.

    Attributes:
        head: The head, for the rarer members.
        worker: Name of the worker.
        policy_version: Version of the weights that acted.
        lag: Number of versions that were newer when the batch arrived.
        stale: Whether that is more than the run allows.
        position: Position in the log of the run.
        count: Number of transitions.
    """

    def __init__(self, head: BatchHead, body: bytes | memoryview) -> None:
        self.head = head
        self.worker = head.worker
        self.policy_version = head.policy
        self.lag = head.lag
        self.stale = head.stale
        self.position = head.position
        self.count = head.count
        self._body = body

    def __repr__(self) -> str:
        return (
            f"Batch(position={self.position}, worker={self.worker!r}, "
            f"policy_version={self.policy_version}, lag={self.lag}, count={self.count})"
        )

    @property
    def content_type(self) -> str:
        """Media type of the data."""
        return self.head.content_type

    @cached_property
    def data(self) -> bytes:
        """The bytes of the batch, unpacked.

        Raises:
            BadBatch: They cannot be unpacked.
            ModuleNotFoundError: They are packed with zstd, and zstandard is missing.
        """
        return unpack(self._body, self.head.packing, self.head.unpacked)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns of the batch by name; arrays where values have one dtype.

        Raises:
            BadBatch: The media type has no columns, or the bytes are malformed.
        """
        data = self.data if self.head.packing else self._body
        return decode_columns(data, self.content_type)

    def check(self) -> None:
        """Decode the batch now, as far as its media type is known.

        Raises:
            BadBatch: It is a pickle, or its bytes are malformed.
            ModuleNotFoundError: As for `data`.
        """
        kind = media_type_of(self.content_type)
        if kind in (COLUMNS_TYPE, _TYPED, _PLAIN) or _PICKLE in kind:
            # It is cached.
            _ = self.columns
        else:
            _ = self.data


def batches_of(bundle: bytes | memoryview) -> list[Batch]:
    """Return the batches of a bundle; their bodies are decoded when they are used.

    Raises:
        BundleError: The bytes are not a bundle.
    """
    view = memoryview(bundle)
    places = list(split(bundle))
    if len(places) > 1:
        # An array in the bundle's memory would keep the memory of all other batches.
        view = view.toreadonly()
    return [Batch(each.head, view[each.offset : each.end]) for each in places]


def encode_columns(columns: Mapping[str, Any]) -> bytes:
    """Encode columns in the binary form of values.

    Raises:
        UnsupportedValue: A value cannot be encoded.
    """
    return b"".join(encode_columns_in_parts(columns))


def encode_columns_in_parts(columns: Mapping[str, Any]) -> list[bytes | memoryview]:
    """Encode columns as the parts of what `encode_columns` returns.

    `Unsent` stands for values of infos that cannot be encoded.

    Large arrays are not copied: use the parts before they change.

    Raises:
        UnsupportedValue: A value cannot be encoded.
    """
    try:
        return binary.encode_parts(dict(columns))
    except UnsupportedValue as error:
        sendable, replaced = with_unsent(columns)
        if not replaced:
            raise error from None
    warnings.warn(f"{replaced}: it becomes Unsent, with its repr", stacklevel=2)
    return binary.encode_parts(sendable)


def decode_columns(data: bytes | memoryview, content_type: str) -> dict[str, Any]:
    """Decode the columns of a batch.

    Args:
        data: The bytes, unpacked.
        content_type: Their media type: the binary form, typed JSON or plain JSON. Lists
            of numbers of plain JSON become arrays.

    Returns:
        The columns. Large arrays of the binary form use the memory of writeable data.

    Raises:
        BadBatch: The media type is another one, or the bytes are malformed.
    """
    kind = media_type_of(content_type)
    if _PICKLE in kind:
        raise BadBatch(
            f"the batch is a pickle ({content_type}), which could execute any code, so "
            f"it is not loaded: send columns as {COLUMNS_TYPE}"
        )
    try:
        if kind == COLUMNS_TYPE:
            found = binary.decode_in_place(data)
        elif kind == _TYPED:
            found = typed.decode(bytes(data))
        elif kind == _PLAIN:
            found = _arrays(json.loads(bytes(data)))
        else:
            raise BadBatch(
                f"the batch has the media type {content_type!r}, which has no columns: "
                f"expected {COLUMNS_TYPE}, {_TYPED} or {_PLAIN} "
                "(Batch.data has its bytes)"
            )
    except (
        BadValue,
        RecursionError,
        UnicodeDecodeError,
        json.JSONDecodeError,
    ) as error:
        raise BadBatch(f"the batch is not {kind}: {error}") from error
    if not isinstance(found, dict):
        raise BadBatch(f"the batch is {type(found).__name__}: expected columns by name")
    return found


def _arrays(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    return {name: _array(column) for name, column in found.items()}


def _array(column: Any) -> Any:
    """Convert a list of numbers, or of equally long lists, to an array."""
    if not isinstance(column, list) or not column:
        return column
    try:
        array = np.array(column)
    except (ValueError, OverflowError):
        return column
    return array if array.dtype.kind in "bif" else column


def pack(data: bytes, packing: Packing) -> bytes:
    """Compress the bytes of a batch.

    Raises:
        ModuleNotFoundError: zstd is wanted, and zstandard is missing.
        ValueError: The packing is unknown.
    """
    if packing == "deflate":
        return zlib.compress(data, _LEVEL)
    if packing == "zstd":
        return bytes(_zstandard().ZstdCompressor(level=_LEVEL).compress(data))
    if packing:
        raise ValueError(f"packing is {packing!r}: expected 'deflate', 'zstd' or ''")
    return data


def unpack(data: bytes | memoryview, packing: str, size: int) -> bytes:
    """Decompress the bytes of a batch; it stops at the announced size.

    Args:
        data: The packed bytes.
        packing: The packing, as in the head of the batch.
        size: The announced number of bytes.

    Raises:
        BadBatch: The bytes are malformed or of another size, or the packing is unknown.
        ModuleNotFoundError: They are packed with zstd, and zstandard is missing.
    """
    if not packing:
        return bytes(data)
    if size > MAX_UNPACKED:
        raise BadBatch(
            f"the batch announces {size} bytes after unpacking; "
            f"the limit is {MAX_UNPACKED}"
        )
    if packing == "deflate":
        found = _inflate(data, size)
    elif packing == "zstd":
        found = _unpack_zstd(data, size)
    else:
        raise BadBatch(
            f"the batch is packed with {packing!r}: expected deflate or zstd"
        )
    if len(found) != size:
        more = "more" if len(found) > size else f"only {len(found)}"
        raise BadBatch(
            f"the batch announces {size} bytes after unpacking; it has {more}"
        )
    return found


def _inflate(data: bytes | memoryview, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # One byte more shows that there is more than announced.
        found = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise BadBatch(f"the batch is not packed with deflate: {error}") from error
    if len(found) <= size and (not inflater.eof or inflater.unused_data):
        raise BadBatch("the batch is packed with deflate and cut off, or has a tail")
    return found


def _unpack_zstd(data: bytes | memoryview, size: int) -> bytes:
    zstandard = _zstandard()
    try:
        # A reader stops at the size wanted; `decompress` trusts the size in the data.
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            return bytes(reader.read(size + 1))
    except zstandard.ZstdError as error:
        raise BadBatch(f"the batch is not packed with zstd: {error}") from error


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "zstd needs zstandard, which is not installed: "
            "pip install 'gymnasium-http-client[zstd]'",
            name="zstandard",
        ) from None
