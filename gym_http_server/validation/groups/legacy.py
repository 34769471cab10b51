"""What gym-http-api's clients rely on, byte for byte where they do."""

from __future__ import annotations

import json
import re
from typing import Any

from gym_http_server.validation.calls import Answer
from gym_http_server.validation.checks import Checks, Group, equal, that
from gym_http_server.validation.plain import shortest
from gym_http_server.validation.served import CART_POLE, Served, code_of

__all__ = ["GROUP"]

checks = Checks()
GROUP = Group("legacy", lambda: checks)
_ID = re.compile("[0-9a-f]{8}").fullmatch


def told(answer: Answer) -> Any:
    """Give what an answer says, if its form is as it has to be."""
    equal(answer.status, 200, "status")
    equal(answer.media, "application/json", "Content-Type")
    value = answer.json()
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    as_read = re.sub(rb"[0-9.eE+-]+", b"0", answer.body)
    as_written = re.sub(rb"[0-9.eE+-]+", b"0", text.encode() + b"\n")
    that(
        as_read == as_written,
        "compact JSON with sorted keys and a newline",
        answer.body[:200].decode("utf-8", "replace"),
    )
    return value


def nothing(answer: Answer) -> None:
    """Demand that an answer says that it is done."""
    equal(answer.status, 204, "status")
    equal(answer.body, b"", "body")
    equal(answer.media, "text/html", "Content-Type")


@checks("create")
def _create(served: Served) -> None:
    value = told(served.post("/v1/envs/", {"env_id": CART_POLE}))
    instance = served.adopt(value["instance_id"])
    instance.close()
    that(_ID(instance.id), "an instance ID of 8 hex digits", instance.id)


@checks("list")
def _list(served: Served) -> None:
    with served.made() as instance:
        listed = told(served.get("/v1/envs/"))["all_envs"]
        equal(listed.get(instance.id), CART_POLE, f"the env of {instance.id}")
    listed = told(served.get("/v1/envs/"))["all_envs"]
    that(instance.id not in listed, "no instance that was closed", listed)


@checks("reset")
def _reset(served: Served) -> None:
    with served.made() as instance:
        for body in (b"", b"{}", b'""', b"null", b"[]", b"a=b"):
            observation = told(instance.post("reset/", body=body))["observation"]
            _are_floats(observation, f"after a body {body!r}")


def _are_floats(observation: Any, when: str) -> None:
    right = (
        isinstance(observation, list)
        and len(observation) == 4
        and all(isinstance(each, float) for each in observation)
    )
    that(right, f"four floats {when}", observation)


@checks("step")
def _step(served: Served) -> None:
    with served.made() as instance:
        instance.post("reset/", {"seed": 42})
        value = told(instance.post("step/", {"action": 1, "render": False}))
        _are_floats(value["observation"], "as observation")
        equal(value["reward"], 1.0, "reward")
        equal(value["done"], False, "done")
        equal(value["terminated"], False, "terminated")
        equal(value["truncated"], False, "truncated")
        equal(value["info"], {}, "info")


@checks("floats-have-points")
def _floats(served: Served) -> None:
    with served.made("FrozenLake-v1", kwargs={"is_slippery": False}) as instance:
        instance.post("reset/", {"seed": 1})
        answer = instance.post("step/", {"action": 0})
        that(b'"reward":0.0' in answer.body, "a reward 0.0, not 0", answer.body)


@checks("float32-is-short")
def _short(served: Served) -> None:
    with served.made() as instance:
        for seed in range(5):
            for number in told(instance.post("reset/", {"seed": seed}))["observation"]:
                short = shortest(number, "f4")
                equal(number, short, "the shortest decimal of a float32")


@checks("done-is-either")
def _done(served: Served) -> None:
    with served.made(max_episode_steps=2) as instance:
        instance.post("reset/", {"seed": 42})
        instance.post("step/", {"action": 0})
        value = told(instance.post("step/", {"action": 1}))
        flags = [value[name] for name in ("terminated", "truncated", "done")]
        equal(flags, [False, True, True], "terminated, truncated and done")


@checks("actions-are-cast")
def _cast(served: Served) -> None:
    with served.made() as instance:
        for action in (1, 1.0, "1", [1]):
            instance.post("reset/", {"seed": 42})
            value = told(instance.post("step/", {"action": action}))
            observation = value["observation"]
            that(observation[1] > 0.18, f"a push to the right for {action!r}", value)


