"""Values as a signature and bytes come back unchanged; invalid bytes are refused."""

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_wire.values import BadValue, UnsupportedValue, binary
from tests.support.faults.mutated_messages import answered, mutated, peak
from tests.support.values import VALUES_AND_SPACES, assert_same

GRAPH = GraphInstance(np.zeros((1, 1), np.int8), None, None)
OBJECTS = np.array([None, True], object)

# Written by hand from the format, not copied from the encoder's output.
VECTORS: list[tuple[object, bytes]] = [
    (None, b'\x08\0\0\0\0\0\0\0"none"  '),
    (True, b'\x08\0\0\0\0\0\0\0"bool"  \x01\0\0\0\0\0\0\0'),
    (False, b'\x08\0\0\0\0\0\0\0"bool"  \0\0\0\0\0\0\0\0'),
    (1, b'\x08\0\0\0\0\0\0\0"int"   \x01\0\0\0\0\0\0\0'),
    (-2, b'\x08\0\0\0\0\0\0\0"int"   \xfe\xff\xff\xff\xff\xff\xff\xff'),
    (2**63 - 1, b'\x08\0\0\0\0\0\0\0"int"   \xff\xff\xff\xff\xff\xff\xff\x7f'),
    (
        2**64,
        b'\x08\0\0\0\0\0\0\0"bigint"\x14\0\0\0\0\0\0\x0018446744073709551616\0\0\0\0',
    ),
    (1.0, b'\x08\0\0\0\0\0\0\0"float" \0\0\0\0\0\0\xf0\x3f'),
    (-0.0, b'\x08\0\0\0\0\0\0\0"float" \0\0\0\0\0\0\0\x80'),
    ("hé", b'\x08\0\0\0\0\0\0\0"str"   \x03\0\0\0\0\0\0\0h\xc3\xa9\0\0\0\0\0'),
    (
        "\ud800",
        b'\x08\0\0\0\0\0\0\0"str"   \x03\0\0\0\0\0\0\0\xed\xa0\x80\0\0\0\0\0',
    ),
    (b"", b'\x08\0\0\0\0\0\0\0"bytes" \0\0\0\0\0\0\0\0'),
    (
        b"12345678",
        b'\x08\0\0\0\0\0\0\0"bytes" \x08\0\0\0\0\0\0\x0012345678',
    ),
    (
        np.array([1, -2, 0.5], "<f4"),
        b'\x18\0\0\0\0\0\0\0{"nd":["<f4",[3]]}      '
        b"\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f\0\0\0\0",
    ),
    (
        np.array([[1], [-2]], ">i2"),
        b'\x18\0\0\0\0\0\0\0{"nd":[">i2",[2,1]]}    \0\x01\xff\xfe\0\0\0\0',
    ),
    (np.zeros((0, 3), "|b1"), b'\x18\0\0\0\0\0\0\0{"nd":["|b1",[0,3]]}    '),
    (
        np.array("hé", "<U3"),
        b'\x18\0\0\0\0\0\0\0{"nd":["<U3",[]]}       h\0\0\0\xe9\0\0\0\0\0\0\0\0\0\0\0',
    ),
    (np.float32(1), b'\x10\0\0\0\0\0\0\0{"ns":"<f4"}    \0\0\x80\x3f\0\0\0\0'),
    (np.bytes_(b"a\0"), b'\x10\0\0\0\0\0\0\0{"ns":"|S2"}    a\0\0\0\0\0\0\0'),
    ([], b'\x10\0\0\0\0\0\0\0{"list":[]}     '),
    (
        (None, 1),
        b'\x18\0\0\0\0\0\0\0{"tuple":["none","int"]}\x01\0\0\0\0\0\0\0',
    ),
    (
        {"b": 1, "a": {}},
        b'\x28\0\0\0\0\0\0\0{"dict":[["b","int"],["a",{"dict":[]}]]}\x01\0\0\0\0\0\0\0',
    ),
    (
        {"\ud800": None},
        b'\x30\0\0\0\0\0\0\0{"dict":[[{"$t":"str","v":"7aCA"},"none"]]}     ',
    ),
    (
        {2: None, (None, b"x"): None},
        b'\x58\0\0\0\0\0\0\0{"dict":[[2,"none"],[{"$t":"tuple","v":[null,'
        b'{"$t":"bytes","v":"eA=="}]},"none"]]}      ',
    ),
    (
        OBJECTS,
        b'\x20\0\0\0\0\0\0\0{"oa":[[2],["none","bool"]]}    \x01\0\0\0\0\0\0\0',
    ),
    (
        GRAPH,
        b'\x30\0\0\0\0\0\0\0{"graph":[{"nd":["|i1",[1,1]]},"none","none"]}  '
        b"\0\0\0\0\0\0\0\0",
    ),
    (
        AutoresetMode.SAME_STEP,
        b'\x18\0\0\0\0\0\0\0{"autoreset":"SameStep"}',
    ),
    (
        gs.Discrete(2),
        b'\x40\0\0\0\0\0\0\0{"space":{"type":"Discrete","n":2,"start":0,'
        b'"dtype":"int64"}}   ',
    ),
]


