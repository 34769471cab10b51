"""Step records: what is encoded is decoded, up to the first cut or damaged record."""

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.step_records import MAGIC, Kind, Record, StepDecoder, StepEncoder
from gym_http_wire.values import BadValue, UnsupportedValue

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
RECORDS = st.lists(
    st.builds(Record, st.sampled_from(Kind), st.integers(0, 2**64 - 1), VALUES),
    max_size=8,
)


def encoded(records: list[Record]) -> bytes:
    encoder = StepEncoder()
    return MAGIC + b"".join(encoder.encode(*record) for record in records)


def decoded(data: bytes) -> tuple[list[Record], bool]:
    decoder = StepDecoder()
    return decoder.feed(data), decoder.complete


@given(RECORDS, st.integers(1, 64), st.integers(0, 64))
def test_pieces_of_any_size_give_the_same_records(
    records: list[Record], size: int, empty: int
) -> None:
    data = encoded(records) + bytes(empty)
    decoder = StepDecoder()
    found: list[Record] = []
    for start in range(0, len(data), size):
        found += decoder.feed(data[start : start + size])
    assert found == records
    assert decoder.complete or 0 < empty < 8


@given(RECORDS, st.data())
def test_a_cut_part_gives_its_whole_records(
    records: list[Record], data: st.DataObject
) -> None:
    whole = encoded(records)
    cut = data.draw(st.integers(len(MAGIC), len(whole)))
    found, complete = decoded(whole[:cut])
    assert found == records[: len(found)]
    assert complete == (encoded(found) == whole[:cut])
    assert len(encoded(records[: len(found) + 1])) > cut or len(found) == len(records)


def test_a_damaged_record_ends_the_decoding() -> None:
    records = [Record(Kind.RESET, 1, {"seed": n}) for n in range(3)]
    first = len(encoded(records[:1]))
    data = bytearray(encoded(records))
    data[first + 20] ^= 1
    assert decoded(bytes(data)) == (records[:1], False)


def test_arrays_keep_dtype_and_bytes() -> None:
    sent = {"observation": np.arange(6, dtype=np.int16).reshape(2, 3), "t": (1, 2)}
    encoder = StepEncoder()
    first, second = (encoder.encode(Kind.STEP, at, sent) for at in (1, 2))
    assert len(second) < len(first)
    records, complete = decoded(MAGIC + first + second)
    assert complete
    for record in records:
        array = record.value["observation"]
        assert (array.dtype, array.shape) == (np.dtype(np.int16), (2, 3))
        assert np.array_equal(array, sent["observation"])
        assert record.value["t"] == (1, 2)


def test_the_layout_is_as_documented() -> None:
    data = encoded([Record(Kind.END, 5, None)])
    assert data[:16] == b"gym-steps\r\n\x1a\x01\0\0\0"
    size, checksum, kind, at_ns = struct.unpack_from("<IIBQ", data, 16)
    assert (16 + 8 + size, kind, at_ns) == (len(data), 4, 5)
    assert checksum == zlib.crc32(data[24:])


def test_a_value_without_binary_form_changes_nothing() -> None:
    encoder = StepEncoder()
    unsupported: Any = {"info": object()}
    with pytest.raises(UnsupportedValue):
        encoder.encode(Kind.STEP, 0, unsupported)
    record = encoder.encode(Kind.STEP, 0, {"info": 1})
    assert decoded(MAGIC + record)[0] == [Record(Kind.STEP, 0, {"info": 1})]


@pytest.mark.parametrize("data", [b"PK", b"gym-steps\r\n\x1a\x02\0\0\0"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(BadValue, match="beginning of a steps"):
        StepDecoder().feed(data)
