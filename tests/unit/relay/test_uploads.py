"""An upload stores a body whole, however its bytes arrive, or leaves no file."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gevent  # type: ignore[import-untyped]
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_server.errors import RelayUnavailable, StorageFull
from gym_http_server.web.backends.transfers import PIECE
from gym_http_server.web.backends.uploads import Upload
from gym_http_wire.bundles import BatchHead, encode_batch
from gym_http_wire.problems import BadParameter

MIB = 1 << 20
BODY = os.urandom(12 * MIB + 12345)


@pytest.fixture(autouse=True, scope="module")
def gevent_hub() -> Iterator[None]:
    """gevent's loop and threads, which end afterwards."""
    gevent.get_hub().threadpool.apply(int)
    yield
    gevent.get_hub().destroy(destroy_loop=True)


class Arriving:
    """A body whose bytes arrive in parts; between some of them a reader has to wait.

    Args:
        body: The bytes.
        parts: The size of each part that has arrived when it is looked for; 0 if a
            reader has to wait for the next one. Then all that is left has arrived.
    """

    def __init__(self, body: bytes, parts: list[int]) -> None:
        self.body = memoryview(body)
        self.parts = list(parts)
        self.waits = 0

    def now(self, memory: memoryview) -> int | None:
        if not self.body:
            return 0
        size = self.parts.pop(0) if self.parts else len(self.body)
        return self.take(memory, size) if size else None

    def wait(self, memory: memoryview) -> int:
        self.waits += 1
        # As a slow client does.
        return self.take(memory, 100_000)

    def take(self, memory: memoryview, size: int) -> int:
        part = self.body[: min(size, len(memory))]
        memory[: len(part)] = part
        self.body = self.body[len(part) :]
        return len(part)


def store(
    arriving: Arriving,
    folder: str | Path,
    *,
    begun: bytes = b"",
    room: int = 1 << 40,
    bundle: bool = False,
) -> bytes:
    """Store a body; return the bytes of its file, whose digests are right."""
    body = begun + bytes(arriving.body)
    upload = Upload(arriving.now, str(folder), room, hashed=True, bundle=bundle)
    stored = upload.store(arriving.wait, begun)
    found = Path(stored.path).read_bytes()
    assert stored.size == len(found)
    assert stored.digest == hashlib.sha256(body).hexdigest()
    stored.remove()
    assert not os.listdir(folder)
    return found


@settings(max_examples=40, deadline=None)
@given(
    size=st.one_of(st.integers(0, 3 * PIECE), st.sampled_from([PIECE, 2 * PIECE])),
    parts=st.lists(st.one_of(st.just(0), st.integers(1, PIECE + 1)), max_size=8),
    begun=st.sampled_from([0, 1, 256 * 1024 + 1]),
)
def test_a_body_is_stored_however_it_arrives(
    size: int, parts: list[int], begun: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        arriving = Arriving(BODY[begun : begun + size], parts)
        assert store(arriving, folder, begun=BODY[:begun]) == BODY[: begun + size]


def test_a_body_that_is_there_is_never_waited_for(tmp_path: Path) -> None:
    """A body of this size takes several turns of threads."""
    arriving = Arriving(BODY, [])
    assert store(arriving, tmp_path) == BODY
    # Between turns the web worker waits for one piece.
    assert arriving.waits <= 2 * (PIECE // 100_000 + 1)


def test_the_batches_of_a_bundle_are_hashed(tmp_path: Path) -> None:
    bodies = [BODY[:5000], BODY[: 3 * MIB], b"small"]
    sums = ["0" * 16, "", ""]
    heads = [BatchHead("s", 1, 0, 1, checksum=each) for each in sums]
    bundle = b"".join(map(encode_batch, heads, bodies))
    arriving = Arriving(bundle, [1000, 0, 200_000, 0])
    upload = Upload(arriving.now, str(tmp_path), MIB * 9, hashed=False, bundle=True)
    stored = upload.store(arriving.wait, b"")
    assert stored.digest == ""
    assert stored.batch_digests == [
        (0, xxhash.xxh3_64_digest(bodies[0])),
        (1, hashlib.sha256(bodies[1]).digest()),
    ]
    stored.remove()


def test_a_body_without_room_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(StorageFull, match=f"more than the {MIB} bytes"):
        store(Arriving(BODY, []), tmp_path, room=MIB)
    assert not os.listdir(tmp_path)


def test_a_body_that_breaks_off_in_a_thread_leaves_no_file(tmp_path: Path) -> None:
    class Broken(Arriving):
        def now(self, memory: memoryview) -> int | None:
            if len(self.body) < 11 * MIB:
                raise BadParameter("the framing is wrong")
            return super().now(memory)

    with pytest.raises(BadParameter, match="framing"):
        store(Broken(BODY, []), tmp_path)
    assert not os.listdir(tmp_path)


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RelayUnavailable, match="directory cannot be written to"):
        store(Arriving(BODY, []), tmp_path / "gone")