@pytest.mark.parametrize(("value", "message"), VECTORS, ids=repr)
def test_layout(value: object, message: bytes) -> None:
    assert binary.encode(value) == message
    assert b"".join(binary.encode_parts(value)) == message
    assert_same(binary.decode(message), value)
    assert_same(binary.decode_in_place(memoryview(bytearray(message))), value)


@settings(max_examples=150, deadline=None)
@given(VALUES_AND_SPACES)
def test_every_message_ends_where_an_aligned_one_may_begin(value: Any) -> None:
    assert len(binary.encode(value)) % 8 == 0


def test_steps_of_dates_that_are_equal_keep_their_names() -> None:
    # Only in this order does NumPy treat them as equal.
    for name in ("m8[1000ms]", "m8[s]", "M8[1000ms]", "M8[s]"):
        array = np.zeros((1, 2, 1, 2, 1), name)
        assert_same(binary.decode(binary.encode(array)), array)


def test_decoded_arrays_are_writable_copies() -> None:
    message = bytearray(binary.encode(np.arange(4)))
    one, two = binary.decode(message), binary.decode(message)
    message[-32:] = bytes(32)
    one[0] = 9
    assert one.tolist() == [9, 1, 2, 3]
    assert two.tolist() == [0, 1, 2, 3]
    for value in ([], {"a": {}}, gs.Discrete(2), OBJECTS):
        message = bytearray(binary.encode(value))
        assert binary.decode(message) is not binary.decode(message)


def test_large_arrays_are_neither_copied_to_be_sent_nor_when_they_arrive() -> None:
    array = np.arange(40_000.0)
    parts = binary.encode_parts({"small": np.arange(3), "large": array})
    assert [len(each) for each in parts].count(array.nbytes) == 1
    array[0] = -1.0
    message = memoryview(bytearray(b"".join(parts)))
    found = binary.decode_in_place(message)
    assert found["large"].tolist() == array.tolist()
    found["large"][-1] = 5.0
    found["small"][0] = 9
    again = binary.decode(message)
    assert (again["large"][-1], again["small"][0]) == (5.0, 0)
    assert binary.decode_in_place(message.toreadonly())["large"].flags.writeable


def test_booleans_that_are_views_of_other_bytes_arrive_as_true() -> None:
    array = np.array([0, 1, 2, 255], np.uint8).view(bool)
    assert_same(
        binary.decode(binary.encode(array)), np.array([False, True, True, True])
    )


def test_a_split_value_is_read_by_its_signature() -> None:
    value = {"observation": np.arange(5, dtype="u1"), "name": "x" * 9}
    signature, leaves = binary.split(value)
    read = binary.compile_reader(signature)
    content = b"".join(leaves)
    header = struct.pack("<II", len(signature), 0)
    assert header + signature + content == binary.encode(value)
    for start in (0, 8, 64):
        assert_same(read(bytes(start) + content, start), value)
        assert_same(read(memoryview(bytes(start) + content), start), value)
    assert binary.compile_reader(signature) is read
    with pytest.raises(BadValue):
        read(content + bytes(8), 0)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_broken_signature_is_one_or_refused(data: st.DataObject) -> None:
    signature, leaves = binary.split(data.draw(VALUES_AND_SPACES))
    broken = data.draw(mutated(st.just(signature)))
    padded = broken + b" " * (-len(broken) % 8)
    message = struct.pack("<II", len(padded), 0) + padded + b"".join(leaves)
    answered(binary.decode, message)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=99))
def test_noise_is_a_value_or_refused(data: bytes) -> None:
    answered(binary.decode, data)


def message(signature: object, *leaves: bytes) -> bytes:
    text = signature if isinstance(signature, bytes) else json.dumps(signature).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<II", len(text), 0) + text + b"".join(leaves)


