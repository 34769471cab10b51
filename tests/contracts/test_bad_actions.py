"""Which actions are refused and which coerced; a refusal never takes a step."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.support.api import Api, Instance, error, ok
from tests.support.envs import toys
from tests.support.plain import plain, plain_step
from tests.support.server import Server

Create = Callable[..., Instance]

DISCRETE: list[Any] = [2, -1, 99, 1.5, "up", "2", "1.5", "0x1", "nan", [0, 1], [None]]
DISCRETE += [{"action": 1}, {"0": 1}, 1e30, 2**64, ["up"], "1\x00", "\u0661\u0662"]

BOX: list[Any] = [[1.0, 2.0], [[1.0, 2.0]], [[1.0], [2.0]], [[[1.0, 1.0, 1.0]]]]
BOX += ["up", ["up"], [None], [{}], {"0": 1.0}, ["nan"], ["inf"], ["-Infinity"]]
BOX += [[1e39], [[]], [[1.0], 2.0]]

NO_NUMBERS = [b"NaN", b"[NaN]", b"[Infinity]", b"[-Infinity]", b"[1e999]", b"1e999"]
NO_NUMBERS += [b"1" + b"0" * 400, b"[1%s]" % (b"0" * 400)]

TOYS: dict[str, list[Any]] = {
    "box": [
        [1, 2, 3],
        [1, 2],
        [[1, 2]],
        [[1, 2], [3]],
        [[1, 2], [3, None]],
        1,
        "x",
        {},
    ],
    "bytes": [[256, 0, 0], [-1, 0, 0], [0, 0], [[0, 0, 0]], ["x", 0, 0], [0, 0, None]],
    "point": ["x", [1, 2], {"a": 1}, [None]],
    "dict": [
        {"go": 1},
        {"by": [1, 2]},
        {"go": 1, "by": [1, 2], "x": 3},
        {"go": 1, "by": [1]},
        {"go": 3, "by": [1, 2]},
        {"go": 1, "by": None},
        [1, [1, 2]],
        1,
        "go",
    ],
    "tuple": [[0], [0, [0, 0], 1], [2, [0, 0]], [0, [0]], {"0": 0}, 0, [[0, 0], 0]],
    "multidiscrete": [[2, 0], [0], [0, 1, 1], [0.5, 1], [-1, 0], "x", {"a": 1}, 1],
    "multibinary": [[0, 1], [0, 1, 2], [0, 0, -1], [0, 0, 0.5], "abc", {"a": 1}],
    "multibinary2": [[0, 1, 0], [[0, 1]], [[0, 1], [0]], [[0, 1], [0, 2]]],
    "start": [0, 4, 8, -1],
    "text": ["toolong", "a b", "a\n", 7, ["a"], {"a": "b"}],
}

VALID: dict[str, list[Any]] = {
    "box": [[[0, 0.5], [-1, 1]], [[5, 6], [7, -8.5]]],
    "box64": [[0.1, 0.2], [0.30000000000000004, -3.0]],
    "bytes": [[0, 128, 255]],
    "point": [0.5],
    "dict": [{"go": 1, "by": [1, 2.5]}, {"by": [0, 99], "go": 2}],
    "discrete": [0, 2],
    "tuple": [[1, [0.5, 1]]],
    "multidiscrete": [[1, 2]],
    "multibinary": [[0, 1, 1]],
    "multibinary2": [[[0, 1], [1, 0]]],
    "start": [5, 7],
    "text": ["abc", "Z9"],
}


def local_action(space: str, action: Any) -> Any:
    """Return the action as a local caller would write it."""
    kind = toys.SPACES[space]
    if isinstance(kind, gymnasium.spaces.Dict):
        return {"go": action["go"], "by": np.array(action["by"], np.float32)}
    if isinstance(kind, gymnasium.spaces.Tuple):
        return (action[0], np.array(action[1], np.float32))
    if isinstance(action, (list, float)):
        return np.array(action, kind.dtype)
    return action


def refused(response: Any) -> None:
    """Check that an action was refused and the message names the expected value."""
    answer = error(response, 400, "invalid-action")
    assert re.search("must |expected|not in", answer["message"]), answer["message"]
    assert len(answer["message"]) < 4000


@pytest.mark.parametrize(
    ("env_id", "actions", "valid"),
    [("CartPole-v1", DISCRETE, 1), ("Pendulum-v1", BOX, [0.5])],
)
def test_wrong_actions(
    env_id: str, actions: list[Any], valid: Any, create: Create
) -> None:
    instance = create(env_id)
    instance.reset(seed=9)
    for action in actions:
        refused(instance.post("step/", {"action": action}))
    for text in NO_NUMBERS:
        response = instance.post("step/", data=b'{"action": %s}' % text)
        error(response, 400)
    with gymnasium.make(env_id) as local:
        local.reset(seed=9)
        expected = plain_step(local.step(local_number(valid)))
    assert instance.step(valid) == expected, "a refused action cost a step"


def local_number(action: Any) -> Any:
    return np.array(action, np.float32) if isinstance(action, list) else action


@pytest.mark.parametrize("space", TOYS)
def test_wrong_actions_of_every_space(space: str, create_toy: Create) -> None:
    instance = create_toy("toys/Echo-v0", kwargs={"space": space})
    instance.reset()
    for action in TOYS[space]:
        refused(instance.post("step/", {"action": action}))
    answer = instance.step(VALID[space][0])
    assert answer["info"]["steps"] == 1, "a refused action cost a step"


@pytest.mark.parametrize("space", VALID)
def test_actions_reach_the_env_as_locally(space: str, create_toy: Create) -> None:
    """Including floats beyond the bounds, which the environment handles."""
    instance = create_toy("toys/Echo-v0", kwargs={"space": space})
    instance.reset()
    name = "toys/Echo-v0"
    with gymnasium.make(name, space=space, disable_env_checker=True) as local:
        local.reset()
        for action in VALID[space]:
            step = local.step(local_action(space, action))
            answer = instance.step(action)
            assert answer["observation"] == plain(step[0])
            assert answer["info"]["steps"] == step[4]["steps"]
            if space in ("box", "box64", "bytes", "point"):
                assert answer["info"]["kind"] == step[4]["kind"]


@pytest.mark.parametrize("action", ["1", 1.0, [1], "1.0", [1.0], ["1"]], ids=repr)
def test_discrete_actions_are_coerced(action: Any, create: Create) -> None:
    if action in ("1.0", ["1"], [1.0]):
        # Each coercion is promised, their combinations are not.
        instance = create(seed=9)
        instance.reset()
        assert instance.post("step/", {"action": action}).status in (200, 400)
        return
    one, two = create(seed=9), create(seed=9)
    one.reset()
    two.reset()
    assert one.step(action) == two.step(1)


def test_floats_beyond_the_bounds_reach_the_env(create: Create) -> None:
    """MountainCarContinuous computes the reward from the unclipped action."""
    instance = create("MountainCarContinuous-v0")
    instance.reset(seed=1)
    with gymnasium.make("MountainCarContinuous-v0") as local:
        local.reset(seed=1)
        for action in ([5.0], [-7.25], [1e6]):
            expected = plain_step(local.step(np.array(action, np.float32)))
            assert instance.step(action) == expected
            assert instance.step(action)["reward"] < -2
            local.step(np.array(action, np.float32))


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    with Server("--strict-actions", "--import", "tests.support.envs.toys") as server:
        yield server


@pytest.fixture
def strict_car(strict: Server) -> Iterator[Instance]:
    instance = Api(strict).create("MountainCarContinuous-v0")
    yield instance
    instance.close()


@pytest.fixture
def strict_dict(strict: Server) -> Iterator[Instance]:
    instance = Api(strict).create("toys/Echo-v0", kwargs={"space": "dict"})
    yield instance
    instance.close()


def test_strict_actions(strict_car: Instance) -> None:
    strict_car.reset(seed=1)
    for action in ([5.0], [-1.001], [1e30]):
        refused(strict_car.post("step/", {"action": action}))
    with gymnasium.make("MountainCarContinuous-v0") as local:
        local.reset(seed=1)
        expected = plain_step(local.step(np.array([1.0], np.float32)))
    assert strict_car.step([1.0]) == expected


def test_strict_actions_inside_a_dict(strict_dict: Instance) -> None:
    strict_dict.reset()
    refused(strict_dict.post("step/", {"action": {"go": 1, "by": [1, 10]}}))
    ok(strict_dict.post("step/", {"action": {"go": 1, "by": [1, 9]}}))
