"""External environments: how they connect, what they may send, and how they fail."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.checks import Check, CheckGroup, Checks
from gym_http_server.validation.expectations import Absent, Mismatch, equal, that
from gym_http_server.validation.external_env import (
    OBSERVATION,
    PATH,
    BinaryMessages,
    CheckEnv,
    PollingEnv,
    SocketEnv,
    TextMessages,
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
    """Skip checks that need external environments.

    Raises:
        Absent: The server has no external environments.
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
    with SocketEnv.welcomed(target, capabilities=["reset", "seed", "options"]) as env:
        for member in ("connection", "resume", "heartbeat_s", "grace_s", "limits"):
            that(member in env.welcome, f"{member} in the welcome", env.welcome)
        equal(_counts(env), (1, 0), "how many are free and taken")
        instance = env.create(kwargs={"level": 3})
        equal(_counts(env), (0, 1), "how many are free and taken")
        problem(instance.post("step/", {"action": 1}), "reset-needed", 409)
        agent = env.call_later(
            instance.post, "reset/", {"seed": 5, "options": {"a": [1]}}
        )
        request = env.answer("reset", observation=[0, 1], info={"level": 3})
        actual = request.get("seed"), request.get("options")
        equal(actual, (5, {"a": [1]}), "seed and options")
        begun = {"observation": [0.0, 1.0], "info": {"level": 3}}
        equal(agent.body(200), begun, "the answer to a reset")
        equal(env.step(instance), STEP, "the answer to a step")
        problem(instance.get("render/"), "no-render-mode", 409)
        env.close_instance(instance)
        equal(_counts(env), (1, 0), "how many are free and taken")
        instance = env.create_and_reset()
        env.close_instance(instance)


def _counts(env: CheckEnv) -> tuple[Any, Any]:
    path = f"/v1/registry/?search=external/{env.name}"
    actual = env.target.get(path).json()["envs"][0]["external"]
    return actual["free"], actual["taken"]


@external("over-http")
def _over_http(target: Target) -> None:
    with PollingEnv(target) as env:
        answer = target.get(f"{env.path}request?wait_s=0")
        equal(answer.status, 204, "status without a request")
        instance = env.create_and_reset()
        agent = env.call_later(instance.post, "step/", {"action": 2})
        # A request without an answer is sent again at each poll.
        first = env.expect_message("step")
        equal(env.expect_message("step").get("id"), first["id"], "ID of the request")
        equal(first.get("action"), 2, "action")
        step = {name: each for name, each in STEP.items() if name != "done"}
        env.send({"id": first["id"], "result": step})
        equal(agent.body(200), STEP, "the answer to a step")
        env.close_instance(instance)
    problem(target.get(f"{PATH}ffffffff/request?wait_s=0"), "not-found", 404)


@external("what-it-cannot-do")
def _unsupported(target: Target) -> None:
    modes = {"render_modes": ["ansi"], "capabilities": []}
    with SocketEnv.welcomed(target, **modes) as env:
        instance = env.create()
        problem(instance.post("reset/", {"seed": 1}), "unsupported", 501)
        problem(instance.post("reset/", {"options": {"a": 1}}), "unsupported", 501)
        problem(instance.get("generator/"), "unsupported", 501)
        agent = env.call_later(instance.post, "reset/", {})
        env.answer("reset", observation=OBSERVATION)
        equal(agent.body(200).get("info"), {"continued": True}, "info")
        env.close_instance(instance)


@external("renders")
def _renders(target: Target) -> None:
    modes = {"render_modes": ["ansi"], "capabilities": ["reset", "render"]}
    with SocketEnv.welcomed(target, **modes) as env:
        instance = env.create_and_reset(render_mode="ansi")
        agent = env.call_later(instance.get, "render/")
        env.answer("render", rendered="#..")
        answer = agent.response()
        equal((answer.status, answer.body), (200, b"#.."), "status and frame")
        env.close_instance(instance)


@external("spaces-of-init")
def _spaces(target: Target) -> None:
    with SocketEnv.welcomed(target) as env:
        request = {"env_id": f"external/{env.name}"}
        agent = env.call_later(target.post, "/v1/envs/", request)
        env.answer("init", observation_space={"type": "Discrete", "n": 50})
        instance = target.adopt(agent.body(200)["instance_id"])
        actual = instance.get("observation_space/").json()
        equal(actual["info"], {"n": 50, "name": "Discrete"}, "the observation space")
        agent = env.call_later(instance.post, "reset/", {})
        env.answer("reset", observation=40)
        equal(agent.body(200).get("observation"), 40, "observation")
        env.close_instance(instance)


