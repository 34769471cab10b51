"""How a stream begins: handshakes, their refusals, and tickets instead of tokens."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.checks import Check, CheckGroup, Checks
from gym_http_server.validation.expectations import equal, that
from gym_http_server.validation.groups.streams import needs_streams
from gym_http_server.validation.streams import TargetStream
from gym_http_server.validation.target import Target, TargetInstance, code_of
from gym_http_server.validation.vectors import cases
from gym_http_server.validation.websocket import (
    BINARY_DIALECT,
    TEXT_DIALECT,
)

__all__ = ["HANDSHAKES", "TICKETS"]

#: So many an instance may have.
MAX_STREAMS = 64

handshakes = Checks()


def _checks() -> Iterator[Check]:
    for case in cases("websocket"):
        if "accept" in case:
            yield Check(f"accept-{case['id']}", partial(_accept, case))
    yield from handshakes


HANDSHAKES = CheckGroup("handshakes", _checks, needs_streams)


def _accept(case: dict[str, Any], target: Target) -> None:
    with TargetStream(target.shared(), key=case["key"]) as stream:
        equal(stream.answer.status, 101, "status")
        accept = stream.answer.headers.get("sec-websocket-accept")
        equal(accept, case["accept"], "Sec-WebSocket-Accept")


@handshakes("dialects")
def _dialects(target: Target) -> None:
    for request, chosen in (
        (TEXT_DIALECT, TEXT_DIALECT),
        (BINARY_DIALECT, BINARY_DIALECT),
        (f"chat, {BINARY_DIALECT}, {TEXT_DIALECT}", BINARY_DIALECT),
        ("", None),
    ):
        with TargetStream.opened(target.shared(), request) as stream:
            actual = stream.answer.headers.get("sec-websocket-protocol")
            equal(actual, chosen, f"the dialect for {request!r}")
            actual = stream.answer.headers.get("sec-websocket-extensions")
            equal(actual, None, "Sec-WebSocket-Extensions")


@handshakes("unknown-dialect")
def _unknown_dialect(target: Target) -> None:
    with TargetStream(target.shared(), "chat") as stream:
        actual = stream.answer.status, code_of(stream.answer)
        equal(actual, (400, "bad-parameter"), "status and code")


@handshakes("session")
def _session(target: Target) -> None:
    session = f"validate-{secrets.token_hex(4)}"
    with TargetStream.opened(
        target.shared(), TEXT_DIALECT, query=f"session={session}"
    ) as stream:
        equal(stream.answer.headers.get("gym-session"), session, "Gym-Session")
    with TargetStream.opened(target.shared(), TEXT_DIALECT) as stream:
        that(stream.answer.headers.get("gym-session"), "a session of its own", "none")
    with TargetStream(target.shared(), query="session=a/b") as stream:
        equal(stream.answer.status, 400, "status for a session a/b")


@handshakes("unknown-instance")
def _unknown(target: Target) -> None:
    with TargetStream(TargetInstance(target, "ffffffff")) as stream:
        actual = stream.answer.status, code_of(stream.answer)
        equal(actual, (400, "unknown-instance"), "status and code")


@handshakes("too-many-streams")
def _too_many(target: Target) -> None:
    with target.made() as instance, contextlib.ExitStack() as stack:
        for _ in range(MAX_STREAMS):
            stack.enter_context(TargetStream.opened(instance, TEXT_DIALECT))
        with TargetStream(instance) as stream:
            actual = stream.answer.status, code_of(stream.answer)
            equal(actual, (503, "too-many-streams"), "status and code of one more")
            after = stream.answer.headers.get("retry-after", "")
            that(after.isdigit(), "a header Retry-After, in seconds", after)


@handshakes("origin-refused")
def _origin(target: Target) -> None:
    headers = {"Origin": "https://validate.invalid"}
    with TargetStream(target.shared(), headers=headers) as stream:
        actual = stream.answer.status, code_of(stream.answer)
        equal(actual, (403, "origin-refused"), "status and code")


tickets = Checks()


def _needs_tickets(target: Target) -> None:
    target.needs("tickets", target.post("/v1/tickets/"))


TICKETS = CheckGroup("tickets", lambda: tickets, _needs_tickets)


def _issue(target: Target) -> str:
    answer = target.post("/v1/tickets/")
    equal(answer.status, 200, "status")
    actual = answer.json()
    expires = actual["expires_in_s"]
    that(isinstance(expires, int) and expires > 0, "seconds until it expires", actual)
    that(isinstance(actual["ticket"], str) and actual["ticket"], "a ticket", "none")
    return str(actual["ticket"])


def _open_stream(instance: TargetInstance, query: str, **headers: str) -> TargetStream:
    return TargetStream(instance, TEXT_DIALECT, query, headers, token=False)


def _ticket_refused(stream: TargetStream) -> None:
    actual = stream.answer.status, code_of(stream.answer)
    equal(actual, (401, "ticket-refused"), "status and code")


@tickets("opens-one-stream")
def _one(target: Target) -> None:
    instance, ticket = target.shared(), _issue(target)
    with _open_stream(instance, f"ticket={ticket}") as stream:
        equal(stream.answer.status, 101, "status")
        equal(stream.request("reset")["status"], 200, "status of a reset")
    with _open_stream(instance, f"ticket={ticket}") as stream:
        _ticket_refused(stream)


@tickets("made-up")
def _made_up(target: Target) -> None:
    with _open_stream(target.shared(), f"ticket={'A' * 32}") as stream:
        _ticket_refused(stream)


@tickets("origin-is-looked-at")
def _ticket_origin(target: Target) -> None:
    instance, ticket = target.shared(), _issue(target)
    foreign = {"Origin": "https://validate.invalid"}
    with _open_stream(instance, f"ticket={ticket}", **foreign) as stream:
        actual = stream.answer.status, code_of(stream.answer)
        equal(actual, (403, "origin-refused"), "status and code")
    with _open_stream(instance, f"ticket={ticket}") as stream:
        equal(stream.answer.status, 101, "status, since the refusal used up nothing")
