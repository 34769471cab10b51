"""External environments: the checks connect as one, and are an agent's, too."""

from __future__ import annotations

import secrets
from typing import Any

from gym_http_server.validation.checks import Absent, CheckGroup, Checks, equal, that
from gym_http_server.validation.external_env import (
    OBSERVATION,
    PATH,
    AnyExternalEnv,
    ExternalEnv,
)
from gym_http_server.validation.far_callers import PollingEnv
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import Target, code_of

__all__ = ["GROUP", "STEP", "needs_external"]

STEP = {"observation": OBSERVATION, "reward": 2.0, "info": {"score": 7}}
STEP |= {"terminated": False, "truncated": False, "done": False}

checks = Checks()


def needs_external(target: Target) -> None:
    """Leave out what needs external environments.

    Raises:
        Absent: There are none.
    """
    target.needs("external", target.get(PATH))
    answer = target.post("/v1/envs/", {"env_id": "external/validate-needs"})
    if code_of(answer) == "env-refused":
        raise Absent("it makes no external environments: env-refused")


GROUP = CheckGroup("external", lambda: checks, needs_external)


@checks("upgrade-required")
def _upgrade(target: Target) -> None:
    problem(target.get(PATH), "upgrade-required", 426)


@checks("away")
def _away(target: Target) -> None:
    name = f"external/validate-{secrets.token_hex(4)}"
    answer = target.post("/v1/envs/", {"env_id": name})
    problem(answer, "external-away", 503)
    after = answer.headers.get("retry-after", "")
    that(after.isdigit(), "a header Retry-After, in seconds", after)


@checks("conversation")
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


@checks("over-http")
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


@checks("what-it-cannot-do")
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


@checks("renders")
def _renders(target: Target) -> None:
    modes = {"render_modes": ["ansi"], "capabilities": ["reset", "render"]}
    with ExternalEnv.welcomed(target, **modes) as far:
        instance = far.began(render_mode="ansi")
        agent = far.asking(instance.get, "render/")
        far.answer("render", rendered="#..")
        answer = agent.answer()
        equal((answer.status, answer.body), (200, b"#.."), "status and frame")
        far.left(instance)


@checks("spaces-of-init")
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


@checks("reward-channels")
def _channels(target: Target) -> None:
    with ExternalEnv.welcomed(target, reward_channels=["food", "pain"]) as far:
        instance = far.began()
        told = far.stepped(instance, reward=[1.5, -0.25])
        equal(told["reward"], 1.25, "reward")
        parts = {"food": 1.5, "pain": -0.25}
        equal(told["info"].get("reward_channels"), parts, "reward_channels")
        far.left(instance)


@checks("pings")
def _pings(target: Target) -> None:
    with ExternalEnv.welcomed(target) as far:
        far.say({"type": "ping"})
        equal(far.hear(), {"type": "pong"}, "the answer to a ping")
        instance = far.created()
        far.say({"type": "ping"})
        equal(far.hear(), {"type": "pong"}, "the answer to a ping, once taken")
        far.left(instance)


@checks("vector")
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
