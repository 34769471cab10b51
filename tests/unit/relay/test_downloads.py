"""Downloads: bodies in pieces of files and of bytes, read in few accesses."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.services.relay.messages import BodyPieces, Piece
from gym_http_server.web.backends import downloads
from gym_http_server.web.backends.downloads import Download

SIZE = 1000
PARTS = [os.urandom(SIZE) for _ in range(3)]


def download(folder: Path, pieces: list[Piece]) -> Download:
    """Return a download of two files and some bytes."""
    descriptors = []
    for number, data in enumerate(PARTS[:2]):
        path = folder / str(number)
        path.write_bytes(data)
        descriptors.append(os.open(path, os.O_RDONLY))
    return Download(BodyPieces(pieces, memoryview(PARTS[-1])), descriptors)


@pytest.fixture(autouse=True)
def without_threads() -> Iterator[None]:
    """Read in this thread: gevent's pool would stay behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(downloads, "in_thread", lambda call, *given: call(*given))
        yield


def expected(pieces: list[Piece]) -> bytes:
    return b"".join(PARTS[p.file][p.offset : p.offset + p.size] for p in pieces)


@given(
    st.lists(
        st.builds(
            Piece, st.integers(-1, 1), st.integers(0, SIZE - 300), st.integers(0, 300)
        ),
        max_size=20,
    ),
    st.sampled_from([64, 500, 1 << 20]),
)
def test_pieces_are_joined_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Piece], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(downloads, "PIECE", most)
        made = download(tmp_path_factory.getbasetemp(), pieces)
        parts = list(made)
        made.close()
    assert b"".join(parts) == expected(pieces)
    assert all(len(part) <= most for part in parts)


def test_neighbours_are_read_at_once_and_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    preadv = os.preadv

    def count(
        descriptor: int, buffers: list[memoryview], offset: int, flags: int = 0
    ) -> int:
        read.append(sum(map(len, buffers)))
        return preadv(descriptor, buffers, offset, flags)

    monkeypatch.setattr(os, "preadv", count)
    near = [Piece(0, offset, 90) for offset in range(0, 1000, 100)]
    made = download(tmp_path, near)
    assert b"".join(made) == expected(near)
    made.close()
    assert read == [990]
    read.clear()
    monkeypatch.setattr(downloads, "MOST_BETWEEN", 889)
    far = [Piece(0, 0, 10), Piece(0, 900, 10)]
    made = download(tmp_path, far)
    assert b"".join(made) == expected(far)
    made.close()
    assert read == [10, 10]


def test_bytes_that_are_not_in_memory_are_read_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each access then returns some of them only."""
    preadv = os.preadv
    slow: list[int] = []

    def read(
        descriptor: int, buffers: list[memoryview], offset: int, flags: int = 0
    ) -> int:
        if flags:
            count = preadv(descriptor, buffers, offset)
            return count // 2
        slow.append(offset)
        return preadv(descriptor, [buffers[0][:70]], offset)

    monkeypatch.setattr(os, "preadv", read)
    monkeypatch.setattr(downloads, "_NOWAIT", 8)
    pieces = [Piece(0, offset, 90) for offset in range(0, 1000, 100)]
    made = download(tmp_path, pieces)
    assert b"".join(made) == expected(pieces)
    made.close()
    assert slow[:4] == [0, 70, 90, 100]


def test_a_view_is_valid_until_the_next_one_is_wanted(tmp_path: Path) -> None:
    pieces = [Piece(0, 0, SIZE), Piece(-1, 0, SIZE), Piece(1, 0, SIZE)]
    made = download(tmp_path, pieces)
    assert b"".join(map(bytes, made.views())) == b"".join(made) == expected(pieces)
    made.close()


def test_a_file_that_is_too_short_ends_the_download(tmp_path: Path) -> None:
    made = download(tmp_path, [Piece(0, SIZE - 10, 20)])
    with pytest.raises(OSError, match="lacks 10 bytes"):
        list(made)
    made.close()
