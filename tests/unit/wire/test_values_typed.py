"""Values in typed JSON come back unchanged; invalid JSON is refused."""

import base64
import json
import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_wire.values import BadValue, UnsupportedValue, typed
from gym_http_wire.values.described import MAX_SPACE_BYTES
from tests.support.faults.mutated_messages import answered, peak
from tests.support.strict_json import parse_strictly
from tests.support.values import VALUES, assert_same

OBJECTS = np.empty((1, 2), object)
OBJECTS[:] = [[None, "x"]]

# Written by hand from the format, not copied from the encoder's output.
VECTORS: list[tuple[object, str]] = [
    (None, "null"),
    (True, "true"),
    (2**53, "9007199254740992"),
    (-(2**53), "-9007199254740992"),
    (2**53 + 1, '{"$t":"int","v":"9007199254740993"}'),
    (-(2**64), '{"$t":"int","v":"-18446744073709551616"}'),
    (1.0, "1.0"),
    (-0.0, "-0.0"),
    (0.1, "0.1"),
    (math.nan, '{"$t":"float","v":"nan"}'),
    (-math.inf, '{"$t":"float","v":"-inf"}'),
    (-math.nan, '{"$t":"float","v":"fff8000000000000"}'),
    ("hé\n", '"hé\\n"'),
    ("a\ud800", '{"$t":"str","v":"Ye2ggA=="}'),
    (b"\0\xff", '{"$t":"bytes","v":"AP8="}'),
    ([], "[]"),
    ((1, ()), '{"$t":"tuple","v":[1,{"$t":"tuple","v":[]}]}'),
    ({"b": 1, "a": {}}, '{"b":1,"a":{}}'),
    ({"$t": 1}, '{"$t":"dict","v":[["$t",1]]}'),
    ({"\ud800": 1}, '{"$t":"dict","v":[[{"$t":"str","v":"7aCA"},1]]}'),
    ({2: 3, "a": 4}, '{"$t":"dict","v":[[2,3],["a",4]]}'),
    (
        {(None, 1.5): True},
        '{"$t":"dict","v":[[{"$t":"tuple","v":[null,1.5]},true]]}',
    ),
    (
        np.array([1, -2], "<f4"),
        '{"$t":"nd","d":"<f4","s":[2],"v":"AACAPwAAAMA="}',
    ),
    (
        np.array([[1], [-2]], ">i2"),
        '{"$t":"nd","d":">i2","s":[2,1],"v":"AAH//g=="}',
    ),
    (np.array(True), '{"$t":"nd","d":"|b1","s":[],"v":"AQ=="}'),
    (np.zeros((0, 3), "<M8[ns]"), '{"$t":"nd","d":"<M8[ns]","s":[0,3],"v":""}'),
    (np.float32(1), '{"$t":"ns","d":"<f4","v":"AACAPw=="}'),
    (np.str_("é"), '{"$t":"ns","d":"<U1","v":"6QAAAA=="}'),
    (np.str_("\ud800"), '{"$t":"ns","d":"<U1","v":"ANgAAA=="}'),
    (np.str_("a\0"), '{"$t":"ns","d":"<U2","v":"YQAAAAAAAAA="}'),
    (np.bytes_(b"a\0"), '{"$t":"ns","d":"|S2","v":"YQA="}'),
    (OBJECTS, '{"$t":"oa","s":[1,2],"v":[null,"x"]}'),
    (
        GraphInstance(np.uint8(1), [], None),
        '{"$t":"graph","nodes":{"$t":"ns","d":"|u1","v":"AQ=="},'
        '"edges":[],"edge_links":null}',
    ),
    (AutoresetMode.NEXT_STEP, '{"$t":"autoreset","v":"NextStep"}'),
    (
        gs.Discrete(2),
        '{"$t":"space","v":{"type":"Discrete","n":2,"start":0,"dtype":"int64"}}',
    ),
]


@pytest.mark.parametrize(("value", "text"), VECTORS, ids=repr)
def test_text(value: object, text: str) -> None:
    assert typed.encode(value).decode() == text
    assert_same(typed.decode(text.encode()), value)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_any_parser_reads_it(value: Any) -> None:
    text = typed.encode(value)
    tree = parse_strictly(text.decode())
    # The output of another writer, with spaces and escapes, is the same value.
    again = json.dumps(tree, indent=1)
    assert_same(typed.decode(again.encode()), value)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_never_look_like_integers(number: float) -> None:
    text = typed.encode(number).decode()
    assert "." in text or "e" in text
    assert_same(typed.decode(text.encode()), number)


def test_the_tag_may_come_later() -> None:
    # A table in Lua has no order.
    assert typed.decode(b'{"v":"7","$t":"int"}') == 7


