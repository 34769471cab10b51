"""The text of an update is JSON, whatever an environment returns."""

import json
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gym_http_core.vectors import operations_of
from gym_http_server.host.show.pictures import View
from gym_http_server.host.show.updates import (
    MAX_VALUE,
    State,
    shared_members,
    text_of,
)

STEP = 2


class Reward:
    """A reward that can be neither added nor shown."""

    def __repr__(self) -> str:
        raise RuntimeError("hidden")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")


def text(env: Any, reward: Any, action: Any, error: str | None = None) -> Any:
    value = {"reward": reward, "terminated": np.bool_(False), "truncated": None}
    state = State(STEP, value, {"action": action}, error=error)
    shared = shared_members(state, operations_of(env))
    return json.loads(text_of(shared, 3, View([], text="<b>&"), None, None, []))


def test_values_of_any_kind_become_json() -> None:
    env = gymnasium.make("CartPole-v1")
    found = text(env, np.float32(0.1), np.int64(1), error='"<script>')
    assert (found["reward"], found["action"], found["terminated"]) == (0.1, 1, False)
    assert (found["error"], found["ansi"], found["show"]) == ('"<script>', "<b>&", 3)
    assert text(env, float("nan"), 0)["reward"] is None
    assert text(env, {"first": 1.5}, [])["reward"] == {"first": 1.5}
    endless: list[Any] = []
    endless.append(endless)
    for odd in (Reward(), endless, "x" * MAX_VALUE):
        found = text(env, odd, odd)
        assert found["op"] == "step"
        assert found["reward"] in (None, found["action"])
    assert text(env, 1.0, "x" * MAX_VALUE)["action"] is None


def test_a_vector_shows_its_first_environment() -> None:
    vector = gymnasium.make_vec("CartPole-v1", num_envs=3)
    found = text(vector, np.array([0.5, 1, 2]), np.array([1, 0, 0]))
    assert (found["envs"], found["reward"], found["action"]) == (3, 0.5, 1)
    assert text(vector, [], 7)["reward"] is None
    both = spaces.Dict({"go": spaces.Discrete(2), "by": spaces.Box(-1, 1, (2,))})
    vector.action_space = gymnasium.vector.utils.batch_space(both, 3)
    batch = {"go": np.array([1, 0, 1]), "by": np.zeros((3, 2), np.float32)}
    assert text(vector, [1, 1, 1], batch)["action"] == {"go": 1, "by": [0.0, 0.0]}
