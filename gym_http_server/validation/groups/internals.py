"""Attributes, methods, and the state of the random generator."""

from __future__ import annotations

from gym_http_server.validation.checks import CheckGroup, Checks, equal
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import Target

__all__ = ["GROUP"]

checks = Checks()
GROUP = CheckGroup("internals", lambda: checks)


@checks("attribute")
def _attribute(target: Target) -> None:
    with target.made() as instance:
        answer = instance.get("attributes/gravity/")
        target.needs("attributes", answer)
        equal(answer.json(), {"callable": False, "value": 9.8}, "gravity")
        told = instance.post("attributes/gravity/", {"value": 1.62}).json()
        equal(told, {"set": True}, "the answer")
        equal(instance.get("attributes/gravity/").json()["value"], 1.62, "gravity")


@checks("attribute-not-forced")
def _not_forced(target: Target) -> None:
    with target.made() as instance:
        path = "attributes/validate_none/"
        answer = instance.post(path, {"value": 1, "force": False})
        target.needs("attributes", answer)
        equal(answer.json(), {"set": False}, "the answer")
        problem(instance.get(path), "no-attribute", 404)


@checks("private-attribute")
def _private(target: Target) -> None:
    with target.made() as instance:
        answer = instance.get("attributes/__class__/")
        target.needs("attributes")
        problem(answer, "no-attribute", 404)


@checks("method")
def _method(target: Target) -> None:
    with target.made("Taxi-v4") as instance:
        path = "attributes/encode/"
        answer = instance.get(path)
        target.needs("attributes", answer)
        equal(answer.json(), {"callable": True}, "encode")
        told = instance.post(f"{path}call/", {"args": [3, 1, 2, 0]}).json()
        equal(told, {"value": 328}, "what it returns")


@checks("generator")
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
