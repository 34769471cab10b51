"""`RemoteAECEnv` refuses calls in a wrong order, in the words of PettingZoo."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pettingzoo.classic.tictactoe import tictactoe

from gym_http_client.pettingzoo import RemoteAECEnv
from tests.support.server import Server


@pytest.fixture
def both(server: Server) -> Iterator[tuple[Any, Any]]:
    """Return an environment of turns here, and one on the server."""
    here = tictactoe.env()
    env = RemoteAECEnv(server.url, "pettingzoo/classic.tictactoe_v3")
    yield here, env
    env.close()
    here.close()


def failure(env: Any, call: Callable[[Any], Any]) -> tuple[type[Exception], str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call(env)
    return caught.type, str(caught.value)


def forget_to_step(env: Any) -> None:
    for _, agent in zip(range(9), env.agent_iter(), strict=False):
        env.last()
        if agent == "player_1":
            env.step(4)


def begin_again_without_a_step(env: Any) -> None:
    for _ in range(2):
        next(iter(env.agent_iter()))


CALLS: list[Callable[[Any], Any]] = [
    lambda env: env.agent_iter(),
    lambda env: env.step(4),
    lambda env: env.observe("player_1"),
    lambda env: env.last(),
]


def test_a_call_before_the_reset_fails_as_locally(both: tuple[Any, Any]) -> None:
    here, env = both
    for call in CALLS:
        assert failure(env, call) == failure(here, call)


@pytest.mark.parametrize("play", [forget_to_step, begin_again_without_a_step])
def test_a_turn_without_a_step_fails_as_locally(
    both: tuple[Any, Any], play: Callable[[Any], None]
) -> None:
    here, env = both
    for each in both:
        each.reset(seed=1)
    assert failure(env, play) == failure(here, play)
    assert "need to call step() or reset()" in failure(env, play)[1]
    assert env.agent_selection == here.agent_selection
    for each in both:
        each.reset(seed=1)
    # A reset is a new turn, as well, and the number of turns has a limit.
    for each in both:
        turns = []
        for agent in each.agent_iter(3):
            turns.append(agent)
            each.step(len(turns))
        assert turns == ["player_1", "player_2", "player_1"]


def test_an_attached_one_begins_with_the_running_turn(
    both: tuple[Any, Any], server: Server
) -> None:
    _, env = both
    env.reset(seed=1)
    env.step(4)
    attached = RemoteAECEnv.attach(server.url, env.instance_id)
    assert next(iter(attached.agent_iter())) == "player_2"
