"""One HTTP exchange, on the bare WSGI environment: body in, answer out."""

from __future__ import annotations

import http
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gym_http_server.errors import BodyIncomplete, BodyTooLarge, ContentEncoding
from gym_http_wire.frames import Frame
from gym_http_wire.messages import AnswerHead, Form, answer_head, problem_of

__all__ = ["Answer", "Environ", "accepted", "json_answer", "read_body", "send"]

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]

JSON = "application/json"
# What the old server's framework gave empty answers; some clients check it.
EMPTY_TYPE = "text/html; charset=utf-8"
STATUS_LINES = {
    status.value: f"{status.value} {status.phrase}" for status in http.HTTPStatus
}
_JSON_HEADER = ("Content-Type", JSON)


class Answer(NamedTuple):
    """What goes back.

    Attributes:
        status: HTTP status.
        headers: Without Content-Length.
        body: The whole body.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def send(answer: Answer, start_response: StartResponse) -> Iterable[bytes]:
    """Give an answer in the way of WSGI."""
    headers = answer.headers
    if answer.status != 204:
        headers = [*headers, ("Content-Length", str(len(answer.body)))]
    start_response(STATUS_LINES[answer.status], headers)
    return [answer.body]


def json_answer(body: bytes, status: int = 200) -> Answer:
    """Answer with JSON that is encoded already."""
    return Answer(status, [_JSON_HEADER], body)


def empty_answer() -> Answer:
    """Answer that it is done and there is nothing to say."""
    return Answer(204, [("Content-Type", EMPTY_TYPE)], b"")


def frame_answer(frame: Frame) -> Answer:
    """Answer with what a host or the supervisor said.

    Raises:
        Problem: It said that something was wrong.
    """
    if frame.status >= 400:
        raise problem_of(frame)
    if frame.form == Form.PLAIN:
        return json_answer(frame.body, frame.status)
    if frame.status == 204:
        return empty_answer()
    head: AnswerHead = answer_head(frame)
    headers = [("Content-Type", head.content_type), *head.headers.items()]
    return Answer(frame.status, headers, frame.body)


def read_body(environ: Environ, limit: int) -> bytes:
    """Read the body whole, whatever the method.

    Args:
        environ: The WSGI environment.
        limit: Bytes that it may have.

    Raises:
        BodyIncomplete: It ends early, or is not framed as HTTP demands.
        BodyTooLarge: It has more.
        ContentEncoding: It is compressed.
    """
    if environ.get("HTTP_CONTENT_ENCODING", "identity") not in ("identity", ""):
        raise ContentEncoding(
            f"the body is {environ['HTTP_CONTENT_ENCODING']:.40} encoded; "
            "send it as it is, without Content-Encoding"
        )
    announced = int(environ.get("CONTENT_LENGTH") or 0)
    # What is announced may lie and a chunked body announces nothing: what is read
    # counts as well.
    try:
        body: bytes = (
            environ["wsgi.input"].read(limit + 1) if announced <= limit else b""
        )
    except Exception as error:  # of the web server's making
        raise BodyIncomplete(f"the body cannot be read: {error}") from None
    if max(announced, len(body)) > limit:
        raise BodyTooLarge(
            f"the body has more than the {limit} bytes that this server takes"
        )
    if len(body) < announced:
        raise BodyIncomplete(
            f"the body ended after {len(body)} of the {announced} bytes announced"
        )
    return body


def accepted(environ: Environ) -> tuple[str, ...]:
    """List the media types that the caller takes, the best first."""
    header = environ.get("HTTP_ACCEPT", "")
    weighted = []
    for part in header.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        if name and weight > 0:
            weighted.append((-weight, name.lower()))
    return tuple(name for _, name in sorted(weighted, key=lambda pair: pair[0]))
