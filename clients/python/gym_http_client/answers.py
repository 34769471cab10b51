"""Answers: what a server says in JSON, as a value or as an error."""

from __future__ import annotations

import json
from typing import Any

import requests

from gym_http_client.errors import ServerError, UnexpectedAnswer, add_notes

__all__ = ["error_in", "unexpected", "value_of"]


def value_of(response: requests.Response) -> Any:
    """Give the JSON value of an answer; None when it is empty.

    Raises:
        UnexpectedAnswer: It is no JSON.
    """
    if not response.content:
        return None
    try:
        return json.loads(response.content)
    except ValueError:
        raise unexpected(response, "is not JSON") from None


def error_in(response: requests.Response) -> ServerError:
    """Give the error that an answer tells of; UnexpectedAnswer if it tells of none."""
    try:
        body = json.loads(response.content)
        message = body["message"]
    except (ValueError, LookupError, TypeError):
        where = response.headers.get("Location")
        return unexpected(response, f"leads to {where}" if where else "has no message")
    error = ServerError(
        str(message),
        response.status_code,
        code=body.get("code"),
        url=response.url,
        body=body,
    )
    add_notes(error, body)
    return error


def unexpected(response: requests.Response, why: str) -> UnexpectedAnswer:
    """Return the error that an answer is not what a server answers.

    Args:
        response: The answer.
        why: What is wrong, as in "is not JSON".
    """
    error = UnexpectedAnswer(
        f"The answer of {response.url} {why}: is it a gym_http_server?",
        response.status_code,
        url=response.url,
        body=response.text,
    )
    error.response = response
    return error
