"""Instances of several environments that step as one."""

from __future__ import annotations

from typing import Any

from gym_http_server.validation.checks import (
    Absent,
    CheckGroup,
    Checks,
    Mismatch,
    equal,
)
from gym_http_server.validation.target import CART_POLE, Target, TargetInstance

__all__ = ["GROUP"]

checks = Checks()
_COUNT = 3


def _needs(target: Target) -> None:
    """Leave vectors out where ``num_envs`` is a member that nobody knows."""
    instance = _made(target)
    try:
        told = instance.get().json()
    except Mismatch:
        told = {}
    finally:
        instance.close()
    if not isinstance(told, dict) or told.get("num_envs") != _COUNT:
        raise Absent("num_envs makes one environment all the same")


GROUP = CheckGroup("vectors", lambda: checks, _needs)


def _made(target: Target, **options: Any) -> TargetInstance:
    return target.create(num_envs=_COUNT, vectorization_mode="sync", **options)


@checks("steps-as-one")
def _one(target: Target) -> None:
    vector = _made(target)
    singles = [target.create(CART_POLE) for _ in range(_COUNT)]
    try:
        told = vector.post("reset/", {"seed": 42}).json()["observation"]
        alone = [
            single.post("reset/", {"seed": 42 + index}).json()["observation"]
            for index, single in enumerate(singles)
        ]
        equal(told, alone, "the observations, of seeds that go up by one")
        step = vector.post("step/", {"action": [1, 0, 1]}).json()
        alone = [
            single.post("step/", {"action": action}).json()
            for single, action in zip(singles, (1, 0, 1), strict=True)
        ]
        equal(step["observation"], [each["observation"] for each in alone], "steps")
        equal(step["reward"], [1.0] * _COUNT, "rewards")
        equal(step["terminated"], [False] * _COUNT, "terminated")
    finally:
        for instance in (vector, *singles):
            instance.close()


@checks("seeds-of-their-own")
def _seeds(target: Target) -> None:
    vector, single = _made(target), target.create()
    try:
        told = vector.post("reset/", {"seed": [5, 6, 5]}).json()["observation"]
        alone = single.post("reset/", {"seed": 5}).json()["observation"]
        equal([told[0], told[2]], [alone, alone], "the observations of seed 5")
    finally:
        vector.close()
        single.close()


@checks("spaces")
def _spaces(target: Target) -> None:
    vector = _made(target)
    try:
        told = vector.get().json()
        single = {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
        equal(told["single_action_space"], single, "single_action_space")
        space = vector.get("action_space/").json()["space"]
        equal((space["type"], space["shape"]), ("MultiDiscrete", [_COUNT]), "actions")
    finally:
        vector.close()


@checks("autoreset-disabled")
def _disabled(target: Target) -> None:
    vector = _made(target, autoreset_mode="disabled", max_episode_steps=1)
    try:
        first = vector.post("reset/", {"seed": 3}).json()["observation"]
        step = vector.post("step/", {"action": [0, 0, 0]}).json()
        equal(step["truncated"], [True] * _COUNT, "truncated")
        options = {"reset_mask": [True, False, False]}
        request = {"seed": [3, None, None], "options": options}
        told = vector.post("reset/", request).json()["observation"]
        equal(told[0], first[0], "the one that was reset")
        equal(told[1:], step["observation"][1:], "those that were not")
    finally:
        vector.close()
