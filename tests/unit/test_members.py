"""Members of requests: what is read, and that checks and JSON Schema agree."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gym_http_server.operations.members import (
    AnyObject,
    Anything,
    Choice,
    Either,
    Flag,
    Integer,
    Kind,
    ListOf,
    MapOf,
    Member,
    Name,
    Number,
    ObjectOf,
    Seconds,
    Text,
    even_null,
    object_schema,
    read,
    read_texts,
    unknown_members,
)
from gym_http_wire.problems import BadParameter, MissingParameter

MEMBERS = {
    "buffer": Member(Integer(1, 1024), "Updates that are kept.", default=64),
    "wait_s": Member(Seconds(0, 50), "Seconds to wait."),
    "mode": Member(Choice(("elastic", "free-running"))),
}
OBJECT = ObjectOf(
    {"clip": Member(Flag(), null=True), "rate": Member(Number(0, 5))}, even_null
)
KINDS: list[Kind] = [
    Integer(0, 10),
    Integer(-5, None),
    Number(0, 1),
    Number(0, 3600, above=True),
    Flag(),
    Choice(("all", "latest")),
    Text(1, 4),
    Text(0, 3),
    Name(),
    Name(chosen=True),
    Number(-math.inf, 5),
    Number(0, math.inf, above=True),
    ListOf(Integer(0, 3), 1, 2),
    ListOf(Anything(), 0, 2),
    Either(Choice(("all", "latest")), ListOf(Number(-1, 1), 1, 2)),
    OBJECT,
    Either(Flag(), OBJECT),
    AnyObject(),
    Integer(-1, 2**63 - 1),
    MapOf(Number(0, 5), 1, 2),
]
NUMBERS = st.one_of(st.integers(-12, 12), st.floats(-12, 12), st.integers())
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.text(max_size=5),
    st.sampled_from(["all", "latest", "a-1", "A.b_2", "-a"]),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.sampled_from(["clip", "rate"]), st.booleans() | NUMBERS),
    st.dictionaries(st.sampled_from(["clip", "rate"]), st.none() | st.booleans()),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@given(value=VALUES)
@example(value=1e1)
@example(value=10**400)
@example(value=True)
@example(value=0)
def test_a_value_is_accepted_if_it_fits_the_schema(kind: Kind, value: Any) -> None:
    fits = jsonschema.Draft202012Validator(kind.schema()).is_valid(value)
    if fits and not (isinstance(kind, Number) and value == 10**400):
        found = kind.read(value, "it")
        assert found == value
    else:
        with pytest.raises(BadParameter, match="expected"):
            kind.read(value, "it")


@given(number=NUMBERS | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_means_the_same_in_a_query_and_a_body(number: float) -> None:
    kind = Number(-math.inf, math.inf)
    text = json.dumps(number)
    if len(text) <= 40:
        assert kind.parse(text, "it") == kind.read(json.loads(text), "it") == number


@pytest.mark.parametrize("text", ["10", "10.0", "1e1", "1E+1", "100e-1", "010"])
def test_an_integer_has_many_spellings(text: str) -> None:
    assert Integer(1, 1024).parse(text, "it") == 10


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        (Integer(), 0, 9007199254740991),
        (Integer(1, note="(--buffer)"), 1, 9007199254740991),
        (Integer(-1, 1024), -1, 1024),
        (Integer(0, 2**63 - 1), 0, 9223372036854775807),
    ],
)
def test_a_refused_integer_is_told_both_limits(
    kind: Integer, least: int, most: int
) -> None:
    for value in (least - 1, most + 1, 2.0**70, "x"):
        with pytest.raises(BadParameter) as refused:
            kind.read(value, "it")
        words = f"it is {value!r}: expected an integer from {least} to {most}"
        assert refused.value.message.removesuffix(" (--buffer)") == words


@pytest.mark.parametrize(
    "text", ["", " 1", "1_0", "٣", "0x1", "1.", ".5", "nan", "1e400", "1" * 50, "1.5"]
)
def test_other_text_is_no_integer(text: str) -> None:
    with pytest.raises(BadParameter, match="expected an integer from 1 to 1024"):
        Integer(1, 1024).parse(text, "buffer")


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, -(10**400)])
def test_a_number_is_one_that_a_float_can_represent(value: float) -> None:
    for kind, words in (
        (Number(-math.inf, math.inf), "expected a finite number"),
        (Seconds(0, math.inf), "expected seconds from 0"),
    ):
        with pytest.raises(BadParameter, match=f"{words}$"):
            kind.read(value, "it")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            "max",
            "scalar is 'max': expected 'sum' or 'mean', or a list of 1 to 2 weights",
        ),
        ([1, "x"], "scalar[1] is 'x': expected a finite number"),
        ([], "scalar has 0 items: expected a list of 1 to 2 weights"),
    ],
)
def test_a_list_in_place_of_a_value_is_refused_at_its_item(
    value: Any, words: str
) -> None:
    weights = ListOf(Number(-math.inf, math.inf), 1, 2, "weights")
    with pytest.raises(BadParameter) as raised:
        Either(Choice(("sum", "mean")), weights).read(value, "scalar")
    assert raised.value.message == words


def test_a_name_ends_before_a_line_break() -> None:
    # Python's own readers of JSON Schema take `$` for the place before one.
    with pytest.raises(BadParameter):
        Name().read("a\n", "run")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"buffer": 0}, "buffer is 0: expected an integer from 1 to 1024"),
        ({"wait_s": True}, "wait_s is True: expected seconds from 0 to 50"),
        (
            {"mode": "elastik"},
            "mode is 'elastik': expected 'elastic' or 'free-running'; did you mean "
            "'elastic'?",
        ),
        (
            {"bufferr": 1},
            "the request has the unknown member 'bufferr': expected some of buffer, "
            "wait_s, mode; did you mean 'buffer'?",
        ),
        ([], "the request is []: expected an object"),
    ],
)
def test_a_refusal_says_what_would_be_right(given: Any, words: str) -> None:
    with pytest.raises(BadParameter) as raised:
        read(MEMBERS, given)
    assert raised.value.message == words


def test_null_is_absent_unless_it_has_a_meaning() -> None:
    members = {"a": Member(Integer()), "b": Member(Integer(), null=True)}
    assert read(members, {"a": None, "b": None}) == {"b": None}
    with pytest.raises(BadParameter, match="a is None: expected an integer"):
        read(members, {"a": None}, is_given=even_null)


def test_a_required_member_is_missed() -> None:
    members = {"leases": Member(ListOf(Name()), required=True)}
    with pytest.raises(MissingParameter):
        read(members, {"leases": None})
    with pytest.raises(MissingParameter):
        read_texts(members, {})
    assert object_schema(members)["required"] == ["leases"]


def test_members_of_an_inner_object_have_its_name() -> None:
    members = {"limits": Member(ObjectOf({"clip": Member(Flag())}))}
    with pytest.raises(BadParameter, match=r"^limits\.clip is 1: expected true"):
        read(members, {"limits": {"clip": 1}})


def test_unknown_members_can_be_ignored_and_named() -> None:
    request = {"buffer": 2, "wait": 1}
    assert read(MEMBERS, request, ignores=True) == {"buffer": 2}
    (warning,) = unknown_members(MEMBERS, request, "the reset")
    words = "the member 'wait' of the reset is unknown; did you mean 'wait_s'?"
    assert warning == words
    (warning,) = unknown_members(MEMBERS, ["x"], otherwise="; see the documents")
    assert warning == "the member 'x' of the request is unknown; see the documents"


@pytest.mark.parametrize("blank", [None, "", []])
def test_a_blank_member_counts_as_absent(blank: Any) -> None:
    members = {
        "seed": Member(Integer(0, None), blank=True),
        "hz": Member(Integer(0, None)),
    }
    assert read(members, {"seed": blank}) == {}
    assert jsonschema.Draft202012Validator(object_schema(members)).is_valid(
        {"seed": blank}
    )
    required = {"seed": Member(Integer(0, None), blank=True, required=True)}
    with pytest.raises(MissingParameter, match="'seed'"):
        read(required, {"seed": blank})
    if blank is not None:
        with pytest.raises(BadParameter, match="hz is"):
            read(members, {"hz": blank})


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_a_flag_in_a_query_has_any_case(text: str) -> None:
    assert Flag().parse(text, "available") is True
    with pytest.raises(BadParameter, match="expected true or false"):
        Flag().parse("yes", "available")
