"""Environments of several agents are driven as PettingZoo drives them."""

import ast
import copy
import inspect
from typing import Any

import numpy as np
import pytest
from pettingzoo.classic.rps.rps import raw_env
from pettingzoo.utils import conversions, wrappers

from gym_http_core.agents import TRANSPARENT, agent_env
from tests.support.values import assert_same

READ = {
    "_cumulative_rewards",
    "agent_selection",
    "agents",
    "infos",
    "last",
    "rewards",
    "terminations",
    "truncations",
}


class Doubled(wrappers.BaseWrapper):  # type: ignore[misc]
    """Doubles rewards: one of the attributes that PettingZoo's conversion reads."""

    @property
    def rewards(self) -> dict[str, int]:
        """Rewards by agent."""
        return {agent: 2 * each for agent, each in self.env.rewards.items()}


def ordered(env: Any) -> Any:
    return wrappers.OrderEnforcingWrapper(env)


def asserted(env: Any) -> Any:
    return wrappers.AssertOutOfBoundsWrapper(env)


# By the wrappers, the innermost first: whether the conversion reads past some.
CHAINS = [
    ([], False),
    ([ordered], True),
    ([asserted, ordered], True),
    ([Doubled, ordered], True),
    ([asserted, Doubled], False),
    ([ordered, Doubled, ordered], True),
]


def parallel(chain: list[Any]) -> Any:
    env = raw_env(max_cycles=20)
    for wrap in chain:
        env = wrap(env)
    return conversions.aec_to_parallel(env)


def played(reset: Any, step: Any) -> list[Any]:
    """Play an episode, and return all results."""
    rng = np.random.default_rng(5)
    results = [reset(seed=3, options=None)]
    for _ in range(20):
        actions = rng.integers(3, size=2)
        results.append(step({f"player_{i}": actions[i] for i in range(2)}))
    return [tuple(map(dict, each)) for each in results]


@pytest.mark.parametrize(("chain", "is_shortened"), CHAINS)
def test_results_past_wrappers_are_those_through_them(
    chain: list[Any], is_shortened: bool
) -> None:
    local, driven = parallel(chain), parallel(chain)
    through = driven.aec_env
    env = agent_env(driven)
    assert (driven.aec_env is not through) is is_shortened
    assert (env.agents, env.known()) == ([], ["player_0", "player_1"])
    for _ in range(2):
        assert_same(played(env.reset, env.step), played(local.reset, local.step))
        assert env.agents == []
    assert env.unwrapped is through.unwrapped
    twice = copy.deepcopy(driven)
    assert twice.aec_env.unwrapped is not through.unwrapped
    assert_same(played(twice.reset, twice.step), played(local.reset, local.step))


def test_errors_past_wrappers_are_those_through_them() -> None:
    local, driven = parallel([ordered]), parallel([ordered])
    agent_env(driven)
    for world in (local, driven):
        with pytest.raises(AttributeError, match="cannot be accessed before reset"):
            world.step({})
        world.reset(seed=1)
        with pytest.raises(KeyError, match="player_0"):
            world.step({})
        with pytest.raises(AttributeError, match="private attribute '_x'"):
            world.aec_env._x  # noqa: B018


@pytest.mark.parametrize("name", sorted(TRANSPARENT))
def test_wrappers_that_are_passed_have_no_such_attributes(name: str) -> None:
    kind = getattr(wrappers, name)
    kinds = kind.__mro__[: kind.__mro__.index(wrappers.BaseWrapper) + 1]
    for each in kinds:
        assert not READ & vars(each).keys()
    nodes = ast.walk(ast.parse("".join(map(inspect.getsource, kinds))))
    assigned = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    assert "env" in assigned
    assert not READ & assigned
