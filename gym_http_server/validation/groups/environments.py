"""Parts of an environment besides steps: attributes, generator, frames, vectors."""

from __future__ import annotations

import secrets
import zlib
from typing import Any

from gym_http_server.validation.checks import CheckGroup, Checks
from gym_http_server.validation.expectations import Absent, Mismatch, equal, that
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import CART_POLE, Target, TargetInstance

__all__ = ["INTERNALS", "RENDER", "VECTORS"]

internals = Checks()
INTERNALS = CheckGroup("internals", lambda: internals)


@internals("attribute")
def _attribute(target: Target) -> None:
    with target.made() as instance:
        answer = instance.get("attributes/gravity/")
        target.needs("attributes", answer)
        equal(answer.json(), {"callable": False, "value": 9.8}, "gravity")
        actual = instance.post("attributes/gravity/", {"value": 1.62}).json()
        equal(actual, {"set": True}, "the answer")
        equal(instance.get("attributes/gravity/").json()["value"], 1.62, "gravity")


@internals("attribute-not-forced")
def _not_forced(target: Target) -> None:
    with target.made() as instance:
        path = "attributes/validate_none/"
        answer = instance.post(path, {"value": 1, "force": False})
        target.needs("attributes", answer)
        equal(answer.json(), {"set": False}, "the answer")
        problem(instance.get(path), "no-attribute", 404)


@internals("private-attribute")
def _private(target: Target) -> None:
    with target.made() as instance:
        answer = instance.get("attributes/__class__/")
        target.needs("attributes")
        problem(answer, "no-attribute", 404)


@internals("method")
def _method(target: Target) -> None:
    with target.made("Taxi-v4") as instance:
        path = "attributes/encode/"
        answer = instance.get(path)
        target.needs("attributes", answer)
        equal(answer.json(), {"callable": True}, "encode")
        actual = instance.post(f"{path}call/", {"args": [3, 1, 2, 0]}).json()
        equal(actual, {"value": 328}, "what it returns")


@internals("generator")
def _generator(target: Target) -> None:
    with target.made() as instance:
        instance.post("reset/", {"seed": 42})
        answer = instance.get("generator/")
        target.needs("generator", answer)
        equal(answer.json()["seed"], 42, "seed")
        first = instance.post("reset/", {}).json()
        again = instance.post("reset/", {}).json()
        set_back = instance.post("generator/", body=answer.body)
        equal(set_back.status, 200, "status, as the state is set")
        equal(instance.post("reset/", {}).json(), first, "the reset after it")
        equal(instance.post("reset/", {}).json(), again, "the one after that")


_PNG = b"\x89PNG\r\n\x1a\n"
render = Checks()


def _needs_render(target: Target) -> None:
    target.needs("render", target.shared().get("render/"))


RENDER = CheckGroup("render", lambda: render, _needs_render)


def _drawn(target: Target) -> TargetInstance:
    instance = target.create("MountainCar-v0", render_mode="rgb_array")
    instance.post("reset/", {"seed": 1})
    return instance


@render("png")
def _png(target: Target) -> None:
    instance = _drawn(target)
    try:
        answer = instance.get("render/", headers={"Accept": "image/png"})
    finally:
        instance.close()
    equal((answer.status, answer.media), (200, "image/png"), "status and type")
    that(answer.body.startswith(_PNG), "a PNG file", answer.body[:16])
    size, kind = int.from_bytes(answer.body[8:12], "big"), answer.body[12:16]
    equal((size, kind), (13, b"IHDR"), "the first chunk")
    check = int.from_bytes(answer.body[29:33], "big")
    equal(zlib.crc32(answer.body[12:29]), check, "the sum of the first chunk")


