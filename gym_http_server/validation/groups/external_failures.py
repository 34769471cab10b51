"""What agents are told when an external environment fails, is lost, and comes back."""

from __future__ import annotations

import json
import secrets
from typing import Any

from gym_http_server.validation.checks import CheckGroup, Checks, equal, that
from gym_http_server.validation.external_env import AnyExternalEnv, ExternalEnv
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.groups.external import STEP, needs_external
from gym_http_server.validation.target import Target, TargetInstance

__all__ = ["GROUP"]

REPLAY = ["reset", "replay"]

checks = Checks()
GROUP = CheckGroup("external-failures", lambda: checks, needs_external)


@checks("errors-are-told")
def _errors(target: Target) -> None:
    with ExternalEnv.welcomed(target) as far:
        instance = far.began()
        agent = _step(far, instance)
        error = {"code": "invalid-action", "message": "that way is closed"}
        far.say({"id": far.asked("step")["id"], "error": error})
        told = agent.refused(400, "invalid-action")
        that("that way is closed" in told["message"], "its words", told["message"])
        # Nothing was done, so the agent goes on.
        far.stepped(instance)
        agent = _step(far, instance)
        error = {"message": "the crate is stuck"}
        far.say({"id": far.asked("step")["id"], "error": error})
        told = agent.refused(502, "env-error")
        that("the crate is stuck" in told["message"], "its words", told["message"])
        problem(instance.post("step/", {"action": 1}), "reset-needed", 409)
        far.reset(instance)
        far.left(instance)


def _step(far: AnyExternalEnv, instance: TargetInstance, key: str = "") -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return far.asking(instance.post, "step/", {"action": 1}, headers=headers)


@checks("replay")
def _replay(target: Target) -> None:
    key = secrets.token_hex(8)
    with ExternalEnv.welcomed(target, capabilities=REPLAY) as far:
        instance = far.began()
        agent = _step(far, instance, key)
        request = far.asked("step")
        # It has done the step, and nobody heard so.
        far.end()
        agent.refused(503, "external-away")
        with far.back(capabilities=REPLAY) as again:
            equal(again.welcome.get("resumed"), True, "resumed")
            equal(again.welcome["connection"], far.welcome["connection"], "connection")
            agent = _step(again, instance, key)
            equal(again.asked("step").get("id"), request["id"], "ID of the step")
            step = {name: each for name, each in STEP.items() if name != "done"}
            again.say({"id": request["id"], "result": step})
            equal(agent.told(200), STEP, "the answer to the step")
            again.stepped(instance)
            again.left(instance)


@checks("outcome-unknown")
def _unknown(target: Target) -> None:
    key = secrets.token_hex(8)
    with ExternalEnv.welcomed(target) as far:
        instance = far.began()
        agent = _step(far, instance, key)
        far.asked("step")
        far.end()
        agent.refused(503, "external-away")
        with far.back() as again:
            agent = _step(again, instance, key)
            agent.refused(502, "outcome-unknown")
            problem(instance.post("step/", {"action": 1}), "reset-needed", 409)
            again.reset(instance)
            again.left(instance)


@checks("newer-connection-wins")
def _newer(target: Target) -> None:
    with ExternalEnv.welcomed(target) as far:
        token = far.welcome["resume"]
        with ExternalEnv.welcomed(target, name=far.name, resume=token) as newer:
            equal(newer.welcome.get("resumed"), True, "resumed")
            instance = newer.began()
            newer.left(instance)


@checks("unasked-answers")
def _unasked(target: Target) -> None:
    with ExternalEnv.welcomed(target) as far:
        far.say({"id": 900, "result": {}})
        told = far.asked("fault")
        equal(told.get("id"), 900, "id of the fault")
        that(told.get("message"), "a message", json.dumps(told))
        instance = far.began()
        far.left(instance)
