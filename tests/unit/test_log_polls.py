"""Many clients that wait for a log cost one check of its file."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gym_http_server.web.backends import log_polls
from gym_http_server.web.backends.log_polls import LogPolls, state_of
from tests.support.wait import wait_until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that is empty."""
    path = tmp_path / "log"
    path.touch()
    return path


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files looked at, in their order."""
    looks: list[str] = []
    stat, threads = os.stat, set(threading.enumerate())

    def counted(path: str, **options: bool) -> os.stat_result:
        looks.append(path)
        return stat(path, **options)

    monkeypatch.setattr(log_polls.os, "stat", counted)
    yield looks
    monkeypatch.undo()
    wait_until(lambda: set(threading.enumerate()) <= threads)


def test_fifty_polls_take_one_look_at_a_time(log: Path, looks: list[str]) -> None:
    polls, request = LogPolls(), []

    def gone() -> bool:
        request.append(1)
        return False

    def poll() -> bool:
        deadline = time.monotonic() + 20
        return polls.wait(str(log), state_of(str(log)), deadline, gone)

    with ThreadPoolExecutor(50) as pool:
        waiting = [pool.submit(poll) for _ in range(50)]
        wait_until(lambda: len(looks) >= 105)
        began, before = time.monotonic(), len(looks)
        time_over = began + 1.2
        wait_until(lambda: time.monotonic() > time_over)
        passed = time.monotonic() - began
        assert len(looks) - before <= passed / log_polls.LOOK_SECONDS + 2
        # And one at each client's connection a second.
        assert len(request) <= 50 * (passed + 1.5)
        log.write_bytes(b"now")
        assert all(each.result(10) for each in waiting)


def test_a_wait_ends_at_its_deadline_and_when_the_client_is_gone(
    log: Path, looks: list[str]
) -> None:
    polls, before = LogPolls(), state_of(str(log))
    began = time.monotonic()
    assert not polls.wait(str(log), before, began + 0.2, lambda: False)
    assert 0.2 <= time.monotonic() - began < 5.0
    assert not polls.wait(str(log), before, began + 20, lambda: True)
    assert time.monotonic() - began < 10.0


def test_a_log_that_changed_before_is_not_waited_for(
    log: Path, looks: list[str]
) -> None:
    before = state_of(str(log))
    log.write_bytes(b"now")
    assert LogPolls().wait(str(log), before, time.monotonic() + 20, lambda: True)
    log.unlink()
    assert state_of(str(log)) is None
