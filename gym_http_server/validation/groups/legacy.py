"""Behavior that gym-http-api's clients rely on, byte for byte where they do."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from gym_http_server.validation.calls import Response
from gym_http_server.validation.checks import CheckGroup, Checks
from gym_http_server.validation.expectations import Absent, equal, one_of, that
from gym_http_server.validation.groups.http import old_requests
from gym_http_server.validation.plain import shortest
from gym_http_server.validation.target import CART_POLE, Target, TargetInstance, code_of

__all__ = ["GROUP", "action_of", "json_body", "nothing"]

checks = Checks()
GROUP = CheckGroup("legacy", lambda: [*checks, *old_requests])
_ID = re.compile("[0-9a-f]{8}").fullmatch
#: Env IDs of old clients, and the environments that they must get.
_OLD_IDS = {"CartPole-v0": CART_POLE, "FrozenLake-v0": "FrozenLake-v1"}


def json_body(answer: Response) -> Any:
    """Return the JSON of an answer with the right status and type."""
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


def nothing(answer: Response) -> None:
    """Expect an answer without content."""
    equal(answer.status, 204, "status")
    equal(answer.body, b"", "body")
    equal(answer.media, "text/html", "Content-Type")


def action_of(instance: TargetInstance) -> Any:
    """Draw an action of an instance."""
    return json_body(instance.get("action_space/sample"))["action"]


def _check_element(value: Any, info: dict[str, Any], what: str) -> None:
    """Expect a value in the form in which gym-http-api wrote elements of a space."""
    if info["name"] == "Discrete":
        first = info.get("start", 0)
        right = type(value) is int and first <= value < first + info["n"]
        that(right, f"{what}: an integer from {first}, {info['n']} of them", value)
    elif info["name"] == "Box":
        kinds = {type(each) for each in _leaves(value, info["shape"], what)}
        alike = kinds <= {float} or kinds <= {int}
        that(alike, f"{what}: nested lists of floats, or of integers", value)
    else:
        that(value is not None, f"{what}: a value", value)


def _leaves(value: Any, shape: list[int], what: str) -> list[Any]:
    level = [value]
    for size in shape:
        right = all(isinstance(each, list) and len(each) == size for each in level)
        that(right, f"{what}: nested lists of shape {shape}", value)
        level = [item for each in level for item in each]
    return level


def _check_observation(instance: TargetInstance, value: Any, when: str) -> None:
    info = json_body(instance.get("observation_space/"))["info"]
    _check_element(value, info, f"an observation {when}")
    if instance.target.env_id == CART_POLE:
        right = isinstance(value, list) and all(type(each) is float for each in value)
        that(right and len(value) == 4, f"four floats {when}", value)


@checks("create")
def _create(target: Target) -> None:
    # Whether it can be made; otherwise the check is skipped.
    target.shared(target.env_id)
    value = json_body(target.post("/v1/envs/", {"env_id": target.env_id}))
    instance = target.adopt(value["instance_id"])
    instance.close()
    that(_ID(instance.id), "an instance ID of 8 hex digits", instance.id)
    equal(value, {"instance_id": instance.id}, "the answer")


@checks("list")
def _list(target: Target) -> None:
    with target.made(target.env_id) as instance:
        listed = json_body(target.get("/v1/envs/"))["all_envs"]
        equal(listed.get(instance.id), target.env_id, f"the env of {instance.id}")
    listed = json_body(target.get("/v1/envs/"))["all_envs"]
    that(instance.id not in listed, "no instance that was closed", listed)


@checks("old-ids")
def _old_ids(target: Target) -> None:
    if target.env_id != CART_POLE:
        raise Absent("they are checked where CartPole-v1 is")
    for env_id, today in _OLD_IDS.items():
        target.create(today).close()
        value = json_body(target.post("/v1/envs/", {"env_id": env_id}))
        instance = target.adopt(value["instance_id"])
        listed = json_body(target.get("/v1/envs/"))["all_envs"]
        instance.close()
        equal(listed.get(instance.id), env_id, f"the env of {instance.id}")


@checks("reset")
def _reset(target: Target) -> None:
    with target.made(target.env_id) as instance:
        for body in (b"", b"{}", b'""', b"null", b"[]", b"a=b"):
            observation = json_body(instance.post("reset/", body=body))["observation"]
            _check_observation(instance, observation, f"after a body {body!r}")


@checks("step")
def _step(target: Target) -> None:
    with target.made(target.env_id) as instance:
        instance.post("reset/", {})
        body = {"action": action_of(instance), "render": False}
        value = json_body(instance.post("step/", body))
        _check_observation(instance, value["observation"], "after a step")
        if target.env_id == CART_POLE:
            equal(value["reward"], 1.0, "reward")
            equal(value["done"], False, "done")
            equal(value["info"], {}, "info")
        that(type(value["reward"]) is float, "reward: a float", value["reward"])
        that(type(value["done"]) is bool, "done: true or false", value["done"])
        that(isinstance(value["info"], dict), "info: an object", value["info"])


@checks("render-in-step")
def _render(target: Target) -> None:
    with target.made(target.env_id) as instance:
        for render in (True, "true"):
            instance.post("reset/", {})
            body = {"action": action_of(instance), "render": render}
            done = json_body(instance.post("step/", body))["done"]
            that(type(done) is bool, f"a step with render {render!r}", done)


@checks("floats-have-points")
def _floats(target: Target) -> None:
    with target.made("FrozenLake-v1", kwargs={"is_slippery": False}) as instance:
        instance.post("reset/", {"seed": 1})
        answer = instance.post("step/", {"action": 0})
        that(b'"reward":0.0' in answer.body, "a reward 0.0, not 0", answer.body)


@checks("float32-is-short")
def _short(target: Target) -> None:
    with target.made() as instance:
        for _ in range(5):
            for number in json_body(instance.post("reset/", {}))["observation"]:
                short = shortest(number, "f4")
                equal(number, short, "the shortest decimal of a float32")


@checks("action-space")
def _action_space(target: Target) -> None:
    _check_info(target, "action_space/")
    if target.env_id == CART_POLE:
        info = json_body(target.shared().get("action_space/"))["info"]
        equal(info, {"name": "Discrete", "n": 2}, "info")


@checks("observation-space")
def _observation_space(target: Target) -> None:
    _check_info(target, "observation_space/")
    if target.env_id != CART_POLE:
        return
    info = json_body(target.shared().get("observation_space/"))["info"]
    equal((info["name"], info["shape"]), ("Box", [4]), "name and shape")
    for which, sign in (("low", -1.0), ("high", 1.0)):
        bounds = info[which]
        equal(bounds[0], sign * 4.8, f"{which} of the position")
        equal(bounds[1], sign * 1e100, f"{which} of the velocity, which has no end")


def _check_info(target: Target, rest: str) -> None:
    info = json_body(target.shared(target.env_id).get(rest))["info"]
    if info["name"] == "Discrete":
        keys = {"name", "n"} | ({"start"} if info.get("start") else set())
        equal(sorted(info), sorted(keys), "members of info")
        that(type(info["n"]) is int, "n: an integer", info["n"])
    elif info["name"] == "Box":
        equal(sorted(info), ["high", "low", "name", "shape"], "members of info")
        size = math.prod(info["shape"])
        for which in ("low", "high"):
            bounds = info[which]
            right = len(bounds) == size and all(type(each) is float for each in bounds)
            that(right, f"{which}: a flat list of {size} floats", bounds)


@checks("sample")
def _sample(target: Target) -> None:
    instance = target.shared(target.env_id)
    info = json_body(instance.get("action_space/"))["info"]
    for _ in range(4):
        value = json_body(instance.get("action_space/sample"))
        equal(list(value), ["action"], "members")
        _check_element(value["action"], info, "action")


@checks("contains")
def _contains(target: Target) -> None:
    instance = target.shared(target.env_id)
    described = json_body(instance.get("action_space/"))
    info = described["info"]
    # An opaque space has the info of its base, but another rule.
    kind = described.get("space", {}).get("type", info["name"])
    if (info["name"], kind) != ("Discrete", "Discrete"):
        raise Absent("gym-http-api had it for Discrete spaces alone")
    first = info.get("start", 0)
    last = first + info["n"] - 1
    for action, member in (
        (first, True),
        (last, True),
        (last + 1, False),
        (first - 1, False),
    ):
        value = json_body(instance.get(f"action_space/contains/{action}"))
        equal(value, {"member": member}, f"whether {action} is an action")


@checks("contains-observation")
def _contains_observation(target: Target) -> None:
    instance = target.shared(target.env_id)
    info = json_body(instance.get("observation_space/"))["info"]
    for given, member in (({"name": info["name"]}, True), ({"name": "None"}, False)):
        value = json_body(instance.post("observation_space/contains", given))
        equal(value, {"member": member}, "whether this is the observation space")


@checks("close")
def _close(target: Target) -> None:
    nothing(target.create(target.env_id).close())
    instance = target.create(target.env_id)
    answer = instance.target.call("POST", instance.path("close/"), body=b'""')
    instance.target.forget(instance.id)
    nothing(answer)


@checks("monitor-close")
def _monitor_close(target: Target) -> None:
    nothing(target.shared(target.env_id).post("monitor/close/"))


@checks("monitor-start")
def _monitor_start(target: Target) -> None:
    _start_monitor(target, {"force": True, "resume": False, "video_callable": False})


@checks("monitor-start-text")
def _monitor_start_text(target: Target) -> None:
    """The Lua client sends its flags in this form."""
    flags = {"force": "true", "resume": "false", "video_callable": "false"}
    _start_monitor(target, flags)


def _start_monitor(target: Target, flags: dict[str, Any]) -> None:
    directory = target.new_recording()
    with target.made(target.env_id) as instance:
        # Below the server's data directory, as absolute paths of old clients are.
        body = {"directory": f"/{directory}", **flags}
        answer = instance.post("monitor/start/", body)
        target.needs("monitor", answer)
        nothing(answer)
        nothing(instance.post("monitor/close/"))
    nothing(target.delete_recording(directory))


@checks("upload")
def _upload(target: Target) -> None:
    answer = target.post("/v1/upload/", {"api_key": "key"})
    if answer.status == 404:
        raise Absent("it answers 404")
    equal(answer.status, 400, "status without a training_dir")
    words = "A required request parameter 'training_dir' was not provided"
    equal(answer.json()["message"], words, "message")
    answer = target.post("/v1/upload/", {"training_dir": "results", "api_key": "key"})
    # The site of the uploads is gone; a server may be of a time when it existed.
    one_of(answer.status, (204, 400, 410), "status")


@checks("both-slash-forms")
def _slashes(target: Target) -> None:
    with target.made(target.env_id) as instance:
        for end in ("/", ""):
            for rest in ("action_space", "observation_space"):
                json_body(instance.get(rest + end))
            json_body(instance.post("reset" + end, {}))
            json_body(instance.post("step" + end, {"action": action_of(instance)}))
            json_body(instance.get("action_space/sample" + end))
            nothing(instance.post("monitor/close" + end))
    for path in ("/v1/envs", "/v1/envs/"):
        value = json_body(target.post(path, {"env_id": target.env_id}))
        target.adopt(value["instance_id"]).close()


@checks("unknown-instance")
def _unknown(target: Target) -> None:
    answer = target.post("/v1/envs/ffffffff/step/", {"action": 0})
    equal(answer.status, 400, "status")
    equal(answer.json()["message"], "Instance_id ffffffff unknown", "message")


@checks("unknown-env")
def _unknown_env(target: Target) -> None:
    answer = target.post("/v1/envs/", {"env_id": "there is none"})
    if code_of(answer) == "env-refused":
        raise Absent("it makes only the environments that are allowed: env-refused")
    equal(answer.status, 400, "status")
    words = "Attempted to look up malformed environment ID 'there is none'"
    message = answer.json()["message"]
    that(message.startswith(words), f"a message that begins with {words}", message)


@checks("bad-json")
def _bad_json(target: Target) -> None:
    answer = target.post("/v1/envs/", body=b"{")
    equal(answer.status, 400, "status")
    words = "Request is not a valid json"
    message = answer.json()["message"]
    that(message.startswith(words), f"a message that begins with {words}", message)


@checks("missing-parameter")
def _missing(target: Target) -> None:
    without_env_id: tuple[Any, ...] = ({}, {"env_id": None}, {"env_id": ""})
    for body in (*without_env_id, {"env_id": []}):
        answer = target.post("/v1/envs/", body)
        equal(answer.status, 400, "status")
        words = "A required request parameter 'env_id' was not provided"
        equal(answer.json()["message"], words, "message")
