"""Outcomes: what came of a request of a session, over a stream or by REST.

An outcome is a value, or the exception that whoever asked is to see.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from gym_http_client.causes import error_of
from gym_http_client.failures import Failure, FailureKind
from gym_http_client.links import Link
from gym_http_client.raising import raised, refusal
from gym_http_client.streaming import Answer, Asked, Streaming
from gym_http_client.warned import HEADER, show, show_header
from gym_http_wire.messages import MEDIA_TYPES, WARNINGS, Form
from gym_http_wire.values import BadValue, binary

__all__ = ["by_rest", "over_stream"]

_BINARY = MEDIA_TYPES[Form.BINARY]
_BINARY_FORM = int(Form.BINARY)
_VALUE = struct.Struct("<II").pack


def over_stream(stream: Streaming, answer: Answer, number: int, url: str) -> Any:
    """Give the outcome of a request from an answer on a stream.

    Args:
        stream: The stream.
        answer: What came next on it.
        number: The request's.
        url: The instance's.

    Raises:
        Failure: This is not the answer to the request.
    """
    if answer.number != number:
        words = f"answer {answer.number} came where {number} was due"
        raise Failure(FailureKind.MALFORMED, words)
    if answer.status == 200 and answer.form == _BINARY_FORM:
        return stream.value(answer)
    problem = _problem_in(answer)
    show(problem.get(WARNINGS))
    return raised(problem, answer.status, url)


def by_rest(link: Link, path: str, url: str, asked: Asked, key: str) -> Any:
    """Send a request by REST, and give its outcome.

    Args:
        link: Sends it.
        path: Where to.
        url: The same, for those who read of it.
        asked: The request.
        key: Its key.

    Raises:
        ServerUnreachable: There is no answer.
    """
    body = b""
    if asked.signature:
        body = _VALUE(len(asked.signature), 0) + asked.signature + asked.leaves
    reply = link.request(
        "POST", path, body, content_type=_BINARY, accept=_BINARY, key=key
    )
    show_header(reply.headers.get(HEADER.lower()))
    if reply.status != 200 or reply.headers.get("content-type") != _BINARY:
        return refusal(reply, url)
    try:
        return binary.decode(reply.body)
    except BadValue as error:
        failure = Failure(FailureKind.MALFORMED, f"a value {error}")
        raise error_of(failure, "POST", url, None, 1) from error


def _problem_in(answer: Answer) -> dict[str, Any]:
    try:
        problem = json.loads(bytes(answer.message[answer.start :]))
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        words = f"what came with status {answer.status} is neither value nor problem"
        raise Failure(FailureKind.MALFORMED, words)
    extras = problem.get("extras")
    return {**extras, **problem} if isinstance(extras, dict) else problem
