"""Exceptions of the client, and failures of single exchanges.

::

    ServerError                  the server refuses; the error has the reason
     ├─ ServerUnreachable        no answer: refused, cut off    (ConnectionError)
     │   └─ ServerTimeout        no answer within the time limit        (Timeout)
     ├─ AttributeNotSent         a value that cannot be sent     (AttributeError)
     ├─ NotRealTime              the instance has no clock
     ├─ Paused                   its clock is paused
     ├─ WorldEnded               all its episodes have ended
     └─ UnexpectedAnswer         an answer of another program     (HTTPError)

The name in brackets is a further base class, from ``requests`` or Python. An agent that
catches these exceptions, as agents of gym-http-api do, catches ours.
"""

from __future__ import annotations

import socket
from enum import Enum
from typing import Any, Self

import requests

__all__ = [
    "ABSENT",
    "AttributeNotSent",
    "Failure",
    "FailureKind",
    "NotRealTime",
    "Paused",
    "ServerError",
    "ServerTimeout",
    "ServerUnreachable",
    "UnexpectedAnswer",
    "WorldEnded",
    "add_notes",
    "refusal",
]

_NOTES = {
    "traceback": "The traceback on the server",
    "log_tail": "The output of the environment on the server",
}
_UNREGISTERED = ("gymnasium.error.NameNotFound", "gymnasium.error.NamespaceNotFound")
_IMPORTED = (
    "An import in this program does not register environments on the server: start it "
    "with --import and the module or file, as --import minigrid or --import my_envs.py."
)
_UNAUTHORIZED = (
    "In Python, set the environment variable GHS_TOKEN, or pass "
    "Server(url, token=TOKEN) in place of the URL. RemoteEnv passes an argument token "
    "to the environment."
)
#: Errors of the system if no server listens: the port is closed, the Unix socket does
#: not exist, or the host has no address.
ABSENT = (ConnectionRefusedError, FileNotFoundError, socket.gaierror)


class ServerError(Exception):
    """The server did not carry out a request.

    Args:
        message: A description of the error.
        status_code: HTTP status of the answer; None if there was no answer.
        code: Short name of the problem that programs compare, such as
            ``"unknown-instance"``; None if the answer has none.
        url: URL of the request.
        body: The answer: an object if it was JSON, else text; None if there was no
            answer.
    """

    def __init__(
        self,
        message: str,
        status_code: int | None = None,
        *,
        code: str | None = None,
        url: str | None = None,
        body: Any = None,
    ) -> None:
        # Unpickling, as of an error from a worker process, calls `__init__` with
        # `args` only, and then restores the attributes.
        super().__init__(message)
        self.message = message
        self.status_code = status_code
        self.code = code
        self.url = url
        self.body = body

    @property
    def traceback(self) -> str:
        """Traceback of the environment's exception on the server; "" without one."""
        found = self.body.get("traceback") if isinstance(self.body, dict) else None
        return found if isinstance(found, str) else ""

    def __str__(self) -> str:
        known = [str(part) for part in (self.status_code, self.code) if part]
        return f"{self.message} ({', '.join(known)})" if known else self.message


class ServerUnreachable(ServerError, requests.ConnectionError):
    """The server did not answer, so it is unknown whether it executed the request.

    Attributes:
        key: The request's ``Idempotency-Key``, if it had one. The server does not
            execute a request with the same key twice.
        attempts: Number of tries to send the request.
    """

    key: str | None = None
    attempts: int = 1


class ServerTimeout(ServerUnreachable, requests.Timeout):
    """The server did not answer within the time limit."""


class UnexpectedAnswer(ServerError, requests.HTTPError):
    """The answer is not from a gym_http_server, but often from a proxy."""


class AttributeNotSent(ServerError, AttributeError):
    """The environment has the attribute, but its value cannot be encoded."""

    @classmethod
    def of(cls, name: str, error: ServerError) -> AttributeNotSent:
        """Return the error for an attribute whose value the server could not send."""
        return cls(
            f"the attribute {name} exists on the server and cannot be sent from there: "
            f"{error.message}; code that needs it, as a wrapper, has to run on the "
            "server",
            error.status_code,
            code=error.code,
            url=error.url,
            body=error.body,
        )


class NotRealTime(ServerError):
    """The call needs a clock, and the instance was created without ``realtime``."""


class Paused(ServerError):
    """The clock of the instance is paused; ``resume`` or ``reset`` continues it."""


class WorldEnded(ServerError):
    """All episodes of the instance have ended, as its ``realtime`` has requested."""


_KINDS: dict[str | None, type[ServerError]] = {
    "not-real-time": NotRealTime,
    "paused": Paused,
    "world-ended": WorldEnded,
}


def refusal(
    message: str, status: int, *, code: str | None, url: str, body: Any
) -> ServerError:
    """Return the error of a problem: a `ServerError`, or the subclass of its code."""
    kind = _KINDS.get(code, ServerError)
    return kind(message, status, code=code, url=url, body=body)


def add_notes(error: Exception, problem: dict[str, Any]) -> None:
    """Add the traceback, the output and the cure of a problem to an error, as notes.

    Args:
        error: The error; Python prints its notes with the traceback.
        problem: The problem's JSON object, with ``traceback``, ``log_tail`` or neither.
    """
    for name, title in _NOTES.items():
        text = problem.get(name)
        if isinstance(text, str) and text:
            error.add_note(f"\n{title}:\n{text.rstrip()}")
    if problem.get("error_type") in _UNREGISTERED:
        error.add_note(_IMPORTED)
    if problem.get("code") == "unauthorized":
        error.add_note(_UNAUTHORIZED)


class FailureKind(Enum):
    """Why an exchange failed."""

    #: No server listens at the address.
    ABSENT = "absent"
    #: There was no connection, or it ended before the answer was whole.
    LOST = "lost"
    #: A connection that was kept from an earlier exchange had ended meanwhile.
    STALE = "stale"
    #: The answer was not whole within the time limit.
    TIMEOUT = "timeout"
    #: The server's certificate is not trusted.
    UNTRUSTED = "untrusted"
    #: The answer is not HTTP, or is too large.
    MALFORMED = "malformed"
    #: The server closed the stream because the message was too large for it.
    TOO_LARGE = "too large"
    #: The port is a server's, and of another kind.
    MISTAKEN = "mistaken"


class Failure(Exception):
    """An exchange failed without an answer.

    Args:
        kind: Why it failed.
        reason: A description of the cause.
    """

    def __init__(self, kind: FailureKind, reason: object) -> None:
        super().__init__(str(reason))
        self.kind = kind

    @classmethod
    def of(cls, error: OSError) -> Self:
        """Convert an error of a connection that could not be opened, or was lost."""
        if isinstance(error, TimeoutError):
            return cls(FailureKind.TIMEOUT, error)
        absent = isinstance(error, ABSENT)
        return cls(FailureKind.ABSENT if absent else FailureKind.LOST, error)
