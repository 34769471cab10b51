"""Problems as HTTP answers: RFC 9457, with the ``message`` that old clients read."""

from __future__ import annotations

import http

import msgspec

from gym_http_server.access.identities import CREATE, STEP
from gym_http_server.errors import UnknownInstance
from gym_http_server.web.api.exchange import (
    CALLER,
    JSON,
    REQUEST_ID,
    Answer,
    Environ,
    request_id_of,
)
from gym_http_wire.problems import Problem

__all__ = ["problem_answer"]

PROBLEM_JSON = "application/problem+json"
_RETRY = {429: "1", 503: "1"}
# Scopes of callers that use instances; a traceback shows their code.
_MAY_SEE_CODE = frozenset({CREATE, STEP})
#: Members with frames of the environment's code.
_CODE = ("log_tail", "traceback")


def problem_answer(problem: Problem, environ: Environ) -> Answer:
    """Turn a problem into the answer to a request."""
    modern = PROBLEM_JSON in environ.get("HTTP_ACCEPT", "").lower()
    status = problem.status
    if modern and problem.code == UnknownInstance.default_code:
        status = 404
    extras = dict(problem.extras)
    caller = environ.get(CALLER)
    if caller is not None and not caller.may(_MAY_SEE_CODE):
        for name in _CODE:
            extras.pop(name, None)
    body = {
        **extras,
        "code": problem.code,
        "detail": problem.message,
        # Without it, the R client shows no error at all.
        "documentation_url": "/openapi.json",
        "instance": environ.get("PATH_INFO", ""),
        "message": problem.message,
        "request_id": request_id_of(environ),
        "status": status,
        "title": http.HTTPStatus(status).phrase,
        "type": f"urn:gym-http:{problem.code}",
    }
    headers = [
        ("Content-Type", PROBLEM_JSON if modern else JSON),
        (REQUEST_ID, body["request_id"]),
    ]
    headers += problem.headers.items()
    if status in _RETRY and "Retry-After" not in problem.headers:
        headers.append(("Retry-After", _RETRY[status]))
    return Answer(status, headers, msgspec.json.encode(body, order="sorted") + b"\n")