WORD = bytes(8)
ONE = b"\1" + bytes(7)
VAST = b"\xff" * 8
DEEP = 50_000
SAME_HASHES = [[{"$t": "int", "v": str(n * (2**61 - 1))}, "none"] for n in range(999)]
BOX = {"type": "Box", "dtype": "float32", "shape": [1], "low": 0, "high": 1}
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "shorter than 8 bytes"),
    "short": (b"\0\0\0\0\0\0\0", "shorter than 8 bytes"),
    "no signature": (WORD, "JSON"),
    "reserved": (b'\x08\0\0\0\1\0\0\0"none"  ', "not zero"),
    "odd size": (b'\x06\0\0\0\0\0\0\0"none"', "impossible size"),
    "size beyond the end": (b'\x10\0\0\0\0\0\0\0"none"  ', "impossible size"),
    "vast size": (b'\xf8\xff\xff\xff\0\0\0\0"none"  ', "impossible size"),
    "no UTF-8": (message(b'"\xff"'), "UTF-8"),
    "no JSON": (message(b"none"), "JSON"),
    "NaN": (message(b'{"dict":[[NaN,"none"]]}'), "no JSON"),
    "two": (message(b'"none" "none"'), "JSON"),
    "the same field twice": (message(b'{"list":[],"list":[]}'), "twice"),
    "unknown": (message("float128"), "unknown"),
    "unknown tag": (message({"set": []}), "unknown"),
    "two tags": (message({"list": [], "tuple": []}), "unknown"),
    "list": (message([]), "unknown"),
    "number": (message(1), "unknown"),
    "null": (message(None), "unknown"),
    "no list": (message({"list": {}}), "needs a list"),
    "no pair": (message({"dict": [["a"]]}), "needs a list of 2"),
    "key of a list": (message({"dict": [[[], "none"]]}), "a key that no dict may"),
    "key of a space": (
        message({"dict": [[{"$t": "space", "v": BOX}, "none"]]}),
        "a key that no dict may",
    ),
    "key without a hash": (
        message({"dict": [[{"$t": "ns", "d": "<m8", "v": "AAAAAAAAAAA="}, "none"]]}),
        "no hash",
    ),
    "key twice": (message({"dict": [["a", "none"], ["a", "none"]]}), "a key twice"),
    "equal keys": (message({"dict": [[1, "none"], [True, "none"]]}), "a key twice"),
    "keys with the same hash": (message({"dict": SAME_HASHES}), "the same hash"),
    "many keys": (
        message({"dict": [[n, "none"] for n in range(10_001)]}),
        "more than 10000 keys",
    ),
    "bool 2": (message("bool", b"\2" + bytes(7)), "neither true"),
    "bool with more": (message("bool", b"\1\1" + bytes(6)), "neither true"),
    "no bool": (message("bool"), "too early"),
    "no int": (message("int"), "too early"),
    "half a float": (message("float", bytes(4)), "too early"),
    "trailing word": (message("int", WORD, WORD), "ends at byte 24 of 32"),
    "trailing byte": (message("none", b"\0"), "ends at byte 16 of 17"),
    "trailing zeros": (message({"list": []}, bytes(4)), "ends at byte 24 of 28"),
    "no final padding": (message("str", ONE, b"a"), "they end before"),
    "dirty padding": (message("str", ONE, b"a\0\0\0\0\0\0\1"), "not zero"),
    "dirty padding of an array": (
        message({"nd": ["|i1", [1]]}, VAST),
        "not zero",
    ),
    "vast str": (message("str", VAST, WORD), "they end before"),
    "vast bytes": (message("bytes", VAST[:7] + b"\x7f", WORD), "they end before"),
    "vast bigint": (message("bigint", b"\xf8" + VAST[1:], WORD), "they end before"),
    "str of no UTF-8": (message("str", ONE, b"\xff" + bytes(7)), "UTF-8"),
    "bigint of letters": (message("bigint", ONE, b"x" + bytes(7)), "no integer"),
    "bigint of other digits": (
        message("bigint", b"\2" + bytes(7), "²".encode() + bytes(6)),
        "no integer",
    ),
    "bigint of nothing": (message("bigint", WORD), "no integer"),
    "endless bigint": (
        message("bigint", struct.pack("<Q", 800_000), b"9" * 800_000),
        "no integer",
    ),
    "object dtype": (message({"nd": ["|O", [1]]}, WORD), "unknown"),
    "object dtype of old": (message({"nd": ["O", [1]]}, WORD), "unknown"),
    "void dtype": (message({"nd": ["|V8", [1]]}, WORD), "unknown"),
    "dtype of fields": (message({"nd": ["<f4,<f4", [1]]}, WORD), "unknown"),
    "dtype with a shape": (message({"nd": ["(2,)<f4", [1]]}, WORD), "unknown"),
    "native dtype": (message({"nd": ["=f4", [1]]}, WORD), "unknown"),
    "nameless order": (message({"nd": ["f8", [1]]}, WORD), "unknown"),
    "order of single bytes": (message({"nd": ["<i1", [0]]}), "unknown"),
    "named dtype": (message({"nd": ["float64", [1]]}, WORD), "unknown"),
    "float of 3 bytes": (message({"nd": ["<f3", [0]]}), "unknown"),
    "complex of 32 bytes": (message({"nd": ["<c32", [0]]}), "unknown"),
    "dtype of digits": (message({"nd": ["<i²", [0]]}), "unknown"),
    "dtype with a newline": (message({"nd": ["<f8\n", [1]]}, WORD), "unknown"),
    "date with an event": (message({"nd": ["<M8[s]//2", [0]]}), "unknown"),
    "date of vast steps": (message({"nd": ["<M8[9999999999s]", [0]]}), "unknown"),
    "strings of 2 MiB": (message({"nd": ["|S2097152", [0]]}), "unknown"),
    "dtype that is a list": (message({"nd": [["<f4"], [1]]}, WORD), "unknown"),
    "strings of nothing": (message({"nd": ["|S0", [2**31 - 1] * 2]}), "impossible"),
    "letters of nothing": (message({"nd": ["<U0", [1]]}), "impossible"),
    "no shape": (message({"nd": ["<f4", 1]}, WORD), "no shape"),
    "negative": (message({"nd": ["<f4", [-1]]}, WORD), "an invalid size"),
    "2**31": (message({"nd": ["<f4", [2**31]]}, WORD), "an invalid size"),
    "size of a float": (message({"nd": ["<f4", [1.0]]}, WORD), "invalid size"),
    "size of a bool": (message({"nd": ["<f4", [True]]}, WORD), "invalid size"),
    "33 axes": (message({"nd": ["<f8", [1] * 33]}, WORD), "no shape of at most 32"),
    "bomb": (message({"nd": ["<f8", [2**31 - 1] * 32]}, WORD), "impossible shape"),
    "empty bomb": (
        message({"nd": ["<f8", [0, *[2**31 - 1] * 31]]}),
        "impossible shape",
    ),
    "more than there is": (
        message({"nd": ["|u1", [2**31 - 1]]}, WORD),
        "they end before",
    ),
    "a product of 2**64": (
        message({"nd": ["|u1", [2**30, 2**30, 16]]}),
        "impossible shape",
    ),
    "array of other booleans": (
        message({"nd": ["|b1", [8]]}, b"\2" + bytes(7)),
        "neither true",
    ),
    "other boolean": (message({"ns": "|b1"}, b"\2" + bytes(7)), "neither true"),
    "no such character": (
        message({"nd": ["<U2", [1]]}, b"\0\0\x11\0\0\0\0\0"),
        "characters that do not exist",
    ),
    "no such character, swapped": (
        message({"nd": [">U2", []]}, b"\0\0\0a\1\0\0\0"),
        "characters that do not exist",
    ),
    "no such character in a scalar": (
        message({"ns": "<U2"}, VAST),
        "characters that do not exist",
    ),
    "objects without items": (
        message({"oa": [[2**31 - 1, 2**20], []]}),
        "needs 2251799812636672 items",
    ),
    "empty objects": (message({"oa": [[0, *[2**31 - 1] * 9], []]}), "impossible"),
    "objects with more items": (message({"oa": [[1], ["none"] * 2]}), "needs 1 items"),
    "graph of two": (message({"graph": ["none"] * 2}), "needs a list of 3"),
    "no such mode": (message({"autoreset": "Never"}), "no mode of autoreset"),
    "no mode": (message({"autoreset": []}), "no mode of autoreset"),
    "no space": (message({"space": {}}), "cannot be rebuilt"),
    "space of nothing": (message({"space": None}), "cannot be rebuilt"),
    "deep": (message(b'{"list":[' * DEEP + b"]}" * DEEP), "nested too deep"),
    "deep brackets": (message(b"[" * 10**5), "nested too deep"),
    "deep key": (
        message(
            b'{"dict":[[' + b'{"$t":"tuple","v":[' * 400 + b"]}" * 400 + b',"none"]]}'
        ),
        "nested",
    ),
    "65 levels": (
        message(b'{"tuple":[' * 65 + b"]}" * 65),
        "nested deeper than 64 levels",
    ),
    "large signature": (
        message(b'{"list":[' + b'"none",' * 150_000 + b'"none"]}'),
        "more than 1048576 bytes",
    ),
}
SPACES: dict[str, tuple[bytes, str]] = {
    "large space": (
        message({"space": {**BOX, "shape": [2**30]}}),
        "takes, with other spaces, over",
    ),
    "large space in disguise": (
        message({"space": {**BOX, "shape": [1e9]}}),
        "not written in integers",
    ),
    "large space in words": (
        message({"space": {**BOX, "shape": ["1000000000"]}}),
        "not written in integers",
    ),
    "many spaces": (
        message({"list": [{"space": {**BOX, "shape": [2**20]}}] * 99}),
        "takes, with other spaces, over",
    ),
    "space of many spaces": (
        message({"space": {"type": "Tuple", "spaces": [BOX] * 9000}}),
        "takes, with other spaces, over",
    ),
}


