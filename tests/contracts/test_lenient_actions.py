"""Actions that no space samples, but that gym-http-api passed to the environment.

It called ``env.step(action)`` for an integer, which true is in Python, and
``env.step(numpy.array(action))`` for anything else.
"""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.support.api import Api, Instance, error, ok
from tests.support.plain import plain, plain_step
from tests.support.server import Server
from tests.support.websocket import TEXT, WebSocket

Create = Callable[..., Instance]

#: Space of a toy, action as an old client sends it, and NumPy's array of it.
ACTIONS: dict[str, tuple[str, Any, Any]] = {
    "true": ("discrete", True, 1),
    "false": ("discrete", False, 0),
    "flags in a box": ("box", [[True, False], [1, 0]], np.array([[1.0, 0], [1, 0]])),
    "flags in a flat box": ("box", [True, 0, 0.5, 1], np.array([[1.0, 0], [0.5, 1]])),
    "flags among bytes": ("bytes", [True, 0, 255], np.array([1, 0, 255])),
    "flags of choices": ("multidiscrete", [True, False], np.array([1, 0])),
    "flag of a number": ("point", True, np.array(1.0)),
    "list for a number": ("point", [[0.5]], np.array(0.5)),
    "infinity": ("endless", [1e100, 3], np.array([np.inf, 3])),
    "minus infinity": ("endless", [-1e100, -1e100], np.array([-np.inf, -np.inf])),
    "inside a dict": (
        "dict",
        {"go": True, "by": [True, 2]},
        {"go": 1, "by": np.array([1.0, 2])},
    ),
    "inside a tuple": ("tuple", [False, [True, 0]], [0, [1.0, 0.0]]),
}
REFUSED: list[tuple[str, Any]] = [
    ("start", True),
    ("discrete", [[True, False]]),
    ("box", [[1e100, 0], [0, 0]]),
    ("endless", [0, 1e100]),
    ("endless", [1e99, 0]),
    ("point", [[0.5, 0.5]]),
    ("point", [[]]),
    ("text", True),
]


@pytest.mark.parametrize("name", ACTIONS)
def test_a_step_passes_actions_converted_by_numpy(
    name: str, create_toy: Create
) -> None:
    space, action, expected = ACTIONS[name]
    instance = create_toy("toys/Echo-v0", kwargs={"space": space})
    instance.reset()
    assert instance.step(action)["observation"] == plain(expected)


@pytest.mark.parametrize(
    ("env_id", "action", "local"),
    [
        ("CartPole-v1", True, 1),
        ("MountainCarContinuous-v0", [True], [1.0]),
        ("MountainCarContinuous-v0", [[0.25]], [0.25]),
        ("MountainCarContinuous-v0", True, [1.0]),
    ],
)
def test_every_way_to_step(
    env_id: str, action: Any, local: Any, create: Create
) -> None:
    """Over REST, over a stream, several at once, and in a rollout."""
    with gymnasium.make(env_id) as env:
        env.reset(seed=3)
        right = np.array(local, np.float32) if isinstance(local, list) else local
        expected = plain_step(env.step(right))
    over_rest, over_stream, many, rollout = (create(env_id, seed=3) for _ in range(4))
    over_rest.reset()
    assert over_rest.step(action) == expected
    over_stream.reset()
    with WebSocket.to(over_stream, "", sec_websocket_protocol=TEXT) as stream:
        answer = stream.call(op="step", action=action)
        assert (answer["status"], answer["body"]) == (200, expected)
    many.reset()
    body = ok(many.post("step/", {"actions": [action]}))
    assert body["observations"] == [expected["observation"]]
    body = ok(rollout.post("rollout/", {"actions": [[action]], "seed": 3}))
    assert body["episodes"][0]["rewards"] == [expected["reward"]]


def test_vectors_accept_them_too(create_toy: Create) -> None:
    instance = create_toy("toys/Echo-v0", kwargs={"space": "dict"}, num_envs=2)
    instance.reset()
    each = {"go": 1, "by": [1.0, 0.0]}
    answer = instance.step([{"go": True, "by": [True, False]}, each])
    assert answer["observation"] == {"go": [1, 1], "by": [[1.0, 0.0], [1.0, 0.0]]}


@pytest.mark.parametrize(("space", "action"), REFUSED)
def test_the_message_names_the_form_of_the_space(
    space: str, action: Any, create_toy: Create
) -> None:
    instance = create_toy("toys/Echo-v0", kwargs={"space": space})
    instance.reset()
    answer = error(instance.post("step/", {"action": action}), 400, "invalid-action")
    assert "must be" in answer["message"]
    assert instance.post("step/", {"actions": [action]}).status == 400


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    with Server("--strict-actions", "--import", "tests.support.envs.toys") as server:
        yield server


def test_strict_actions_refuse_them(strict: Server) -> None:
    for space, action, _ in ACTIONS.values():
        instance = Api(strict).create("toys/Echo-v0", kwargs={"space": space})
        instance.reset()
        response = instance.post("step/", {"action": action})
        error(response, 400, "invalid-action")
        instance.close()