@external("opaque-space")
def _opaque(target: Target) -> None:
    space = {"type": "Opaque", "class": "validate:Words", "repr": None, "base": None}
    spaces = {"action_space": space, "observation_space": space}
    with SocketEnv.welcomed(target, **spaces) as env:
        instance = env.create_and_reset()
        actual = instance.get("action_space/").json()
        equal(actual, {"info": {"name": "Words"}, "space": space}, "the action space")
        action = {"word": ["go", 1, 0.5, None]}
        agent = env.call_later(instance.post, "step/", {"action": action})
        result = {name: each for name, each in STEP.items() if name != "done"}
        request = env.answer("step", **result)
        equal(request.get("action"), action, "the action, which is not cast")
        equal(agent.body(200), STEP, "the answer to a step")
        env.close_instance(instance)


@external("reward-channels")
def _channels(target: Target) -> None:
    with SocketEnv.welcomed(target, reward_channels=["food", "pain"]) as env:
        instance = env.create_and_reset()
        actual = env.step(instance, reward=[1.5, -0.25])
        equal(actual["reward"], 1.25, "reward")
        parts = {"food": 1.5, "pain": -0.25}
        equal(actual["info"].get("reward_channels"), parts, "reward_channels")
        env.close_instance(instance)


@external("pings")
def _pings(target: Target) -> None:
    with SocketEnv.welcomed(target) as env:
        env.send({"type": "ping"})
        equal(env.receive(), {"type": "pong"}, "the answer to a ping")
        instance = env.create()
        env.send({"type": "ping"})
        equal(env.receive(), {"type": "pong"}, "the answer to a ping, once taken")
        env.close_instance(instance)


@external("vector")
def _vector(target: Target) -> None:
    with SocketEnv.welcomed(target) as one:
        request = {"env_id": f"external/{one.name}", "num_envs": 2}
        problem(target.post("/v1/envs/", request), "external-away", 503)
        with SocketEnv.welcomed(target, name=one.name) as other:
            agent = one.call_later(target.post, "/v1/envs/", request)
            requests = [env.expect_message("init") for env in (one, other)]
            for env, each in zip((one, other), requests, strict=True):
                env.send({"id": each["id"], "result": {}})
            instance = target.adopt(agent.body(200)["instance_id"])
            agent = one.call_later(instance.post, "reset/", {})
            # Both get the request before one has answered.
            requests = [env.expect_message("reset") for env in (one, other)]
            for env, each in zip((one, other), requests, strict=True):
                env.send({"id": each["id"], "result": {"observation": OBSERVATION}})
            actual = agent.body(200)["observation"]
            equal(actual, [OBSERVATION, OBSERVATION], "observation")
            agent = one.call_later(instance.close)
            for env in (one, other):
                env.answer("close")
            equal(agent.response().status, 204, "status of close")


REPLAY = ["reset", "replay"]

failures = Checks()
FAILURES = CheckGroup("external-failures", lambda: failures, needs_external)


@failures("errors-are-told")
def _errors(target: Target) -> None:
    with SocketEnv.welcomed(target) as env:
        instance = env.create_and_reset()
        agent = _step(env, instance)
        error = {"code": "invalid-action", "message": "that way is closed"}
        env.send({"id": env.expect_message("step")["id"], "error": error})
        actual = agent.problem(400, "invalid-action")
        that("that way is closed" in actual["message"], "its words", actual["message"])
        # The environment did nothing, so the agent continues.
        env.step(instance)
        agent = _step(env, instance)
        error = {"message": "the crate is stuck"}
        env.send({"id": env.expect_message("step")["id"], "error": error})
        actual = agent.problem(502, "env-error")
        that("the crate is stuck" in actual["message"], "its words", actual["message"])
        problem(instance.post("step/", {"action": 1}), "reset-needed", 409)
        env.reset(instance)
        env.close_instance(instance)


def _step(env: CheckEnv, instance: TargetInstance, key: str = "") -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return env.call_later(instance.post, "step/", {"action": 1}, headers=headers)


@failures("replay")
def _replay(target: Target) -> None:
    key = secrets.token_hex(8)
    with SocketEnv.welcomed(target, capabilities=REPLAY) as env:
        instance = env.create_and_reset()
        agent = _step(env, instance, key)
        request = env.expect_message("step")
        # It has done the step, and the answer is lost.
        env.end()
        agent.problem(503, "external-away")
        with env.reconnect(capabilities=REPLAY) as again:
            equal(again.welcome.get("resumed"), True, "resumed")
            equal(again.welcome["connection"], env.welcome["connection"], "connection")
            agent = _step(again, instance, key)
            equal(
                again.expect_message("step").get("id"), request["id"], "ID of the step"
            )
            step = {name: each for name, each in STEP.items() if name != "done"}
            again.send({"id": request["id"], "result": step})
            equal(agent.body(200), STEP, "the answer to the step")
            again.step(instance)
            again.close_instance(instance)


