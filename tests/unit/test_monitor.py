"""The monitor records episodes, and only in permitted files."""

import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.datadir.own_paths import DataDir
from gym_http_server.datadir.recording_files import About, delete_recording
from gym_http_server.errors import InvalidDirectory
from gym_http_server.host.monitor import Monitor
from gym_http_server.host.monitor_files import FileRequest, answer_file, open_file
from gym_http_wire.problems import BadParameter, Problem


def lines(path: Path) -> list[dict[str, object]]:
    """Read the episodes that were written."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def own_paths(data_dir: Path) -> DataDir:
    """Return a data directory, in which the relay has its own."""
    settings = Settings(data_dir=str(data_dir), relay_dir=str(data_dir / "relay"))
    return DataDir(settings, str(data_dir.parent / "run"))


def make(data_dir: Path, directory: str, *, force: bool, resume: bool) -> Monitor:
    """Make a monitor as a host and the supervisor do together."""
    request = FileRequest(directory, force, resume)
    file = open_file(own_paths(data_dir), request)
    return Monitor(file, directory)


def play(monitor: Monitor, rewards: list[float], *, end: str = "") -> None:
    """Play an episode."""
    monitor.reset(5)
    for number, reward in enumerate(rewards):
        last = number == len(rewards) - 1
        monitor.step(reward, last and end == "terminated", last and end == "truncated")


def test_episodes_are_summed_up(tmp_path: Path) -> None:
    monitor = make(tmp_path, "/runs/one/", force=False, resume=False)
    play(monitor, [1.0, 0.5, -2.0], end="terminated")
    play(monitor, [1.0, 1.0], end="truncated")
    play(monitor, [3.0])
    monitor.close()
    found = lines(tmp_path / "runs" / "one" / "episodes.jsonl")
    assert [(e["return"], e["length"]) for e in found] == [
        (-0.5, 3),
        (2.0, 2),
        (3.0, 1),
    ]
    assert [e["terminated"] for e in found] == [True, False, False]
    assert [e["truncated"] for e in found] == [False, True, False]
    assert all(e["seed"] == 5 for e in found)


def test_data_is_kept_unless_forced_or_resumed(tmp_path: Path) -> None:
    file = tmp_path / "a" / "episodes.jsonl"
    for options, expected in (
        ({"force": False, "resume": False}, 1),
        ({"force": False, "resume": True}, 2),
        ({"force": True, "resume": False}, 1),
    ):
        monitor = make(tmp_path, "a", **options)
        play(monitor, [1.0], end="terminated")
        monitor.close()
        assert len(lines(file)) == expected
    with pytest.raises(BadParameter, match="force"):
        make(tmp_path, "a", force=False, resume=False)


@pytest.mark.parametrize(
    "directory",
    [
        *("..", "a/../../b", "/..", "a\\b", "a\0b", "a\nb", "", "/", "."),
        "x" * 300,
        "/".join("abcdefghijklmnopqrstuvwxyz"),
    ],
)
def test_invalid_paths_and_paths_that_climb_are_refused(
    tmp_path: Path, directory: str
) -> None:
    with pytest.raises(BadParameter):
        make(tmp_path / "data", directory, force=True, resume=False)
    assert not list((tmp_path).rglob("*.jsonl"))


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    data.mkdir()
    outside.mkdir()
    (outside / "episodes.jsonl").write_text("precious")
    os.symlink(outside, data / "link")
    (data / "real").mkdir()
    os.symlink(outside / "episodes.jsonl", data / "real" / "episodes.jsonl")
    for directory in ("link", "link/deeper", "real"):
        with pytest.raises(BadParameter):
            make(data, directory, force=True, resume=False)
    assert (outside / "episodes.jsonl").read_text() == "precious"
    assert os.listdir(outside) == ["episodes.jsonl"]


def move_relay(data: Path) -> None:
    """Move the directory of the relay, and leave a link."""
    (data / "relay").rename(data / "mine")
    (data / "relay").symlink_to("mine")


def link_relay(data: Path) -> None:
    """Make the name a link to the directory of the relay."""
    (data / "mine").symlink_to("relay")


def link_inner(data: Path) -> None:
    """Make a part of the name a link to the directory of the relay."""
    (data / "mine" / "deep").symlink_to(data / "relay")


@pytest.mark.parametrize("attack", [move_relay, link_relay, link_inner])
def test_names_that_change_after_the_check_lead_nowhere(
    attack: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "relay" / "bodies").mkdir(parents=True)
    if attack is link_inner:
        (tmp_path / "mine").mkdir()
    check = DataDir.check

    def check_and_attack(data_dir: DataDir, parts: list[str]) -> None:
        check(data_dir, parts)
        attack(tmp_path)

    monkeypatch.setattr(DataDir, "check", check_and_attack)
    # It is no directory, or one of the server.
    with pytest.raises((BadParameter, InvalidDirectory)):
        make(tmp_path, "mine/deep/new", force=True, resume=False)
    monkeypatch.undo()
    (place,) = (each.parent for each in tmp_path.rglob("bodies"))
    assert os.listdir(place) == ["bodies"]
    assert os.listdir(place / "bodies") == []


@pytest.mark.parametrize("part", [None, 5])
def test_no_file_is_sent_to_a_host_that_has_ended(
    tmp_path: Path, part: int | None
) -> None:
    data_dir = own_paths(tmp_path / "data")
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        answer_file(ours, data_dir, FileRequest("a", False, True, part=part), About())


def test_a_file_is_opened_while_recordings_there_are_deleted(tmp_path: Path) -> None:
    paths, request = own_paths(tmp_path), FileRequest("runs/one", False, True)
    stop = threading.Event()
    found = Counter[str]()

    def delete() -> None:
        while not stop.is_set():
            try:
                delete_recording(paths, request.directory, "")
                found["deleted"] += 1
            except Problem as problem:
                found[problem.code] += 1

    with ThreadPoolExecutor(2) as pool:
        deleting = [pool.submit(delete) for _ in range(2)]
        try:
            for number in range(200):
                file = open_file(paths, request)
                os.write(file, b"{}\n")
                # A recording that is being written is not deleted.
                kept = (tmp_path / "runs/one/episodes.jsonl").stat().st_ino
                assert kept == os.fstat(file).st_ino, number
                os.close(file)
        finally:
            stop.set()
        for each in deleting:
            each.result()
    assert found.keys() <= {"deleted", "not-found", "recording-active"}
    assert found["deleted"]