@render("bytes")
def _bytes(target: Target) -> None:
    instance = _drawn(target)
    try:
        raw = instance.get("render/", headers={"Accept": "application/octet-stream"})
        listed = instance.get("render/", headers={"Accept": "application/json"}).json()
    finally:
        instance.close()
    equal(raw.headers.get("gym-dtype"), "uint8", "Gym-Dtype")
    shape = [int(size) for size in raw.headers["gym-shape"].split(",")]
    height, width, colours = shape
    equal(len(raw.body), height * width * colours, "bytes")
    equal((len(listed), len(listed[0])), (height, width), "height and width in JSON")
    row = [number for pixel in listed[height // 2] for number in pixel]
    at = height // 2 * width * colours
    equal(row, list(raw.body[at : at + len(row)]), "the row in the middle")


@render("text")
def _text(target: Target) -> None:
    with target.made("CliffWalking-v1", render_mode="ansi") as instance:
        instance.post("reset/", {"seed": 1})
        answer = instance.get("render/")
        equal((answer.status, answer.media), (200, "text/plain"), "status and type")
        lines = answer.body.decode().strip().splitlines()
        equal(lines[-1].split(), ["x", *"C" * 10, "T"], "the last row")


@render("once-for-each-key")
def _key(target: Target) -> None:
    instance = _drawn(target)
    try:
        key = {"Idempotency-Key": secrets.token_hex(8)}
        answers = [instance.post("render/", {}, headers=key) for _ in range(2)]
    finally:
        instance.close()
    equal(answers[1].headers.get("idempotent-replayed"), "true", "replayed")
    if answers[0].body != answers[1].body:
        raise Mismatch("the same frame", f"another of {len(answers[1].body)} bytes")


vectors = Checks()
_COUNT = 3


def _needs_vectors(target: Target) -> None:
    """Leave vectors out if the server ignores ``num_envs``."""
    instance = _made(target)
    try:
        actual = instance.get().json()
    except Mismatch:
        actual = {}
    finally:
        instance.close()
    if not isinstance(actual, dict) or actual.get("num_envs") != _COUNT:
        raise Absent("num_envs makes one environment all the same")


VECTORS = CheckGroup("vectors", lambda: vectors, _needs_vectors)


def _made(target: Target, **options: Any) -> TargetInstance:
    return target.create(num_envs=_COUNT, vectorization_mode="sync", **options)


@vectors("steps-as-one")
def _one(target: Target) -> None:
    vector = _made(target)
    singles = [target.create(CART_POLE) for _ in range(_COUNT)]
    try:
        actual = vector.post("reset/", {"seed": 42}).json()["observation"]
        alone = [
            single.post("reset/", {"seed": 42 + index}).json()["observation"]
            for index, single in enumerate(singles)
        ]
        equal(actual, alone, "the observations, of seeds that go up by one")
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


@vectors("seeds-of-their-own")
def _seeds(target: Target) -> None:
    vector, single = _made(target), target.create()
    try:
        actual = vector.post("reset/", {"seed": [5, 6, 5]}).json()["observation"]
        alone = single.post("reset/", {"seed": 5}).json()["observation"]
        equal([actual[0], actual[2]], [alone, alone], "the observations of seed 5")
    finally:
        vector.close()
        single.close()


@vectors("spaces")
def _spaces(target: Target) -> None:
    vector = _made(target)
    try:
        actual = vector.get().json()
        single = {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
        equal(actual["single_action_space"], single, "single_action_space")
        space = vector.get("action_space/").json()["space"]
        equal((space["type"], space["shape"]), ("MultiDiscrete", [_COUNT]), "actions")
    finally:
        vector.close()


@vectors("autoreset-disabled")
def _disabled(target: Target) -> None:
    vector = _made(target, autoreset_mode="disabled", max_episode_steps=1)
    try:
        first = vector.post("reset/", {"seed": 3}).json()["observation"]
        step = vector.post("step/", {"action": [0, 0, 0]}).json()
        equal(step["truncated"], [True] * _COUNT, "truncated")
        options = {"reset_mask": [True, False, False]}
        request = {"seed": [3, None, None], "options": options}
        actual = vector.post("reset/", request).json()["observation"]
        equal(actual[0], first[0], "the one that was reset")
        equal(actual[1:], step["observation"][1:], "those that were not")
    finally:
        vector.close()
