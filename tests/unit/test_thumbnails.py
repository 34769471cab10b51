"""Thumbnails: how many files are kept and how many are drawn, and when one is old."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gym_http_server.datadir import thumbnails
from gym_http_server.datadir.own_paths import THUMBNAILS
from gym_http_server.datadir.thumbnails import Drawn, read_thumbnail, write_thumbnail
from gym_http_server.errors import ShareUsedUp
from gym_http_server.supervisor import thumbnails as supervisor_thumbnails
from gym_http_server.supervisor.thumbnails import Thumbnails
from gym_http_wire.problems import Problem

HOUR_AND_MORE = 3700
PARTS: Any = ("sandbox", "data_dir", "poller", "hosts")


@pytest.fixture
def data(tmp_path: Path) -> Any:
    return SimpleNamespace(path=str(tmp_path / "data"))


def files(data: Any) -> list[Path]:
    return sorted(Path(data.path, THUMBNAILS).iterdir())


def set_back(file: Path, seconds: float) -> None:
    when = file.stat().st_mtime - seconds
    os.utime(file, (when, when))


def test_the_oldest_files_are_removed(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thumbnails, "MAX_FILES", 3)
    for number in range(3):
        write_thumbnail(data, Drawn(f"Env-v{number}"), b"jpeg")
        newest = max(files(data), key=lambda each: each.stat().st_mtime_ns)
        set_back(newest, 10_000 - number)
    write_thumbnail(data, Drawn("Env-v3"), b"jpeg")
    assert len(files(data)) == 3
    kept = [read_thumbnail(data, f"Env-v{number}") for number in range(4)]
    assert kept == [None, b"jpeg", b"jpeg", b"jpeg"]


def test_what_could_not_be_drawn_is_tried_again_after_an_hour(data: Any) -> None:
    write_thumbnail(data, Drawn("Env-v0"), b"")
    assert read_thumbnail(data, "Env-v0") == b""
    set_back(files(data)[0], HOUR_AND_MORE)
    assert read_thumbnail(data, "Env-v0") is None
    write_thumbnail(data, Drawn("Env-v0"), b"jpeg")
    set_back(files(data)[0], HOUR_AND_MORE)
    assert read_thumbnail(data, "Env-v0") == b"jpeg"


@pytest.mark.parametrize("content", [b"", b"\xff\n", b'{"env_id":"Other-v0"}\njpeg'])
def test_damaged_files_are_drawn_again(data: Any, content: bytes) -> None:
    write_thumbnail(data, Drawn("Env-v0"), b"jpeg")
    files(data)[0].write_bytes(content)
    assert read_thumbnail(data, "Env-v0") is None


def test_one_token_leaves_room_for_others_to_be_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor_thumbnails, "MAX_WAITING", 8)
    drawn = Thumbnails(*[cast(Any, None)] * 2, **dict.fromkeys(PARTS), seconds=1.0)
    monkeypatch.setattr(drawn, "_begin", lambda: None)
    request = cast(Any, None)

    def add(owner: str, count: int) -> None:
        for number in range(count):
            drawn.add(f"{owner}-v{number}", owner, request)

    add("ada", 4)
    with pytest.raises(ShareUsedUp, match="'ada' holds 4 of 8") as refused:
        drawn.add("more-v0", "ada", request)
    assert refused.value.headers == {"Retry-After": "5"}
    # One more request for a picture that is being drawn takes no room.
    drawn.add("ada-v0", "ada", request)
    add("bob", 2)
    add("", 2)
    with pytest.raises(Problem, match="8 environments wait") as full:
        drawn.add("more-v0", "", request)
    assert (full.value.status, full.value.code) == (429, "queue-full")
    assert full.value.headers == {"Retry-After": "5"}