@pytest.mark.parametrize("case", [*HOSTILE, *SPACES])
def test_hostile_values_are_refused(case: str) -> None:
    data, expected = {**HOSTILE, **SPACES}[case]

    def refuse() -> None:
        with pytest.raises(BadValue) as caught:
            binary.decode(data)
        assert expected in str(caught.value)
        assert len(str(caught.value)) < 500

    # Parsers allocate memory for present bytes, but none for announced ones.
    assert peak(refuse) < 40 * len(data) + 2**18


def test_a_refusal_names_the_place() -> None:
    signature = {"dict": [["info", {"list": ["none", {"tuple": ["bool"]}]}]]}
    with pytest.raises(BadValue) as caught:
        binary.decode(message(signature, VAST))
    assert str(caught.value).startswith('value["info"][1][0] is neither true')
    with pytest.raises(BadValue) as caught:
        binary.decode(message({"dict": [["\ud800", {"list": ["nil"]}]]}))
    assert str(caught.value).startswith('value["\\ud800"][0] has an unknown signature')


DEEPEST: Any = None
for _ in range(64):
    DEEPEST = [DEEPEST]


def test_64_levels_come_back() -> None:
    assert_same(binary.decode(binary.encode(DEEPEST)), DEEPEST)


ENDLESS: list[Any] = []
ENDLESS += [ENDLESS, ENDLESS]
DEEP_DICT: dict[str, Any] = {}
for _ in range(64):
    DEEP_DICT = {"a": DEEP_DICT}