@checks("action-space")
def _action_space(served: Served) -> None:
    info = told(served.shared().get("action_space/"))["info"]
    equal(info, {"name": "Discrete", "n": 2}, "info")


@checks("observation-space")
def _observation_space(served: Served) -> None:
    info = told(served.shared().get("observation_space/"))["info"]
    equal((info["name"], info["shape"]), ("Box", [4]), "name and shape")
    for which, sign in (("low", -1.0), ("high", 1.0)):
        bounds = info[which]
        equal(bounds[0], sign * 4.8, f"{which} of the position")
        equal(bounds[1], sign * 1e100, f"{which} of the velocity, which has no end")


@checks("sample")
def _sample(served: Served) -> None:
    value = told(served.shared().get("action_space/sample"))
    that(value in ({"action": 0}, {"action": 1}), "an action 0 or 1", value)


@checks("contains")
def _contains(served: Served) -> None:
    instance = served.shared()
    for action, member in (("0", True), ("1", True), ("2", False), ("-1", False)):
        value = told(instance.get(f"action_space/contains/{action}"))
        equal(value, {"member": member}, f"whether {action} is an action")


@checks("contains-observation")
def _contains_observation(served: Served) -> None:
    instance = served.shared()
    info = {"name": "Box", "shape": [4]}
    value = told(instance.post("observation_space/contains", info))
    equal(value, {"member": True}, "whether this is the observation space")
    info = {"name": "Box", "shape": [5]}
    value = told(instance.post("observation_space/contains", info))
    equal(value, {"member": False}, "whether this is the observation space")


@checks("close")
def _close(served: Served) -> None:
    nothing(served.create().close())
    instance = served.create()
    answer = instance.served.call("POST", instance.path("close/"), body=b'""')
    instance.served.forget(instance.id)
    nothing(answer)


@checks("monitor-close")
def _monitor_close(served: Served) -> None:
    nothing(served.shared().post("monitor/close/"))


@checks("upload")
def _upload(served: Served) -> None:
    request = {"training_dir": "results", "api_key": "key"}
    answer = served.post("/v1/upload/", request)
    equal((answer.status, code_of(answer)), (410, "upload-gone"), "status and code")


@checks("both-slash-forms")
def _slashes(served: Served) -> None:
    with served.made() as instance:
        for end in ("/", ""):
            for rest in ("action_space", "observation_space"):
                told(instance.get(rest + end))
            told(instance.post("reset" + end, {}))
            told(instance.post("step" + end, {"action": 0}))
            told(instance.get("action_space/sample" + end))
            told(instance.get("action_space/contains/1" + end))
            nothing(instance.post("monitor/close" + end))
    for path in ("/v1/envs", "/v1/envs/"):
        value = told(served.post(path, {"env_id": CART_POLE}))
        served.adopt(value["instance_id"]).close()


@checks("unknown-instance")
def _unknown(served: Served) -> None:
    answer = served.post("/v1/envs/ffffffff/step/", {"action": 0})
    equal(answer.status, 400, "status")
    equal(answer.json()["message"], "Instance_id ffffffff unknown", "message")


@checks("unknown-env")
def _unknown_env(served: Served) -> None:
    answer = served.post("/v1/envs/", {"env_id": "there is none"})
    equal(answer.status, 400, "status")
    words = "Attempted to look up malformed environment ID 'there is none'"
    message = answer.json()["message"]
    that(message.startswith(words), f"a message that begins with {words}", message)


@checks("bad-json")
def _bad_json(served: Served) -> None:
    answer = served.post("/v1/envs/", body=b"{")
    equal(answer.status, 400, "status")
    words = "Request is not a valid json"
    message = answer.json()["message"]
    that(message.startswith(words), f"a message that begins with {words}", message)


@checks("missing-parameter")
def _missing(served: Served) -> None:
    nothing_told: tuple[Any, ...] = ({}, {"env_id": None}, {"env_id": ""})
    for body in (*nothing_told, {"env_id": []}):
        answer = served.post("/v1/envs/", body)
        equal(answer.status, 400, "status")
        words = "A required request parameter 'env_id' was not provided"
        equal(answer.json()["message"], words, "message")
