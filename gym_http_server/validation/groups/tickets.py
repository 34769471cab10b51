"""Tickets, which open streams in the place of the token."""

from __future__ import annotations

from gym_http_server.validation.checks import CheckGroup, Checks, equal, that
from gym_http_server.validation.streams import TargetStream
from gym_http_server.validation.target import Target, TargetInstance, code_of
from gym_http_server.validation.websocket import TEXT_DIALECT

__all__ = ["GROUP"]

checks = Checks()


def _needs(target: Target) -> None:
    target.needs("tickets", target.post("/v1/tickets/"))


GROUP = CheckGroup("tickets", lambda: checks, _needs)


def _issue(target: Target) -> str:
    answer = target.post("/v1/tickets/")
    equal(answer.status, 200, "status")
    told = answer.json()
    expires = told["expires_in_s"]
    that(isinstance(expires, int) and expires > 0, "seconds until it expires", told)
    that(isinstance(told["ticket"], str) and told["ticket"], "a ticket", "none")
    return str(told["ticket"])


def _shake(instance: TargetInstance, query: str, **headers: str) -> TargetStream:
    return TargetStream(instance, TEXT_DIALECT, query, headers, token=False)


def _refused(stream: TargetStream) -> None:
    told = stream.answer.status, code_of(stream.answer)
    equal(told, (401, "ticket-refused"), "status and code")


@checks("opens-one-stream")
def _one(target: Target) -> None:
    instance, ticket = target.shared(), _issue(target)
    with _shake(instance, f"ticket={ticket}") as stream:
        equal(stream.answer.status, 101, "status")
        equal(stream.ask("reset")["status"], 200, "status of a reset")
    with _shake(instance, f"ticket={ticket}") as stream:
        _refused(stream)


@checks("made-up")
def _made_up(target: Target) -> None:
    with _shake(target.shared(), f"ticket={'A' * 32}") as stream:
        _refused(stream)


@checks("origin-is-looked-at")
def _origin(target: Target) -> None:
    instance, ticket = target.shared(), _issue(target)
    evil = {"Origin": "https://validate.invalid"}
    with _shake(instance, f"ticket={ticket}", **evil) as stream:
        told = stream.answer.status, code_of(stream.answer)
        equal(told, (403, "origin-refused"), "status and code")
    with _shake(instance, f"ticket={ticket}") as stream:
        equal(stream.answer.status, 101, "status, since the refusal used up nothing")
