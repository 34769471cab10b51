"""A generated membership test returns the same as the space's ``contains``."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_core.operations import Operations
from gym_http_wire.elements import membership
from gym_http_wire.problems import InvalidAction
from tests.support.spaces import HOSTILE, TAME

INF, NAN = float("inf"), float("nan")
SPACES = [
    spaces.Discrete(3),
    spaces.Discrete(3, start=-1),
    spaces.Discrete(200, dtype=np.uint8),
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.Box(-INF, INF, (2,), np.float64),
    spaces.Box(np.array([-1, 0], np.float32), np.array([1, INF], np.float32)),
    spaces.Box(0, 255, (2,), np.uint8),
    spaces.Box(-1, 1, (), np.float32),
    spaces.Box(-1, 1, (0,), np.float32),
    spaces.MultiDiscrete([3, 3]),
    spaces.MultiDiscrete([3, 5], start=[-1, 250]),
    spaces.MultiBinary(2),
    spaces.Text(3),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]),
]
NUMBERS = [-INF, -2, -1, -0.0, 0, 0.5, 1, 2, 3, 199, 200, 254, 255, 2**70, INF, NAN]
VALUES: list[Any] = [*NUMBERS, True, None, "ab", (1, np.zeros(2, np.float32)), [0, 1]]
for _dtype in (np.int8, np.uint8, np.int64, np.float32, np.float64, np.bool_):
    for _number in NUMBERS:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                _scalar = _dtype(_number)
            except (OverflowError, ValueError):
                continue
        VALUES += [_scalar, np.array(_scalar), np.array([_scalar, 0]).astype(_dtype)]
    VALUES += [np.zeros((0,), _dtype), np.zeros((2, 1), _dtype), np.zeros(3, _dtype)]


def verdict(contains: Any, value: Any) -> Any:
    """Return the answer, or the class of the raised exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return contains(value)
        except Exception as error:
            return type(error)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_it_agrees_with_contains_about_any_value(space: spaces.Space[Any]) -> None:
    contains = membership(space)
    for value in VALUES:
        assert verdict(contains, value) == verdict(space.contains, value), value


@settings(deadline=None)
@given(st.one_of(HOSTILE, TAME), st.integers(0, 2**31), st.data())
def test_samples_of_any_space_are_elements_of_the_same_spaces(
    space: spaces.Space[Any], seed: int, data: st.DataObject
) -> None:
    other = data.draw(st.one_of(HOSTILE, TAME))
    contains = membership(space)
    for each in (space, other):
        each.seed(seed)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                value = each.sample()
            except (OverflowError, ValueError):  # bounds too far apart for NumPy
                continue
        assert verdict(contains, value) == verdict(space.contains, value)


class Stubborn(gymnasium.Env[Any, Any]):
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    observation_space = spaces.Discrete(2)


def test_a_strict_server_refuses_values_that_are_no_actions() -> None:
    operations = Operations(Stubborn(), strict_actions=True)
    good, bad = np.array([1, 0], np.float32), np.array([1, NAN], np.float32)
    operations.check_action(good)
    with pytest.raises(InvalidAction, match="accepts no other actions"):
        operations.check_action(bad)
    assert (operations.takes(good), operations.takes(bad)) == (True, False)
    assert Operations(Stubborn()).takes(bad)
