"""Measures how long a recording takes to be resumed."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Mode, available
from benchmarks.report import Row, row
from benchmarks.servers import Server, our_server
from gym_http_client.bench.agents import ENV_ID

__all__ = ["resume_20000"]

_ROLLOUTS = 2
# Each rollout ends after so many steps, long before it has so many episodes.
_STEPS = 10_000
_EPISODES = 1000


def resume_20000(plan: Plan) -> list[Row]:
    """Compare the resume of 20,000 steps with rollouts that take the same steps."""
    plan.say("resume_20000: starting")
    with our_server(available()) as server:
        recorded = _post(server, "/v1/envs/", {"env_id": ENV_ID, "record": "steps"})
        _roll_out(server, recorded["instance_id"])
        _close(server, recorded["instance_id"])
        ours, theirs = in_turn(plan, lambda: _resume(server), lambda: _play(server))
    figures = (median(ours) * 1000, median(theirs) * 1000)
    return [row("resume_20000", Mode.FREE, figures[0], "ms", "rollout", figures[1])]


def _resume(server: Server) -> float:
    began = time.monotonic()
    made = _post(server, "/v1/envs/", {"resume": "steps"})
    took = time.monotonic() - began
    _close(server, made["instance_id"])
    return took


def _play(server: Server) -> float:
    """Return the seconds for an instance, and the rollouts of it."""
    began = time.monotonic()
    made = _post(server, "/v1/envs/", {"env_id": ENV_ID})
    _roll_out(server, made["instance_id"])
    took = time.monotonic() - began
    _close(server, made["instance_id"])
    return took


def _roll_out(server: Server, instance_id: str) -> None:
    for seed in range(_ROLLOUTS):
        body = {"episodes": _EPISODES, "seed": seed}
        answer = _post(server, f"/v1/envs/{instance_id}/rollout/", body)
        assert answer["steps"] == _STEPS


def _close(server: Server, instance_id: str) -> None:
    _post(server, f"/v1/envs/{instance_id}/close/", {})


def _post(server: Server, path: str, body: Any) -> Any:
    request = urllib.request.Request(server.url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or b"{}")
