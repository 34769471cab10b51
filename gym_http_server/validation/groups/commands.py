"""External environments that are commands: each instance starts its own."""

from __future__ import annotations

import json
from typing import Any

from gym_http_server.validation.checks import CheckGroup, Checks
from gym_http_server.validation.expectations import Absent, equal, that
from gym_http_server.validation.external_env import PATH
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import Target, TargetInstance

__all__ = ["COMMANDS"]

#: Steps that are taken at random.
STEPS = 20

commands = Checks()


def _rows(target: Target) -> list[dict[str, Any]]:
    """Return the commands that can be made, as the registry lists them.

    Raises:
        Absent: The server has none.
    """
    answer = target.get("/v1/registry/?search=external/&available=true")
    target.needs("registry", answer)
    rows = [e for e in answer.json()["envs"] if "command" in (e.get("external") or {})]
    if not rows:
        raise Absent("no external environment is a command: serve --env-command")
    return rows


def _needs_commands(target: Target) -> None:
    _rows(target)


COMMANDS = CheckGroup("commands", lambda: commands, _needs_commands)


def _env_id(target: Target) -> str:
    env_ids = [str(row["env_id"]) for row in _rows(target)]
    return target.env_id if target.env_id in env_ids else env_ids[0]


def _step(instance: TargetInstance) -> Any:
    action = instance.get("action_space/sample").json()["action"]
    answer = instance.post("step/", {"action": action})
    equal(answer.status, 200, "status of a step")
    return answer.json()


@commands("steps")
def _steps(target: Target) -> None:
    with target.made(_env_id(target)) as instance:
        equal(instance.post("reset/", {}).status, 200, "status of the reset")
        for _ in range(STEPS):
            if _step(instance)["done"]:
                equal(instance.post("reset/", {}).status, 200, "status of a reset")


@commands("spaces")
def _spaces(target: Target) -> None:
    env_id = _env_id(target)
    row = next(each for each in _rows(target) if each["env_id"] == env_id)
    equal(row["external"]["action_space"], None, "action space before there is one")
    with target.made(env_id) as instance:
        actual = instance.get().json()
        equal(actual["env_id"], env_id, "env_id")
        that("type" in actual["action_space"], "an action space", actual)


@commands("instances-apart")
def _apart(target: Target) -> None:
    env_id = _env_id(target)
    with target.made(env_id) as first, target.made(env_id) as second:
        for each in (first, second):
            equal(each.post("reset/", {}).status, 200, "status of the reset")
        first.close()
        _step(second)


@commands("vector")
def _vector(target: Target) -> None:
    with target.made(_env_id(target), num_envs=2) as instance:
        answer = instance.post("reset/", {})
        equal(answer.status, 200, "status of the reset")
        actions = instance.get("action_space/sample").json()["action"]
        rewards = instance.post("step/", {"action": actions}).json()["reward"]
        equal(len(rewards), 2, "number of rewards")


@commands("name-taken")
def _name_taken(target: Target) -> None:
    name = _rows(target)[0]["external"]["command"]
    space = {"type": "Discrete", "n": 2}
    hello = {"type": "hello", "protocol": 1, "name": name}
    hello |= {"observation_space": space, "action_space": space}
    body = json.dumps(hello).encode()
    problem(target.post(PATH, body=body), "bad-hello", 400)
