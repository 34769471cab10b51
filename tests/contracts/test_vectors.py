"""Vectors in plain JSON, as a thin client without NumPy uses them."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.support import api as calls
from tests.support.api import Instance

VECTOR = {"num_envs": 3, "vectorization_mode": "sync"}


def test_lists_in_and_lists_out(create: Callable[..., Instance]) -> None:
    instance = create(**VECTOR, autoreset_mode="same_step", max_episode_steps=4)
    local = gymnasium.make_vec(
        "CartPole-v1",
        **VECTOR,
        max_episode_steps=4,
        vector_kwargs={"autoreset_mode": "SameStep"},
    )
    expected, _ = local.reset(seed=3)
    answer = instance.reset(seed=3)
    assert np.float32(answer["observation"]).tobytes() == expected.tobytes()
    assert answer["info"] == {}
    for number in range(4):
        answer = instance.step([0, 1, number % 2])
        observation, reward, terminated, truncated, _ = local.step(
            np.array([0, 1, number % 2])
        )
        assert np.float32(answer["observation"]).tobytes() == observation.tobytes()
        assert answer["reward"] == reward.tolist()
        assert answer["terminated"] == terminated.tolist()
        assert answer["truncated"] == truncated.tolist()
        assert answer["done"] == np.logical_or(terminated, truncated).tolist()
    assert answer["done"] == [True] * 3
    assert answer["info"]["_final_obs"] == [True] * 3
    assert np.shape(answer["info"]["final_obs"]) == (3, 4)
    described = calls.ok(instance.get(""))
    assert described["num_envs"] == 3
    assert described["metadata"]["autoreset_mode"] == "SameStep"
    assert (described["steps"], described["episodes"]) == (12, 3)
    assert described["single_action_space"] == {
        "dtype": "int64",
        "n": 2,
        "start": 0,
        "type": "Discrete",
    }
    local.close()


def test_an_end_counts_once(create: Callable[..., Instance]) -> None:
    # An asynchronous vector steps environments that have ended.
    instance = create(
        num_envs=2,
        vectorization_mode="async",
        autoreset_mode="disabled",
        max_episode_steps=2,
    )
    instance.reset()
    ends = [instance.step([0, 1])["done"] for _ in range(4)]
    assert ends[1:] == [[True, True]] * 3
    assert calls.ok(instance.get(""))["episodes"] == 2
    instance.reset(options={"reset_mask": [True, False]})
    for _ in range(2):
        instance.step([0, 1])
    assert calls.ok(instance.get(""))["episodes"] == 3


def test_seeds_and_masks(create: Callable[..., Instance]) -> None:
    instance = create(**VECTOR, autoreset_mode="disabled", hosts=2)
    first = instance.reset(seed=[1, 2, 3])["observation"]
    assert instance.reset(seed=1)["observation"] == first
    moved = instance.step([1, 1, 1])["observation"]
    options = {"reset_mask": [False, False, True]}
    again = instance.reset(seed=[None, None, 3], options=options)["observation"]
    assert again == [moved[0], moved[1], first[2]]
    for body, words in (
        ({"seed": [1, 2]}, "seed is a list of 2"),
        ({"seed": [1, 2, -3]}, "seed[2] is -3"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"options": {"reset_mask": [True, True]}}, "expected a list of 3"),
        ({"options": {"reset_mask": [1, 0, 0]}}, "expected a list of 3"),
        ({"options": {"reset_mask": [False] * 3}}, "all false"),
        ({"options": []}, "options is []"),
    ):
        error = calls.error(instance.post("reset/", body), 400, "bad-parameter")
        assert words in error["message"]
    assert instance.step([0, 1, 0])


@pytest.mark.parametrize(
    "action",
    [[0, 1], [0, 1, 0, 1], [0, 1, 2], 1, {"0": 1}, [[0, 1], 0, 1], ["x", 0, 1]],
)
def test_invalid_batches_of_actions(
    create: Callable[..., Instance], action: Any
) -> None:
    instance = create(**VECTOR)
    instance.reset()
    answer = instance.post("step/", {"action": action})
    calls.error(answer, 400, "invalid-action")
    assert instance.step([0, 1, 0])["reward"] == [1.0] * 3


@pytest.mark.parametrize("hosts", [1, 2])
def test_one_action_for_each_of_any_kind(
    create_toy: Callable[..., Instance], hosts: int
) -> None:
    for space, actions in (
        ("dict", [{"go": n, "by": [n, n + 1]} for n in range(3)]),
        ("tuple", [[n % 2, [0.5, 0.25]] for n in range(3)]),
        ("text", ["ab", "c", "DEF"]),
        ("multidiscrete", [[0, 1], [1, 2], [0, 0]]),
    ):
        instance = create_toy(
            "toys/Echo-v0", **VECTOR, hosts=hosts, kwargs={"space": space}
        )
        instance.reset()
        seen = instance.step(actions)["observation"]
        if space == "dict":
            assert seen["go"] == [0, 1, 2]
            assert seen["by"] == [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
            # A batch as Gymnasium has it is as good.
            assert instance.step(seen)["observation"] == seen
        elif space == "tuple":
            assert seen == [[0, 1, 0], [[0.5, 0.25]] * 3]
        else:
            assert seen == actions
        value = {"value": actions}
        body = calls.ok(instance.post("action_space/contains/", value))
        assert body["member"] is True
        body = calls.ok(instance.post("action_space/contains/", {"value": actions[:2]}))
        assert body["member"] is False
        instance.close()


def test_spaces_samples_and_frames(create: Callable[..., Instance]) -> None:
    instance = create(**VECTOR, render_mode="rgb_array")
    body = calls.ok(instance.get("action_space/"))
    assert body["info"] == {"name": "MultiDiscrete", "nvec": [2, 2, 2]}
    sample = calls.ok(instance.post("action_space/sample/", {"seed": 1}))["action"]
    space = gymnasium.spaces.MultiDiscrete([2, 2, 2])
    space.seed(1)
    assert sample == space.sample().tolist()
    instance.reset()
    calls.error(instance.get("render/"), 406, "not-acceptable")
    headers = {"Accept": "application/octet-stream"}
    answer = instance.get("render/", headers=headers)
    assert answer.header("Gym-Shape") == "3,400,600,3"


def test_no_vector_by_halves(create: Callable[..., Instance]) -> None:
    single = create()
    assert "num_envs" not in calls.ok(single.get(""))
    api = single.api
    request = {"env_id": "CartPole-v1", "kwargs": {"num_envs": 2}, **VECTOR}
    calls.error(api.post("/v1/envs/", request), 400, "bad-parameter")
