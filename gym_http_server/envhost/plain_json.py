"""Plain JSON: what thin clients read and write.

Values are written by what they are, not by the space they belong to. What JSON cannot
say becomes the nearest thing that it can, as `gym_http_server.envhost.jsonable` has it.
"""

import re
from collections.abc import Callable

import msgspec
import orjson

from gym_http_server.envhost.jsonable import TooDeep, jsonable

__all__ = [
    "MAX_DEPTH",
    "MAX_INTEGER",
    "BadJSON",
    "TooDeep",
    "dumps",
    "is_given",
    "loads",
]

MAX_DEPTH = 64
MAX_INTEGER = 2**200

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LONG_RUN = b"0" * len(str(MAX_INTEGER))
_LONG_INTEGER = re.compile(rb"(?<![0-9.])[0-9]{%d,}(?![0-9.eE])" % len(_LONG_RUN))
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_BRACES = bytes.maketrans(b"{}", b"[]")
_NOT_BRACES = bytes(set(range(256)) - set(b"[]{}"))

_decode: Callable[[bytes], object] = msgspec.json.Decoder().decode


class BadJSON(ValueError):
    """Bytes that are no JSON, or more than this server reads."""


def loads(data: bytes) -> object:
    """Read JSON that a client sent.

    Args:
        data: UTF-8 without a byte order mark, as JSON has to be.

    Returns:
        Plain Python objects.

    Raises:
        BadJSON: The data is not JSON, is nested deeper than `MAX_DEPTH`, or has a
            number that is beyond a float's range or an integer beyond `MAX_INTEGER`.
    """
    try:
        value = _decode(data)
    except RecursionError as error:
        raise _deep() from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJSON(str(error)) from error
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise _deep()
    if len(data) >= len(_LONG_RUN) and _LONG_RUN in data.translate(_ZEROS):
        for digits in _LONG_INTEGER.findall(_STRING.sub(b"", data)):
            if int(digits) > MAX_INTEGER:
                raise BadJSON(f"An integer of {len(digits)} digits is too large")
    return value


def is_given(value: object) -> bool:
    """Whether a parameter is provided: null, "" and [] are not, as in gym-http-api."""
    return value is not None and not (type(value) in (str, list) and not value)


def dumps(value: object) -> bytes:
    """Write a value as one line of compact JSON, its keys sorted.

    Args:
        value: Anything that an environment may return.

    Returns:
        JSON and a newline.

    Raises:
        TooDeep: The value is nested too deeply, or contains itself.
    """
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except orjson.JSONEncodeError:
        data = b"null"
    # orjson writes NaN and the infinities as null, like None.
    if b"null" in data:
        data = orjson.dumps(jsonable(value), option=_OPTIONS)
    return data


def _deep() -> BadJSON:
    return BadJSON(f"The JSON is nested deeper than {MAX_DEPTH} levels")


def _depth(data: bytes) -> int:
    """Count how deep valid JSON is nested, up to one more than `MAX_DEPTH`."""
    brackets = _STRING.sub(b"", data).translate(_BRACES, _NOT_BRACES)
    depth = 0
    while brackets and depth <= MAX_DEPTH:
        brackets = brackets.replace(b"[]", b"")
        depth += 1
    return depth
