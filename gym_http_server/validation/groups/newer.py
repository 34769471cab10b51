"""What gym-http-api did not have and its clients do not use."""

from __future__ import annotations

from typing import Any

from gym_http_server.validation.checks import Absent, CheckGroup, Checks, equal, that
from gym_http_server.validation.groups.legacy import action_of, told
from gym_http_server.validation.target import CART_POLE, Target, TargetInstance

__all__ = ["GROUP"]

checks = Checks()
GROUP = CheckGroup("newer", lambda: checks)


@checks("terminated-and-truncated")
def _flags(target: Target) -> None:
    with target.made(target.env_id) as instance:
        instance.post("reset/", {})
        value = _step(instance, action_of(instance))
        for name in ("terminated", "truncated"):
            that(type(value[name]) is bool, f"{name}: true or false", value[name])
        either = value["terminated"] or value["truncated"]
        equal(value["done"], either, "done, of terminated and truncated")


def _step(instance: TargetInstance, action: Any) -> Any:
    value = told(instance.post("step/", {"action": action}))
    _there(instance.target, value, "terminated")
    _there(instance.target, value, "truncated")
    return value


def _there(target: Target, value: Any, name: str) -> None:
    """Leave a check out if the server is of gym-http-api's kind."""
    if name not in value and target.about is None:
        raise Absent(f"its answer has no {name}")
    that(name in value, f"a member {name}", value)


@checks("reset-info")
def _info(target: Target) -> None:
    with target.made(target.env_id) as instance:
        value = told(instance.post("reset/", {}))
        _there(target, value, "info")
        that(isinstance(value["info"], dict), "info: an object", value["info"])


@checks("reset-seed")
def _seed(target: Target) -> None:
    with target.made() as instance:
        _there(target, told(instance.post("reset/", {})), "info")
        first, again = (
            told(instance.post("reset/", {"seed": 42}))["observation"] for _ in "12"
        )
        equal(again, first, "the observation after the same seed")
        other = told(instance.post("reset/", {"seed": 43}))["observation"]
        that(other != first, "another observation after another seed", other)


@checks("done-is-either")
def _done(target: Target) -> None:
    with target.made(max_episode_steps=2) as instance:
        instance.post("reset/", {"seed": 42})
        _step(instance, 0)
        value = _step(instance, 1)
        flags = [value[name] for name in ("terminated", "truncated", "done")]
        equal(flags, [False, True, True], "terminated, truncated and done")


@checks("actions-are-cast")
def _cast(target: Target) -> None:
    with target.made(CART_POLE) as instance:
        _there(target, told(instance.post("reset/", {})), "info")
        for action in (1, 1.0, "1", [1]):
            instance.post("reset/", {"seed": 42})
            value = told(instance.post("step/", {"action": action}))
            observation = value["observation"]
            that(observation[1] > 0.18, f"a push to the right for {action!r}", value)
