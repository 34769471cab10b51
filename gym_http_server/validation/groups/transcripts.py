"""Whole episodes, compared with Gymnasium's own, by every route and in every form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.binary import BINARY, from_binary
from gym_http_server.validation.calls import Response
from gym_http_server.validation.checks import Check, CheckGroup
from gym_http_server.validation.expectations import Mismatch, equal, shown
from gym_http_server.validation.forms import Form, from_model, named
from gym_http_server.validation.plain import plain_of
from gym_http_server.validation.streams import TargetStream
from gym_http_server.validation.target import Target, TargetInstance
from gym_http_server.validation.typed import TYPED, from_typed
from gym_http_server.validation.vectors import cases
from gym_http_server.validation.websocket import BINARY_DIALECT, TEXT_DIALECT

__all__ = ["GROUPS"]

Json = dict[str, Any]
#: Sends the body of an operation and returns the members of the answer.
Way = Callable[[str, Json], Any]
_PLAIN = "application/json"


def _episodes(target: Target, case: Json) -> TargetInstance:
    """Make the instance that a transcript is of."""
    return target.create_from(case["create"])


def _play(case: Json, call: Way, demand: Callable[[Any, Json, str], None]) -> None:
    """Play an episode, and compare each answer with that of Gymnasium."""
    demand(call("reset", {"seed": case["seed"]}), case["reset"], "the reset")
    pairs = zip(case["actions"], case["steps"], strict=False)
    for number, (action, expected) in enumerate(pairs, 1):
        demand(call("step", {"action": action}), expected, f"step {number}")


def _demand_plain(actual: Any, expected: Json, when: str) -> None:
    """Hold plain JSON against models."""
    wanted = {name: _plain(value) for name, value in expected.items()}
    if "reward" in wanted and not isinstance(wanted["reward"], list):
        # Old clients expect a float, and the flags in the old form.
        wanted["reward"] = float(wanted["reward"])
        wanted["done"] = wanted["terminated"] or wanted["truncated"]
    if not isinstance(actual, dict):
        raise Mismatch(f"an object as {when}", shown(actual))
    for name, value in wanted.items():
        equal(actual.get(name), value, f"{name} of {when}")


def _demand_exact(actual: Any, expected: Json, when: str) -> None:
    """Hold a value in a lossless form against models."""
    members = named(actual)
    for name, value in expected.items():
        wanted = _form(value)
        if members.get(name) != wanted:
            raise Mismatch(
                f"{name} of {when}: {shown(repr(wanted))}",
                shown(repr(members.get(name))),
            )
    equal(sorted(members), sorted(expected), f"the members of {when}")


def _form(value: Any) -> Form:
    return ("bool", value) if isinstance(value, bool) else from_model(value)


def _plain(value: Any) -> Any:
    return plain_of(_form(value))


def _good(answer: Response, media: str) -> Response:
    equal(answer.status, 200, "status")
    equal(answer.media, media, "Content-Type")
    return answer


def _over_plain(target: Target, case: Json) -> None:
    instance = _episodes(target, case)

    def call(op: str, body: Json) -> Any:
        return _good(instance.post(f"{op}/", body), _PLAIN).json()

    try:
        _play(case, call, _demand_plain)
    finally:
        instance.close()


def _over_lossless(media: str, target: Target, case: Json) -> None:
    target.needs("lossless")
    instance = _episodes(target, case)

    def call(op: str, body: Json) -> Form:
        # The action in plain JSON, so that it is cast to the action space.
        answer = instance.post(f"{op}/", body, headers={"Accept": media})
        _good(answer, media)
        binary = media == BINARY
        return from_binary(answer.body) if binary else from_typed(answer.json())

    try:
        _play(case, call, _demand_exact)
    finally:
        instance.close()


def _over_text(target: Target, case: Json) -> None:
    instance = _episodes(target, case)
    try:
        with TargetStream.opened(instance, TEXT_DIALECT) as stream:

            def call(op: str, body: Json) -> Any:
                actual = stream.request(op, **body)
                equal(actual["status"], 200, "status")
                return actual["body"]

            _play(case, call, _demand_plain)
    finally:
        instance.close()


def _over_binary(target: Target, case: Json) -> None:
    instance = _episodes(target, case)
    try:
        with TargetStream.opened(instance, BINARY_DIALECT) as stream:
            numbers = iter(range(1, 1_000_000))

            def call(op: str, body: Json) -> Form:
                request, number = json.dumps(body).encode(), next(numbers)
                reply = stream.request_binary(op, number, request, form=1)
                equal((reply.number, reply.status), (number, 200), "number and status")
                return from_binary(reply.body)

            _play(case, call, _demand_exact)
    finally:
        instance.close()


_WAYS: dict[str, Callable[[Target, Json], None]] = {
    "rest-plain": _over_plain,
    "rest-typed": partial(_over_lossless, TYPED),
    "rest-binary": partial(_over_lossless, BINARY),
    "stream-text": _over_text,
    "stream-binary": _over_binary,
}


def _run(way: str, case: Json, target: Target) -> None:
    _WAYS[way](target, case)


def _checks(way: str) -> Iterator[Check]:
    for case in cases("transcripts"):
        yield Check(case["id"], partial(_run, way, case))


def _needs(way: str, target: Target) -> None:
    if way.startswith("stream"):
        target.needs("streams", target.shared().get("stream"))
    elif way != "rest-plain":
        target.needs("lossless")


GROUPS = tuple(
    CheckGroup(way, partial(_checks, way), partial(_needs, way)) for way in _WAYS
)
