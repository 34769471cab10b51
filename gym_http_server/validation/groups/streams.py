"""Streams: requests and answers in both dialects, frames, and signatures by number."""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

from gym_http_server.validation.binary import BINARY as BINARY_MEDIA
from gym_http_server.validation.binary import body_with, from_binary
from gym_http_server.validation.checks import Check, CheckGroup, Checks
from gym_http_server.validation.expectations import Mismatch, equal, that
from gym_http_server.validation.forms import nested
from gym_http_server.validation.groups.steps import steps_of
from gym_http_server.validation.groups.values import needs_attributes, same
from gym_http_server.validation.streams import TargetStream
from gym_http_server.validation.target import Target
from gym_http_server.validation.vectors import cases
from gym_http_server.validation.websocket import (
    BINARY,
    BINARY_DIALECT,
    CLOSE,
    PING,
    PONG,
    TEXT,
    TEXT_DIALECT,
    Closed,
    frame,
)

__all__ = ["BINARY_GROUPS", "STREAMS", "needs_streams"]

_STEP = b'{"op": "step", "action": 1}'
_ACTION = b"\x20\0\0\0\0\0\0\0" + b'{"dict":[["action","int"]]}'.ljust(32)
_PUSH = _ACTION + struct.pack("<q", 1)

checks = Checks()


def needs_streams(target: Target) -> None:
    """Skip checks that need streams.

    Raises:
        Absent: The server has no streams.
    """
    target.needs("streams", target.shared().get("stream"))


def _stream_checks() -> Iterator[Check]:
    yield from checks
    for name, (data, code) in _BROKEN.items():
        yield Check(f"closes-{name}", partial(_broken, data, code))


STREAMS = CheckGroup("streams", _stream_checks, needs_streams)


@checks("numbers")
def _numbers(target: Target) -> None:
    with (
        target.made() as instance,
        TargetStream.opened(instance, TEXT_DIALECT) as stream,
    ):
        equal(
            stream.request("reset", seed=1)["number"], 1, "number of the first answer"
        )
        equal(stream.request("step", action=1)["number"], 2, "number of the second")
        stream.send(frame(TEXT, _STEP) + frame(TEXT, _STEP))
        actual = [stream.answered()["number"] for _ in range(2)]
        equal(actual, [3, 4], "numbers of two that were on their way")
        equal(stream.request("step", action=0, number=9)["number"], 9, "a number")
        equal(stream.request("step", action=0)["number"], 10, "the number after it")


@checks("replays")
def _replays(target: Target) -> None:
    session = secrets.token_hex(8)
    with target.made() as instance:
        query = f"session={session}"
        with TargetStream.opened(instance, TEXT_DIALECT, query=query) as stream:
            stream.request("reset", seed=1)
            first = stream.request("step", action=1)
            equal(stream.request("step", action=1, number=2), first, "the answer again")
        with TargetStream.opened(instance, TEXT_DIALECT, query=query) as stream:
            again = stream.request("step", action=1, number=2)
            equal(again, first, "the answer over another stream")
            reused = stream.request("step", action=0, number=2)
            actual = reused["status"], reused["body"].get("code")
            equal(actual, (422, "key-reused"), "status and code of another request")
        equal(steps_of(instance), 1, "steps")


@checks("keys-are-numbers")
def _keys(target: Target) -> None:
    session = secrets.token_hex(8)
    with (
        target.made() as instance,
        TargetStream.opened(
            instance, BINARY_DIALECT, query=f"session={session}"
        ) as stream,
    ):
        stream.request_binary("reset", 1)
        reply = stream.request_binary("step", 2, _PUSH)
        equal(reply.status, 200, "status of a step")
        headers = {"Idempotency-Key": f"{session}-2"}
        headers |= {"Content-Type": BINARY_MEDIA, "Accept": BINARY_MEDIA}
        answer = instance.post("step/", body=_PUSH, headers=headers)
        equal(answer.headers.get("idempotent-replayed"), "true", "replayed over HTTP")
        if from_binary(answer.body) != from_binary(reply.body):
            raise Mismatch("the same value over HTTP", answer.body.hex())
        equal(steps_of(instance), 1, "steps")


@checks("problems-are-answers")
def _problems(target: Target) -> None:
    with (
        target.made() as instance,
        TargetStream.opened(instance, TEXT_DIALECT) as stream,
    ):
        early = stream.request("step", action=1)
        actual = early["status"], early["body"].get("code")
        equal(actual, (409, "reset-needed"), "status and code")
        stream.request("reset", seed=1)
        for request, code in (
            ({"op": "step", "action": "left"}, "invalid-action"),
            ({"op": "dance"}, "bad-parameter"),
            ({"op": "step", "number": -1}, "bad-parameter"),
        ):
            stream.send(frame(TEXT, json.dumps(request).encode()))
            answer = stream.answered()
            actual = answer["status"], answer["body"].get("code")
            equal(actual, (400, code), f"status and code of {json.dumps(request)}")
            that(answer["body"].get("message"), "a message", answer["body"])
        equal(stream.request("step", action=1)["status"], 200, "status of the next")


@checks("problems-in-binary")
def _problems_in_binary(target: Target) -> None:
    with (
        target.made() as instance,
        TargetStream.opened(instance, BINARY_DIALECT) as stream,
    ):
        reply = stream.request_binary("step", 1, _PUSH)
        equal((reply.number, reply.status, reply.form), (1, 409, 1), "its head")
        equal(json.loads(reply.body).get("code"), "reset-needed", "code")


