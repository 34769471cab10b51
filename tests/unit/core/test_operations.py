"""Operations on broken environments return descriptions of the failures."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gym_http_core.env_errors import env_error
from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.operations import Operations
from gym_http_wire.messages import problem_answer, problem_of
from gym_http_wire.problems import EnvError, InvalidAction
from gym_http_wire.spaces import UndescribableSpace


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Odd(spaces.Space[Any]):
    """A space of a class that is not Gymnasium's own."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        raise KeyError("odd")


class Room(gymnasium.Env[Any, Any]):
    action_space = spaces.Discrete(2)
    observation_space = Odd()


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        # Its text would be repeated.
        (ValueError("x"), "x", None),
        (ValueError(""), "", None),
        (ValueError("x", 1, None, 1.5), "('x', 1, None, 1.5)", ["x", 1, None, 1.5]),
        (ValueError("x" * 3000), "x" * 2000, None),
        (KeyError(2**70), str(2**70), [2**70]),
        (ValueError(float("nan")), "nan", None),
        (ValueError(float("inf")), "inf", None),
        (ValueError(np.float64(0.5)), "0.5", None),
        (KeyError(np.str_("x")), "np.str_('x')", None),
        (ValueError(["x"]), "['x']", None),
        (FileNotFoundError("\udc80.xml"), "\\udc80.xml", None),
        (ValueError(10**5000), "", None),
        (Mute(), "", []),
    ],
)
def test_any_exception_of_an_environment_can_be_sent(
    error: Exception, text: str, arguments: Any
) -> None:
    problem = problem_of(problem_answer(env_error("step", error)))
    assert (problem.extras["text"], problem.extras["arguments"]) == (text, arguments)
    assert problem.message.startswith("the environment raised")


def test_what_an_opaque_space_raises_is_the_environments_failure() -> None:
    with pytest.raises(EnvError, match=r"NotImplementedError in contains.*:Odd"):
        Operations(Room()).contains("observation", 1)
    with pytest.raises(EnvError, match=r"KeyError in sampling.*:Odd"):
        Operations(Room()).sample("observation", None, None)


@pytest.mark.parametrize("which", ["action", "observation"])
def test_an_invalid_space_is_the_environments_error(which: str) -> None:
    room = Room()
    operations = Operations(room)
    setattr(room, f"{which}_space", 5)
    for call in (operations.describe_space, operations.space):
        with pytest.raises(EnvError, match="no space"):
            call(which)
    with pytest.raises(EnvError, match="no space"):
        operations.contains(which, 1)


def test_an_environment_without_an_inside_is_described_as_broken() -> None:
    env = gymnasium.Wrapper(Room())
    operations = Operations(env)
    env.env = None  # type: ignore[assignment]
    for call in (LosslessCalls(operations).describe, operations.check_render_mode):
        with pytest.raises(EnvError, match="AttributeError"):
            call()


@pytest.mark.parametrize(
    ("space", "given", "wanted"),
    [
        (spaces.Discrete(3), 2, np.int64(2)),
        (spaces.MultiBinary(2), [0, 1], np.array([0, 1], np.int8)),
        (spaces.Dict({"a": spaces.Discrete(3)}), {"a": 1}, {"a": np.int64(1)}),
    ],
)
def test_plain_actions_are_read_alike_each_time(
    space: spaces.Space[Any], given: Any, wanted: Any
) -> None:
    room = Room()
    room.action_space = space
    operations = Operations(room)
    for _ in range(3):
        np.testing.assert_equal(operations.cast_action(given), wanted)
    with pytest.raises(InvalidAction):
        operations.cast_action("up")


def test_an_action_space_that_plain_json_cannot_represent_is_refused_at_once() -> None:
    room = Room()
    room.action_space = spaces.Dict(
        {"1": spaces.Discrete(2), 1: spaces.Discrete(2)}  # type: ignore[dict-item]
    )
    with pytest.raises(UndescribableSpace):
        Operations(room)
