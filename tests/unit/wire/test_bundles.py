"""Bundles are split at their batches; malformed ones are refused with a position."""

import hashlib
import json
import struct
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.bundles import (
    MOST_BATCHES,
    BatchHead,
    BundleError,
    batch_ends,
    batch_head,
    checksum_of,
    encode_batch,
    encode_batch_start,
    is_intact,
    split,
    split_from,
)
from gym_http_wire.frames import Frame, FrameReader

# From the tests of xxHash itself: no bytes, seed 0.
EMPTY_CHECKSUM = "2d06800538d394c2"

counts = st.integers(0, 2**53 - 1)
plain_heads = st.builds(
    BatchHead,
    session=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    number=st.integers(1, 2**53 - 1),
    policy=counts,
    count=counts,
    dropped=counts,
    content_type=st.from_regex(r"[!-~][ -~]{0,40}", fullmatch=True),
    digest=st.sampled_from(["", hashlib.sha256(b"").hexdigest()]),
    position=counts,
    worker=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lag=counts,
    stale=st.booleans(),
    received=st.floats(0, 1e12),
    lease=st.text("abc", max_size=4),
    delivery=counts,
    checksum=st.sampled_from(["", EMPTY_CHECKSUM]),
)
packings = st.sampled_from([("", 0), ("deflate", 5), ("zstd", 2**40)])


def packed(head: BatchHead, packing: tuple[str, int]) -> BatchHead:
    head.packing, head.unpacked = packing
    return head


heads = st.builds(packed, plain_heads, packings)
batches = st.lists(st.tuples(heads, st.binary(max_size=50)), max_size=6)


@given(batches)
def test_bundles_come_back_with_heads_and_bodies(
    sent: list[tuple[BatchHead, bytes]],
) -> None:
    data = b"".join(encode_batch(*batch) for batch in sent)
    places = list(split(data))
    got = [(each.head, data[each.offset : each.end]) for each in places]
    assert got == sent
    assert list(split(bytearray(data))) == list(split(memoryview(data))) == places
    frames = FrameReader(50).feed(data)
    assert [(batch_head(each), each.body) for each in frames] == sent


@given(batches, st.data())
def test_a_bundle_cut_off_anywhere_keeps_its_whole_batches(
    sent: list[tuple[BatchHead, bytes]], data: st.DataObject
) -> None:
    parts = [encode_batch(*batch) for batch in sent]
    whole = b"".join(parts)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, parts[:count])) for count in range(len(parts) + 1)]
    kept = max(end for end in ends if end <= cut)
    assert batch_ends(whole[:cut]) == [end for end in ends[1:] if end <= cut]
    if cut != kept:
        with pytest.raises(BundleError, match="ends after") as caught:
            list(split(whole[:cut]))
        assert caught.value.offset == kept


def test_of_a_piece_as_many_batches_are_found_as_a_request_may_have() -> None:
    batch = encode_batch(BatchHead("s", 1, 0, 1), b"x")
    assert len(batch_ends(batch * (MOST_BATCHES + 1))) == MOST_BATCHES == 4096
    assert batch_ends(batch * 3, 2) == [len(batch), 2 * len(batch)]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_bundle_or_an_error(data: bytes) -> None:
    end = 0
    try:
        for place in split(data):
            end = place.end
    except BundleError as error:
        end = max(end, error.offset)
        end += 1  # it is within the bytes
    assert end <= len(data)


@given(heads, st.binary(max_size=20), st.data())
def test_one_changed_byte_is_read_within_the_bundle_or_refused(
    head: BatchHead, body: bytes, data: st.DataObject
) -> None:
    changed = bytearray(encode_batch(head, body))
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] = data.draw(st.integers(0, 255))
    try:
        places = list(split(changed))
    except BundleError:
        return
    assert places[-1].end == len(changed)


def test_bodies_are_not_read() -> None:
    head = BatchHead("s", 1, 0, 1)
    start = encode_batch_start(head, 2**31)
    total = 2 * (len(start) + 2**31)

    def read(offset: int, size: int) -> bytes:
        offset %= total // 2
        assert offset + size <= len(start)
        return start[offset : offset + size]

    places = list(split_from(read, total))
    assert [each.size for each in places] == [2**31, 2**31]
    assert places[1].offset == total // 2 + len(start)


def test_the_layout_is_the_documented_one() -> None:
    assert encode_batch(BatchHead("abc", 3, 2, 1), b"xyz") == (
        bytes.fromhex("03000000 38000000 0000 a0 00 00000000")
        + b'{"session":"abc","number":3,"policy":2,"count":1}       '
        + b"xyz"
    )


