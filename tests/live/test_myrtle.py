"""Worlds and agents of a release of Myrtle, unchanged, in trials."""

import importlib
from typing import Any

import pytest

from gym_http_client.myrtle import bench
from tests.support.server import Server

pytestmark = pytest.mark.live

pytest.importorskip("myrtle", reason="myrtle is not installed")


def class_of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"myrtle.{module}"), name)


@pytest.mark.parametrize(
    ("agent", "world", "hz"),
    [
        (
            ("agents.q_learning_curiosity", "QLearningCuriosity"),
            ("worlds.intermittent_reward_bandit", "IntermittentRewardBandit"),
            100,
        ),
        (
            ("agents.random_multi_action", "RandomMultiAction"),
            ("worlds.contextual_bandit", "ContextualBandit"),
            1000,
        ),
    ],
)
def test_a_trial_has_an_update_for_each_step_of_a_world_of_myrtle(
    agent: tuple[str, str], world: tuple[str, str], hz: float
) -> None:
    with Server("--allow-module", f"myrtle.{world[0]}") as server:
        trial = bench.run(
            class_of(*agent),
            class_of(*world),
            record=False,
            world_args={"n_time_steps": 100, "n_episodes": 2},
            url=server.url,
        )
    assert (trial.updates, trial.episodes, trial.lost) == (200, 2, 0)
    assert trial.timing["settings"]["hz"] == hz
    assert trial.timing["actions"]["rejected"] == 0
    assert trial.timing["state"] == "ended"
