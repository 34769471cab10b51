"""Attributes, methods, and the state of the random generator."""

from __future__ import annotations

from gym_http_server.validation.checks import Checks, Group, equal
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.served import Served

__all__ = ["GROUP"]

checks = Checks()
GROUP = Group("internals", lambda: checks)


@checks("attribute")
def _attribute(served: Served) -> None:
    with served.made() as instance:
        answer = instance.get("attributes/gravity/")
        served.needs("attributes", answer)
        equal(answer.json(), {"callable": False, "value": 9.8}, "gravity")
        told = instance.post("attributes/gravity/", {"value": 1.62}).json()
        equal(told, {"set": True}, "the answer")
        equal(instance.get("attributes/gravity/").json()["value"], 1.62, "gravity")


@checks("attribute-not-forced")
def _not_forced(served: Served) -> None:
    with served.made() as instance:
        path = "attributes/validate_none/"
        answer = instance.post(path, {"value": 1, "force": False})
        served.needs("attributes", answer)
        equal(answer.json(), {"set": False}, "the answer")
        problem(instance.get(path), "no-attribute", 404)


@checks("private-attribute")
def _private(served: Served) -> None:
    with served.made() as instance:
        answer = instance.get("attributes/__class__/")
        served.needs("attributes")
        problem(answer, "no-attribute", 404)


@checks("method")
def _method(served: Served) -> None:
    with served.made("Taxi-v4") as instance:
        path = "attributes/encode/"
        answer = instance.get(path)
        served.needs("attributes", answer)
        equal(answer.json(), {"callable": True}, "encode")
        told = instance.post(f"{path}call/", {"args": [3, 1, 2, 0]}).json()
        equal(told, {"value": 328}, "what it returns")


@checks("generator")
def _generator(served: Served) -> None:
    with served.made() as instance:
        instance.post("reset/", {"seed": 42})
        answer = instance.get("generator/")
        served.needs("generator", answer)
        equal(answer.json()["seed"], 42, "seed")
        first = instance.post("reset/", {}).json()
        again = instance.post("reset/", {}).json()
        set_back = instance.post("generator/", body=answer.body)
        equal(set_back.status, 200, "status, as the state is set")
        equal(instance.post("reset/", {}).json(), first, "the reset after it")
        equal(instance.post("reset/", {}).json(), again, "the one after that")
