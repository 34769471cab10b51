"""Read JSON, strictly."""

import json
from collections import Counter
from typing import Any, NoReturn

from gym_http_wire.spaces import elided
from gym_http_wire.values.refusal import BadValue


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {elided(key)} is there twice")
    return members


def _refuse(token: str) -> NoReturn:
    raise ValueError(f"{token} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse)


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
