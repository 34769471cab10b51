"""Tickets, which open streams in the place of the token."""

from __future__ import annotations

from gym_http_server.validation.checks import Checks, Group, equal, that
from gym_http_server.validation.served import Instance, Served, code_of
from gym_http_server.validation.sockets import TEXT_DIALECT
from gym_http_server.validation.streams import Stream

__all__ = ["GROUP"]

checks = Checks()


def _needs(served: Served) -> None:
    served.needs("tickets", served.post("/v1/tickets/"))


GROUP = Group("tickets", lambda: checks, _needs)


def _issue(served: Served) -> str:
    answer = served.post("/v1/tickets/")
    equal(answer.status, 200, "status")
    told = answer.json()
    expires = told["expires_in_s"]
    that(isinstance(expires, int) and expires > 0, "seconds until it expires", told)
    that(isinstance(told["ticket"], str) and told["ticket"], "a ticket", "none")
    return str(told["ticket"])


def _shake(instance: Instance, query: str, **headers: str) -> Stream:
    return Stream(instance, TEXT_DIALECT, query, headers, token=False)


def _refused(stream: Stream) -> None:
    told = stream.answer.status, code_of(stream.answer)
    equal(told, (401, "ticket-refused"), "status and code")


@checks("opens-one-stream")
def _one(served: Served) -> None:
    instance, ticket = served.shared(), _issue(served)
    with _shake(instance, f"ticket={ticket}") as stream:
        equal(stream.answer.status, 101, "status")
        equal(stream.ask("reset")["status"], 200, "status of a reset")
    with _shake(instance, f"ticket={ticket}") as stream:
        _refused(stream)


@checks("made-up")
def _made_up(served: Served) -> None:
    with _shake(served.shared(), f"ticket={'A' * 32}") as stream:
        _refused(stream)


@checks("origin-is-looked-at")
def _origin(served: Served) -> None:
    instance, ticket = served.shared(), _issue(served)
    evil = {"Origin": "https://validate.invalid"}
    with _shake(instance, f"ticket={ticket}", **evil) as stream:
        told = stream.answer.status, code_of(stream.answer)
        equal(told, (403, "origin-refused"), "status and code")
    with _shake(instance, f"ticket={ticket}") as stream:
        equal(stream.answer.status, 101, "status, since the refusal used up nothing")
