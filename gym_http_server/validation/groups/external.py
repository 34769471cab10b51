"""External environments: how they connect, what they may send, and how they fail."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.checks import (
    Absent,
    Check,
    CheckGroup,
    Checks,
    Mismatch,
    equal,
    that,
)
from gym_http_server.validation.external_env import (
    OBSERVATION,
    PATH,
    AnyExternalEnv,
    BinaryTalk,
    ExternalEnv,
    PollingEnv,
    TextTalk,
)
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import Target, TargetInstance, code_of
from gym_http_server.validation.vectors import cases
from gym_http_server.validation.websocket import Closed

__all__ = ["EXTERNAL", "FAILURES", "MESSAGE_GROUPS", "STEP", "needs_external"]

STEP = {"observation": OBSERVATION, "reward": 2.0, "info": {"score": 7}}
STEP |= {"terminated": False, "truncated": False, "done": False}

external = Checks()


def needs_external(target: Target) -> None:
    """Leave out what needs external environments.

    Raises:
        Absent: There are none.
    """
    target.needs("external", target.get(PATH))
    answer = target.post("/v1/envs/", {"env_id": "external/validate-needs"})
    if code_of(answer) == "env-refused":
        raise Absent("it makes no external environments: env-refused")


EXTERNAL = CheckGroup("external", lambda: external, needs_external)


@external("upgrade-required")
def _upgrade(target: Target) -> None:
    problem(target.get(PATH), "upgrade-required", 426)


@external("away")
def _away(target: Target) -> None:
    name = f"external/validate-{secrets.token_hex(4)}"
    answer = target.post("/v1/envs/", {"env_id": name})
    problem(answer, "external-away", 503)
    after = answer.headers.get("retry-after", "")
    that(after.isdigit(), "a header Retry-After, in seconds", after)


@external("conversation")
def _conversation(target: Target) -> None:
    with ExternalEnv.welcomed(target, capabilities=["reset", "seed", "options"]) as far:
        for member in ("connection", "resume", "heartbeat_s", "grace_s", "limits"):
            that(member in far.welcome, f"{member} in the welcome", far.welcome)
        equal(_counts(far), (1, 0), "how many are free and taken")
        instance = far.created(kwargs={"level": 3})
        equal(_counts(far), (0, 1), "how many are free and taken")
        problem(instance.post("step/", {"action": 1}), "reset-needed", 409)
        agent = far.asking(instance.post, "reset/", {"seed": 5, "options": {"a": [1]}})
        request = far.answer("reset", observation=[0, 1], info={"level": 3})
        told = request.get("seed"), request.get("options")
        equal(told, (5, {"a": [1]}), "seed and options")
        begun = {"observation": [0.0, 1.0], "info": {"level": 3}}
        equal(agent.told(200), begun, "the answer to a reset")
        equal(far.stepped(instance), STEP, "the answer to a step")
        problem(instance.get("render/"), "no-render-mode", 409)
        far.left(instance)
        equal(_counts(far), (1, 0), "how many are free and taken")
        instance = far.began()
        far.left(instance)


def _counts(far: AnyExternalEnv) -> tuple[Any, Any]:
    path = f"/v1/registry/?search=external/{far.name}"
    told = far.target.get(path).json()["envs"][0]["external"]
    return told["free"], told["taken"]


@external("over-http")
def _over_http(target: Target) -> None:
    with PollingEnv(target) as far:
        answer = target.get(f"{far.path}request?wait_s=0")
        equal(answer.status, 204, "status, since nothing is asked")
        instance = far.began()
        agent = far.asking(instance.post, "step/", {"action": 2})
        # What was not answered is asked for as often as it is fetched.
        first = far.asked("step")
        equal(far.asked("step").get("id"), first["id"], "ID of the request")
        equal(first.get("action"), 2, "action")
        step = {name: each for name, each in STEP.items() if name != "done"}
        far.say({"id": first["id"], "result": step})
        equal(agent.told(200), STEP, "the answer to a step")
        far.left(instance)
    problem(target.get(f"{PATH}ffffffff/request?wait_s=0"), "not-found", 404)


@external("what-it-cannot-do")
def _unsupported(target: Target) -> None:
    modes = {"render_modes": ["ansi"], "capabilities": []}
    with ExternalEnv.welcomed(target, **modes) as far:
        instance = far.created()
        problem(instance.post("reset/", {"seed": 1}), "unsupported", 501)
        problem(instance.post("reset/", {"options": {"a": 1}}), "unsupported", 501)
        problem(instance.get("generator/"), "unsupported", 501)
        agent = far.asking(instance.post, "reset/", {})
        far.answer("reset", observation=OBSERVATION)
        equal(agent.told(200).get("info"), {"continued": True}, "info")
        far.left(instance)


@external("renders")
def _renders(target: Target) -> None:
    modes = {"render_modes": ["ansi"], "capabilities": ["reset", "render"]}
    with ExternalEnv.welcomed(target, **modes) as far:
        instance = far.began(render_mode="ansi")
        agent = far.asking(instance.get, "render/")
        far.answer("render", rendered="#..")
        answer = agent.answer()
        equal((answer.status, answer.body), (200, b"#.."), "status and frame")
        far.left(instance)


@external("spaces-of-init")
def _spaces(target: Target) -> None:
    with ExternalEnv.welcomed(target) as far:
        request = {"env_id": f"external/{far.name}"}
        agent = far.asking(target.post, "/v1/envs/", request)
        far.answer("init", observation_space={"type": "Discrete", "n": 50})
        instance = target.adopt(agent.told(200)["instance_id"])
        told = instance.get("observation_space/").json()
        equal(told["info"], {"n": 50, "name": "Discrete"}, "the observation space")
        agent = far.asking(instance.post, "reset/", {})
        far.answer("reset", observation=40)
        equal(agent.told(200).get("observation"), 40, "observation")
        far.left(instance)


@external("reward-channels")
def _channels(target: Target) -> None:
    with ExternalEnv.welcomed(target, reward_channels=["food", "pain"]) as far:
        instance = far.began()
        told = far.stepped(instance, reward=[1.5, -0.25])
        equal(told["reward"], 1.25, "reward")
        parts = {"food": 1.5, "pain": -0.25}
        equal(told["info"].get("reward_channels"), parts, "reward_channels")
        far.left(instance)


@external("pings")
def _pings(target: Target) -> None:
    with ExternalEnv.welcomed(target) as far:
        far.say({"type": "ping"})
        equal(far.hear(), {"type": "pong"}, "the answer to a ping")
        instance = far.created()
        far.say({"type": "ping"})
        equal(far.hear(), {"type": "pong"}, "the answer to a ping, once taken")
        far.left(instance)


@external("vector")
def _vector(target: Target) -> None:
    with ExternalEnv.welcomed(target) as one:
        request = {"env_id": f"external/{one.name}", "num_envs": 2}
        problem(target.post("/v1/envs/", request), "external-away", 503)
        with ExternalEnv.welcomed(target, name=one.name) as other:
            agent = one.asking(target.post, "/v1/envs/", request)
            asked = [far.asked("init") for far in (one, other)]
            for far, each in zip((one, other), asked, strict=True):
                far.say({"id": each["id"], "result": {}})
            instance = target.adopt(agent.told(200)["instance_id"])
            agent = one.asking(instance.post, "reset/", {})
            # Both are asked before one has answered.
            asked = [far.asked("reset") for far in (one, other)]
            for far, each in zip((one, other), asked, strict=True):
                far.say({"id": each["id"], "result": {"observation": OBSERVATION}})
            told = agent.told(200)["observation"]
            equal(told, [OBSERVATION, OBSERVATION], "observation")
            agent = one.asking(instance.close)
            for far in (one, other):
                far.answer("close")
            equal(agent.answer().status, 204, "status of close")


REPLAY = ["reset", "replay"]

failures = Checks()
FAILURES = CheckGroup("external-failures", lambda: failures, needs_external)


@failures("errors-are-told")
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


@failures("replay")
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


@failures("outcome-unknown")
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


@failures("newer-connection-wins")
def _newer(target: Target) -> None:
    with ExternalEnv.welcomed(target) as far:
        token = far.welcome["resume"]
        with ExternalEnv.welcomed(target, name=far.name, resume=token) as newer:
            equal(newer.welcome.get("resumed"), True, "resumed")
            instance = newer.began()
            newer.left(instance)


@failures("unasked-answers")
def _unasked(target: Target) -> None:
    with ExternalEnv.welcomed(target) as far:
        far.say({"id": 900, "result": {}})
        told = far.asked("fault")
        equal(told.get("id"), 900, "id of the fault")
        that(told.get("message"), "a message", json.dumps(told))
        instance = far.began()
        far.left(instance)


def _hellos() -> Iterator[Check]:
    for case in cases("external"):
        if case["kind"] == "hello":
            yield Check(case["id"].removeprefix("hello-"), partial(_hello, case))


def _answers() -> Iterator[Check]:
    for case in cases("external"):
        # What typed JSON is has checks of its own.
        if "bad" in case and case["to"] == "step" and case["dialect"] != "typed":
            yield Check(case["id"], partial(_bad, case))


MESSAGE_GROUPS = (
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