@failures("outcome-unknown")
def _unknown(target: Target) -> None:
    key = secrets.token_hex(8)
    with SocketEnv.welcomed(target) as env:
        instance = env.create_and_reset()
        agent = _step(env, instance, key)
        env.expect_message("step")
        env.end()
        agent.problem(503, "external-away")
        with env.reconnect() as again:
            agent = _step(again, instance, key)
            agent.problem(502, "outcome-unknown")
            problem(instance.post("step/", {"action": 1}), "reset-needed", 409)
            again.reset(instance)
            again.close_instance(instance)


@failures("replaced")
def _replaced(target: Target) -> None:
    with SocketEnv.welcomed(target, replace=True) as env:
        instance = env.create_and_reset()
        agent = _step(env, instance)
        env.expect_message("step")
        env.end()
        agent.problem(503, "external-away")
        with SocketEnv.welcomed(target, name=env.name, replace=True) as again:
            equal(again.welcome.get("resumed"), False, "resumed")
            problem(instance.post("step/", {"action": 1}), "reset-needed", 409)
            agent = again.call_later(instance.post, "reset/", {})
            again.answer("init")
            again.answer("reset", observation=OBSERVATION)
            equal(agent.body(200)["observation"], OBSERVATION, "observation")
            again.step(instance)
            again.close_instance(instance)


@failures("newer-connection-wins")
def _newer(target: Target) -> None:
    with SocketEnv.welcomed(target) as env:
        token = env.welcome["resume"]
        with SocketEnv.welcomed(target, name=env.name, resume=token) as newer:
            equal(newer.welcome.get("resumed"), True, "resumed")
            instance = newer.create_and_reset()
            newer.close_instance(instance)


@failures("unasked-answers")
def _unsolicited(target: Target) -> None:
    with SocketEnv.welcomed(target) as env:
        env.send({"id": 900, "result": {}})
        actual = env.expect_message("fault")
        equal(actual.get("id"), 900, "id of the fault")
        that(actual.get("message"), "a message", json.dumps(actual))
        instance = env.create_and_reset()
        env.close_instance(instance)


def _hellos() -> Iterator[Check]:
    for case in cases("external"):
        if case["kind"] == "hello":
            yield Check(case["id"].removeprefix("hello-"), partial(_hello, case))


def _answers() -> Iterator[Check]:
    for case in cases("external"):
        # Other checks cover the rest of typed JSON.
        if "bad" in case and case["to"] == "step" and case["dialect"] != "typed":
            yield Check(case["id"], partial(_bad, case))


MESSAGE_GROUPS = (
    CheckGroup("external-hellos", _hellos, needs_external),
    CheckGroup("external-answers", _answers, needs_external),
)


def _hello(case: dict[str, Any], target: Target) -> None:
    with SocketEnv(target, case["text"]) as env:
        if "welcome" in case:
            equal(env.welcome.get("type"), "welcome", "type of the answer")
            equal(env.welcome.get("protocol"), 1, "protocol")
            equal(env.welcome.get("resumed"), False, "resumed")
            return
        equal(env.welcome.get("type"), "refused", "type of the answer")
        equal(env.welcome.get("code"), case["refused"], "code")
        that(env.welcome.get("message"), "a message", json.dumps(env.welcome))
        _ended(env)


def _ended(env: SocketEnv) -> None:
    try:
        env.receive()
    except Closed:
        return
    raise Mismatch("the end of the connection", "a message")


def _bad(case: dict[str, Any], target: Target) -> None:
    """Answer a step with a bad answer: both sides get the name of the field."""
    about = {"dialect": case["dialect"], "reward_channels": case.get("reward_channels")}
    with SocketEnv.welcomed(target, **about) as env:
        messages = (BinaryMessages if case["dialect"] == "binary" else TextMessages)(
            env
        )
        request = {"env_id": f"external/{env.name}"}
        agent = env.call_later(target.post, "/v1/envs/", request)
        messages.answer("init")
        instance = target.adopt(agent.body(200)["instance_id"])
        agent = env.call_later(instance.post, "reset/", {})
        messages.answer("reset")
        agent.body(200)
        agent = env.call_later(instance.post, "step/", {"action": 1})
        messages.answer_badly(case)
        actual = agent.problem(502, "bad-answer")
        equal(actual.get("field"), case["bad"], "field in the answer to the agent")
        fault = messages.receive_fault()
        equal(fault.field, case["bad"], "field in the fault to the environment")
        that(fault.message, "a message for the environment", "none")
        if "ends" in case:
            _ended(env)
            instance.close()
            return
        answer = instance.post("step/", {"action": 1})
        equal(answer.json().get("code"), "reset-needed", "code of the next step")
        agent = env.call_later(instance.close)
        messages.answer("close")
        equal(agent.response().status, 204, "status of close")