def bundle_with(
    head: bytes | dict[str, Any], body: bytes = b"", kind: int = 160
) -> bytes:
    if isinstance(head, dict):
        head = json.dumps(
            {"session": "s", "number": 1, "policy": 0, "count": 1, **head}
        ).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<IIHBBI", len(body), len(head), 0, kind, 0, 0) + head + body


@pytest.mark.parametrize(
    "head",
    [
        {"session": ""},
        {"session": "../x"},
        {"session": "s\n"},
        {"session": "s" * 65},
        {"number": 0},
        {"number": -1},
        {"number": 1.5},
        {"number": 2**53},
        {"number": True},
        {"policy": -1},
        {"count": -1},
        {"dropped": -1},
        {"content_type": ""},
        {"content_type": "a\r\nb: c"},
        {"content_type": "a" * 256},
        {"digest": "0" * 63},
        {"digest": "0" * 64 + "\n"},
        {"packing": "deflate"},
        {"unpacked": 5},
        {"packing": "a/b", "unpacked": 5},
        {"received": -1.0},
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"session": "s", "number": 1, "policy": 0}',
        b'{"session": "s", "number": 1, "policy": 0, "count": NaN}',
        b'{"session": "s", "number": 1, "policy": 0, "count": 1} 1',
        b"\xff\xfe",
        b'{"x":' * 5000,
        b'{"x":' + b"[" * 10000 + b"]" * 10000 + b"}",
    ],
)
def test_malformed_heads_are_refused(head: bytes | dict[str, Any]) -> None:
    fine = bundle_with({})
    assert len(list(split(fine))) == 1
    with pytest.raises(BundleError, match=f"malformed|packing.*byte {len(fine)} of"):
        list(split(fine + bundle_with(head)))


def test_members_of_later_versions_are_ignored() -> None:
    (place,) = split(bundle_with({"later": [1, {"a": 2}]}))
    assert place.head == BatchHead("s", 1, 0, 1)


@pytest.mark.parametrize("kind", [0, 2, 159, 161])
def test_other_frames_are_refused(kind: int) -> None:
    with pytest.raises(BundleError, match="160"):
        list(split(bundle_with({}, kind=kind)))
    with pytest.raises(BundleError, match="160"):
        batch_head(Frame(kind, head=b"{}"))
    with pytest.raises(BundleError, match=f"kind {kind} is not a batch"):
        batch_ends(bundle_with({}) + bundle_with({}, kind=kind))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (struct.pack("<IIHBBI", 201, 8, 0, 160, 0, 0), "201 bytes; the limit is 200"),
        (struct.pack("<IIHBBI", 0, 65544, 0, 160, 0, 0), "a head of 65544 bytes"),
        (struct.pack("<IIHBBI", 0, 9, 0, 160, 0, 0), "a multiple of 8"),
        (struct.pack("<IIHBBI", 0, 8, 200, 160, 0, 0), "status 200"),
    ],
)
def test_impossible_sizes_are_refused(header: bytes, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        list(split(header, max_body_bytes=200))


def test_too_large_batches_are_not_encoded() -> None:
    with pytest.raises(BundleError, match="limit is 4294967295"):
        encode_batch_start(BatchHead("s", 1, 0, 1), 2**32)
    with pytest.raises(BundleError, match="limit is 65536"):
        encode_batch_start(BatchHead("s", 1, 0, 1, worker="w" * 65536), 0)


def test_checksums_are_those_of_xxhash() -> None:
    assert checksum_of([]) == checksum_of([b""]) == EMPTY_CHECKSUM
    body = bytes(range(256)) * 3
    parts = [memoryview(body)[:7], body[7:300], body[300:]]
    assert checksum_of(parts) == xxhash.xxh3_64_hexdigest(body)


@pytest.mark.parametrize("name", ["digest", "checksum", "both", "none"])
def test_a_body_is_intact_if_its_head_names_it(name: str) -> None:
    body = b"some bytes"
    sums = {
        "digest": hashlib.sha256(body).hexdigest(),
        "checksum": xxhash.xxh3_64_hexdigest(body),
    }
    given = {key: value for key, value in sums.items() if name in (key, "both")}
    head = BatchHead("s", 1, 0, 1, **given)
    assert is_intact(head, body) == bool(given)
    assert not is_intact(head, body + b"!")
