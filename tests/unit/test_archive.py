"""The ring of episodes in a host's memory, and the files of ended instances."""

import contextlib
import math
import os
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_server.config.settings import Settings
from gym_http_server.datadir import archive, recorded_episodes
from gym_http_server.datadir.archive import Archive, Facts, read_archived
from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.rundir import episode_ring
from gym_http_server.rundir.episode_ring import Episode, EpisodeRing, read_ring

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
ENDS = st.sampled_from(
    [
        (True, False, "terminated"),
        (True, True, "terminated"),
        (False, True, "truncated"),
        (False, False, "reset"),
        (False, False, "failed"),
    ]
)


CUT = Episode(0, None, 3.5, 1, 0.5, None, False, False, "reset", 1e9)


@st.composite
def episodes(draw: st.DrawFn, returns: st.SearchStrategy[Any]) -> list[Episode]:
    """Draw the episodes of an instance, numbered from 0."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        terminated, truncated, end = draw(ENDS)
        found.append(
            Episode(
                number,
                draw(st.none() | st.integers(0, 1 << 40)),
                draw(returns),
                draw(st.integers(0, 1 << 50)),
                round(draw(st.floats(0, 1e6)), 6),
                draw(st.none() | st.integers(0, (1 << 64) - 1)),
                terminated,
                truncated,
                end,
                round(draw(st.floats(0, 1e10)), 3),
            )
        )
    return found


def facts(instance_id: str = "3c657dbc", **more: Any) -> Facts:
    first = (instance_id, "CartPole-v1", "closed", 0, time.time(), 1.5, 30, 2)
    return Facts(*first, **more)


def place(data_dir: Path) -> DataDir:
    return DataDir(Settings(data_dir=str(data_dir)), "/run/gym")


@contextlib.contextmanager
def memory() -> Iterator[int]:
    file = os.memfd_create("page")
    os.ftruncate(file, episode_ring.MEMORY_BYTES)
    try:
        yield file
    finally:
        os.close(file)


def write(file: int, written: list[Episode]) -> None:
    """Write episodes, more at a time each time."""
    ring, size = EpisodeRing(file), 1
    while written:
        ring.add(written[:size])
        written, size = written[size:], 3 * size
    ring.close()


@given(
    episodes(NUMBERS | st.none())
    | episodes(st.lists(NUMBERS | st.none(), min_size=3, max_size=3))
)
def test_a_ring_returns_what_was_written(written: list[Episode]) -> None:
    with memory() as file:
        write(file, written)
        assert read_ring(file) == written


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=20),
    st.sampled_from([1.5, [1.0, None, 2.0], -1234.5678901234567]),
)
def test_a_ring_keeps_the_last_episodes(sizes: list[int], returned: Any) -> None:
    one = Episode(0, 3, returned, 1, 0.123456, 7, True, False, "terminated", 1e9)
    with memory() as file:
        ring, total = EpisodeRing(file), 0
        for size in sizes:
            numbers = range(total, total + size)
            ring.add([one._replace(number=number) for number in numbers])
            total += size
        ring.close()
        numbers = [each.number for each in read_ring(file)]
        assert numbers == list(range(max(0, total - len(numbers)), total))
        assert len(numbers) >= min(total, 700)
        assert len(numbers) <= 1000


def test_a_ring_keeps_the_last_thousand_in_little_memory() -> None:
    one = Episode(0, None, 200.0, 200, 0.123456, None, True, False, "terminated", 1e9)
    with memory() as file:
        ring = EpisodeRing(file)
        for number in range(2345):
            ring.add([one._replace(number=number)])
        ring.close()
        assert [each.number for each in read_ring(file)] == list(range(1345, 2345))
        assert os.fstat(file).st_blocks * 512 < 120_000


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 200), st.integers(0, 2000))
def test_a_host_may_be_killed_within_a_write(cut: int, before: int) -> None:
    one = Episode(0, None, 200.0, 200, 0.123456, None, True, False, "terminated", 1e9)
    with memory() as file:
        ring = EpisodeRing(file)
        for number in range(before):
            ring.add([one._replace(number=number)])
        wanted = read_ring(file)
        known = os.pread(file, 8, 4096)
        whole = os.pread(file, 120_000, 0)
        ring.add([one._replace(number=before), one._replace(number=before + 1)])
        after = os.pread(file, 120_000, 0)
        ring.close()
        # Only so many bytes of the line were written, and not that it is there.
        changed = [at for at in range(4160, len(whole)) if whole[at] != after[at]]
        for at in changed[cut:]:
            os.pwrite(file, whole[at : at + 1], at)
        os.pwrite(file, known, 4096)
        found = read_ring(file)
        assert found == wanted[len(wanted) - len(found) :]
        assert len(found) >= len(wanted) - 4


def test_seeds_of_any_kind_are_kept_or_unknown() -> None:
    one = Episode(0, None, 1.0, 1, 0.1, None, False, True, "truncated", 1e9)
    seeds: list[Any] = [np.int64(7), 1 << 64, -1, object()]
    with memory() as file:
        write(file, [one._replace(number=n, seed=seed) for n, seed in enumerate(seeds)])
        assert [each.seed for each in read_ring(file)] == [7, 1 << 64, -1, None]


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 1 << 64))
def test_an_environment_may_write_anything(
    garbage: bytes, offset: int, total: int
) -> None:
    one = Episode(0, None, 1.0, 1, 0.1, 3, False, True, "truncated", 1e9)
    with memory() as file:
        write(file, [one._replace(number=number) for number in range(3)])
        os.pwrite(file, garbage, os.sysconf("SC_PAGESIZE") + offset)
        for each in read_ring(file):
            assert math.isfinite(each.seconds)
            assert math.isfinite(each.at)
        os.pwrite(file, struct.pack("=Q", total % (1 << 64)), 4096)
        assert len(read_ring(file)) <= episode_ring.MAX_KEPT


@given(episodes(NUMBERS | st.none() | st.lists(NUMBERS | st.none(), max_size=3)))
def test_a_file_returns_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, written: list[Episode]
) -> None:
    data_dir = place(tmp_path_factory.mktemp("data"))
    wanted = facts(label='a\n"\u2028\x00', owner="ada", log_tail="\x1b[31mä\n\ufffd")
    Archive(data_dir).add(wanted, written)
    found = read_archived(data_dir, wanted.instance_id)
    assert found is not None
    assert found.facts == wanted
    assert found.episodes() == written


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 5000,
        b'{"instance_id":"3c657dbc"}',
        msgspec.json.encode(facts(label="x" * 5000)),
        msgspec.json.encode(facts()).replace(b'"wait_status":0', b'"wait_status":-1'),
        msgspec.json.encode(facts()).replace(b'"age_s":1.5', b'"age_s":1e999'),
    ],
)
def test_foreign_facts_are_left_out(line: bytes, tmp_path: Path) -> None:
    kept = Archive(place(tmp_path))
    kept.add(facts("00000001"), [])
    (tmp_path / "ended-instances" / "3c657dbc").write_bytes(line + b"\n")
    assert [each.instance_id for each in kept.load()] == ["00000001"]


@given(st.binary(max_size=300), st.integers(0, 400))
def test_a_damaged_file_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, offset: int
) -> None:
    data_dir = tmp_path_factory.mktemp("data")
    one = Episode(0, None, 1.0, 1, 0.1, 3, False, True, "truncated", 1e9)
    Archive(place(data_dir)).add(facts(), [one] * 3)
    path = data_dir / "ended-instances" / "3c657dbc"
    whole = path.read_bytes()
    path.write_bytes(whole[:offset] + garbage + whole[offset + len(garbage) :])
    found = read_archived(place(data_dir), "3c657dbc")
    if found is not None:
        assert found.facts.instance_id == "3c657dbc"
        found.answer(0, 1000)
    Archive(place(data_dir)).load()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../3c657dbc", "3C657DBC", "3c657dbc\n", "3c657db", "é" * 8]
)
def test_no_name_from_a_client_is_a_path(name: str, tmp_path: Path) -> None:
    Archive(place(tmp_path)).add(facts(), [])
    # Even where a file says so.
    with contextlib.suppress(OSError):
        line = msgspec.json.encode(facts(name)) + b"\n"
        (tmp_path / "ended-instances" / name).write_bytes(line)
    assert read_archived(place(tmp_path), "3c657dbc") is not None
    assert read_archived(place(tmp_path), name) is None


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_INSTANCES", 5)
    kept = Archive(place(tmp_path))
    names = [f"{number:08x}" for number in range(12)]
    for name in names:
        kept.add(facts(name), [])
    folder = tmp_path / "ended-instances"
    assert sorted(os.listdir(folder)) == names[-5:]
    for number, name in enumerate(names[-5:]):
        os.utime(folder / name, (1000 - number, 1000 - number))
    after = Archive(place(tmp_path))
    assert [each.instance_id for each in after.load()] == names[:-6:-1]
    after.add(facts("ffffffff"), [])
    assert sorted(os.listdir(folder)) == [*names[-5:-1], "ffffffff"]


@pytest.mark.parametrize("room", ["MAX_INSTANCES", "MAX_BYTES"])
def test_each_owner_has_a_share(
    room: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(msgspec.json.encode(facts(owner="bob", log_tail="x" * 3000))) + 1
    monkeypatch.setattr(archive, room, 6 if room == "MAX_INSTANCES" else 6 * size)
    Archive(place(tmp_path)).add(facts("0000000a", owner="ada"), [])
    # Also after a restart, and if another server has written it.
    kept = Archive(place(tmp_path))
    kept.load()
    Archive(place(tmp_path)).add(facts("0000000b", owner="ada"), [])
    for number in range(100, 160):
        name = f"{number:08x}"
        removed = kept.add(facts(name, owner="bob", log_tail="x" * 3000), [])
    files = sorted(os.listdir(tmp_path / "ended-instances"))
    assert files[:2] == ["0000000a", "0000000b"]
    assert 4 <= len(files[2:]) <= 5
    assert len(removed) == 1


def test_an_id_that_comes_back_replaces_its_file(tmp_path: Path) -> None:
    kept = Archive(place(tmp_path))
    kept.add(facts(), [CUT] * 3)
    kept.add(facts("00000001"), [])
    kept.add(facts(label="another"), [CUT])
    assert [each.instance_id for each in kept.load()] == ["00000001", "3c657dbc"]
    found = read_archived(place(tmp_path), "3c657dbc")
    assert found is not None
    assert (found.facts.label, len(found.episodes())) == ("another", 1)


def test_a_folder_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    kept = Archive(place(tmp_path))
    kept.add(facts("00000001"), [])
    shutil.rmtree(tmp_path / archive.ARCHIVE)
    kept.add(facts("00000002"), [CUT])
    found = read_archived(place(tmp_path), "00000002")
    assert found is not None
    assert found.episodes() == [CUT]


def test_the_bytes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 20_000)
    kept = Archive(place(tmp_path))
    for number in range(12):
        kept.add(facts(f"{number:08x}", log_tail="x" * 5000), [])
    files = sorted((tmp_path / "ended-instances").iterdir())
    assert [each.name for each in files] == [f"{number:08x}" for number in (9, 10, 11)]
    assert sum(each.stat().st_size for each in files) <= 20_000


def test_what_killed_servers_left_is_removed(tmp_path: Path) -> None:
    Archive(place(tmp_path)).add(facts(), [])
    folder = tmp_path / "ended-instances"
    old, new, other = (folder / name for name in (".3c657dbc.7", ".3c657dbc.8", "x"))
    for each in (old, new, other):
        each.touch()
    for each in (old, other):
        os.utime(each, (1000, 1000))
    Archive(place(tmp_path)).load()
    assert sorted(os.listdir(folder)) == [".3c657dbc.8", "3c657dbc", "x"]


def test_a_full_disk_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Archive(place(tmp_path))
    kept.add(facts(), [])

    def full(*args: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space"):
        kept.add(facts("00000001"), [])
    assert os.listdir(tmp_path / "ended-instances") == ["3c657dbc"]


def line_of(episode: Episode) -> bytes:
    names = ("env", "return", "length", "seconds", "seed", "terminated", "truncated")
    members = {name: episode.described()[name] for name in names}
    return msgspec.json.encode(members | {"ended_at": episode.at}) + b"\n"


@given(
    episodes(NUMBERS | st.none()),
    st.lists(st.sampled_from([line_of(CUT), line_of(CUT._replace(length=7))])),
    st.binary(max_size=40),
)
def test_episodes_in_a_recording_are_found_there(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[Episode],
    cut: list[bytes],
    before: bytes,
) -> None:
    folder = tmp_path_factory.mktemp("data")
    (folder / "mine").mkdir()
    path = folder / "mine" / "episodes.jsonl"
    lines = [line_of(each) for each in written]
    path.write_bytes(b"".join([before, b"\n", *lines, *cut]))
    kept = Archive(place(folder))
    kept.add(facts(), written, "mine")
    found = read_archived(place(folder), "3c657dbc")
    assert found is not None
    known = bool(written) and not any(each.end == "failed" for each in written)
    assert (found.facts.recorded is not None) == known
    assert found.episodes() == written
    if known:
        path.write_bytes(b"x" + path.read_bytes())
        assert found.episodes() == []


def test_each_line_of_a_recording_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if episodes are alike, as those of a client that only resets."""
    (tmp_path / "mine").mkdir()
    lines = [line_of(CUT)] * 2000
    (tmp_path / "mine" / "episodes.jsonl").write_bytes(b"".join(lines))
    read = []

    class Counting:
        def decode(self, line: bytes, decode: Any = recorded_episodes._LINE.decode):
            read.append(line)
            return decode(line)

    monkeypatch.setattr(recorded_episodes, "_LINE", Counting())
    # The last one is not there.
    wanted = [*[CUT] * 999, CUT._replace(length=7)]
    Archive(place(tmp_path)).add(facts(), wanted, "mine")
    found = read_archived(place(tmp_path), "3c657dbc")
    assert found is not None
    assert found.facts.recorded is None
    assert len(read) <= len(lines)


def test_a_recording_that_was_replaced_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "episodes.jsonl"
    path.write_bytes(3 * line_of(CUT))
    Archive(place(tmp_path)).add(facts(), [CUT] * 3, "mine")
    found = read_archived(place(tmp_path), "3c657dbc")
    assert found is not None
    assert len(found.episodes()) == 3
    path.write_bytes(3 * line_of(CUT._replace(length=7)))
    assert found.episodes() == []
    path.unlink()
    assert found.episodes() == []


@pytest.mark.parametrize("name", ["", "..", "../mine", "ended-instances", "none", "/"])
def test_a_recording_that_is_none_is_no_source(name: str, tmp_path: Path) -> None:
    kept = Archive(place(tmp_path))
    kept.add(facts(), [CUT], name)
    found = read_archived(place(tmp_path), "3c657dbc")
    assert found is not None
    assert (found.facts.recorded, found.episodes()) == (None, [CUT])
