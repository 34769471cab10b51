"""Columns arrive unchanged; bombs, pickles and other bytes are refused."""

import json
import pickle
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_client.relay import batches
from gym_http_client.relay.batches import (
    COLUMNS_TYPE,
    BadBatch,
    Batch,
    Packing,
    batches_of,
    decode_columns,
    encode_columns,
    encode_columns_in_parts,
    pack,
    unpack,
)
from gym_http_wire.bundles import BatchHead, encode_batch

COLUMNS = {
    "observations": np.arange(6, dtype=np.float32).reshape(3, 2),
    "actions": np.array([1, 0]),
    "rewards": np.array([1.0, np.nan]),
    "terminated": np.array([False, True]),
    "infos": [{}, {"a": 1}, {}],
    "log_probability": np.array([-0.5, -1.5], np.float32),
    "length": 2,
}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype
            np.testing.assert_array_equal(found[name], value)
        else:
            assert found[name] == value


@pytest.fixture
def zstandard() -> Any:
    return pytest.importorskip("zstandard", reason="zstandard is not installed")


def test_large_columns_stay_in_the_memory_of_a_batch_that_came_alone() -> None:
    """With others in one bundle, an array would keep the memory of all of them."""
    columns = {"observations": np.arange(40_000.0), "rewards": np.zeros(3)}
    body = b"".join(encode_columns_in_parts(columns))
    assert body == encode_columns(columns)
    data = encode_batch(BatchHead("s", 1, 0, 3, content_type=COLUMNS_TYPE), body)
    for count in (1, 2):
        bundle = memoryview(bytearray(data * count))
        first = batches_of(bundle)[0]
        assert_same(first.columns, columns)
        first.columns["observations"][0] = -1.0
        shared = batches_of(bundle)[0].columns["observations"][0] == -1.0
        assert shared == (count == 1)


@pytest.mark.parametrize("packing", ["", "deflate", "zstd"])
def test_columns_arrive_as_they_were_sent(packing: Packing, request: Any) -> None:
    if packing == "zstd":
        request.getfixturevalue("zstandard")
    data = encode_columns(COLUMNS)
    body = pack(data, packing)
    unpacked = len(data) if packing else 0
    head = BatchHead(
        *("s", 7, 3, 2),
        content_type=COLUMNS_TYPE,
        packing=packing,
        unpacked=unpacked,
        position=9,
        worker="w",
        lag=2,
    )
    (batch,) = batches_of(encode_batch(head, body))
    assert (batch.worker, batch.policy_version, batch.lag) == ("w", 3, 2)
    assert (batch.position, batch.count, batch.data) == (9, 2, data)
    assert_same(batch.columns, COLUMNS)


def test_an_episode_in_plain_json_becomes_arrays() -> None:
    episode = {"observations": [[0.5, 1.0], [2.0, 3.0]], "rewards": [1.0]}
    episode |= {"infos": [{}, {}], "actions": [[1], [1, 2]], "length": 1}
    found = decode_columns(json.dumps(episode).encode(), "application/json")
    np.testing.assert_array_equal(found["observations"], [[0.5, 1.0], [2.0, 3.0]])
    assert found["rewards"].dtype == float
    assert (found["infos"], found["actions"]) == ([{}, {}], [[1], [1, 2]])
    assert found["length"] == 1


@given(st.binary(max_size=500), st.sampled_from(["deflate", "zstd"]), st.data())
def test_packed_bytes_come_back_and_damage_is_noticed(
    data: bytes, packing: Packing, draw: st.DataObject
) -> None:
    if packing == "zstd":
        pytest.importorskip("zstandard", reason="zstandard is not installed")
    packed = pack(data, packing)
    assert unpack(packed, packing, len(data)) == data
    cut = packed[: draw.draw(st.integers(0, len(packed) - 1))]
    if data:
        with pytest.raises(BadBatch):
            unpack(cut, packing, len(data))
        with pytest.raises(BadBatch, match="it has more"):
            unpack(packed, packing, len(data) - 1)
    with pytest.raises(BadBatch):
        unpack(packed, packing, len(data) + 1)


@pytest.mark.parametrize("packing", ["deflate", "zstd"])
def test_a_bomb_stops_at_the_announced_size(packing: Packing, request: Any) -> None:
    if packing == "zstd":
        zstandard = request.getfixturevalue("zstandard")
        packer = zstandard.ZstdCompressor().compressobj()
        parts = [packer.compress(bytes(1 << 20)) for _ in range(64)]
        bomb = b"".join([*parts, packer.flush()])
    else:
        deflater = zlib.compressobj(9)
        parts = [deflater.compress(bytes(1 << 20)) for _ in range(64)]
        bomb = b"".join([*parts, deflater.flush()])
    # The memory for 64 MiB would show as a process above the limit.
    before = _peak_kib()
    with pytest.raises(BadBatch, match=r"announces 1000 bytes.*more"):
        unpack(bomb, packing, 1000)
    assert _peak_kib() - before < 32 * 1024
    with pytest.raises(BadBatch, match="the limit is 1073741824"):
        unpack(bomb, packing, 2**40)


def _peak_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


class Canary:
    """Removes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.unlink, (self.path,)


@pytest.mark.parametrize(
    "content_type",
    ["application/x-pickle", "application/python-pickle; a=b", COLUMNS_TYPE],
)
def test_a_pickle_is_refused_and_not_loaded(content_type: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.touch()
    head = BatchHead("s", 1, 0, 1, content_type=content_type)
    batch = Batch(head, pickle.dumps(Canary(canary)))
    with pytest.raises(BadBatch, match=r"pickle|not application"):
        batch.columns  # noqa: B018
    assert canary.exists()


@pytest.mark.parametrize(
    ("data", "content_type", "words"),
    [
        (b"abc", "text/csv", "'text/csv', which has no columns"),
        (b"[1]", "application/json", "is list: expected columns"),
        (b"[" * 100_000, "application/json", "is not application/json"),
        (b'{"a": "\xff"}', "application/json", "is not application/json"),
        (b"\x08\0\0\0\0\0\0\0xxxxxxxx", COLUMNS_TYPE, "is not application/vnd"),
    ],
)
def test_other_bytes_are_refused(data: bytes, content_type: str, words: str) -> None:
    with pytest.raises(BadBatch, match=words):
        decode_columns(data, content_type)
    head = BatchHead("s", 1, 0, 1, content_type=content_type)
    assert Batch(head, data).data == data


def test_zstd_without_its_library_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ModuleNotFoundError, match=r"gymnasium-http-client\[zstd\]"):
        pack(b"abc", "zstd")
    with pytest.raises(ModuleNotFoundError, match="zstandard"):
        unpack(b"abc", "zstd", 3)


def test_an_unknown_packing_is_refused() -> None:
    with pytest.raises(ValueError, match="'lz4': expected 'deflate'"):
        pack(b"abc", "lz4")  # type: ignore[arg-type]
    with pytest.raises(BadBatch, match="'lz4'"):
        unpack(b"abc", "lz4", 3)
    assert batches.MAX_UNPACKED == 2**30
