"""Declared columns: bodies in three forms, with names, dtypes and shapes that fit."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.errors import BadColumns
from gym_http_server.services.relay.calls import DeclaredColumn
from gym_http_server.services.relay.columns import DTYPES, MAX_JSON_BYTES, check_columns
from gym_http_wire.values import binary, typed

BINARY = "application/vnd.gym-http.binary"
TYPED = "application/vnd.gym-http.typed+json"
PLAIN = "application/json"
DECLARED = {
    "observation": DeclaredColumn("float32", (2,)),
    "action": DeclaredColumn("int64", ()),
    "done": DeclaredColumn("bool", ()),
}
FORMS = {BINARY: binary.encode, TYPED: typed.encode}


def columns(count: int = 3) -> dict[str, Any]:
    return {
        "observation": np.zeros((count, 2), np.float32),
        "action": np.zeros(count, np.int64),
        "done": np.zeros(count, bool),
    }


def check(body: bytes, media: str, count: int = 3) -> None:
    check_columns(DECLARED, count, media, memoryview(body))


def refusal(body: bytes, media: str, count: int = 3) -> str:
    with pytest.raises(BadColumns) as caught:
        check(body, media, count)
    return caught.value.message


@pytest.mark.parametrize("media", FORMS)
def test_columns_that_fit_are_accepted(media: str) -> None:
    check(FORMS[media](columns()), media)
    check(FORMS[media](columns()), media.upper() + "; charset=x")
    check(FORMS[media](columns(0)), media, 0)
    # Lists of Python's numbers have the dtypes of arrays made of them.
    lists = columns() | {"action": [1, 2, 3], "done": [True, False, True]}
    check(FORMS[media](lists), media)
    special = columns() | {"observation": np.full((3, 2), np.nan, np.float32)}
    check(FORMS[media](special), media)


@pytest.mark.parametrize("media", FORMS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (np.zeros(3, np.int32), "dtype int32 and shape [3]: expected int64"),
        (np.zeros((3, 1), np.int64), "shape [3, 1]: expected int64 and [3]"),
        (np.zeros(2, np.int64), "shape [2]: expected int64 and [3]"),
        (np.int64(3), "is neither array nor list"),
        (np.zeros(3, "U4"), "is neither array nor list"),
        ([1, 2.0, 3], "is neither array nor list"),
        ([[1], [2], [3]], "is neither array nor list"),
        ("text", "is neither array nor list"),
        (None, "is neither array nor list"),
        ({"a": np.zeros(3)}, "is neither array nor list"),
    ],
)
def test_other_columns_are_refused(media: str, change: Any, words: str) -> None:
    message = refusal(FORMS[media](columns() | {"action": change}), media)
    assert "'action'" in message
    assert words in message


@pytest.mark.parametrize("media", FORMS)
def test_undeclared_columns_may_be_anything(media: str) -> None:
    infos = [{"a": 1, "text": "xyz"}, {}, {"b": np.zeros(2)}, None]
    more = {"infos": infos, "length": 3, "return": 1.5, "mode": "training"}
    check(FORMS[media](more | columns()), media)
    check(FORMS[media](columns() | more), media)


@pytest.mark.parametrize("media", [*FORMS, PLAIN])
def test_observations_of_an_episode_begin_with_that_of_the_reset(media: str) -> None:
    declared = {
        "observations": DeclaredColumn("float32", ()),
        "rewards": DeclaredColumn("float32", ()),
    }

    def check_rows(observations: int, rewards: int) -> None:
        given = {
            "observations": np.zeros(observations, np.float32),
            "rewards": np.zeros(rewards, np.float32),
        }
        if media == PLAIN:
            plain = {name: array.tolist() for name, array in given.items()}
            body = msgspec.json.encode(plain)
        else:
            body = FORMS[media](given)
        check_columns(declared, 3, media, memoryview(body))

    check_rows(4, 3)
    check_rows(3, 3)
    for rows in ((5, 3), (4, 4), (2, 3)):
        with pytest.raises(BadColumns):
            check_rows(*rows)


@pytest.mark.parametrize("media", FORMS)
def test_a_missing_column_is_named(media: str) -> None:
    short = columns()
    del short["done"]
    assert "lacks 'done'" in refusal(FORMS[media](short), media)
    refusal(FORMS[media]([1, 2]), media)


@given(st.integers(1, 200), st.binary(max_size=9))
def test_a_body_that_was_cut_or_has_more_is_refused(cut: int, more: bytes) -> None:
    body = binary.encode(columns())
    refusal(body[:-cut], BINARY)
    if more:
        refusal(body + more, BINARY)


@given(st.binary(max_size=200), st.sampled_from([BINARY, TYPED, PLAIN, "text/plain"]))
def test_any_bytes_are_refused_with_the_same_problem(body: bytes, media: str) -> None:
    refusal(body, media)
    # A signature of any JSON.
    refusal(len(body).to_bytes(4, "little") + bytes(4) + body, BINARY)


@pytest.mark.parametrize(
    "signature",
    [
        '{"dict":1}',
        '{"dict":[1]}',
        '{"dict":[["observation"]]}',
        '{"dict":[["observation",{"nd":["<f4",[3,2]]},1]]}',
        '{"dict":[[["observation"],{"nd":["<f4",[3,2]]}]]}',
        '{"dict":[["observation",{"nd":["<f4",[-1,2]]}]]}',
        '{"dict":[["observation",{"nd":["<f4",[true,2]]}]]}',
        '{"dict":[["observation",{"nd":[[],{}]}]]}',
        '{"dict":[["observation",{"list":[[],{}]}]]}',
        '{"dict":[["observation",{"list":{"a":1}}]]}',
        "[" * 100_000,
    ],
)
def test_a_malformed_signature_is_refused(signature: str) -> None:
    text = signature.encode()
    text += b" " * (-len(text) % 8)
    refusal(len(text).to_bytes(4, "little") + bytes(4) + text, BINARY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"action": [0, 1, -(2**63)]}, ""),
        ({"action": [0, 1, 2**63]}, "expected values of int64"),
        ({"action": [0, 1, 2.0]}, "2.0: expected values of int64"),
        ({"action": [0, 1, True]}, "True: expected values of int64"),
        ({"done": [0, 1, True]}, "expected values of bool"),
        ({"observation": [[1, 2], [3, 4], [5]]}, "has 1 at level 1"),
        ({"observation": [[1, 2], [3, 4]]}, "has 2 at level 0"),
        ({"observation": [[1, 2], [3, 4], "ab"]}, "has 'ab' at level 1"),
        (
            {"observation": [[1, 2], [3, 4], [5, None]]},
            "None: expected values of float",
        ),
    ],
)
def test_plain_json_is_checked_number_by_number(change: Any, words: str) -> None:
    given = {
        "observation": [[1, 2], [3, 4.5], [5, 6]],
        "action": [0, 1, 2],
        "done": [False, False, True],
    }
    body = msgspec.json.encode(given | change)
    if words:
        assert words in refusal(body, PLAIN)
    else:
        check(body, PLAIN)


def test_plain_json_has_no_nan() -> None:
    body = b'{"observation":[[NaN,1]],"action":[1],"done":[true]}'
    assert "is not application/json" in refusal(body, PLAIN, 1)


def test_other_media_types_have_no_columns() -> None:
    assert "'application/x-pickle'" in refusal(b"\x80\x04", "application/x-pickle")


def test_the_dtypes_are_those_of_numpy() -> None:
    for name in DTYPES:
        array = np.zeros((2, 3), name)
        declared = {"x": DeclaredColumn(name, (3,))}
        for media, encode in FORMS.items():
            body = memoryview(encode({"x": array}))
            check_columns(declared, 2, media, body)


@pytest.mark.parametrize("shape", [[1] * 65, [2**53]])
def test_a_shape_that_no_array_has_is_refused_at_once(shape: list[int]) -> None:
    column = {"$t": "nd", "d": "<f4", "s": shape, "v": ""}
    body = msgspec.json.encode({"reward": column})
    assert "is no shape" in refusal(body, "application/vnd.gym-http.typed+json")


@pytest.mark.parametrize("media", [TYPED, PLAIN])
def test_json_is_checked_up_to_a_size(media: str) -> None:
    body = msgspec.json.encode({"note": "x" * MAX_JSON_BYTES})
    words = refusal(body, media)
    assert f"has {len(body)} bytes" in words
    assert BINARY in words
