"""Strict JSON, and integers, strings and bytes as text."""

import binascii
import json
import re
from collections import Counter
from typing import Any, NoReturn

from gym_http_wire.spaces import elided
from gym_http_wire.values.refusal import BadValue, UnsupportedValue

MAX_DIGITS = 4300
"""How many decimal digits an integer may have; Python itself reads no more."""

_LARGEST = 10**MAX_DIGITS
_DECIMAL = re.compile(rf"-?[0-9]{{1,{MAX_DIGITS}}}")


def write_decimal(value: int) -> str:
    """Write an integer."""
    if not -_LARGEST < value < _LARGEST:
        raise UnsupportedValue(f"is an integer of more than {MAX_DIGITS} digits")
    return str(value)


def read_decimal(text: object) -> int:
    """Read an integer."""
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise BadValue(f"is no integer of at most {MAX_DIGITS} digits: {elided(text)}")
    return int(text)


def is_unicode(text: str) -> bool:
    """Whether a string has no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_text(data: bytes | memoryview) -> str:
    """Read a string that may have lone surrogates."""
    try:
        return str(data, "utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise BadValue(f"is not written in UTF-8: {error.reason}") from error


def write_base64(data: Any) -> str:
    """Write the bytes of a buffer."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def read_base64(text: object, size: int | None = None) -> bytes:
    """Read base64; with ``size``, of exactly so many bytes."""
    if not isinstance(text, str) or not text.isascii():
        raise BadValue(f"needs base64: {elided(text)}")
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise BadValue(f"needs base64: {error}") from error
    # The same bytes always have the same text: no other padding, no unused bits.
    rest = len(data) % 3
    ends_well = not rest or write_base64(data[-rest:]) == text[-4:]
    if len(text) != (len(data) + 2) // 3 * 4 or not ends_well:
        raise BadValue("needs base64 as it is written, without further bits")
    if size is not None and len(data) != size:
        raise BadValue(f"needs the base64 of {size} bytes")
    return data


def parse(data: bytes | bytearray | memoryview) -> Any:
    """Parse JSON in UTF-8, whose objects have no key twice.

    Raises:
        BadValue: It is not that.
        RecursionError: It is nested too deep for Python's parser.
    """
    try:
        return _DECODER.decode(str(data, "utf-8"))
    except UnicodeDecodeError as error:
        raise BadValue(f"is not written in UTF-8: {error.reason}") from error
    except ValueError as error:
        raise BadValue(f"is not the JSON of a value: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {elided(key)} is there twice")
    return members


def _refuse(token: str) -> NoReturn:
    raise ValueError(f"{token} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse)
