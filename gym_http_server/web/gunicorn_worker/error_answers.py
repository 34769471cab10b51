"""Errors as JSON, for requests that never reached an application."""

from __future__ import annotations

import http
import json
import uuid
from typing import Any

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.http import errors  # type: ignore[import-untyped]

from gym_http_server.web.gunicorn_worker.client_socket import CutOff

_TOO_SLOW = "The request did not arrive within its time"
_EVICTED = "The server needed the connection before the request was complete"
_PROBLEM_JSON = "application/problem+json"

#: The first class that fits decides.
_KINDS: tuple[tuple[type[BaseException], int, str], ...] = (
    (CutOff, 408, "request-timeout"),
    (errors.InvalidResponseHeader, 500, "internal"),
    (errors.InvalidResponseHeaderName, 500, "internal"),
    (errors.ConfigurationProblem, 500, "internal"),
    (errors.LimitRequestLine, 414, "uri-too-long"),
    (errors.LimitRequestHeaders, 431, "headers-too-large"),
    (errors.ExpectationFailed, 417, "expectation-failed"),
    (errors.UnsupportedTransferCoding, 501, "transfer-coding"),
    (errors.ForbiddenProxyRequest, 403, "proxy-refused"),
    (errors.ParseException, 400, "malformed-request"),
)


def describe(request: Any, error: BaseException) -> dict[str, Any]:
    """Return the body of the answer to a request that ends in an error.

    Args:
        request: The request, or None if its head could not be read.
        error: The exception; details of internal errors are left out.
    """
    status, code = _classify(error)
    if isinstance(error, CutOff):
        detail = _EVICTED if error.evicted else _TOO_SLOW
    elif status == 500:
        detail = "The server failed while handling the request"
    else:
        detail = str(error) or "The request is malformed"
    return {
        "code": code,
        "detail": detail,
        "instance": getattr(request, "path", None) or "",
        "message": detail,
        "request_id": uuid.uuid4().hex,
        "status": status,
        "title": http.HTTPStatus(status).phrase,
        "type": f"urn:gym-http:{code}",
    }


def error_answer(request: Any, problem: dict[str, Any]) -> bytes:
    """Return the whole answer to a request that ends in an error.

    Args:
        request: The request, or None if its head could not be read.
        problem: What `describe` returned.
    """
    text = json.dumps(problem, sort_keys=True, separators=(",", ":"))
    body = text.encode() + b"\n"
    head = (
        f"HTTP/1.1 {problem['status']} {problem['title']}\r\n"
        f"Date: {util.http_date()}\r\n"
        "Connection: close\r\n"
        f"Content-Type: {_content_type(request)}\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"X-Request-Id: {problem['request_id']}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "\r\n"
    )
    bodyless = getattr(request, "method", None) == "HEAD"
    return head.encode("ascii") + (b"" if bodyless else body)


def _classify(error: BaseException) -> tuple[int, str]:
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            return status, code
    return 500, "internal"


def _content_type(request: Any) -> str:
    headers = getattr(request, "headers", None) or ()
    for name, value in headers:
        if name == "ACCEPT" and _PROBLEM_JSON in value.lower():
            return _PROBLEM_JSON
    return "application/json"
