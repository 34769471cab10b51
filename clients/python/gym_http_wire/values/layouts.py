"""Generated codec of values with arrays of objects, most of which are ``None``.

A vector returns the last observations of ended episodes in an array of objects, with
``None`` for the other environments. So the signatures of such steps differ in their
lists of items, and most of them are new. A layout is the rest of these signatures: one
generated reader and writer serve all of them.

Gain: without it a step of 64 environments whose episodes end takes 1.18 times as long
(``vector64_ends_p50``; measure with ``python -m benchmarks --without layouts``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from gym_http_wire.values.binary import compile_reader
from gym_http_wire.values.fixed import (
    MAX_RECORD_BYTES,
    Code,
    Objects,
    Reader,
    Unfit,
    code_of,
    fixed_reader,
    fixed_writer,
)
from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.texts import parse

__all__ = ["Layout", "Layouts"]

# For each array of objects: whether each item is there, and not ``None``.
_Pattern = tuple[tuple[bool, ...], ...]

_ARRAY = b'{"oa":['
_NONE = b'"none"'
_ONE = ord("1")
_MAX_LAYOUTS = 4
_MAX_TRIED = 32
_MAX_SIGNATURE_BYTES = 16 * 1024
_MAX_PATTERNS = 256

_encode = msgspec.json.Encoder().encode


class _Items(NamedTuple):
    """The items of an array of objects.

    Attributes:
        length: Number of items.
        signature: Signature of those that are not ``None``.
        size: Bytes of the leaves of one of them.
        after: The text between the items of this array and those of the next, or the
            end of the value's signature.
    """

    length: int
    signature: bytes
    size: int
    after: bytes


class Layout:
    """Reads and writes values whose signatures differ only in which items are ``None``.

    Args:
        signature: One of the signatures; it is valid.

    Raises:
        Unfit: There is no generated code for it.
    """

    def __init__(self, signature: bytes) -> None:
        code, made = code_of(parse(signature))
        self._before, self._arrays = _split(signature.rstrip(b" "), code.objects)
        records = [each.compiled() for each in code.records]
        self._size = sum(each.size for each in records)
        if not self._arrays or self._size > MAX_RECORD_BYTES:
            raise Unfit
        self._signatures: dict[_Pattern, bytes] = {}
        code.names |= {"join": b"".join, "empty": np.empty}
        for index, record in enumerate(records):
            code.names[f"pack{index}"] = record.pack
            code.names[f"unpack{index}"] = record.unpack_from
        for index, each in enumerate(self._arrays):
            item = each.signature
            code.names[f"write{index}"] = fixed_writer(item)
            code.names[f"read{index}"] = fixed_reader(item, compile_reader(item))
        self._write = code.made(_writer_source(code))
        sizes = [each.size for each in records]
        self._read = code.made(_reader_source(code, made, sizes, self._arrays))

    def write(self, value: Any) -> tuple[bytes, bytes] | None:
        """Return signature and leaves of a value; ``None`` if it does not fit."""
        try:
            written = self._write(value)
        except TypeError:
            # An item has another signature.
            return None
        if written is None:
            return None
        leaves, pattern = written
        return self._signatures.get(pattern) or self._signature(pattern), leaves

    def _signature(self, pattern: _Pattern) -> bytes:
        """Return the signature of a pattern, padded with blanks to a multiple of 8."""
        parts = [self._before]
        for present, each in zip(pattern, self._arrays, strict=True):
            items = [each.signature if there else _NONE for there in present]
            parts += b",".join(items), each.after
        signature = b"".join(parts)
        signature += b" " * (-len(signature) % 8)
        if len(self._signatures) >= _MAX_PATTERNS:
            self._signatures.clear()
        self._signatures[pattern] = signature
        return signature

    def reader(self, signature: bytes) -> Reader | None:
        """Return the reader of a signature; ``None`` if it is not of this layout."""
        places = self._places(signature)
        if places is None:
            return None
        made = self._read
        pairs = zip(places, self._arrays, strict=True)
        size = self._size + sum(len(some) * each.size for some, each in pairs)

        def read(data: bytes | memoryview, start: int) -> Any:
            if len(data) == start + size:
                try:
                    return made(data, start, places)
                except (KeyError, BadValue):
                    pass
            # The general reader has the words for the error.
            return compile_reader(signature)(data, start)

        return read

    def _places(self, signature: bytes) -> list[list[int]] | None:
        """Return the indices of the items that are not ``None``, for each array."""
        if not signature.startswith(self._before):
            return None
        rest = signature.rstrip(b" ")[len(self._before) :]
        places = []
        for each in self._arrays:
            items, after, rest = _cut(rest, each.after, each is self._arrays[-1])
            flags = items.replace(each.signature, b"1").replace(_NONE, b"0")
            places.append([at for at, flag in enumerate(flags[::2]) if flag == _ONE])
            present, commas = len(places[-1]), each.length - 1
            size = present * len(each.signature) + (each.length - present) * len(_NONE)
            if (
                not after
                or len(items) != size + commas
                or len(flags) != each.length + commas
                or flags[1::2] != b"," * commas
            ):
                return None
        return places


def _cut(text: bytes, end: bytes, last: bool) -> tuple[bytes, bytes, bytes]:
    """Split a text at ``end``, which is at the end of the last text."""
    if not last:
        return text.partition(end)
    if not text.endswith(end):
        return text, b"", b""
    return text[: -len(end)], end, b""


def _split(signature: bytes, arrays: list[Objects]) -> tuple[bytes, list[_Items]]:
    """Split a signature around the items of its arrays of objects.

    Raises:
        Unfit: Its items have different signatures, or are not of constant size.
    """
    texts, found = [], []
    for array in arrays:
        sizes, items = array.content
        head = _ARRAY + _encode(sizes) + b",["
        item_texts = [_encode(each) for each in items]
        before, middle, signature = signature.partition(
            head + b",".join(item_texts) + b"]]}"
        )
        kinds = set(item_texts) - {_NONE}
        if not middle or len(kinds) != 1:
            raise Unfit
        texts.append(before + head)
        signature = b"]]}" + signature
        (item,) = kinds
        if fixed_writer(item) is None:
            raise Unfit
        record = code_of(parse(item))[0].records[0].compiled()
        found.append((len(items), item, record.size))
    texts.append(signature)
    after = texts[1:]
    return texts[0], [
        _Items(*each, text) for each, text in zip(found, after, strict=True)
    ]


def _writer_source(code: Code) -> str:
    lines = ["def made(value):", *code.checks]
    written = []
    for index, record in enumerate(code.records):
        if record.names:
            written.append(f"pack{index}({', '.join(record.written)})")
        if index < len(code.objects):
            array = code.objects[index].written
            lines.append(f"    i{index} = {array}.tolist()")
            written.append(
                f"*[write{index}(each) for each in i{index} if each is not None]"
            )
    patterns = [
        f"tuple([each is not None for each in i{index}])"
        for index in range(len(code.objects))
    ]
    lines.append(f"    return join(({', '.join(written)},)), ({', '.join(patterns)},)")
    return "\n".join(lines) + "\n"


def _reader_source(
    code: Code, made: str, sizes: list[int], arrays: list[_Items]
) -> str:
    lines = ["def made(data, start, places):"]
    for index, record in enumerate(code.records):
        if record.names:
            names = ", ".join(record.names)
            lines.append(f"    {names}, = unpack{index}(data, start)")
            lines.append(f"    start += {sizes[index]}")
        if index < len(arrays):
            array, item = code.objects[index].read, arrays[index]
            lines += [
                f"    {array} = empty({item.length}, 'O')",
                f"    for at in places[{index}]:",
                f"        end = start + {item.size}",
                f"        {array}[at] = read{index}(data[start:end], 0)",
                "        start = end",
            ]
    lines.append(f"    return {made}")
    return "\n".join(lines) + "\n"


class Layouts:
    """The layouts of the values in one direction of a stream.

    It makes a layout when signatures repeat up to their first array of objects.
    """

    def __init__(self) -> None:
        self._layouts: list[Layout] = []
        self._begun: set[bytes] = set()
        self._tried = 0

    def write(self, value: Any) -> tuple[bytes, bytes] | None:
        """Return signature and leaves of a value; ``None`` if it has no layout."""
        for layout in self._layouts:
            written = layout.write(value)
            if written is not None:
                return written
        return None

    def reader(self, signature: bytes) -> Reader | None:
        """Return a reader of a signature; ``None`` if it has no layout."""
        for layout in self._layouts:
            reader = layout.reader(signature)
            if reader is not None:
                return reader
        return None

    def learn(self, signature: bytes) -> None:
        """Make a layout of a valid signature without one, if such signatures repeat."""
        end = signature.find(_ARRAY)
        if end < 0 or len(signature) > _MAX_SIGNATURE_BYTES:
            return
        begin = signature[:end]
        if begin not in self._begun:
            if len(self._begun) < _MAX_TRIED:
                self._begun.add(begin)
            return
        if self._tried >= _MAX_TRIED:
            return
        self._tried += 1
        try:
            layout = Layout(signature)
        except Unfit:
            return
        self._layouts = [layout, *self._layouts[: _MAX_LAYOUTS - 1]]
