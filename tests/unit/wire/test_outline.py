"""Members of a binary dict become the typed JSON that its values have."""

import contextlib
import json
import math
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete, GraphInstance
from gymnasium.vector import AutoresetMode

from gym_http_wire.outline import OutlineError, outline
from gym_http_wire.values import binary, typed

SMALL: list[Any] = [
    None,
    True,
    -5,
    2**53,
    2**53 + 1,
    -(2**63),
    2**80,
    0.1,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    "text",
    "\ud800",
    b"\0\xff",
    [1, "a", [None]],
    (1, (2.5,)),
    {"a": {"b": [1]}},
    {1: "one", (2, 3): "two"},
    {"$t": "no tag"},
    {},
    np.arange(5, dtype=np.int16),
    np.zeros((2, 0, 3), ">f4"),
    np.array(["a", "bcd"]),
    np.array([b"a", b"bcd"]),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.array([True, False]),
    np.float32(0.1),
    np.bool_(True),
    np.complex128(1j),
    AutoresetMode.SAME_STEP,
]
LARGE: list[Any] = [
    *SMALL,
    Discrete(3),
    np.array([1, "a", None], object),
    GraphInstance(np.zeros((2, 1), np.float32), None, None),
]


@pytest.mark.parametrize("value", SMALL, ids=repr)
def test_members_are_those_of_the_typed_form(value: Any) -> None:
    given = {"first": value, "last": [value]}
    expected = json.loads(typed.encode(given))
    # NaN is unequal to itself, and here it is text.
    assert outline(binary.encode(given), ()) == expected


@pytest.mark.parametrize("value", LARGE, ids=repr)
def test_members_are_skipped(value: Any) -> None:
    given = {"a": 1, "b": value, "c": "x", "d": {"e": [value, value]}, "f": 2.5}
    found = outline(binary.encode(given), ("b", "d"))
    assert found == {"a": 1, "c": "x", "f": 2.5}


@pytest.mark.parametrize("value", LARGE[len(SMALL) :], ids=repr)
def test_others_are_refused(value: Any) -> None:
    with pytest.raises(OutlineError, match="stands where none is expected"):
        outline(binary.encode({"a": value}), ())


@pytest.mark.parametrize("given", [{"a": "text", "b": [1, np.zeros(3)]}, {"a": {}}, 5])
def test_malformed_bytes_are_refused(given: Any) -> None:
    data = binary.encode(given)
    for end in range(len(data)):
        with pytest.raises(OutlineError):
            outline(data[:end], ())
    for at in range(len(data)):
        # Anything but another exception.
        with contextlib.suppress(OutlineError):
            outline(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :], ())


@pytest.mark.parametrize(
    "signature",
    [
        b'{"dict":5}',
        b'{"dict":[5]}',
        b'{"dict":[["a"]]}',
        b'{"dict":[["a",{}]]}',
        b'{"dict":[["a",{"nd":["<f4",[-1]]}]]}',
        b'{"dict":[["a",{"nd":["<f4",["1"]]}]]}',
        b'{"dict":[["a",{"nd":[5,[1]]}]]}',
        b'{"dict":[["a",{"oa":5}]]}',
        b'{"dict":[["a",{"list":{"b":1}}]]}',
        b'{"dict":[["a","str"]]}',
        b'{"dict":[["a",' + b'{"list":[' * 50_000 + b"]}" * 50_000 + b"]]}",
        b"[]",
    ],
)
@pytest.mark.parametrize("skipped", [(), ("a",)])
def test_malformed_signatures_are_refused(
    signature: bytes, skipped: tuple[str, ...]
) -> None:
    signature += b" " * (-len(signature) % 8)
    data = len(signature).to_bytes(8, "little") + signature
    with pytest.raises(OutlineError):
        outline(data, skipped)
    with pytest.raises(OutlineError):
        outline(data + b"\xff" * 8, skipped)
