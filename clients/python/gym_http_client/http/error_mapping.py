"""Error mapping: converts failures and a server's problems to exceptions."""

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
    refusal,
)
from gym_http_client.http.http1 import Reply
from gym_http_wire.problems import UnrepresentableValue
from gym_http_wire.values.infos import first_unsent

__all__ = [
    "error_from_problem",
    "error_from_reply",
    "expect_object",
    "json_object",
    "parse_object",
    "refuse_unsent",
    "sender_of",
    "unanswered_error",
]

#: Errors of OpenSSL for an answer without TLS.
_TLS_ERRORS_OF_PLAIN_TEXT = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
_MAX_DEPTH = 8
# Maximum of bytes and characters that a server left out, for all parts of an error
# together. They are replaced by filler, so that positions are right.
_MAX_OFFSETS = 2**24
_MODULES = {"builtins": builtins, "gymnasium.error": gymnasium.error}


def unanswered_error(
    failure: Failure,
    method: str,
    url: str,
    key: str | None,
    count: int,
    last_reason: str = "",
) -> ServerError:
    """Return the error to raise when a request got no answer.

    Args:
        failure: Why the last try failed.
        method: HTTP method of the request.
        url: URL of the request.
        key: Its ``Idempotency-Key``, if it had one.
        count: Number of tries.
        last_reason: Why the last try failed that did not just time out.
    """
    if failure.kind is FailureKind.MISTAKEN:
        return UnexpectedAnswer(f"{url} cannot be requested: {failure}", url=url)
    if failure.kind is FailureKind.MALFORMED:
        words = f"The answer of {url} is malformed, {failure}"
        return UnexpectedAnswer(f"{words}: is it a gym_http_server?", url=url)
    timeout = failure.kind is FailureKind.TIMEOUT
    words = f"{method} {url} had no answer: {failure}"
    words += f"; before that: {last_reason}" if timeout and last_reason else ""
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


def parse_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object; an empty one if the bytes are not a JSON object."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def json_object(reply: Reply) -> dict[str, Any]:
    """Return the JSON object in an answer's body; an empty one if it has none."""
    return parse_object(reply.body)


def expect_object(reply: Reply, url: str) -> dict[str, Any]:
    """Return the JSON object of an answer with status 200.

    Args:
        reply: The answer.
        url: URL of the request.

    Raises:
        Exception: The result of `error_from_reply`, for any other answer.
    """
    found = json_object(reply)
    if reply.status == 200 and found:
        return found
    raise error_from_reply(reply, url)


def error_from_reply(reply: Reply, url: str) -> Exception:
    """Return the exception to raise for an unexpected answer.

    Args:
        reply: The answer.
        url: URL of the request.
    """
    problem = json_object(reply)
    if isinstance(problem.get("message"), str):
        return error_from_problem(problem, reply.status, url)
    return UnexpectedAnswer(
        f"{url} answered with status {reply.status} without a reason; "
        + sender_of(reply),
        reply.status,
        url=url,
    )


def sender_of(reply: Reply) -> str:
    """Return the question where an answer came from that no server of this API sends.

    Args:
        reply: The answer.
    """
    if not reply.proxy:
        return "is it a gym_http_server?"
    return (
        f"the request went through the proxy {reply.proxy}: did the proxy answer? "
        "The environment variable NO_PROXY names servers to reach without it"
    )


def error_from_problem(problem: dict[str, Any], status: int, url: str) -> Exception:
    """Return the exception to raise for a problem.

    Args:
        problem: The problem's JSON object.
        status: HTTP status of the answer.
        url: URL of the request.

    Returns:
        For an exception of the environment: an exception with the same text, of the
        nearest class that is built in or Gymnasium's. Its cause is a `ServerError`. For
        other problems, the `ServerError`. Either has the server's traceback as a note.
    """
    error = _mapped_error(problem, status, url)
    add_notes(error, problem)
    return error


def _mapped_error(problem: dict[str, Any], status: int, url: str) -> Exception:
    message, code = problem.get("message"), problem.get("code")
    if not isinstance(message, str):
        message = f"the server answered {status}"
    if not isinstance(code, str):
        code = None
    error = refusal(message, status, code=code, url=url, body=problem)
    if code == "reset-needed":
        return _with_cause(gymnasium.error.ResetNeeded(message), error)
    if code == "invalid-action":
        return _with_cause(gymnasium.error.InvalidAction(message), error)
    if code == "no-attribute":
        return _with_cause(AttributeError(message), error)
    found = _ExceptionReader().rebuild(problem)
    return error if found is None else _with_cause(found, error)


def refuse_unsent(info: Any, url: str) -> None:
    """Check that an info has all values that the environment has put into it.

    Raises:
        ServerError: `Unsent` stands for one.
    """
    if found := first_unsent(info):
        problem = UnrepresentableValue(f"{found}; without strict_infos it is Unsent")
        body = {"code": problem.code, "message": problem.message}
        raise error_from_problem(body, problem.status, url)


class _ExceptionReader:
    """Rebuilds the exceptions that one problem describes, within memory limits."""

    def __init__(self) -> None:
        # A server states how much it left out, and the filler takes as much memory.
        self._offsets_left = _MAX_OFFSETS

    def rebuild(self, problem: dict[str, Any], depth: int = 1) -> Exception | None:
        """Make an exception of the nearest known class, or return ``None``."""
        text = problem.get("text")
        arguments: list[Any] = [text if isinstance(text, str) else ""]
        given, classes = problem.get("arguments"), problem.get("mro")
        if isinstance(given, list):
            with contextlib.suppress(KeyError, TypeError, ValueError):
                arguments = [self._argument(each, depth) for each in given]
        for name in classes if isinstance(classes, list) else ():
            module, _, kind = (
                name.rpartition(".") if isinstance(name, str) else ("",) * 3
            )
            found = getattr(_MODULES.get(module), kind, None)
            if isinstance(found, type) and issubclass(found, Exception):
                # Some classes need arguments other than a text, or raise other
                # exceptions.
                with contextlib.suppress(Exception):
                    return found(*arguments)
        return None

    def _argument(self, given: Any, depth: int) -> Any:
        """Read an argument as `gym_http_core.env_errors` writes it.

        Raises:
            KeyError, TypeError, ValueError: The argument is malformed.
        """
        if isinstance(given, list):
            if depth > _MAX_DEPTH:
                raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
            return [self._argument(each, depth + 1) for each in given]
        if not isinstance(given, dict):
            return given
        if "error" in given:
            inner = given["error"]
            if depth > _MAX_DEPTH or not isinstance(inner, dict):
                raise ValueError("error is not an object, or nested too deep")
            made = self.rebuild(inner, depth + 1)
            return Exception(inner["text"]) if made is None else made
        offset = self._offset(given["offset"])
        if "text" in given:
            text = base64.b64decode(given["text"], validate=True).decode(
                "utf-8", "surrogatepass"
            )
            return "?" * offset + text
        return bytes(offset) + base64.b64decode(given["bytes"], validate=True)

    def _offset(self, offset: Any) -> int:
        if type(offset) is not int or not 0 <= offset <= self._offsets_left:
            raise ValueError("offset is not a number, or beyond the limit of its error")
        self._offsets_left -= offset
        return offset


def _with_cause(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error
