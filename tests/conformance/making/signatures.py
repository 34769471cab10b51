"""Values on a stream that sends each signature once and then refers to its number."""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.conformance.making import Case
from tests.conformance.making.forms import signed, whole
from tests.conformance.making.models import model_of

DESCRIPTION = (
    "Bodies in the binary form, one after the other on one stream, with numbered "
    "signatures as in docs/streams.md; nothing follows what is refused"
)


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for name, messages in _sequences().items():
        yield {"id": name, "messages": messages}
    for name, messages, last in _refused():
        end = {"body": last.hex(), "refused": True}
        yield {"id": f"refused-{name}", "messages": [*messages, end]}


def _new(value: Any, number: int) -> dict[str, Any]:
    """Write a value with its signature and the signature's number, or 0."""
    model = model_of(value)
    return {"body": whole(*signed(model), number).hex(), "value": model}


def _known(value: Any, number: int) -> dict[str, Any]:
    """Write a value with the number of its signature."""
    model = model_of(value)
    leaves = signed(model)[1]
    return {"body": (struct.pack("<II", 0, number) + leaves).hex(), "value": model}


def _step(number: float) -> dict[str, Any]:
    observation = np.full(4, number, "f4")
    flags = {"terminated": False, "truncated": number > 2}
    return {"info": {}, "observation": observation, "reward": number, **flags}


def _sequences() -> dict[str, list[dict[str, Any]]]:
    reset = {"info": {}, "observation": np.zeros(4, "f4")}
    every = [{f"k{index}": index} for index in range(1, 256)]
    long = {"k" * 17000: 1}
    text = "y" * 1000
    return {
        "unnamed": [_new(1, 0)],
        "unnamed-twice": [_new(1, 0), _new(2, 0)],
        "named": [_new(1, 1)],
        "named-and-called": [_new(1, 1), _known(2, 1), _known(-(2**63), 1)],
        "reset-and-steps": [
            _new(reset, 1),
            _new(_step(1.0), 2),
            *(_known(_step(number), 2) for number in (1.5, 2.5, -0.0)),
            _known(reset, 1),
            _known(_step(3.0), 2),
        ],
        "in-any-order": [
            _new(1, 1),
            _new("a", 2),
            _new(1.5, 3),
            _known("b", 2),
            _known(2.5, 3),
            _known(2, 1),
        ],
        "numbers-not-in-order": [_new(1, 7), _new("a", 3), _known(2, 7)],
        "unnamed-among-named": [_new(1, 1), _new("a", 0), _known(2, 1), _new("b", 0)],
        "same-signature-twice": [_new(1, 1), _new(2, 2), _known(3, 1), _known(4, 2)],
        "same-signature-unnamed": [_new(1, 1), _new(2, 0), _known(3, 1)],
        "no-leaves": [_new(None, 1), _known(None, 1), _known(None, 1)],
        "texts-of-other-sizes": [_new("", 1), _known("\u73af", 1), _known(text, 1)],
        "bools": [_new([True, False], 1), _known([False, True], 1)],
        "arrays-of-0": [_new(np.zeros((0, 2)), 1), _known(np.zeros((0, 2)), 1)],
        "keys-of-no-strings": [_new({(1, 2): "a"}, 1), _known({(1, 2): "b"}, 1)],
        "last-number": [_new(1, 255), _known(2, 255)],
        "255-numbers": [
            *(_new(value, number) for number, value in enumerate(every, 1)),
            *(_known(value, number) for number, value in enumerate(every, 1)),
            _new({"one more": 1}, 0),
            _known({"k128": -1}, 128),
        ],
        "over-16-kib-unnamed": [_new(long, 0), _new(1, 1), _known(2, 1)],
        "16-kib-named": [_new(_longest(), 1), _known(_longest(), 1)],
        "spaces-beside-leaves": [_new([1, None, {}], 1), _known([2, None, {}], 1)],
    }


def _longest() -> dict[str, int]:
    """Return a value whose signature has exactly 16 KiB."""
    bare = len(b'{"dict":[["","int"]]}')
    return {"k" * (16 * 1024 - bare): 1}


def _refused() -> Iterator[tuple[str, list[dict[str, Any]], bytes]]:
    one = struct.pack("<q", 1)
    first = [_new(1, 1)]
    yield "unknown", [], struct.pack("<II", 0, 1) + one
    yield "unknown-after-others", first, struct.pack("<II", 0, 2) + one
    yield "number-0", first, struct.pack("<II", 0, 0) + one
    yield "unnamed-is-not-kept", [_new(1, 0)], struct.pack("<II", 0, 1) + one
    yield "number-256", [], whole(b'"int"', one, 256)
    yield "number-largest", [], whole(b'"int"', one, 2**32 - 1)
    yield "number-taken", first, whole(b'"float"', one, 1)
    large = b'{"list":[' + b",".join([b'"none"'] * 2400) + b"]}"
    yield "over-16-kib-named", [], whole(large, b"", 1)
    yield "leaves-cut", first, struct.pack("<II", 0, 1) + one[:7]
    yield "leaves-missing", first, struct.pack("<II", 0, 1)
    yield "leaves-too-many", first, struct.pack("<II", 0, 1) + one + one
    yield "short", first, struct.pack("<I", 0)
    yield "size-beyond-end", [], struct.pack("<II", 4096, 1) + b'"int"   ' + one
    yield "size-no-multiple-of-8", [], struct.pack("<II", 5, 1) + b'"int"' + one
