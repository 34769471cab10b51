"""Sums of rewards of one component or several, and what JSON has of them."""

import math
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from gym_http_core.episode_log import VectorEpisodeLog
from gym_http_core.returns import added, plain_return, summed


class Refusing:
    """A reward that becomes no array, as a tensor of PyTorch with a gradient."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1.0, 2, np.float32(0.5)], 3.5),
        ([np.array([1.5])] * 2, 3.0),
        ([np.array([1, 2]), [0.5, -2.0], (1, 1)], [2.5, 1.0]),
        ([np.array([1.0, 2.0]), 0.0], [1.0, 2.0]),
        ([np.array([1.0, math.inf])], [1.0, None]),
        ([np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0])], None),
        ([1.0, {"a": 1}], None),
        ([{"a": 1}, 1.0], None),
        ([{"a": 1, "b": np.float32(0.5)}, {"b": 2, 3: 4}], {"a": 1, "b": 2.5, "3": 4}),
        ([1.0, None], None),
        ([1.0, Refusing(RuntimeError("use detach()"))], None),
        ([1.0, Refusing(SystemExit())], None),
        ([10**400], None),
        ([np.ones((2, 2))], None),
        ([], 0.0),
    ],
)
def test_rewards_are_summed_up_by_component(rewards: list[Any], expected: Any) -> None:
    assert plain_return(summed(rewards)) == expected


def test_small_floats_are_summed_up_as_large_ones() -> None:
    rewards = [np.full(2, 0.1, np.float32)] * 1000
    exact = float(np.float32(0.1)) * 1000
    assert summed(rewards) == pytest.approx([exact] * 2, rel=1e-12)
    assert added(0.0, rewards[0]).dtype == np.float64


def _ended(log: VectorEpisodeLog, rewards: list[Any]) -> list[Any]:
    """Return the returns of two environments after steps, of which the last ends."""
    log.begin([None, None])
    for number, reward in enumerate(rewards, 1):
        over = np.full(2, number == len(rewards))
        log.step(reward, over, np.zeros(2, np.bool_))
    return [each["return"] for each in log.since(log.total - 2)]


def test_a_vector_keeps_the_sums_of_components_of_each_environment() -> None:
    log = VectorEpisodeLog(2, AutoresetMode.DISABLED)
    several = np.array([[1.0, -1.0], [2.0, 0.5]])
    assert _ended(log, [several, several]) == [[2.0, -2.0], [4.0, 1.0]]
    # An asynchronous vector whose environments are all reset has numbers.
    assert _ended(log, [np.zeros(2), several]) == [[1.0, -1.0], [2.0, 0.5]]
    assert _ended(log, [several, np.ones((2, 3))]) == [[None] * 2] * 2


def test_a_single_component_of_a_vector_is_a_number() -> None:
    log = VectorEpisodeLog(2, AutoresetMode.DISABLED)
    assert _ended(log, [np.array([[1.0], [2.0]])] * 3) == [3.0, 6.0]


def test_sums_grow_only_where_episodes_run() -> None:
    log = VectorEpisodeLog(2, AutoresetMode.NEXT_STEP)
    log.begin([None, None])
    several = np.array([[1.0, -1.0], [2.0, 0.5]])
    off = np.zeros(2, np.bool_)
    log.step(several, np.array([True, False]), off)
    log.step(several, off, off)
    log.step(several, off, off)
    assert [each["return"] for each in log.current()] == [[1.0, -1.0], [6.0, 1.5]]


def test_rewards_that_are_no_numbers_cost_the_return_alone() -> None:
    log = VectorEpisodeLog(2, AutoresetMode.DISABLED)
    assert _ended(log, [np.array([{}, None], object)]) == [None, None]
