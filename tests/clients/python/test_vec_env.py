"""`VecEnvCore` returns what loops over local environments return, as SB3's DummyVecEnv.

The reference is a loop over ``gymnasium.make``, by the rules of SB3's ``DummyVecEnv``;
``tests/sb3`` compares with that itself.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteVectorEnv, ServerError
from gym_http_client.envs.vec_env import VecEnvCore
from gym_http_client.streaming.streams import WebSocketStream
from tests.support.server import Server

pytestmark = pytest.mark.live

COUNT = 3
NO_OPTIONS: list[dict[str, Any]] = [{}] * COUNT


@pytest.fixture(params=[1, 2], ids=["1 process", "2 processes"])
def core(server: Server, request: pytest.FixtureRequest) -> Iterator[VecEnvCore]:
    with vector(
        server, "CartPole-v1", hosts=request.param, max_episode_steps=20
    ) as env:
        yield VecEnvCore(env)


def vector(server: Server, env_id: str, **options: Any) -> Any:
    """Make a vector as `RemoteVecEnv` makes it."""
    options = {"autoreset_mode": "same_step", "vectorization_mode": "sync", **options}
    return contextlib.closing(
        RemoteVectorEnv(server.url, env_id, num_envs=COUNT, **options)
    )


def test_steps_equal_local_environments(core: VecEnvCore) -> None:
    local = [gymnasium.make("CartPole-v1", max_episode_steps=20) for _ in range(COUNT)]
    generator = np.random.default_rng(3)
    observations = core.reset([7, 8, 9], NO_OPTIONS)
    for index, env in enumerate(local):
        np.testing.assert_array_equal(observations[index], env.reset(seed=7 + index)[0])
    ends = set()
    for _ in range(90):
        actions = generator.integers(2, size=COUNT)
        core.step_async(actions)
        observations, rewards, dones, infos = core.step_wait()
        assert (rewards.dtype, dones.dtype) == (np.float32, np.bool_)
        for index, env in enumerate(local):
            last, reward, terminated, truncated, _ = env.step(actions[index])
            assert infos[index]["TimeLimit.truncated"] is (truncated and not terminated)
            assert (rewards[index], dones[index]) == (reward, terminated or truncated)
            if terminated or truncated:
                ends.add("terminated" if terminated else "truncated")
                found = infos[index]["terminal_observation"]
                np.testing.assert_array_equal(found, last)
                assert found.dtype == last.dtype
                last, _ = env.reset()
            else:
                assert "terminal_observation" not in infos[index]
            np.testing.assert_array_equal(observations[index], last)
    assert ends == {"terminated", "truncated"}


def test_steps_are_fast_frames(
    core: VecEnvCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, ends = np.random.default_rng(3), 0
    core.reset([7, 8, 9], NO_OPTIONS)
    for number in range(120):
        if number == 60:
            # The general path of answers.
            monkeypatch.setattr(WebSocketStream, "receive", _unexpected)
        core.step_async(generator.integers(2, size=COUNT))
        _, _, dones, infos = core.step_wait()
        ends += any(dones)
        for done, info in zip(dones, infos, strict=True):
            assert ("terminal_observation" in info) == done
    assert ends > 10


def _unexpected(stream: WebSocketStream) -> None:
    raise AssertionError("an answer took the general path")


def test_infos_belong_to_their_environments(server: Server) -> None:
    kwargs = {"is_slippery": False}
    with vector(server, "FrozenLake-v1", **kwargs) as env:
        core = VecEnvCore(env)
        core.reset([1, 2, 3], NO_OPTIONS)
        assert core.reset_infos == [{"prob": 1}] * COUNT
        # Down, down, right, down, right, right is the goal; right, down a hole.
        ways = [[1, 1, 2, 1, 2, 2], [2, 1, 0, 0, 0, 0], [0] * 6]
        seen = []
        for actions in zip(*ways, strict=True):
            core.step_async(np.array(actions))
            seen.append(core.step_wait())
    dones = np.array([each[2] for each in seen]).T.tolist()
    assert dones == [[False] * 5 + [True], [False, True] + [False] * 4, [False] * 6]
    assert seen[1][3] == [
        {"TimeLimit.truncated": False, "prob": 1.0},
        {"TimeLimit.truncated": False, "prob": 1.0, "terminal_observation": 5},
        {"TimeLimit.truncated": False, "prob": 1.0},
    ]
    assert seen[1][0].tolist() == [8, 0, 0]
    assert seen[5][1].tolist() == [1.0, 0.0, 0.0]
    assert core.reset_infos[0] == {"prob": 1}


def test_methods_and_attributes_of_some_environments(core: VecEnvCore) -> None:
    assert core.get_attr("gravity") == [9.8] * COUNT
    core.set_attr("gravity", 1.62, indices=[2, 0])
    assert core.get_attr("gravity") == [1.62, 9.8, 1.62]
    assert core.get_attr("gravity", 1) == [9.8]
    core.set_attr("length", 2.0)
    assert core.get_attr("length", range(3)) == [2.0] * COUNT
    assert core.env_method("has_wrapper_attr", "gravity", indices=[1]) == [True]
    assert core.env_method("get_wrapper_attr", "gravity", indices=[1, 2]) == [9.8, 1.62]
    assert core.env_method("get_wrapper_attr", "gravity", indices=[]) == []


@pytest.mark.parametrize("indices", [3, -1, [0, 0]])
def test_wrong_indices_are_refused(core: VecEnvCore, indices: Any) -> None:
    with pytest.raises(ServerError, match=r"indices is .*integers from 0 to 2"):
        core.get_attr("gravity", indices)


def test_private_names_are_refused(core: VecEnvCore) -> None:
    with pytest.raises(AttributeError, match="private"):
        core.env_method("get_wrapper_attr", "_np_random", indices=[0])


def test_options_are_the_same_for_all(core: VecEnvCore) -> None:
    observations = core.reset([1, 2, 3], [{"low": 0.01, "high": 0.02}] * COUNT)
    assert ((observations >= 0.01) & (observations <= 0.02)).all()
    with pytest.raises(ValueError, match="options of environment 1"):
        core.reset([None] * COUNT, [{}, {"low": 0.0}, {}])


def test_another_autoreset_mode_is_refused(server: Server) -> None:
    with (
        vector(server, "CartPole-v1", autoreset_mode="next_step") as env,
        pytest.raises(ValueError, match="expected 'same_step'"),
    ):
        VecEnvCore(env)


def test_indices_need_a_sync_vector(server: Server) -> None:
    with (
        vector(server, "CartPole-v1", vectorization_mode="async") as env,
        pytest.raises(ServerError, match="vectorization_mode sync"),
    ):
        env.call_some([0], "gravity")


def test_the_module_names_the_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install .*\[sb3\]"):
        import gym_http_client.sb3  # noqa: F401
