"""Generated codec: readers and writers for signatures of constant size.

Results of an environment have the same tree, types and shapes on nearly every step. The
leaves of such a signature are one record, and this module generates Python code that
reads and writes just that record. Values that are not exactly of the signature, and
bytes that need further checks, go to the general codec.

Gain: without it a step over a stream takes 1.66 times as long (``stream_same``, which
then has no fast frames either; measure with ``python -m benchmarks --without
generated-codec``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from gym_http_wire.values.arrays import read_dtype, read_shape
from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.signing import PADDING
from gym_http_wire.values.texts import parse

__all__ = [
    "MAX_RECORD_BYTES",
    "Code",
    "Reader",
    "Unfit",
    "Writer",
    "code_of",
    "fixed_reader",
    "fixed_size",
    "fixed_writer",
]

Reader = Callable[[bytes | memoryview, int], Any]
Writer = Callable[[Any], "bytes | None"]

#: A record is copied; larger arrays are better sent from their own memory.
MAX_RECORD_BYTES = 16 * 1024
_MAX_LEAVES = 64
# Kinds of dtypes for which any bytes are valid.
_PLAIN_KINDS = "iufc"
_BITS = b"\0\1"
# By the characters of dtypes: formats of words that scalars convert to without loss.
_WORDS = {np.dtype(np.int64).char: "q", np.dtype(np.float64).char: "d"}


class Unfit(Exception):
    """There is no generated code for the signature."""


class FixedRecord(NamedTuple):
    """Successive leaves of constant size.

    Attributes:
        formats: Their formats, as `struct` has them.
        names: The names of what is read.
        written: The expressions to write.
    """

    formats: list[str]
    names: list[str]
    written: list[str]

    def compiled(self) -> struct.Struct:
        """Compile the formats."""
        return struct.Struct("<" + "".join(self.formats))


class Objects(NamedTuple):
    """An array of objects.

    Attributes:
        content: Its shape, and the signatures of its items.
        written: Name of the array in the writer.
        read: Name of the array in the reader.
    """

    content: list[Any]
    written: str
    read: str


class Code:
    """Collects the generated expressions and statements for one signature.

    Attributes:
        names: Constants by name.
        checks: Statements that return ``None`` for values of other signatures.
        records: The leaves: before, between and after the arrays of objects.
        objects: The arrays of objects.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "array": np.ndarray,
            "of_bytes": np.frombuffer,
            "flag": {0: False, 1: True}.__getitem__,
            "bits": _bits,
            "bits_of": _bits_of,
        }
        self.checks: list[str] = []
        self.records = [FixedRecord([], [], [])]
        self.objects: list[Objects] = []
        self._leaves = 0
        self._locals = 0

    def name(self, value: object) -> str:
        """Add a constant; returns its name."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def local(self) -> str:
        """Return the name of a new local variable."""
        self._locals += 1
        return f"v{self._locals}"

    def leaf(self, format: str, written: str) -> str:
        """Add a leaf; returns the name of what is read."""
        if self._leaves >= _MAX_LEAVES:
            raise Unfit
        name = f"r{self._leaves}"
        self._leaves += 1
        record = self.records[-1]
        record.formats.append(format)
        record.names.append(name)
        record.written.append(written)
        return name

    def check(self, condition: str) -> None:
        """Add a condition that values of other signatures fulfil."""
        self.checks.append(f"    if {condition}: return None")

    def node(self, tree: Any, value: str) -> str:
        """Add a part of a value.

        Args:
            tree: The part's signature.
            value: Name of the part in the writer.

        Returns:
            The expression that makes the part in the reader.
        """
        if tree == "none":
            self.check(f"{value} is not None")
            return "None"
        if tree == "bool":
            self.check(f"{value} is not True and {value} is not False")
            return f"flag({self.leaf('Q', value)})"
        if tree == "int":
            self.check(f"type({value}) is not int")
            self.check(f"not {-(2**63)} <= {value} < {2**63}")
            return self.leaf("q", value)
        if tree == "float":
            self.check(f"type({value}) is not float")
            return self.leaf("d", value)
        if isinstance(tree, dict) and len(tree) == 1:
            ((tag, content),) = tree.items()
            known = _TAGS.get(tag)
            if known is not None:
                return known(self, content, value)
        raise Unfit

    def _bytes_of(self, dtype: np.dtype[Any], size: int, value: str) -> str:
        if dtype.kind in _PLAIN_KINDS:
            read = self.leaf(f"{size}s", f"{value}.tobytes()")
        elif dtype.kind == "b":
            read = f"bits({self.leaf(f'{size}s', f'bits_of({value})')})"
        else:
            raise Unfit
        padding = PADDING[size & 7]
        if padding:
            expected = self.name(padding)
            zeros = self.leaf(f"{len(padding)}s", expected)
            return f"({read} if {zeros} == {expected} else flag(2))"
        return read

    def array(self, content: Any, value: str) -> str:
        """Add an array."""
        name, sizes = content
        dtype = read_dtype(name)
        shape, count = read_shape(sizes, dtype.itemsize)
        if count * dtype.itemsize > MAX_RECORD_BYTES:
            raise Unfit
        kind, form = self.name(dtype), self.name(shape)
        self.check(f"type({value}) is not array")
        self.check(f"{value}.dtype != {kind} or {value}.shape != {form}")
        read = self._bytes_of(dtype, count * dtype.itemsize, value)
        if len(shape) == 1 and count:
            # In two thirds of the time.
            return f"of_bytes({read}, {kind}).copy()"
        return f"array({form}, {kind}, {read}).copy()"

    def array_of_objects(self, content: Any, value: str) -> str:
        """Add an array of objects; the leaves of its items are in no record."""
        shape, _ = read_shape(content[0], 8)
        if len(shape) != 1:
            raise Unfit
        self.check(f"type({value}) is not array or {value}.dtype.char != 'O'")
        self.check(f"{value}.shape != {self.name(shape)}")
        name = f"o{len(self.objects)}"
        self.objects.append(Objects(content, value, name))
        self.records.append(FixedRecord([], [], []))
        return name

    def scalar(self, content: Any, value: str) -> str:
        """Add a NumPy scalar."""
        dtype = read_dtype(content)
        if dtype.newbyteorder("=") != dtype:
            raise Unfit
        kind, of = self.name(dtype), self.name(dtype.type)
        self.check(f"type({value}) is not {of}")
        format = _WORDS.get(dtype.char)
        if format is not None:
            # In a fifth of the time.
            return f"{of}({self.leaf(format, value)})"
        read = self._bytes_of(dtype, dtype.itemsize, value)
        return f"array((), {kind}, {read})[()]"

    def members(self, content: Any, value: str) -> str:
        """Add a dict."""
        keys = [key for key, _ in content]
        if not all(type(key) is str for key in keys):
            raise Unfit
        self.check(f"type({value}) is not dict or len({value}) != {len(keys)}")
        if not keys:
            return "{}"
        self._keys(keys, value)
        return self._parts([tree for _, tree in content], f"{value}.values()", keys)

    def _keys(self, keys: list[str], value: str) -> None:
        """Check the keys of a dict, which mostly are the same objects each time."""
        found = [self.local() for _ in keys]
        known = [self.name(key) for key in keys]
        self.checks.append(f"    {', '.join(found)}, = {value}")
        new = " or ".join(map("{} is not {}".format, found, known))
        are_equal = self.name(
            partial(_are_equal, self.names, dict(zip(known, keys, strict=True)))
        )
        self.check(f"({new}) and not {are_equal}({', '.join(found)})")

    def items(self, content: Any, value: str) -> str:
        """Add a list."""
        return self._sequence("list", content, value)

    def tuple(self, content: Any, value: str) -> str:
        """Add a tuple."""
        return self._sequence("tuple", content, value)

    def _sequence(self, kind: str, content: Any, value: str) -> str:
        self.check(f"type({value}) is not {kind} or len({value}) != {len(content)}")
        if not content:
            return f"{kind}()"
        return f"{kind}({self._parts(content, value, None)})"

    def _parts(self, trees: list[Any], value: str, keys: list[str] | None) -> str:
        names = [self.local() for _ in trees]
        self.checks.append(f"    {', '.join(names)}, = {value}")
        made = [self.node(tree, name) for tree, name in zip(trees, names, strict=True)]
        if keys is None:
            return f"({', '.join(made)},)"
        pairs = zip(keys, made, strict=True)
        return "{" + ", ".join(f"{self.name(k)}: {part}" for k, part in pairs) + "}"

    def made(self, source: str) -> Any:
        """Compile a function; its source has nothing from messages but constants."""
        exec(source, self.names)  # noqa: S102
        return self.names["made"]


def _are_equal(names: dict[str, Any], keys: dict[str, str], *found: Any) -> bool:
    """Return whether a dict has the keys of a signature, and remember its objects.

    Args:
        names: The constants of the writer.
        keys: By the name of its constant, each key.
        found: The keys of the dict.
    """
    # Strings of NumPy are equal to others, but of another type.
    if found != tuple(keys.values()) or {*map(type, found)} != {str}:
        return False
    names.update(zip(keys, found, strict=True))
    return True


def _bits(data: bytes) -> bytes:
    if data.strip(_BITS):
        raise KeyError
    return data


def _bits_of(array: Any) -> bytes:
    data: bytes = array.tobytes()
    # A view of other bytes as booleans may hold more than 0 and 1.
    return bytes(map(bool, data)) if data.strip(_BITS) else data


_TAGS: dict[str, Callable[[Code, Any, str], str]] = {
    "nd": Code.array,
    "ns": Code.scalar,
    "oa": Code.array_of_objects,
    "dict": Code.members,
    "list": Code.items,
    "tuple": Code.tuple,
}


def code_of(tree: Any) -> tuple[Code, str]:
    """Generate code for a parsed signature.

    Returns:
        The code, and the expression that makes the value in the reader.

    Raises:
        Unfit: There is no generated code for the signature.
    """
    code = Code()
    try:
        made = code.node(tree, "value")
    except (BadValue, RecursionError, ValueError, TypeError) as error:
        raise Unfit from error
    return code, made


def _code(signature: bytes) -> tuple[Code, str, struct.Struct] | None:
    try:
        code, made = code_of(parse(signature))
    except (Unfit, BadValue, RecursionError):
        return None
    if code.objects or not code.records[0].names:
        return None
    record = code.records[0].compiled()
    if record.size > MAX_RECORD_BYTES:
        return None
    code.names |= {"pack": record.pack, "unpack": record.unpack_from}
    return code, made, record


def fixed_size(tree: Any) -> int:
    """Return the bytes that the leaves of each value of a parsed signature have.

    Raises:
        Unfit: They differ, or there is no generated code for the signature.
    """
    code, _ = code_of(tree)
    if code.objects:
        raise Unfit
    return code.records[0].compiled().size


def fixed_reader(signature: bytes, general: Reader) -> Reader:
    """Return a generated reader of a signature, or the general one.

    Args:
        signature: A signature that was compiled before, and so is valid.
        general: The general reader, also for bytes that need further checks.
    """
    found = _code(signature)
    if found is None:
        return general
    code, made, record = found
    # Names of constants begin with "c", so this one is free.
    code.names["general"] = general
    return code.made(  # type: ignore[no-any-return]
        f"def made(data, start):\n"
        f"    if len(data) != start + {record.size}: return general(data, start)\n"
        f"    {', '.join(code.records[0].names)}, = unpack(data, start)\n"
        f"    try:\n"
        f"        return {made}\n"
        f"    except KeyError:\n"
        f"        return general(data, start)\n"
    )


@lru_cache(maxsize=256)
def fixed_writer(signature: bytes) -> Writer | None:
    """Return a generated writer of values of a signature; ``None`` if there is none.

    Returns:
        A function that returns the leaves of a value, or ``None`` if the value is of
        another signature.
    """
    found = _code(signature)
    if found is None:
        return None
    code = found[0]
    checks = "\n".join(code.checks)
    written = ", ".join(code.records[0].written)
    return code.made(  # type: ignore[no-any-return]
        f"def made(value):\n{checks}\n    return pack({written})\n"
    )