def test_native_types_may_be_written_in_other_forms() -> None:
    assert_same(typed.decode(b"18446744073709551616"), 2**64)
    assert_same(typed.decode(b'"\\ud800"'), "\ud800")
    assert_same(typed.decode(b'{"\\ud800":1e0}'), {"\ud800": 1.0})


TAGS = ["int", "float", "str", "bytes", "tuple", "dict", "nd", "ns", "oa", "graph"]
TAGS += ["autoreset", "space"]


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.sampled_from(["", "nan", "<f4", "|S0", "<U1", "AA==", "NextStep", "9"]),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["a", "$t", "type"]), inner, max_size=3),
            st.builds(
                lambda tag, rest: {"$t": tag, **rest},
                st.sampled_from(TAGS),
                st.one_of(
                    st.fixed_dictionaries({"v": inner}),
                    st.fixed_dictionaries({"d": inner, "v": inner}),
                    st.fixed_dictionaries({"s": inner, "v": inner}),
                    st.fixed_dictionaries({"d": inner, "s": inner, "v": inner}),
                    st.fixed_dictionaries(
                        {"nodes": inner, "edges": inner, "edge_links": inner}
                    ),
                ),
            ),
        ),
        max_leaves=12,
    )
)
def test_any_tree_is_a_value_or_refused(tree: Any) -> None:
    answered(typed.decode, json.dumps(tree).encode())


def tagged(tag: object, **fields: object) -> bytes:
    return json.dumps({"$t": tag, **fields}).encode()


