"""Problems: the errors that answer a request, each with its status and code.

::

    Problem                                                         500
     ├─ BadJSON, MissingParameter, BadParameter, InvalidAction      400
     ├─ NoAttribute                                                 404
     ├─ NotAcceptable                                               406
     ├─ ResetNeeded, NoRenderMode, MonitorActive, AnswerGone,
 │  NotRealTime, Paused, WorldEnded                             409
     ├─ KeyReused                                                   422
     ├─ UpgradeRequired                                             426
     ├─ DependencyMissing, UnsupportedSpace, Unsupported,
     │  UnrepresentableValue                                        501
     ├─ EnvError, AnswerTooLarge, BadAnswer, OutcomeUnknown         502
     ├─ ExternalAway, TooManyStreams                                503
     ├─ ExternalDeadline                                            504
     └─ DiskFull                                                    507

Environments and their hosts raise these. ``gym_http_server.errors`` has the problems
of the server. On HTTP, a problem is written as in RFC 9457.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AnswerGone",
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
    "KeyReused",
    "MissingParameter",
    "MonitorActive",
    "NoAttribute",
    "NoRenderMode",
    "NotAcceptable",
    "NotRealTime",
    "OutcomeUnknown",
    "Paused",
    "Problem",
    "ResetNeeded",
    "TooManyStreams",
    "UnrepresentableValue",
    "Unsupported",
    "UnsupportedSpace",
    "UpgradeRequired",
    "WorldEnded",
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
    """The action is not in the action space; the environment did not see it."""

    default_status, default_code = 400, "invalid-action"


class NoAttribute(Problem):
    """The environment has no such attribute, or it is private."""

    default_status, default_code = 404, "no-attribute"


class NotAcceptable(Problem):
    """The answer has no representation in an accepted media type."""

    default_status, default_code = 406, "not-acceptable"


class ResetNeeded(Problem):
    """The environment needs a reset before this call."""

    default_status, default_code = 409, "reset-needed"


class NoRenderMode(Problem):
    """The instance was created without a render mode."""

    default_status, default_code = 409, "no-render-mode"


class MonitorActive(Problem):
    """The instance is being monitored already."""

    default_status, default_code = 409, "monitor-active"


class AnswerGone(Problem):
    """The request, or a later one, was executed, and its answer is no longer kept."""

    default_status, default_code = 409, "answer-gone"


class NotRealTime(Problem):
    """The instance was created without real time, and has no clock."""

    default_status, default_code = 409, "not-real-time"


class Paused(Problem):
    """The clock of the instance is paused."""

    default_status, default_code = 409, "paused"


class WorldEnded(Problem):
    """All episodes of the instance have ended."""

    default_status, default_code = 409, "world-ended"


class KeyReused(Problem):
    """The idempotency key was used for another request."""

    default_status, default_code = 422, "key-reused"


class UpgradeRequired(Problem):
    """The request for a stream lacks the headers that begin a WebSocket."""

    default_status, default_code = 426, "upgrade-required"


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
    """The instance has reached its limit of streams or of watchers."""

    default_status, default_code = 503, "too-many-streams"

    def __init__(
        self, limit: int, what: str = "streams", whose: str = "the instance"
    ) -> None:
        super().__init__(
            f"{whose} has {limit} {what}, the most that it can have; close one"
        )


class AnswerTooLarge(Problem):
    """The answer is over the limit of the server."""

    default_status, default_code = 502, "answer-too-large"


class Unsupported(Problem):
    """An external environment does not support this."""

    default_status, default_code = 501, "unsupported"


class BadAnswer(Problem):
    """An external environment sent an invalid answer."""

    default_status, default_code = 502, "bad-answer"


class OutcomeUnknown(Problem):
    """The connection to the environment was lost, and so the outcome of this call."""

    default_status, default_code = 502, "outcome-unknown"


class ExternalAway(Problem):
    """No external environment is connected for this at the moment."""

    default_status, default_code = 503, "external-away"


class ExternalDeadline(Problem):
    """An external environment did not answer in time."""

    default_status, default_code = 504, "external-deadline"


class DiskFull(Problem):
    """The server has no room on its disk."""

    default_status, default_code = 507, "disk-full"
