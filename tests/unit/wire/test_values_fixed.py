"""The fast path for values writes and reads the same as the general path."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from gym_http_wire.values import binary
from gym_http_wire.values.fixed import fixed_reader, fixed_writer
from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.writing import Writing
from tests.support.values import VALUES, assert_same

ANSWER = {
    "info": {"lives": 3, "mask": np.array([1, 0, 1], np.int8)},
    "observation": np.array([0.0, -0.0, np.nan, 5e-324], np.float32),
    "reward": np.float64(-0.0),
    "terminated": False,
    "truncated": True,
    "ended": np.array([[True], [False], [True]]),
    "more": [None, 1.5, (2**63 - 1, -(2**63))],
}


def both(value: Any) -> tuple[bytes, bytes]:
    """Write a value in the general way: signature and leaves."""
    signature, leaves = binary.split(value)
    return bytes(signature), b"".join(leaves)


@given(VALUES)
def test_repeated_writes_are_equal(value: Any) -> None:
    writing = Writing()
    for _ in range(3):
        signature, leaves = writing.split(value)
        assert (bytes(signature), b"".join(leaves)) == both(value)


@given(VALUES, VALUES)
def test_a_writer_takes_only_values_of_its_signature(one: Any, other: Any) -> None:
    signature, _ = both(one)
    writer = fixed_writer(signature)
    if writer is None:
        return
    expected, leaves = both(other)
    assert writer(other) in ((None, leaves) if expected == signature else (None,))


@given(VALUES)
def test_reading_equals_the_general_path(value: Any) -> None:
    signature, leaves = both(value)
    general = binary.compile_reader(signature)
    reader = fixed_reader(signature, general)
    assert_same(reader(b"12345678" + leaves, 8), general(b"12345678" + leaves, 8))


def test_results_of_environments_take_the_fast_path() -> None:
    signature, leaves = both(ANSWER)
    writer = fixed_writer(signature)
    assert writer is not None
    assert writer(ANSWER) == leaves

    def never(data: object, start: int) -> Any:
        raise AssertionError("the general reader was asked")

    assert_same(fixed_reader(signature, never)(leaves, 0), ANSWER)


@pytest.mark.parametrize(
    "other",
    [
        {**ANSWER, "reward": -0.0},
        {**ANSWER, "reward": np.float32(0)},
        {**ANSWER, "terminated": 0},
        {**ANSWER, "terminated": np.bool_(False)},
        {**ANSWER, "ended": np.array([[1], [0], [1]], np.uint8)},
        {**ANSWER, "observation": np.zeros(4, np.float64)},
        {**ANSWER, "observation": np.zeros(4, ">f4")},
        {**ANSWER, "observation": np.zeros((4, 1), np.float32)},
        {**ANSWER, "info": {}},
        {**ANSWER, "info": {"mask": ANSWER["info"]["mask"], "lives": 3}},  # type: ignore[index]
        {**ANSWER, "info": {np.str_("lives"): 3, "mask": ANSWER["info"]["mask"]}},  # type: ignore[index]
        {**ANSWER, "more": [None, 1.5, (2**63, 0)]},
        {**ANSWER, "more": (None, 1.5, (1, 0))},
        {**ANSWER, "more": [0, 1.5, (1, 0)]},
        dict(reversed(ANSWER.items())),
        None,
    ],
)
def test_other_values_take_the_general_path(other: Any) -> None:
    writer = fixed_writer(both(ANSWER)[0])
    assert writer is not None
    assert writer(other) is None


def test_keys_are_compared_again_when_they_are_other_objects() -> None:
    signature, leaves = both({"first": 1, "second": 2})
    writer = fixed_writer(signature)
    assert writer is not None
    for _ in range(3):
        # No literals, which would be the same objects each time.
        keys = ["".join(each) for each in (list("first"), list("second"))]
        assert writer(dict(zip(keys, (1, 2), strict=True))) == leaves
        assert writer({np.str_(keys[0]): 1, keys[1]: 2}) is None
        assert writer({keys[1]: 1, keys[0]: 2}) is None
        assert writer({keys[0]: 1, "third": 2}) is None


@pytest.mark.parametrize("word", [0x7FF0000000000001, 0xFFF8000000000123, 1 << 63])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_every_bit_of_scalars_is_kept(dtype: Any, word: int) -> None:
    scalar = np.array([word], np.uint64).view(dtype)[0]
    signature, leaves = both(scalar)
    writer = fixed_writer(signature)
    assert writer is not None
    assert writer(scalar) == leaves == word.to_bytes(8, "little")
    read = fixed_reader(signature, binary.compile_reader(signature))(leaves, 0)
    assert type(read) is dtype
    assert read.tobytes() == leaves


def test_arrays_that_are_not_contiguous_are_written_in_c_order() -> None:
    square = np.arange(6, dtype=np.int32).reshape(2, 3)
    writer = fixed_writer(both(square)[0])
    assert writer is not None
    turned = np.asfortranarray(square)
    assert writer(turned) == square.tobytes()


@pytest.mark.parametrize("size", [0, 7, 9])
def test_bytes_of_another_size_are_refused(size: int) -> None:
    signature = both(1.0)[0]
    reader = fixed_reader(signature, binary.compile_reader(signature))
    with pytest.raises(BadValue):
        reader(bytes(size), 0)


def test_flags_and_padding_are_looked_at() -> None:
    signature = both(np.zeros(1, np.float32))[0]
    reader = fixed_reader(signature, binary.compile_reader(signature))
    with pytest.raises(BadValue, match="padding"):
        reader(b"\0\0\0\0\0\0\0\1", 0)
    signature = both(True)[0]
    reader = fixed_reader(signature, binary.compile_reader(signature))
    with pytest.raises(BadValue, match="true"):
        reader(b"\2" + bytes(7), 0)


def test_flags_in_arrays_are_looked_at() -> None:
    signature = both(np.zeros(3, bool))[0]
    reader = fixed_reader(signature, binary.compile_reader(signature))
    for data in (b"\0\2\1", b"\0\1\xff"):
        with pytest.raises(BadValue, match="true"):
            reader(data + bytes(5), 0)
    with pytest.raises(BadValue, match="padding"):
        reader(b"\0\1\0" + b"\0\0\0\0\1", 0)


def test_other_bytes_that_are_looked_at_as_flags_are_written_as_flags() -> None:
    odd = np.array([0, 2, 1, 255], np.uint8).view(bool)
    writer = fixed_writer(both(odd)[0])
    assert writer is not None
    assert writer(odd) == b"\0\1\1\1" + bytes(4)


def test_a_missing_fast_path_is_remembered() -> None:
    value = "a text has no fixed size"
    writing = Writing()
    for _ in range(4):
        writing.split(value)
    before = fixed_writer.cache_info().misses
    for _ in range(10):
        writing.split(value)
    assert fixed_writer.cache_info().misses == before


def test_decoded_arrays_are_new_and_writable() -> None:
    signature, leaves = both(np.zeros(2, np.float32))
    reader = fixed_reader(signature, binary.compile_reader(signature))
    one, two = reader(leaves, 0), reader(leaves, 0)
    one[0] = 1
    assert two[0] == 0
    assert one.flags.owndata
