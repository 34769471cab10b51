"""HTTP answers that are errors."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.making import Case
from tests.conformance.making.forms import compact

DESCRIPTION = (
    "Answers of HTTP to a POST with a key, the error that they are, and whether the "
    "request, which may be one that creates an instance, is sent again; where the "
    "message is null, it is the client's own"
)

#: Statuses after which a request with a key is sent again.
REPEATED = {408, 429, 503}

_API = Path(__file__).resolve().parents[3] / "docs" / "api.md"
_ROW = re.compile(r"^\| (\d{3}) \| `([a-z0-9-]+)` \|", re.MULTILINE)
_TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/home/ada/my_envs.py", line 12, in step\n'
    "    raise ValueError\n"
    "ValueError\n"
)
_JSON = {"content-type": "application/json"}
_HTML = {"content-type": "text/html"}


def codes() -> list[tuple[int, str]]:
    """List status and code of all errors in the table of docs/api.md."""
    rows = _ROW.findall(_API.read_text(encoding="utf-8"))
    return [(int(status), code) for status, code in rows]


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for status, code in codes():
        yield _problem(code, status, code, f"what the server says of {code}")
    # In other words of the same meaning.
    yield _problem("unknown-instance-404", 404, "unknown-instance", "Instance unknown")
    yield _problem("message-unicode", 502, "env-error", "\u73af\U0001f600 \u00e9\n")
    traced = _problem(
        "traceback", 502, "env-error", "the environment raised ValueError"
    )
    fields = {**json.loads(traced["body"]), "traceback": _TRACEBACK}
    yield {**traced, "body": compact(fields) + "\n", "traceback": _TRACEBACK}
    yield _problem("message-empty", 500, "internal", "")
    yield _problem("code-unknown", 400, "not-yet-thought-of", "a newer server's")
    yield _problem("status-unknown", 499, "odd", "an odd status")
    body = compact({"message": "m", "code": "internal", "status": 200})
    yield _case("status-in-body-differs", 500, _JSON, body, "internal", "m")
    long = "0123456789" * 200
    yield _problem("message-long", 400, "bad-parameter", long)
    yield from _of_creations()
    yield from _by_headers()
    yield from _no_codes()
    yield from _no_problems()


def _case(
    name: str,
    status: int,
    headers: dict[str, str],
    body: str,
    code: str | None,
    message: str | None,
) -> Case:
    kind = "protocol" if message is None else "api"
    expected = {"kind": kind, "status": status, "code": code, "message": message}
    return {
        "id": name,
        "status": status,
        "headers": headers,
        "body": body,
        "expected": expected,
        "retried": status in REPEATED,
    }


def _problem(name: str, status: int, code: str, words: str, **headers: str) -> Case:
    fields: dict[str, Any] = {
        "code": code,
        "detail": words,
        "documentation_url": "/openapi.json",
        "instance": "/v1/envs/3c657dbc/step/",
        "message": words,
        "request_id": "5f0c",
        "status": status,
        "title": "Title",
        "type": f"urn:gym-http:{code}",
    }
    if code == "env-error":
        fields |= {"error_type": "NotAnException", "mro": ["builtins.object"]}
        fields |= {"text": words, "arguments": [words]}
    body = compact(fields) + "\n"
    return _case(name, status, _JSON | headers, body, code, words)


def _of_creations() -> Iterator[Case]:
    """Yield the errors of creates, which share statuses."""
    final = _problem("creation-external-away", 503, "external-away", "none is free")
    yield {**final, "creates": True, "retried": False}
    for status, code in ((429, "too-many-instances"), (503, "supervisor-unavailable")):
        case = _problem(f"creation-{code}", status, code, "the server has no room")
        yield {**case, "creates": True}


def _by_headers() -> Iterator[Case]:
    problem = {"content-type": "application/problem+json"}
    yield _problem("problem-json", 409, "reset-needed", "reset first", **problem)
    charset = {"content-type": "application/json; charset=utf-8"}
    yield _problem("charset", 409, "reset-needed", "reset first", **charset)
    later = {"retry-after": "0"}
    yield _problem("retry-after", 503, "draining", "the server is stopping", **later)
    later = {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}
    yield _problem("retry-after-date", 429, "too-many-instances", "full", **later)


def _no_codes() -> Iterator[Case]:
    """Yield the errors of servers without error codes."""
    body = json.dumps({"message": "Instance_id x unknown"})
    yield _case("no-code", 400, _JSON, body, None, "Instance_id x unknown")
    body = json.dumps({"message": "m", "code": None})
    yield _case("code-null", 400, _JSON, body, None, "m")
    body = json.dumps({"message": "busy"})
    yield _case("no-code-retried", 503, _JSON, body, None, "busy")


def _no_problems() -> Iterator[Case]:
    """Yield errors of other programs, mostly proxies."""
    page = "<html><body><h1>502 Bad Gateway</h1></body></html>"
    yield _case("page-502", 502, _HTML, page, None, None)
    yield _case("page-503", 503, _HTML, page.replace("502", "503"), None, None)
    yield _case("page-404", 404, _HTML, page.replace("502", "404"), None, None)
    yield _case("page-500", 500, _HTML, "", None, None)
    yield _case("empty-500", 500, {}, "", None, None)
    yield _case("empty-401", 401, {}, "", None, None)
    yield _case("text-400", 400, {"content-type": "text/plain"}, "no", None, None)
    yield _case("json-list", 400, _JSON, "[]", None, None)
    yield _case("json-string", 500, _JSON, '"failed"', None, None)
    yield _case("json-null", 500, _JSON, "null", None, None)
    yield _case("json-cut", 500, _JSON, '{"message": "cut', None, None)
    yield _case("json-no-message", 500, _JSON, '{"error": "failed"}', None, None)
    there = {"location": "https://elsewhere.example/"}
    for status in (301, 302, 307, 308):
        yield _case(f"redirect-{status}", status, there, "", None, None)
