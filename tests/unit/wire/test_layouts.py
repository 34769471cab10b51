"""Layouts write and read values with arrays of objects as the general path does."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.signatures import ReceivedSignatures
from gym_http_wire.values import binary
from gym_http_wire.values.fixed import Reader, Unfit
from gym_http_wire.values.layouts import Layout, Layouts
from gym_http_wire.values.refusal import BadValue
from tests.support.values import VALUES, assert_same

BITS = st.binary(min_size=12, max_size=12)
#: Observations, by their space; each strategy has one signature.
OBSERVATIONS: list[st.SearchStrategy[Any]] = [
    BITS.map(lambda bits: np.frombuffer(bits, np.float32).copy()),
    st.lists(st.booleans(), min_size=3, max_size=3).map(np.array),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 5).map(np.int64),
    st.tuples(st.booleans(), st.floats()),
    st.builds(
        # Keys that look like parts of a signature.
        lambda number, bits: {"none": None, '"none"': number, '{"oa":[': bits},
        st.floats(),
        BITS.map(lambda bits: np.frombuffer(bits, np.uint8).copy()),
    ),
]


def objects(items: list[Any]) -> Any:
    """Return a one-dimensional array of objects."""
    array = np.empty(len(items), object)
    for index, item in enumerate(items):
        array[index] = item
    return array


def ended(last: list[Any], *, more: Any = None) -> dict[str, Any]:
    """Return the result of a step in which some episodes ended."""
    has = np.array([each is not None for each in last])
    info = {"final_obs": objects(last), "_final_obs": has, "final_info": {}}
    return {
        "info": info if more is None else {**info, "more": objects(more)},
        "observation": np.arange(4.0 * len(last)).reshape(len(last), 4),
        "terminated": has,
    }


def both(value: Any) -> tuple[bytes, bytes]:
    """Write a value in the general way: signature and leaves."""
    signature, leaves = binary.split(value)
    return bytes(signature), b"".join(leaves)


@st.composite
def values(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two results of the same vector."""
    item = draw(st.sampled_from(OBSERVATIONS))
    count = draw(st.integers(1, 5))
    extra = draw(st.none() | st.sampled_from(OBSERVATIONS))
    drawn = []
    for _ in range(2):
        last = draw(st.lists(st.none() | item, min_size=count, max_size=count))
        more = None
        if extra is not None:
            more = draw(st.lists(st.none() | extra, min_size=2, max_size=2))
        drawn.append((last, more))
    for part, strategy in zip(drawn[0], (item, extra), strict=True):
        if (
            part is not None
            and strategy is not None
            and not any(each is not None for each in part)
        ):
            part[-1] = draw(strategy)
    one, other = (ended(last, more=more) for last, more in drawn)
    return one, other


@given(values())
def test_all_values_of_a_layout_are_written_and_read_as_in_general(
    pair: tuple[Any, Any],
) -> None:
    first, value = pair
    layout = Layout(both(first)[0])
    for each in (first, value):
        signature, leaves = both(each)
        assert layout.write(each) == (signature, leaves)
        reader = layout.reader(signature)
        assert reader is not None
        data = b"12345678" + leaves
        assert_same(reader(data, 8), binary.compile_reader(signature)(data, 8))
        assert_same(reader(memoryview(data), 8), each)


@given(values(), VALUES)
def test_a_layout_takes_only_its_own_values(pair: tuple[Any, Any], other: Any) -> None:
    value, same = pair
    layout = Layout(both(value)[0])
    last = value["info"]["final_obs"].tolist()
    for changed in (
        other,
        {**value, "info": other},
        ended([other, *last[1:]]),
        ended([*last[:-1], other]),
        ended([*last, None]),
        {**value, "observation": other},
    ):
        assert layout.write(changed) in (None, both(changed))
    assert layout.write(same) == both(same)


@given(values(), st.binary(max_size=9), st.integers(0, 300), st.integers(0, 9))
def test_changed_signatures_are_refused_or_read_as_in_general(
    pair: tuple[Any, Any], change: bytes, place: int, removed: int
) -> None:
    layout = Layout(both(pair[0])[0])
    signature, leaves = both(pair[1])
    changed = signature[:place] + change + signature[place + removed :]
    reader = layout.reader(changed)
    if reader is not None:
        expected = binary.compile_reader(changed)(leaves, 0)
        assert_same(reader(leaves, 0), expected)


@pytest.mark.parametrize("fake", [b"1", b"0", b"x", b",", b"null", b'"none","none"'])
def test_signatures_with_other_items_are_refused(fake: bytes) -> None:
    signature = both(ended([None, 1, None, 2]))[0]
    layout = Layout(signature)
    for item in (b'"int"', b'"none"'):
        assert layout.reader(signature.replace(item, fake, 1)) is None
        assert layout.reader(signature.replace(item, fake)) is None


@given(values(), st.binary(min_size=1, max_size=9), st.integers(0, 200))
def test_changed_leaves_are_refused_or_read_as_in_general(
    pair: tuple[Any, Any], change: bytes, place: int
) -> None:
    layout = Layout(both(pair[0])[0])
    signature, leaves = both(pair[1])
    changed = leaves[:place] + change + leaves[place + len(change) :]
    reader = layout.reader(signature)
    assert reader is not None
    assert_same_result(reader, binary.compile_reader(signature), changed)


def assert_same_result(reader: Reader, general: Reader, data: bytes) -> None:
    """Check that two readers return the same, or raise the same."""
    results: list[Any] = []
    for each in (general, reader):
        try:
            results.append([each(data, 0)])
        except BadValue as error:
            results.append(str(error))
    assert_same(results[1], results[0])


@pytest.mark.parametrize(
    "value",
    [
        {"reward": 1.0},
        ended([None, None]),
        ended([1, 1.0]),
        ended(["text", None]),
        ended([2**70, None]),
        ended([objects([1]), None]),
        {"grid": objects([1, None]).reshape(1, 2), "sum": 1.0},
        ended([np.zeros(20_000), None]),
    ],
)
def test_other_values_have_no_layout(value: Any) -> None:
    with pytest.raises(Unfit):
        Layout(both(value)[0])


def test_repeated_signatures_get_a_layout() -> None:
    layouts = Layouts()
    first, second, third = (
        ended([1 if at == n else None for at in range(9)]) for n in range(3)
    )
    layouts.learn(both(first)[0])
    assert layouts.write(third) is None
    layouts.learn(both(second)[0])
    assert layouts.write(third) == both(third)
    assert layouts.reader(both(third)[0]) is not None
    for unlike in (ended([1.0]), {"reward": 1.0}):
        assert layouts.write(unlike) is None
        assert layouts.reader(both(unlike)[0]) is None


def test_a_stream_makes_few_layouts() -> None:
    layouts = Layouts()
    for count in range(1, 50):
        for _ in range(2):
            layouts.learn(both(ended([1] * count))[0])
    written = [layouts.write(ended([1] * count)) for count in range(1, 50)]
    assert 0 < sum(each is not None for each in written) <= 4


def test_received_values_of_a_layout_are_read_as_in_general() -> None:
    received = ReceivedSignatures()
    for number in range(1, 9):
        value = ended([number if at == number else None for at in range(9)])
        signature, leaves = both(value)
        head = len(signature).to_bytes(4, "little") + number.to_bytes(4, "little")
        assert_same(received.read(head + signature + leaves, 0), value)
        head = bytes(4) + number.to_bytes(4, "little")
        assert_same(received.read(head + leaves, 0), value)
        with pytest.raises(BadValue):
            received.read(head + leaves[:-1], 0)
