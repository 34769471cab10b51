"""Standard Atari under `make serve`: the server preprocesses and stacks frames."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers

from gym_http_client import RemoteEnv, RemoteVectorEnv
from tests.support.api import Instance
from tests.support.identity import assert_identical
from tests.support.server import Server

#: As in Machado et al., 2018, whose protocol the benchmarks of Atari follow.
ENV = {"frameskip": 1, "repeat_action_probability": 0.25}
DRESS = [
    {"name": "AtariPreprocessing", "kwargs": {"noop_max": 30, "scale_obs": True}},
    {"name": "FrameStackObservation", "kwargs": {"stack_size": 4}},
]
STEPS = 12

pytestmark = pytest.mark.live
Env = gymnasium.Env[Any, Any]


@pytest.fixture
def local() -> Iterator[Env]:
    """A local environment with the same wrappers."""
    gymnasium.register_envs(ale_py)
    plain = gymnasium.make("ALE/Pong-v5", **ENV)
    prepared = wrappers.AtariPreprocessing(plain, noop_max=30, scale_obs=True)
    env = wrappers.FrameStackObservation(prepared, 4)
    yield env
    env.close()


def test_a_remote_environment_is_preprocessed(server: Server, local: Env) -> None:
    with RemoteEnv(server.url, "ALE/Pong-v5", wrappers=DRESS, **ENV) as remote:
        assert remote.observation_space == local.observation_space
        assert remote.observation_space.shape == (4, 84, 84)
        assert_identical(remote.reset(seed=3), local.reset(seed=3))
        for step in range(STEPS):
            assert_identical(remote.step(step % 6), local.step(step % 6))


def test_plain_json_is_preprocessed(
    create: Callable[..., Instance], local: Env
) -> None:
    instance = create("ALE/Pong-v5", kwargs=ENV, wrappers=DRESS)
    expected, _ = local.reset(seed=3)
    given = np.array(instance.reset(seed=3)["observation"], np.float32)
    assert np.array_equal(given, expected)
    expected, reward, *_ = local.step(2)
    answer = instance.step(2)
    assert np.array_equal(np.array(answer["observation"], np.float32), expected)
    assert answer["reward"] == reward


def test_a_vector_of_ale_steps(server: Server) -> None:
    """ALE's own vector environment preprocesses as well."""
    options = {"num_envs": 2, "vectorization_mode": "vector_entry_point"}
    remote = RemoteVectorEnv(server.url, "ALE/Pong-v5", **options)
    with contextlib.closing(remote) as envs:
        observations, _ = envs.reset(seed=3)
        assert observations.shape == (2, 4, 84, 84)
        assert observations.dtype == np.uint8
        envs.step(np.array([2, 3]))