DOUBLING: list[Any] = []
for _ in range(60):
    DOUBLING = [DOUBLING, DOUBLING]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([DEEPEST], "nested deeper than 64 levels"),
        ((DEEPEST,), "nested deeper than 64 levels"),
        ({"a": DEEPEST}, "nested deeper than 64 levels"),
        (DEEP_DICT, "nested deeper than 64 levels"),
        (GraphInstance(DEEPEST, None, None), "nested deeper than 64 levels"),
        (ENDLESS, "nested deeper than 64 levels"),
        (DOUBLING, "more parts than a signature may have"),
        ([None] * 200_000, "more parts than a signature may have"),
        (10**4300, "an integer of more than 4300 digits"),
        (-(10**5000), "an integer of more than 4300 digits"),
        (dict.fromkeys(range(10001)), "more than 10000 keys"),
    ],
    ids=[
        "list",
        "tuple",
        "inner",
        "dict",
        "graph",
        "endless",
        "doubling",
        "many",
        "digits",
        "negative",
        "keys",
    ],
)
def test_values_beyond_the_limits_are_not_sent(value: Any, expected: str) -> None:
    with pytest.raises(UnsupportedValue, match=expected):
        binary.encode(value)


def test_the_largest_integers_come_back() -> None:
    for number in (10**4300 - 1, 1 - 10**4300, -(2**63), -(2**63) - 1, 2**63):
        assert_same(binary.decode(binary.encode(number)), number)


def test_signalling_nan_keeps_its_bits() -> None:
    for bits in (0x7FF0000000000001, 0xFFF8000000000000, 0x7FFFFFFFFFFFFFFF):
        number = struct.unpack("<d", struct.pack("<Q", bits))[0]
        received = binary.decode(binary.encode(number))
        assert math.isnan(received)
        assert struct.unpack("<Q", struct.pack("<d", received))[0] == bits


@pytest.mark.parametrize(
    "value",
    [
        [{}] * 1000,
        [{"a": 1.0, "b": np.float32(2)}] * 1000,
        [{1: "a"}, {True: "b"}, {1.0: "c"}, {1: "d"}],
        [{"a": {1: 0}}, {"a": {True: 0}}],
        [(), (), [], []],
        [None, None, "a", "b", None],
        [np.zeros(1), np.zeros(1), np.zeros((1, 1))],
    ],
)
def test_lists_of_one_kind_and_of_nearly_one_kind(value: Any) -> None:
    # Of keys, 1, 1.0 and true are equal.
    assert repr(binary.decode(binary.encode(value))) == repr(value)
