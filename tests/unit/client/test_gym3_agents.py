"""gym3's interface over worlds with several agents."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.classic.connect_four.connect_four import env as connect_four
from pettingzoo.classic.rps.rps import parallel_env as rps
from pettingzoo.utils.conversions import parallel_to_aec

from gym_http_client.gym3 import Gym3Env
from tests.support.envs.meeting import Meeting


class Same(Meeting):
    """A meeting whose agents have the same spaces."""

    def observation_space(self, agent: Any) -> Any:
        return spaces.Box(-1, 100, (len(self.possible_agents),), np.float64)

    def action_space(self, agent: Any) -> Any:
        return super().action_space(self.possible_agents[0])


def test_each_agent_is_an_environment() -> None:
    env = Gym3Env(rps(max_cycles=2), seed=1)
    assert env.num == 2
    assert str(env.ac_space) == "D3[]"
    assert env.observe()[2].tolist() == [True, True]
    env.act(np.array([0, 1]))
    reward, seen, first = env.observe()
    assert (reward.tolist(), seen.tolist()) == ([-1.0, 1.0], [1, 0])
    assert first.tolist() == [False, False]
    env.act(np.array([2, 1]))
    reward, seen, first = env.observe()
    # The next episode has begun for all, in which nothing was seen yet.
    assert (reward.tolist(), seen.tolist()) == ([1.0, -1.0], [3, 3])
    assert first.tolist() == [True, True]
    infos = env.get_info()
    assert [int(info["final_obs"]) for info in infos] == [1, 2]
    assert [info["truncated"] for info in infos] == [True, True]
    env.close()


def test_an_agent_that_died_is_ignored_until_the_episode_ends() -> None:
    log: list[Any] = []
    env = Gym3Env(Same({"a": 1, "b": 3}, log))
    env.act(np.array([1, 2]))
    assert [info["terminated"] for info in env.get_info()] == [True, False]
    assert not env.observe()[2].any()
    env.act(np.array([3, 4]))
    reward, seen, _ = env.observe()
    assert reward.tolist() == [0.0, 4.0]
    assert seen.tolist() == [[1, 2], [-1, 4]]
    env.act(np.array([5, 6]))
    assert env.observe()[2].all()
    assert [info["truncated"] for info in env.get_info()] == [False, False]
    assert log == [None, {"a": 1, "b": 2}, {"b": 4}, {"b": 6}, None]


def test_dummy_actions_of_inactive_players_are_ignored() -> None:
    env = Gym3Env(connect_four(), seed=1)
    assert env.num == 2
    for _ in range(3):
        # Column 6 is only ever a dummy.
        env.act(np.array([0, 6]))
        env.act(np.array([6, 1]))
        reward, seen, first = env.observe()
        assert not reward.any()
        assert not first.any()
        assert not seen["observation"][:, :, 6].any()
    env.act(np.array([0, 6]))
    reward, _, first = env.observe()
    assert (reward.tolist(), first.tolist()) == ([1.0, -1.0], [True, True])
    assert [info["final_info"]["terminated"] for info in env.get_info()] == [True, True]
    env.act(np.array([3, 3]))
    reward, seen, first = env.observe()
    assert not first.any()
    assert seen["observation"][1].sum() == 1


def test_turns_have_the_reward_of_each_turn() -> None:
    env = Gym3Env(parallel_to_aec(Same({"a": 9, "b": 9}, [])))
    env.act(np.array([7, 1]))
    assert env.observe()[0].tolist() == [0.0, 0.0]
    env.act(np.array([1, 8]))
    assert env.observe()[0].tolist() == [7.0, 8.0]


def test_agents_with_different_spaces_are_refused() -> None:
    with pytest.raises(TypeError, match=r"b has Discrete\(1000001\).*serve_agents"):
        Gym3Env(Meeting({"a": 1, "b": 1}, []))
