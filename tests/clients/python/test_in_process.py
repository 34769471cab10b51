"""An environment object behind the wire, and reports of values that get lost."""

from collections import OrderedDict
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gym_http_client import check_wire, through_wire
from tests.support.local_reference import assert_same_episodes

ENVS = ["CartPole-v1", "FrozenLake-v1", "Blackjack-v1", "Pendulum-v1", "Taxi-v4"]


@pytest.mark.parametrize("env_id", ENVS)
def test_an_object_behind_the_wire_equals_the_local_one(env_id: str) -> None:
    behind, local = through_wire(gymnasium.make(env_id)), gymnasium.make(env_id)
    assert_same_episodes(behind, local, steps=200)
    assert behind.spec == local.spec
    behind.close()
    local.close()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasiums_checker_is_content() -> None:
    check_env(
        through_wire(gymnasium.make("CartPole-v1").unwrapped), skip_render_check=True
    )


def test_attributes_and_errors() -> None:
    behind = through_wire(gymnasium.make("CartPole-v1"))
    behind.reset(seed=0)
    assert behind.gravity == 9.8
    behind.gravity = 3.0
    assert behind.get_wrapper_attr("gravity") == 3.0
    assert not behind.has_wrapper_attr("nonsense")
    with pytest.raises(gymnasium.error.Error):
        behind.reset(seed=-1)
    behind.close()


@pytest.mark.parametrize("use", [through_wire, check_wire])
def test_a_name_is_no_environment(use: Any) -> None:
    with pytest.raises(TypeError, match=r"'CartPole-v1' is no environment.*make"):
        use("CartPole-v1")


class Careless(gymnasium.Env[Any, Any]):
    """An environment with values that cannot be sent."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {"when": object(), "od": OrderedDict(a=1)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        return np.zeros(2, np.float32), 0.0, False, False, {"f": print}


@pytest.mark.parametrize("env_id", [*ENVS, "LunarLander-v3"])
def test_the_bundled_environments_survive(env_id: str) -> None:
    env = gymnasium.make(env_id)
    assert check_wire(env) == []
    env.close()


def test_values_that_do_not_survive_are_reported() -> None:
    found = check_wire(Careless(), steps=3)
    assert len(found) == 3
    assert any("when" in line and "object" in line for line in found)
    assert any("OrderedDict" in line for line in found)
    assert any(line.startswith("step") and "f" in line for line in found)


def test_arguments_that_the_spec_leaves_out_are_reported() -> None:
    gymnasium.register("careless/Kept-v0", lambda f: Careless(), kwargs={"f": print})
    try:
        found = check_wire(gymnasium.make("careless/Kept-v0"), steps=1)
    finally:
        del gymnasium.registry["careless/Kept-v0"]
    (line,) = (each for each in found if each.startswith("spec"))
    assert "kwargs['f'] is of a type that cannot be sent" in line
