"""A copy of an environment in use warns that it has no state, where it was made."""

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

from gym_http_client import RealTimeEnv, RemoteEnv, RemoteVectorEnv
from gym_http_client.pettingzoo import RemoteAECEnv, RemoteParallelEnv
from tests.support.identity import assert_identical
from tests.support.server import Server

CLOCK = {"mode": "elastic", "hz": 99, "default_action": 1}
KINDS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (RemoteEnv, ("CartPole-v1",)),
    (RemoteVectorEnv, ("CartPole-v1", 2)),
    (RealTimeEnv, ("CartPole-v1", CLOCK)),
    (RemoteAECEnv, ("pettingzoo/classic.tictactoe_v3",)),
    (RemoteParallelEnv, ("pettingzoo/classic.rps_v2",)),
]


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    """Return a function that registers an environment to close after the test."""
    made: list[Any] = []

    def add(env: Any) -> Any:
        made.append(env)
        return env

    yield add
    for env in reversed(made):
        env.close()


@pytest.mark.parametrize(("kind", "arguments"), KINDS)
def test_a_copy_of_one_that_was_reset_warns(
    server: Server,
    closing: Callable[[Any], Any],
    kind: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    env = closing(kind(server.url, *arguments))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unused = closing(copy.deepcopy(env))
    assert unused.instance_id != env.instance_id
    first = env.reset(seed=1)
    words = "is a new instance, without the state of this one: reset the copy"
    for way in (copy.copy, copy.deepcopy):
        with pytest.warns(UserWarning, match=words) as caught:
            copied = closing(way(env))
        assert [each.filename for each in caught] == [__file__]
        ways_on = "branches()" in str(caught[0].message)
        assert ways_on == hasattr(env, "branches")
        assert copied.instance_id not in (env.instance_id, unused.instance_id)
    if kind is not RealTimeEnv:
        # A clock notes the time in infos.
        assert_identical(copied.reset(seed=1), first)


def test_a_copy_of_a_wrapper_warns_once(
    server: Server, closing: Callable[[Any], Any]
) -> None:
    env = gymnasium.wrappers.RecordEpisodeStatistics(
        closing(RemoteEnv(server.url, "CartPole-v1"))
    )
    env.reset(seed=1)
    with pytest.warns(UserWarning, match="without the state") as caught:
        closing(copy.deepcopy(env))
    assert len(caught) == 1