BOX = {"type": "Box", "dtype": "float32", "shape": [1], "low": 0, "high": 1}
BIGINTS = [[{"$t": "int", "v": str(n * (2**61 - 1))}, 0] for n in range(999)]
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "JSON"),
    "blank": (b" ", "JSON"),
    "no UTF-8": (b'"\xff"', "UTF-8"),
    "surrogate in UTF-8": (b'"\xed\xa0\x80"', "UTF-8"),
    "UTF-16": ('"a"'.encode("utf-16"), "UTF-8"),
    "byte order mark": ("\ufeff1".encode(), "JSON"),
    "NaN": (b"[NaN]", "NaN is no JSON"),
    "Infinity": (b"-Infinity", "-Infinity is no JSON"),
    "beyond all floats": (b"[1e999]", "beyond all floats"),
    "endless integer": (b"9" * 100_000, "JSON"),
    "two": (b"1 2", "JSON"),
    "twice": (b'{"a":1,"b":2,"a":3}', 'the key "a" is there twice'),
    "tag twice": (b'{"$t":"int","$t":"str","v":"1"}', "twice"),
    "comma": (b"[1,]", "JSON"),
    "control character": (b'"\n"', "JSON"),
    "no tag of ours": (tagged("set", v=[]), "unknown"),
    "tag of a list": (tagged([], v=[]), "unknown"),
    "tag of null": (tagged(None), "unknown"),
    "no fields": (tagged("int"), "must have"),
    "more fields": (tagged("int", v="1", d="<f4"), "must have"),
    "int of int": (tagged("int", v=1), "no integer"),
    "int of float": (tagged("int", v="1.0"), "no integer"),
    "int of nothing": (tagged("int", v=""), "no integer"),
    "int of a sign": (tagged("int", v="-"), "no integer"),
    "int with a plus": (tagged("int", v="+1"), "no integer"),
    "int with a blank": (tagged("int", v=" 1"), "no integer"),
    "int with a newline": (tagged("int", v="1\n"), "no integer"),
    "int with an underline": (tagged("int", v="1_0"), "no integer"),
    "int of other digits": (tagged("int", v="\u0661"), "no integer"),
    "int of many digits": (tagged("int", v="9" * 4301), "no integer"),
    "float of words": (tagged("float", v="infinity"), "no float"),
    "float of few bits": (tagged("float", v="7ff8"), "no float"),
    "float of letters": (tagged("float", v="7FF8000000000001"), "no float"),
    "float of a number": (tagged("float", v=1.5), "no float"),
    "str of no UTF-8": (tagged("str", v="/w=="), "UTF-8"),
    "str of null": (tagged("str", v=None), "needs base64"),
    "bytes of a list": (tagged("bytes", v=[1]), "needs base64"),
    "base64 in another alphabet": (tagged("bytes", v="-_8="), "needs base64"),
    "base64 with a blank": (tagged("bytes", v="AA =="), "needs base64"),
    "base64 with a newline": (tagged("bytes", v="AAAA\n"), "needs base64"),
    "base64 without padding": (tagged("bytes", v="AA"), "needs base64"),
    "base64 of padding": (tagged("bytes", v="===="), "needs base64"),
    "base64 with more padding": (tagged("bytes", v="AAAA===="), "needs base64"),
    "base64 padded within": (tagged("bytes", v="AA==AAAA"), "needs base64"),
    "base64 with bits left": (tagged("bytes", v="AB=="), "without further bits"),
    "base64 with two bits left": (tagged("bytes", v="AAB="), "without further bits"),
    "base64 of letters": (tagged("bytes", v="ÀÀÀÀ"), "needs base64"),
    "tuple of an object": (tagged("tuple", v={}), "needs a list"),
    "dict of an object": (tagged("dict", v={}), "needs a list"),
    "dict of no pairs": (tagged("dict", v=[["a"]]), "pairs of a key and a value"),
    "dict of strings": (tagged("dict", v=["ab"]), "pairs of a key and a value"),
    "key twice": (tagged("dict", v=[["a", 1], ["a", 1]]), "a key twice"),
    "equal keys": (tagged("dict", v=[[1, 1], [1.0, 1]]), "a key twice"),
    "key of a list": (tagged("dict", v=[[[], 1]]), "a key that no dict may have"),
    "key of an object": (tagged("dict", v=[[{}, 1]]), "a key that no dict may have"),
    "key of a tuple of a list": (
        tagged("dict", v=[[{"$t": "tuple", "v": [[]]}, 1]]),
        "a key that no dict may have",
    ),
    "key of a tuple of no list": (
        tagged("dict", v=[[{"$t": "tuple", "v": 1}, 1]]),
        "needs a list",
    ),
    "key of an array": (
        tagged("dict", v=[[{"$t": "nd", "d": "|b1", "s": [], "v": "AQ=="}, 1]]),
        "a key that no dict may have",
    ),
    "key of a space": (
        tagged("dict", v=[[{"$t": "space", "v": BOX}, 1]]),
        "a key that no dict may have",
    ),
    "key without a hash": (
        tagged("dict", v=[[{"$t": "ns", "d": "<m8", "v": "AAAAAAAAAAA="}, 1]]),
        "no hash",
    ),
    "keys with the same hash": (tagged("dict", v=BIGINTS), "the same hash"),
    "many keys": (tagged("dict", v=[[n, 0] for n in range(10_001)]), "10000 keys"),
    "object dtype": (tagged("nd", d="|O", s=[1], v="AAAAAAAAAAA="), "unknown"),
    "object scalar": (tagged("ns", d="|O", v="AAAAAAAAAAA="), "unknown"),
    "bomb": (tagged("nd", d="<f8", s=[2**31 - 1] * 32, v=""), "impossible shape"),
    "empty bomb": (tagged("oa", s=[0, *[2**31 - 1] * 9], v=[]), "impossible shape"),
    "fewer bytes": (tagged("nd", d="<f8", s=[2**31 - 1], v="AA=="), "17179869176"),
    "one byte less": (tagged("nd", d="|i1", s=[3], v="AAA="), "base64 of 3 bytes"),
    "one byte more": (tagged("nd", d="|i1", s=[2], v="AAAA"), "base64 of 2 bytes"),
    "scalar of more": (tagged("ns", d="<f4", v="AAAAAAAA"), "base64 of 4 bytes"),
    "other boolean": (tagged("ns", d="|b1", v="Ag=="), "neither true"),
    "array of other booleans": (tagged("nd", d="|b1", s=[], v="Ag=="), "neither true"),
    "no such character": (
        tagged("nd", d=">U1", s=[1], v="ABEAAA=="),
        "characters that do not exist",
    ),
    "objects of other bytes": (tagged("oa", s=[1], v="AAAA"), "needs a list"),
    "fewer objects": (tagged("oa", s=[2], v=[1]), "needs 2 items"),
    "no such mode": (tagged("autoreset", v="NEXT_STEP"), "no mode of autoreset"),
    "mode of a list": (tagged("autoreset", v=["NextStep"]), "no mode of autoreset"),
    "no space": (tagged("space", v=[]), "cannot be rebuilt"),
    "large space": (
        tagged("space", v={**BOX, "shape": [2**30]}),
        "takes, with other spaces, over",
    ),
    "many spaces": (
        json.dumps([{"$t": "space", "v": {**BOX, "shape": [2**20]}}] * 99).encode(),
        "takes, with other spaces, over",
    ),
    "deep": (b"[" * 10**5 + b"]" * 10**5, "nested too deep"),
    "deep objects": (b'{"a":' * 10**5 + b"1" + b"}" * 10**5, "nested too deep"),
    "deep tags": (b'{"$t":"tuple","v":[' * 10**5, "nested too deep"),
    "deep key": (
        b'{"$t":"dict","v":[[' + b'{"$t":"tuple","v":[' * 100 + b"]}" * 100 + b",1]]}",
        "nested deeper than 64 levels",
    ),
    "65 levels": (b"[" * 65 + b"]" * 65, "nested deeper than 64 levels"),
    "65 levels of dicts": (
        b'{"a":' * 65 + b"1" + b"}" * 65,
        "nested deeper than 64 levels",
    ),
    "65 levels of tuples": (
        b'{"$t":"tuple","v":[' * 65 + b"]}" * 65,
        "nested deeper than 64 levels",
    ),
    "65 levels of pairs": (
        b'{"$t":"dict","v":[["a",' * 65 + b"1" + b"]]}" * 65,
        "nested deeper than 64 levels",
    ),
    "65 levels of objects": (
        b'{"$t":"oa","s":[1],"v":[' * 65 + b"1" + b"]}" * 65,
        "nested deeper than 64 levels",
    ),
    "65 levels of graphs": (
        b'{"$t":"graph","edges":0,"edge_links":0,"nodes":' * 65 + b"1" + b"}" * 65,
        "nested deeper than 64 levels",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_values_are_refused(case: str) -> None:
    data, expected = HOSTILE[case]

    def refuse() -> None:
        with pytest.raises(BadValue) as caught:
            typed.decode(data)
        assert expected in str(caught.value)
        assert len(str(caught.value)) < 1000

    # Parsers take some memory for what is there, but none for what is announced, but
    # for spaces.
    announced = MAX_SPACE_BYTES if case == "many spaces" else 0
    assert peak(refuse) < 40 * len(data) + 2**20 + announced


def test_a_refusal_names_the_place() -> None:
    text = (
        b'{"info":[null,{"$t":"graph","nodes":{"a":{"$t":"x"}},"edges":1,'
        b'"edge_links":1}]}'
    )
    with pytest.raises(BadValue) as caught:
        typed.decode(text)
    assert str(caught.value).startswith('value["info"][1].nodes["a"] has an unknown $t')
    caught.value.root = "answer"
    assert str(caught.value).startswith(
        'answer["info"][1].nodes["a"] has an unknown $t'
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"info": {"a": [0, 1, {1}]}}, 'value["info"]["a"][2] is of a type'),
        ({"info": ({"a": object()},)}, 'value["info"][0]["a"] is of a type'),
        ([np.array([None, {1}], object)], "value[0][1] is of a type"),
        ([GraphInstance(1, {2}, None)], "value[0].edges is of a type"),
        ({3: bytearray(1)}, "value[3] is of a type that cannot be sent: bytearray"),
        ([math], "value[0] is of a type that cannot be sent: module"),
        ([np.float32], "value[0] is of a type that cannot be sent: type"),
        (np.zeros(1, "V4"), "value is of a dtype that cannot be sent: |V4"),
        (np.zeros(1, "f4,i4"), "value is of a dtype that cannot be sent"),
        (np.zeros(1, [("a", object)]), "value is of a dtype that cannot be sent"),
        (np.zeros((1,) * 33), "value has more than 32 axes"),
        (np.zeros(1, [("a", "S0")])["a"], "value is an array of nothing"),
        (np.zeros(1, "S2000000"), "value is of a dtype that cannot be sent"),
        (np.clongdouble(1), "value is of a dtype that cannot be sent"),
        (np.void(b"abc"), "value is of a dtype that cannot be sent"),
        (np.array([2**30], "u4").view("U1"), "value has characters that do not"),
        (np.ma.masked_array([1, 2], [True, False]), "value is a masked array"),
        ({frozenset(): 1}, "value has a key of a type that no key may have"),
        ({(1, frozenset()): 1}, "value has a key of a type that no key may have"),
        ({AutoresetMode.DISABLED: 1}, "value has a key of a type that no key may"),
        (10**4300, "value is an integer of more than 4300 digits"),
        (gs.Tuple([gs.Discrete(2)] * 4100), "value is a space that takes over"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_values_that_cannot_be_sent_are_named(value: Any, expected: str) -> None:
    with pytest.raises(UnsupportedValue) as caught:
        typed.encode(value)
    assert str(caught.value).startswith(expected)


def test_cycles_are_named() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = [endless, endless]
    with pytest.raises(UnsupportedValue, match="nested deeper than 64 levels"):
        typed.encode(endless)
    itself = np.empty(1, object)
    itself[0] = itself
    with pytest.raises(UnsupportedValue, match="nested deeper than 64 levels"):
        typed.encode(itself)


def test_noise_in_base64_is_refused() -> None:
    text = base64.b64encode(bytes(range(256))).decode()
    for index in range(0, len(text), 7):
        broken = f"{text[:index]}*{text[index + 1 :]}"
        with pytest.raises(BadValue):
            typed.decode(tagged("bytes", v=broken))
