"""Rewards of several channels: reading, reducing and merging."""

import math
from typing import Any

import numpy as np
import pytest

from gym_http_server.host.realtime.rewards import Rewards
from gym_http_server.host.realtime.settings import RewardSettings
from gym_http_wire.problems import EnvError
from tests.support.realtime import MS, Run

GIVEN = {"mode": "free_running", "period_s": 0.01}


def answered(rewards: dict[str, Any], *paid: Any) -> Any:
    """Return the answer to a step after as many ticks as there are rewards."""
    run = Run(GIVEN | {"rewards": rewards})
    run.world.rewards = iter(paid)
    run.reset()
    run.sleep((len(paid) - 1) * 10 * MS)
    return run.step(0)


@pytest.mark.parametrize(
    ("scalar", "paid", "reward"),
    [
        ("sum", [1.0, None, 3.0], 4),
        ("mean", [1.0, None, 3.0], 2),
        ([1, 10, 100], [1.0, None, 3.0], 301),
        ("hold", [1.0, None, 3.0], 4),
        ("sum", [None, None, None], 0),
        ("mean", [None, None, None], 0),
        ([1, 10, 100], [None, None, None], 0),
    ],
)
def test_channels_become_a_number(scalar: Any, paid: Any, reward: float) -> None:
    result = answered({"scalar": scalar}, paid)
    assert (result.reward, result.rewards) == (reward, paid)


def test_held_channels_count_with_their_last_values() -> None:
    run = Run(GIVEN | {"rewards": {"scalar": "hold"}})
    run.world.rewards = iter([[1.0, None], [None, 5.0], [None, None], [2.0, 0.0]])
    run.reset()
    assert [run.step(0).reward for _ in range(4)] == [1, 6, 6, 2]


@pytest.mark.parametrize(
    ("scalar", "reward"),
    [("sum", 14), ("mean", 7), ("hold", 14), ([1, 10], 50)],
)
def test_skipped_rewards_are_added_per_channel(scalar: Any, reward: float) -> None:
    paid = ([1.0, None], [3.0, 4.0], [6.0, None])
    result = answered({"scalar": scalar}, *paid)
    assert (result.rewards, result.reward) == ([10, 4], reward)


def test_a_channel_that_said_nothing_stays_null() -> None:
    assert answered({}, [None, 1.0], [None, None]).rewards == [None, 1]


def test_skipped_rewards_may_be_lost_as_in_myrtle() -> None:
    result = answered({"skipped": "last"}, [1.0, 2.0], [3.0, None])
    assert (result.rewards, result.reward) == ([3, None], 3)


def test_a_number_stays_what_it_is() -> None:
    assert answered({}, np.float32(1.5)).reward.dtype == np.float32
    result = answered({}, 1.5, 2.0)
    assert (result.reward, result.rewards) == (3.5, None)
    assert answered({"skipped": "last"}, 1.5, 2.0).reward == 2


def test_what_worlds_return() -> None:
    rules = Rewards(RewardSettings())
    assert rules.read(np.array([1.0, math.nan])) == [1.0, None]
    assert rules.read((1, None)) == [1.0, None]
    assert rules.read(3) == 3
    named = Rewards(RewardSettings(channels=("speed",)))
    assert named.read(2) == [2.0]
    assert named.read(np.float64(2)) == [2.0]


def test_a_world_with_a_wrong_number_of_rewards() -> None:
    run = Run(GIVEN | {"rewards": {"channels": ["speed", "height"]}})
    run.world.rewards = iter([[1.0, 2.0, 3.0]])
    run.reset()
    run.sleep(20 * MS)
    with pytest.raises(EnvError, match="gave 3 rewards: expected 2"):
        run.step(0)
