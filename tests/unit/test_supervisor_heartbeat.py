"""The launcher distinguishes a supervisor that hangs from a suspended machine."""

import os
from collections.abc import Iterator

import pytest

from gym_http_server.commands.launcher import (
    LOOK_SECONDS,
    SILENT_SECONDS,
    SupervisorHeartbeat,
)


@pytest.fixture
def heartbeat() -> Iterator[SupervisorHeartbeat]:
    """A heartbeat that has been looked at once."""
    made = SupervisorHeartbeat()
    made.silent_s(0.0)
    yield made
    made.close()


def test_silence_is_counted_from_the_last_beat(heartbeat: SupervisorHeartbeat) -> None:
    looks = range(1, 1 + int(SILENT_SECONDS / LOOK_SECONDS))
    for look in looks:
        os.write(heartbeat.writer, b"\n")
        assert heartbeat.silent_s(look * LOOK_SECONDS) == 0
    silent = [heartbeat.silent_s(SILENT_SECONDS + n * LOOK_SECONDS) for n in looks]
    assert silent == [n * LOOK_SECONDS for n in looks]
    assert silent[-1] == SILENT_SECONDS == 30


def test_time_in_which_the_launcher_did_not_run_is_no_silence(
    heartbeat: SupervisorHeartbeat,
) -> None:
    assert heartbeat.silent_s(3600.0) == 2 * LOOK_SECONDS
    os.write(heartbeat.writer, b"\n" * 10_000)
    assert heartbeat.silent_s(7200.0) == 0


def test_a_stopped_launcher_blocks_no_process(heartbeat: SupervisorHeartbeat) -> None:
    assert not os.get_blocking(heartbeat.writer)
