"""Which settings a world gives its clock, and which the request."""

from typing import Any
from unittest.mock import Mock

import pytest

from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.realtime.making import make_clocked
from gym_http_server.host.realtime.settings import ClockSettings


def settings_of(env_id: str, realtime: dict[str, Any] | None) -> ClockSettings:
    made = make_clocked(
        CreateRequest(env_id, realtime=realtime),
        Mock(),
        Mock(),
        max_hz=1000,
        max_spin_us=0,
        strict_actions=False,
    )
    made.close()
    return made.mode.settings


@pytest.mark.parametrize(
    ("realtime", "mode", "hz"),
    [
        (None, "free_running", 100),
        ({"hz": 20}, "free_running", 20),
        ({"period_s": 0.5}, "free_running", 2),
        ({"preset": "myrtle"}, "free_running", 100),
        ({"preset": "myrtle", "hz": 20}, "free_running", 20),
        ({"mode": "elastic"}, "elastic", 100),
    ],
)
def test_the_rate_of_a_world_holds_unless_the_request_has_one(
    realtime: Any, mode: str, hz: float
) -> None:
    settings = settings_of("world/bandit", realtime)
    assert (settings.mode, settings.shown()["hz"]) == (mode, hz)
