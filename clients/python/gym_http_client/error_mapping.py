"""Error mapping: failures and problems of a server as the exceptions to raise."""

from __future__ import annotations

import base64
import builtins
import contextlib
import json
from typing import Any

import gymnasium

from gym_http_client.errors import (
    Failure,
    FailureKind,
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    UnexpectedAnswer,
    add_notes,
)
from gym_http_client.http1 import Reply

__all__ = [
    "error_from_problem",
    "error_from_reply",
    "expect_object",
    "json_object",
    "unanswered_error",
]

#: What OpenSSL says of an answer without TLS.
_TLS_ERRORS_OF_PLAIN_TEXT = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
_MAX_DEPTH = 8
# Of what a server left out of a file, so that positions are right.
_MAX_OFFSET = 2**24
_MODULES = {"builtins": builtins, "gymnasium.error": gymnasium.error}


def unanswered_error(
    failure: Failure,
    method: str,
    url: str,
    key: str | None,
    count: int,
    heard: str = "",
) -> ServerError:
    """Give the error to raise when a request brought no answer.

    Args:
        failure: What the last try failed of.
        method: The request's.
        url: Where it went.
        key: Its ``Idempotency-Key``, if it had one.
        count: How often it was sent, or tried to be.
        heard: What came of the last try that did not just take too long, in words.
    """
    if failure.kind is FailureKind.MISTAKEN:
        return UnexpectedAnswer(f"{url} cannot be asked: {failure}", url=url)
    if failure.kind is FailureKind.MALFORMED:
        words = f"The answer of {url} is malformed, {failure}"
        return UnexpectedAnswer(f"{words}: is it a gym_http_server?", url=url)
    timeout = failure.kind is FailureKind.TIMEOUT
    words = f"{method} {url} had no answer: {failure}"
    words += f"; before that: {heard}" if timeout and heard else ""
    details = [f"after {count} attempts"] if count > 1 else []
    details += [f"Idempotency-Key {key}"] if key else []
    words += f" ({', '.join(details)})" if details else ""
    if failure.kind is FailureKind.ABSENT:
        words += ": is a gym_http_server running there?"
    if any(reason in str(failure) for reason in _TLS_ERRORS_OF_PLAIN_TEXT):
        words += ": if the server does not speak TLS, its address begins with http://"
    error = (ServerTimeout if timeout else ServerUnreachable)(words, url=url)
    error.key = key
    error.attempts = count
    return error


def json_object(reply: Reply) -> dict[str, Any]:
    """Give the JSON object of an answer; an empty one if there is none in it."""
    try:
        told = json.loads(reply.body)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def expect_object(reply: Reply, url: str) -> dict[str, Any]:
    """Give the JSON object of an answer that gives what was asked for.

    Args:
        reply: The answer.
        url: Where the request went.

    Raises:
        Exception: As of `error_from_reply`, if it does not.
    """
    told = json_object(reply)
    if reply.status == 200 and told:
        return told
    raise error_from_reply(reply, url)


def error_from_reply(reply: Reply, url: str) -> Exception:
    """Give the exception to raise for an answer that does not give what was asked for.

    Args:
        reply: The answer.
        url: Where the request went.
    """
    told = json_object(reply)
    if "message" in told:
        return error_from_problem(told, reply.status, url)
    return UnexpectedAnswer(
        f"{url} answered with status {reply.status} and no word of why; "
        "is it a gym_http_server?",
        reply.status,
        url=url,
    )


def error_from_problem(problem: dict[str, Any], status: int, url: str) -> Exception:
    """Give the exception to raise for a problem.

    Args:
        problem: The problem's JSON object.
        status: HTTP status of the answer.
        url: Where the request went.

    Returns:
        The nearest class of the environment's exception that is built in or
        Gymnasium's, with the same text, and with a `ServerError` as its cause. Without
        such an exception, the `ServerError`. The traceback on the server is a note of
        either.
    """
    error = _mapped_error(problem, status, url)
    add_notes(error, problem)
    return error


def _mapped_error(problem: dict[str, Any], status: int, url: str) -> Exception:
    message = str(problem.get("message", f"the server answered {status}"))
    code = problem.get("code")
    error = ServerError(message, status, code=code, url=url, body=problem)
    if code == "reset-needed":
        return _with_cause(gymnasium.error.ResetNeeded(message), error)
    if code == "invalid-action":
        return _with_cause(gymnasium.error.InvalidAction(message), error)
    if code == "no-attribute":
        return _with_cause(AttributeError(message), error)
    found = _rebuild_exception(problem)
    return error if found is None else _with_cause(found, error)


def _rebuild_exception(problem: dict[str, Any], depth: int = 1) -> Exception | None:
    """Make an exception of the nearest class that is here, or return ``None``."""
    text = problem.get("text", "")
    arguments, given = [text], problem.get("arguments")
    if isinstance(given, list):
        with contextlib.suppress(KeyError, TypeError, ValueError):
            arguments = _read_argument(given, depth)
    for name in problem.get("mro", ()):
        module, _, kind = str(name).rpartition(".")
        found = getattr(_MODULES.get(module), kind, None)
        if isinstance(found, type) and issubclass(found, Exception):
            try:
                return found(*arguments)
            except (TypeError, ValueError):
                continue  # it wants other arguments than a text
    return None


def _read_argument(given: Any, depth: int) -> Any:
    """Read an argument as `gym_http_core.env_errors` writes it.

    Raises:
        KeyError, TypeError, ValueError: It is malformed.
    """
    if isinstance(given, list):
        return [_read_argument(each, depth) for each in given]
    if not isinstance(given, dict):
        return given
    if "error" in given:
        inner = given["error"]
        if depth > _MAX_DEPTH or not isinstance(inner, dict):
            raise ValueError(f"error is {inner!r:.80}")
        made = _rebuild_exception(inner, depth + 1)
        return Exception(inner["text"]) if made is None else made
    offset = given["offset"]
    if not isinstance(offset, int) or not 0 <= offset <= _MAX_OFFSET:
        raise ValueError(f"offset is {offset!r:.80}")
    if "text" in given:
        text = base64.b64decode(given["text"], validate=True).decode(
            "utf-8", "surrogatepass"
        )
        return "?" * offset + text
    return bytes(offset) + base64.b64decode(given["bytes"], validate=True)


def _with_cause(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error
