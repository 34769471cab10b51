"""What can go wrong in the server, beside what can go wrong with an environment.

::

    StartError                    the command cannot start, or its options are wrong
     └─ SettingError
    Problem                       an answer to a request (gym_http_wire.problems)
     ├─ UnknownEnv, UnknownInstance, BodyIncomplete  400
     ├─ Unauthorized, TicketRefused                  401
     ├─ HostRefused, OriginRefused, EnvRefused,
     │  ScopeMissing, ShutdownDisabled               403
     ├─ NotFound                                     404
     ├─ InstanceEnded, ServerRestarted, UploadGone   410
     ├─ BodyTooLarge                                 413
     ├─ ContentEncoding                              415
     ├─ TooManyInstances, TooManyTickets, QueueFull,
     │  TooManyWrongTokens                           429
     ├─ EnvCrashed                                   502
     ├─ Draining, ForkFailed, SupervisorUnavailable,
     │  SurveyFailed, AnswerBudgetFull               503
     └─ CreateDeadline, StepDeadline                 504
"""

from __future__ import annotations

from collections.abc import Iterable

from gym_http_wire.problems import Problem

__all__ = [
    "AnswerBudgetFull",
    "BodyIncomplete",
    "BodyTooLarge",
    "ContentEncoding",
    "CreateDeadline",
    "Draining",
    "EnvCrashed",
    "EnvRefused",
    "ForkFailed",
    "HostRefused",
    "InstanceEnded",
    "NotFound",
    "OriginRefused",
    "QueueFull",
    "ScopeMissing",
    "ServerRestarted",
    "SettingError",
    "ShutdownDisabled",
    "StartError",
    "StepDeadline",
    "SupervisorUnavailable",
    "SurveyFailed",
    "TicketRefused",
    "TooManyInstances",
    "TooManyTickets",
    "TooManyWrongTokens",
    "Unauthorized",
    "UnknownEnv",
    "UnknownInstance",
    "UploadGone",
    "did_you_mean",
]


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """Return '; did you mean X?' with the known name closest to a given one, or ''."""
    # Web workers get by without it.
    import difflib

    names = [str(each) for each in known]
    closest = difflib.get_close_matches(str(given)[:100], names, 1)
    return f"; did you mean {closest[0]!r}?" if closest else ""


class StartError(Exception):
    """The server cannot start; the text is one line for a person."""


class SettingError(StartError):
    """A setting has a name or a value that it cannot have."""


class UnknownEnv(Problem):
    """No environment of this ID can be made."""

    default_status, default_code = 400, "unknown-env"

    def __init__(self, env_id: str, hint: str = "") -> None:
        # Old clients' tests look for these words.
        words = f"Attempted to look up malformed environment ID '{env_id}'"
        super().__init__(f"{words}{': ' if hint else ''}{hint}")


class UnknownInstance(Problem):
    """There is no such instance, and none that is remembered."""

    default_status, default_code = 400, "unknown-instance"

    def __init__(self, instance_id: str) -> None:
        # Old clients' tests look for these words.
        super().__init__(f"Instance_id {instance_id} unknown")


class BodyIncomplete(Problem):
    """The body did not arrive whole."""

    default_status, default_code = 400, "malformed-request"


class Unauthorized(Problem):
    """The token is missing or wrong."""

    default_status, default_code = 401, "unauthorized"


class TicketRefused(Problem):
    """The ticket opens no stream: it is unknown, was used, or is too old."""

    default_status, default_code = 401, "ticket-refused"


class HostRefused(Problem):
    """The Host header names neither this machine nor an allowed host."""

    default_status, default_code = 403, "host-refused"


class OriginRefused(Problem):
    """A web page that is not allowed to wants to drive the server."""

    default_status, default_code = 403, "origin-refused"


class EnvRefused(Problem):
    """The server is set not to make this environment."""

    default_status, default_code = 403, "env-refused"


class ScopeMissing(Problem):
    """The token is valid, but lacks the scope that the request needs."""

    default_status, default_code = 403, "scope-missing"

    def __init__(self, name: str, scopes: str) -> None:
        super().__init__(
            f"the token {name!r} lacks the scope {scopes}, which this takes; the "
            "server's --tokens file says what each token may do"
        )


class ShutdownDisabled(Problem):
    """The server is set not to be shut down by a request."""

    default_status, default_code = 403, "shutdown-disabled"


class LogsDisabled(Problem):
    """The server is set not to show what environments print."""

    default_status, default_code = 403, "logs-disabled"


class NotFound(Problem):
    """There is nothing at this path."""

    default_status, default_code = 404, "not-found"


class InstanceEnded(Problem):
    """The instance has ended, for the reason in the message."""

    default_status, default_code = 410, "instance-ended"


class ServerRestarted(Problem):
    """The instance was one of an earlier server on this address."""

    default_status, default_code = 410, "server-restarted"

    def __init__(self, instance_id: str) -> None:
        super().__init__(
            f"instance {instance_id} belonged to an earlier server on this address and "
            "ended with it: the server was restarted; create the instance anew"
        )


class UploadGone(Problem):
    """What uploads went to does not exist any more."""

    default_status, default_code = 410, "upload-gone"


class BodyTooLarge(Problem):
    """The body is larger than the server takes."""

    default_status, default_code = 413, "body-too-large"


class ContentEncoding(Problem):
    """The body is compressed."""

    default_status, default_code = 415, "content-encoding"


class TooManyInstances(Problem):
    """Every slot for an instance is taken."""

    default_status, default_code = 429, "too-many-instances"


class TooManyTickets(Problem):
    """There are as many unused tickets as there can be."""

    default_status, default_code = 429, "too-many-tickets"


class TooManyWrongTokens(Problem):
    """More wrong tokens a second came from one address than are allowed."""

    default_status, default_code = 429, "too-many-wrong-tokens"


class QueueFull(Problem):
    """The maximum number of requests already waits for the instance."""

    default_status, default_code = 429, "queue-full"

    def __init__(self, instance_id: str, most: int) -> None:
        super().__init__(
            f"{most} requests wait for instance {instance_id}, the most that this "
            "server allows; send this one again later, send fewer at a time, or raise "
            "--max-waiting"
        )


class EnvCrashed(Problem):
    """The host ended while it had the request."""

    default_status, default_code = 502, "env-crashed"


class Draining(Problem):
    """The server is about to stop and makes nothing new."""

    default_status, default_code = 503, "draining"


class ForkFailed(Problem):
    """The server cannot start the process that the request needs."""

    default_status, default_code = 503, "fork-failed"


class SupervisorUnavailable(Problem):
    """The supervisor does not answer."""

    default_status, default_code = 503, "supervisor-unavailable"


class SurveyFailed(Problem):
    """The list of the registered environments could not be made."""

    default_status, default_code = 503, "survey-failed"


class AnswerBudgetFull(Problem):
    """The web worker has no room for another large answer."""

    default_status, default_code = 503, "answer-budget-full"


class CreateDeadline(Problem):
    """Making the environment took too long; its host was ended."""

    default_status, default_code = 504, "create-deadline"


class StepDeadline(Problem):
    """A call took too long; the host was ended."""

    default_status, default_code = 504, "step-deadline"