@checks("typed-in-text")
def _typed(target: Target) -> None:
    with (
        target.made() as instance,
        TargetStream.opened(instance, TEXT_DIALECT) as stream,
    ):
        body = stream.request("reset", seed=1, form="typed")["body"]
        equal(body["observation"].get("$t"), "nd", "the kind of the observation")


@checks("pings")
def _pings(target: Target) -> None:
    with TargetStream.opened(target.shared(), TEXT_DIALECT) as stream:
        for payload in (b"", b"x" * 125):
            stream.send(frame(PING, payload))
            equal(stream.receive(PONG), payload, "the pong")
        stream.send(frame(PONG, b"unsolicited"))
        equal(stream.request("reset")["status"], 200, "status after a pong")


@checks("fragments")
def _fragments(target: Target) -> None:
    with TargetStream.opened(target.shared(), TEXT_DIALECT) as stream:
        stream.request("reset")
        first, ping = bytearray(frame(TEXT, _STEP[:9])), frame(PING, b"?")
        first[0] &= 0x7F
        stream.send(bytes(first) + ping + frame(0, _STEP[9:]))
        equal(stream.receive(PONG), b"?", "the pong between fragments")
        equal(stream.answered()["status"], 200, "status of a step in fragments")


@checks("close-is-answered")
def _close(target: Target) -> None:
    for payload in (b"", b"\x03\xe8", b"\x0f\xa0mine"):
        with TargetStream.opened(target.shared(), TEXT_DIALECT) as stream:
            stream.send(frame(CLOSE, payload))
            code = int.from_bytes(payload[:2], "big")
            _closes(stream, code)


@checks("says-goodbye")
def _close_frame(target: Target) -> None:
    with (
        target.made() as instance,
        TargetStream.opened(instance, TEXT_DIALECT) as stream,
    ):
        instance.close()
        _closes(stream, 1001)


_UNMASKED = bytes((0x81, len(_STEP))) + _STEP
_BROKEN = {
    "unmasked": (_UNMASKED, 1002),
    "unknown-opcode": (frame(5, b"x"), 1002),
    "reserved-bit": (b"\xc1\x80mask", 1002),
    "endless": (b"\x81\xff" + b"\xff" * 8 + b"mask", 1009),
    "no-utf-8": (frame(TEXT, b'{"op": "\xff"}'), 1007),
    "fragment-of-nothing": (frame(0, b"x"), 1002),
    "long-ping": (frame(PING, bytes(126)), 1002),
    "half-a-status": (frame(CLOSE, b"\x03"), 1002),
    "other-dialect": (frame(BINARY, bytes(16)), 1003),
}


def _broken(data: bytes, code: int, target: Target) -> None:
    instance = target.shared()
    with TargetStream.opened(instance, TEXT_DIALECT) as stream:
        stream.send(data)
        _closes(stream, code)
    equal(instance.post("reset/", {}).status, 200, "status of the next request")


def _closes(stream: TargetStream, code: int) -> None:
    """Expect a close of the stream with a status; 0 is a close without one."""
    try:
        message = stream.read()
    except Closed as closed:
        equal(closed.code, code, "the status of the close")
        return
    raise Mismatch(f"a close with {code}", f"a message of opcode {message.opcode}")


_ECHO_NAME = "validate_echo"
#: Bytes that a body with a numbered signature and few leaves may have.
_LARGEST = 16 * 1024 + 16


def _frame_checks() -> Iterator[Check]:
    for case in cases("frames"):
        if case.get("refused"):
            yield Check(case["id"], partial(_malformed, case))


def _signature_checks() -> Iterator[Check]:
    for case in cases("signatures"):
        bodies = [bytes.fromhex(each["body"]) for each in case["messages"]]
        if any(
            len(body) <= _LARGEST < len(body_with("value", body)) for body in bodies
        ):
            # As a member it would be too large to have a number.
            continue
        yield Check(case["id"], partial(_numbered, case))


def _needs_echo(target: Target) -> None:
    needs_streams(target)
    needs_attributes(target)


BINARY_GROUPS = (
    CheckGroup("frames", _frame_checks, needs_streams),
    CheckGroup("signatures", _signature_checks, _needs_echo),
)


def _malformed(case: dict[str, Any], target: Target) -> None:
    instance = target.shared()
    with TargetStream.opened(instance, BINARY_DIALECT) as stream:
        stream.send(frame(BINARY, bytes.fromhex(case["hex"])))
        try:
            reply = stream.receive_binary()
            equal(reply.status, 400, "status, or a close with 1002")
        except Closed as closed:
            equal(closed.code, 1002, "the status of the close, or an answer 400")
    equal(instance.post("reset/", {}).status, 200, "status of the next request")


def _numbered(case: dict[str, Any], target: Target) -> None:
    """Send bodies with numbered signatures, each a value that is to be kept."""
    head = {"value": _ECHO_NAME}
    with TargetStream.opened(target.shared(), BINARY_DIALECT) as stream:
        numbers = iter(range(1, 1_000_000))
        for message in case["messages"]:
            body = body_with("value", bytes.fromhex(message["body"]))
            reply = stream.request_binary(
                "set_attribute", next(numbers), body, head=head
            )
            if message.get("refused"):
                actual = reply.status, json.loads(reply.body).get("code")
                equal(actual, (400, "bad-json"), "status and code")
                return
            equal(reply.status, 200, "status")
            reply = stream.request_binary("attribute", next(numbers), head=head)
            same(nested(from_binary(reply.body), "value"), message["value"])
