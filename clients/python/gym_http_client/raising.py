"""What the server tells of a problem, raised as a local environment would raise it."""

from __future__ import annotations

import base64
import builtins
import contextlib
import json
from typing import Any

import gymnasium

from gym_http_client.errors import ServerError, UnexpectedAnswer, add_notes
from gym_http_client.http1 import Reply

__all__ = ["object_in", "raised", "refusal", "told_by"]

_MAX_DEPTH = 8
# Of what a server left out of a file, so that positions are right.
_MAX_OFFSET = 2**24
_MODULES = {"builtins": builtins, "gymnasium.error": gymnasium.error}


def told_by(reply: Reply) -> dict[str, Any]:
    """Give the JSON object of an answer; an empty one if there is none in it."""
    try:
        told = json.loads(reply.body)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def object_in(reply: Reply, url: str) -> dict[str, Any]:
    """Give the JSON object of an answer that gives what was asked for.

    Args:
        reply: The answer.
        url: Where the request went.

    Raises:
        Exception: As of `refusal`, if it does not.
    """
    told = told_by(reply)
    if reply.status == 200 and told:
        return told
    raise refusal(reply, url)


def refusal(reply: Reply, url: str) -> Exception:
    """Give the exception to raise for an answer that does not give what was asked for.

    Args:
        reply: The answer.
        url: Where the request went.
    """
    told = told_by(reply)
    if "message" in told:
        return raised(told, reply.status, url)
    return UnexpectedAnswer(
        f"{url} answered with status {reply.status} and no word of why; "
        "is it a gym_http_server?",
        reply.status,
        url=url,
    )


def raised(problem: dict[str, Any], status: int, url: str) -> Exception:
    """Give the exception to raise for a problem.

    Args:
        problem: The problem's JSON object.
        status: HTTP status of the answer.
        url: Where the request went.

    Returns:
        Where the environment raised: the nearest class of that exception that is
        built in or Gymnasium's, with the same text, and with a `ServerError` as its
        cause. Else the `ServerError`. The traceback on the server, if the server tells
        it, is a note of either.
    """
    error = _raised(problem, status, url)
    add_notes(error, problem)
    return error


def _raised(problem: dict[str, Any], status: int, url: str) -> Exception:
    message = str(problem.get("message", f"the server answered {status}"))
    code = problem.get("code")
    error = ServerError(message, status, code=code, url=url, body=problem)
    if code == "reset-needed":
        return _caused(gymnasium.error.ResetNeeded(message), error)
    if code == "invalid-action":
        return _caused(gymnasium.error.InvalidAction(message), error)
    if code == "no-attribute":
        return _caused(AttributeError(message), error)
    found = _made_again(problem)
    return error if found is None else _caused(found, error)


def _made_again(problem: dict[str, Any], depth: int = 1) -> Exception | None:
    """Make an exception of the nearest class that is here, or return ``None``."""
    text = problem.get("text", "")
    arguments, given = [text], problem.get("arguments")
    if isinstance(given, list):
        with contextlib.suppress(KeyError, TypeError, ValueError):
            arguments = _read(given, depth)
    for name in problem.get("mro", ()):
        module, _, kind = str(name).rpartition(".")
        found = getattr(_MODULES.get(module), kind, None)
        if isinstance(found, type) and issubclass(found, Exception):
            try:
                return found(*arguments)
            except (TypeError, ValueError):
                continue  # it wants other arguments than a text
    return None


def _read(given: Any, depth: int) -> Any:
    """Read an argument as `gym_http_core.env_errors` writes it.

    Raises:
        KeyError, TypeError, ValueError: It is malformed.
    """
    if isinstance(given, list):
        return [_read(each, depth) for each in given]
    if not isinstance(given, dict):
        return given
    if "error" in given:
        inner = given["error"]
        if depth > _MAX_DEPTH or not isinstance(inner, dict):
            raise ValueError(f"error is {inner!r:.80}")
        made = _made_again(inner, depth + 1)
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


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error
