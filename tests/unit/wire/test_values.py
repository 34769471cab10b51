"""Values in typed JSON and in the binary form come back unchanged."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_wire.values import BadValue, UnsupportedValue, binary, typed
from tests.support.faults.mutated_messages import answered, mutated
from tests.support.values import (
    FLOATS,
    INTS,
    KEYS,
    TEXTS,
    VALUES,
    VALUES_AND_SPACES,
    assert_same,
    numpy_scalars,
    plain_arrays,
)

KINDS = [INTS, FLOATS, TEXTS, st.binary(), plain_arrays(), numpy_scalars()]
WHOLE = {"a": np.arange(3), "b": ["x", 1.5, (True, 2**70, b"y")]}

pytestmark = pytest.mark.parametrize("form", [binary, typed], ids=["binary", "typed"])


@pytest.mark.parametrize(
    "values", KINDS, ids=["int", "float", "str", "bytes", "array", "scalar"]
)
def test_every_kind_comes_back(
    form: ModuleType, values: st.SearchStrategy[Any]
) -> None:
    @settings(max_examples=100, deadline=None)
    @given(values)
    def check(value: Any) -> None:
        assert_same(form.decode(form.encode(value)), value)

    check()


@settings(max_examples=150, deadline=None)
@given(value=VALUES_AND_SPACES)
def test_nested_values_come_back(form: ModuleType, value: Any) -> None:
    message = form.encode(value)
    assert_same(form.decode(message), value)
    assert_same(form.decode(memoryview(bytearray(message))), value)


@settings(deadline=None)
@given(value=st.dictionaries(KEYS, st.none()))
def test_keys_come_back(form: ModuleType, value: dict[Any, None]) -> None:
    assert_same(form.decode(form.encode(value)), value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3000.0),
        np.asfortranarray(np.arange(6000, dtype=">i4").reshape(60, 100)),
        np.arange(5000).astype("M8[s]"),
        np.array("x" * 3000),
        np.ones((70, 80), bool)[::2],
    ],
    ids=["floats", "Fortran", "dates", "text", "every other"],
)
def test_large_arrays_come_back(form: ModuleType, array: Any) -> None:
    assert_same(form.decode(form.encode(array)), array)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_broken_message_is_a_value_or_refused(
    form: ModuleType, data: st.DataObject
) -> None:
    message = data.draw(mutated(VALUES.map(form.encode)))
    is_value, value = answered(form.decode, message)
    if is_value:
        assert_same(form.decode(form.encode(value)), value)


def test_truncated_at_every_byte(form: ModuleType) -> None:
    message = form.encode(WHOLE)
    for size in range(len(message)):
        with pytest.raises(BadValue):
            form.decode(message[:size])


def test_keys_that_a_reader_finds_twice_are_not_written(form: ModuleType) -> None:
    for keys in ((float("nan"), float("nan")), ((float("nan"),), (float("nan"),))):
        with pytest.raises(UnsupportedValue, match="keys that become the same"):
            form.encode(dict.fromkeys(keys, 1))
    one = form.decode(form.encode({float("nan"): 1, (1, 2): 2, (1, 3): 3, 1.5: 4}))
    assert list(one.values()) == [1, 2, 3, 4]
