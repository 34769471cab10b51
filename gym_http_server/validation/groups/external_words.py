"""What a far side may say: hellos and answers of the vectors, one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.checks import Check, CheckGroup, Mismatch, equal, that
from gym_http_server.validation.external_dialects import BinaryTalk, TextTalk
from gym_http_server.validation.external_env import ExternalEnv
from gym_http_server.validation.groups.external import needs_external
from gym_http_server.validation.target import Target
from gym_http_server.validation.vectors import cases
from gym_http_server.validation.websocket import Closed

__all__ = ["GROUPS"]


def _hellos() -> Iterator[Check]:
    for case in cases("external"):
        if case["kind"] == "hello":
            yield Check(case["id"].removeprefix("hello-"), partial(_hello, case))


def _answers() -> Iterator[Check]:
    for case in cases("external"):
        # What typed JSON is has checks of its own.
        if "bad" in case and case["to"] == "step" and case["dialect"] != "typed":
            yield Check(case["id"], partial(_bad, case))


GROUPS = (
    CheckGroup("external-hellos", _hellos, needs_external),
    CheckGroup("external-answers", _answers, needs_external),
)


def _hello(case: dict[str, Any], target: Target) -> None:
    with ExternalEnv(target, case["text"]) as far:
        if "welcome" in case:
            equal(far.welcome.get("type"), "welcome", "type of the answer")
            equal(far.welcome.get("protocol"), 1, "protocol")
            equal(far.welcome.get("resumed"), False, "resumed")
            return
        equal(far.welcome.get("type"), "refused", "type of the answer")
        equal(far.welcome.get("code"), case["refused"], "code")
        that(far.welcome.get("message"), "a message", json.dumps(far.welcome))
        _ended(far)


def _ended(far: ExternalEnv) -> None:
    try:
        far.hear()
    except Closed:
        return
    raise Mismatch("the end of the connection", "a message")


def _bad(case: dict[str, Any], target: Target) -> None:
    """Answer a step with what is no answer: both sides are told the field."""
    about = {"dialect": case["dialect"], "reward_channels": case.get("reward_channels")}
    with ExternalEnv.welcomed(target, **about) as far:
        talk = (BinaryTalk if case["dialect"] == "binary" else TextTalk)(far)
        request = {"env_id": f"external/{far.name}"}
        agent = far.asking(target.post, "/v1/envs/", request)
        talk.answer("init")
        instance = target.adopt(agent.told(200)["instance_id"])
        agent = far.asking(instance.post, "reset/", {})
        talk.answer("reset")
        agent.told(200)
        agent = far.asking(instance.post, "step/", {"action": 1})
        talk.answer_badly(case)
        told = agent.refused(502, "bad-answer")
        equal(told.get("field"), case["bad"], "field, as the agent is told")
        fault = talk.fault()
        equal(fault.field, case["bad"], "field, as the environment is told")
        that(fault.message, "a message for the environment", "none")
        if "ends" in case:
            _ended(far)
            instance.close()
            return
        answer = instance.post("step/", {"action": 1})
        equal(answer.json().get("code"), "reset-needed", "code of the next step")
        agent = far.asking(instance.close)
        talk.answer("close")
        equal(agent.answer().status, 204, "status of close")
