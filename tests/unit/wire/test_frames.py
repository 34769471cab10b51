"""Frames are read from any pieces, and invalid ones are refused early."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.frames import Frame, FrameError, FrameReader, encode

frames = st.builds(
    Frame,
    kind=st.integers(0, 255),
    number=st.integers(0, 2**32 - 1),
    status=st.integers(0, 2**16 - 1),
    form=st.integers(0, 255),
    head=st.binary(max_size=40).map(lambda b: b.hex().encode()),
    body=st.binary(max_size=200),
)


def same(got: Frame, sent: Frame) -> bool:
    """Whether a frame arrived, its head padded perhaps."""
    return got._replace(head=got.head.rstrip(b" ")) == sent


@given(st.lists(frames, max_size=5), st.lists(st.integers(1, 50), max_size=30))
def test_frames_survive_any_cutting(sent: list[Frame], cuts: list[int]) -> None:
    stream = b"".join(map(encode, sent))
    reader = FrameReader(200)
    got = []
    at = 0
    for cut in [*cuts, len(stream) + 1]:
        got += reader.feed(stream[at : at + cut])
        at += cut
    assert len(got) == len(sent)
    assert all(map(same, got, sent))
    assert not reader.pending


@given(frames)
def test_a_body_begins_at_a_multiple_of_8(frame: Frame) -> None:
    data = encode(frame)
    assert (len(data) - len(frame.body)) % 8 == 0
    assert data.endswith(frame.body)


def test_the_layout_is_the_documented_one() -> None:
    frame = Frame(kind=2, number=7, status=200, form=17, head=b"{}", body=b"abc")
    assert encode(frame) == (
        bytes.fromhex("03000000 08000000 c800 02 11 07000000") + b"{}      abc"
    )


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<IIHBBI", 201, 0, 0, 0, 0, 0),
        struct.pack("<IIHBBI", 2**32 - 1, 0, 0, 0, 0, 0),
        struct.pack("<IIHBBI", 0, 65537, 0, 0, 0, 0),
    ],
)
def test_sizes_over_the_limit_are_refused_before_they_arrive(header: bytes) -> None:
    with pytest.raises(FrameError, match="limit"):
        FrameReader(200).feed(header)


def test_a_large_body_in_many_pieces_is_not_copied_for_each() -> None:
    body = bytes(8 << 20)
    data = encode(Frame(1, body=body))
    reader = FrameReader(len(body))
    got = []
    for at in range(0, len(data), 4096):
        got += reader.feed(data[at : at + 4096])
    assert got[0].body == body


@given(frames, st.binary(max_size=40), st.integers(1, 60))
def test_any_bytes_may_follow_the_first_frame(
    frame: Frame, rest: bytes, cut: int
) -> None:
    data = encode(frame) + rest
    reader = FrameReader(200)
    got = reader.feed_first(data[:cut]) or reader.feed_first(data[cut:])
    assert got is not None
    assert same(got, frame)
    behind = reader.rest()
    assert behind in (rest, data[len(data) - len(rest) : cut])
    assert reader.rest() == b""
