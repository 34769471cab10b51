"""Problems: the errors that a request can have, with status and code.

::

    Problem
     ├─ BadJSON, MissingParameter, BadParameter, InvalidAction      400
     ├─ NoAttribute                                                 404
     ├─ NotAcceptable                                               406
     ├─ ResetNeeded, NoRenderMode, MonitorActive                    409
     ├─ DependencyMissing, UnsupportedSpace, Unsupported,
     │  UnrepresentableValue                                        501
     ├─ EnvError, AnswerTooLarge, BadAnswer, OutcomeUnknown         502
     ├─ ExternalAway, TooManyStreams                                503
     ├─ ExternalDeadline                                            504
     └─ DiskFull                                                    507

Hosts raise these. The server has further ones in ``gym_http_server.errors``. On HTTP
they have the form of RFC 9457.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AnswerTooLarge",
    "BadAnswer",
    "BadJSON",
    "BadParameter",
    "DependencyMissing",
    "DiskFull",
    "EnvError",
    "ExternalAway",
    "ExternalDeadline",
    "InvalidAction",
    "MissingParameter",
    "MonitorActive",
    "NoAttribute",
    "NoRenderMode",
    "NotAcceptable",
    "OutcomeUnknown",
    "Problem",
    "ResetNeeded",
    "TooManyStreams",
    "UnrepresentableValue",
    "Unsupported",
    "UnsupportedSpace",
]


class Problem(Exception):
    """A request that cannot be fulfilled.

    Args:
        message: The error, the value, and the expected value.
        status: HTTP status; the class's own unless given.
        code: Short name that programs compare; the class's own unless given.
        extras: Further members of the problem's JSON object.
        headers: HTTP headers that belong to the answer.
    """

    default_status: ClassVar[int] = 500
    default_code: ClassVar[str] = "internal"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        extras: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        # Texts of environments may have lone surrogates, which JSON does not have.
        self.message = message.encode("utf-8", "backslashreplace").decode()
        super().__init__(self.message)
        self.status = self.default_status if status is None else status
        self.code = self.default_code if code is None else code
        self.extras = extras or {}
        self.headers = headers or {}


class BadJSON(Problem):
    """The body is not the JSON object that the route needs."""

    default_status, default_code = 400, "bad-json"

    def __init__(self, why: str = "") -> None:
        # Old clients' tests look for these words.
        super().__init__("Request is not a valid json" + (f": {why}" if why else ""))


class MissingParameter(Problem):
    """A parameter is absent, null, an empty string or an empty list."""

    default_status, default_code = 400, "missing-parameter"

    def __init__(self, name: str) -> None:
        # Old clients' tests look for these words.
        super().__init__(f"A required request parameter '{name}' was not provided")


class BadParameter(Problem):
    """A parameter has a value that it cannot have."""

    default_status, default_code = 400, "bad-parameter"


class InvalidAction(Problem):
    """The action is none of the action space; the environment did not see it."""

    default_status, default_code = 400, "invalid-action"


class NoAttribute(Problem):
    """The environment has no such attribute, or it is private."""

    default_status, default_code = 404, "no-attribute"


class NotAcceptable(Problem):
    """What there is cannot be given as any of the accepted media types."""

    default_status, default_code = 406, "not-acceptable"


class ResetNeeded(Problem):
    """The environment wants a reset before this."""

    default_status, default_code = 409, "reset-needed"


class NoRenderMode(Problem):
    """The instance was created without a render mode."""

    default_status, default_code = 409, "no-render-mode"


class MonitorActive(Problem):
    """The instance is being monitored already."""

    default_status, default_code = 409, "monitor-active"


class DependencyMissing(Problem):
    """The environment needs a package that the server does not have."""

    default_status, default_code = 501, "dependency-missing"


class UnsupportedSpace(Problem):
    """The space is of a class that cannot be described."""

    default_status, default_code = 501, "unsupported-space"


class UnrepresentableValue(Problem):
    """A value in the answer has no representation in the requested form."""

    default_status, default_code = 501, "unsupported-value"


class EnvError(Problem):
    """The environment raised an exception."""

    default_status, default_code = 502, "env-error"


class TooManyStreams(Problem):
    """The instance has as many streams as it can have."""

    default_status, default_code = 503, "too-many-streams"

    def __init__(self, limit: int, what: str = "streams") -> None:
        super().__init__(
            f"the instance has {limit} {what}, the most that it can have; close one"
        )


class AnswerTooLarge(Problem):
    """The answer is over the limit of the server."""

    default_status, default_code = 502, "answer-too-large"


class Unsupported(Problem):
    """An environment that lives elsewhere said that it cannot do this."""

    default_status, default_code = 501, "unsupported"


class BadAnswer(Problem):
    """What an environment that lives elsewhere answered is no answer to this."""

    default_status, default_code = 502, "bad-answer"


class OutcomeUnknown(Problem):
    """The environment's connection was lost in this call, and it cannot say more."""

    default_status, default_code = 502, "outcome-unknown"


class ExternalAway(Problem):
    """No environment that lives elsewhere is connected for this, or not just now."""

    default_status, default_code = 503, "external-away"


class ExternalDeadline(Problem):
    """An environment that lives elsewhere did not answer in time."""

    default_status, default_code = 504, "external-deadline"


class DiskFull(Problem):
    """The server cannot store what it was asked to."""

    default_status, default_code = 507, "disk-full"
