"""Errors of the server, beside those of environments.

::

    StartError                    the command cannot start
     └─ SettingError              a setting has an invalid name or value
    Problem                       the answer to a request (gym_http_wire.problems)
     ├─ InvalidDirectory, UnknownEnv,
     │  UnknownInstance, BodyIncomplete,
     │  HelloRefused, DigestMismatch                 400
     ├─ Unauthorized, TicketRefused                  401
     ├─ HostRefused, OriginRefused, EnvRefused,
     │  ScopeMissing, RunTokenRefused, NodesOnly,
     │  ShutdownDisabled, LogsDisabled               403
     ├─ NotFound, UnknownRun, UnknownSession,
     │  UnknownReader, UnknownRunToken, NoWeights,
     │  NoState                                      404
     ├─ CannotBranch, CannotResume, ResumeDiffers,
     │  RecordingActive, RunExists, LimitReached,
     │  Gap, Stale, PositionPassed                   409
     ├─ InstanceEnded, ServerRestarted, UploadGone,
     │  SamplesGone                                  410
     ├─ VersionConflict                              412
     ├─ BodyTooLarge, BundleTooLarge                 413
     ├─ ContentEncoding                              415
     ├─ RangeNotSatisfiable                          416
     ├─ BadColumns                                   422
     ├─ PreconditionRequired                         428
     ├─ TooManyInstances, TooManyTickets, QueueFull,
     │  TooManyWrongTokens, RunQueueFull,
     │  ShareUsedUp, LimiterWaits, TooManySessions   429
     ├─ EnvCrashed                                   502
     ├─ Draining, ForkFailed, SupervisorUnavailable,
     │  SurveyFailed, AnswerBudgetFull,
     │  TooManyExternal, RelayUnavailable,
     │  RelayDamaged, RelayTaken, FleetAway,
     │  NodeAway                                     503
     ├─ CreateDeadline, StepDeadline                 504
     ├─ StorageFull                                  507
     └─ GatewayProblem      over ZeroMQ, never over HTTP
         ├─ TangoTaken                               409
         ├─ ConversationEnded                        410
         └─ StreamEnded, TooManyPeers                503
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gym_http_wire.problems import Problem

__all__ = [
    "REVOKED",
    "AnswerBudgetFull",
    "BadColumns",
    "BodyIncomplete",
    "BodyTooLarge",
    "BundleTooLarge",
    "CannotBranch",
    "CannotResume",
    "ContentEncoding",
    "ConversationEnded",
    "CreateDeadline",
    "DigestMismatch",
    "Draining",
    "EnvCrashed",
    "EnvRefused",
    "FleetAway",
    "ForkFailed",
    "Gap",
    "GatewayProblem",
    "HelloRefused",
    "HostRefused",
    "InstanceEnded",
    "InvalidDirectory",
    "LimitReached",
    "LimiterWaits",
    "LogsDisabled",
    "NoState",
    "NoWeights",
    "NodeAway",
    "NodesOnly",
    "NotFound",
    "OriginRefused",
    "PositionPassed",
    "PreconditionRequired",
    "QueueFull",
    "RangeNotSatisfiable",
    "RecordingActive",
    "RelayDamaged",
    "RelayTaken",
    "RelayUnavailable",
    "ResumeDiffers",
    "RunExists",
    "RunQueueFull",
    "RunTokenRefused",
    "SamplesGone",
    "ScopeMissing",
    "ServerRestarted",
    "SettingError",
    "ShareUsedUp",
    "ShutdownDisabled",
    "Stale",
    "StartError",
    "StepDeadline",
    "StorageFull",
    "StreamEnded",
    "SupervisorUnavailable",
    "SurveyFailed",
    "TangoTaken",
    "TicketRefused",
    "TooManyExternal",
    "TooManyInstances",
    "TooManyPeers",
    "TooManySessions",
    "TooManyTickets",
    "TooManyWrongTokens",
    "Unauthorized",
    "UnknownEnv",
    "UnknownInstance",
    "UnknownReader",
    "UnknownRun",
    "UnknownRunToken",
    "UnknownSession",
    "UploadGone",
    "VersionConflict",
    "did_you_mean",
]


def did_you_mean(
    given: object, known: Iterable[object], full: Callable[[str], str] = str
) -> str:
    """Return '; did you mean X?' with the known name closest to a name, or ''.

    Args:
        given: The name.
        known: The known ones.
        full: Returns what a known name is called in the answer.
    """
    # Web workers get by without it.
    import difflib

    names = [str(each) for each in known]
    closest = difflib.get_close_matches(str(given)[:100], names, 1)
    return f"; did you mean {full(closest[0])!r}?" if closest else ""


class StartError(Exception):
    """The server cannot start; the text is one line for a person."""


class SettingError(StartError):
    """A setting has a name or a value that it cannot have."""


class InvalidDirectory(Problem):
    """The server itself uses the directory that a recording was to be in."""

    default_status, default_code = 400, "invalid-directory"


class UnknownEnv(Problem):
    """No environment with this ID is registered."""

    default_status, default_code = 400, "unknown-env"

    #: Old clients' tests look for these words.
    OLD = "Attempted to look up malformed environment ID"
    WORDS = "there is no environment"
    #: With these begin IDs that old clients do not have.
    NEW = ("envpool/", "external/", "interface/", "pettingzoo/", "world/")

    def __init__(self, env_id: str, hint: str = "") -> None:
        words = self.WORDS if env_id.startswith(self.NEW) else self.OLD
        super().__init__(f"{words} '{env_id}'{': ' if hint else ''}{hint}")


class UnknownInstance(Problem):
    """No instance has, or recently had, this ID."""

    default_status, default_code = 400, "unknown-instance"

    def __init__(self, instance_id: str) -> None:
        # Old clients' tests look for these words.
        super().__init__(f"Instance_id {instance_id} unknown")


class BodyIncomplete(Problem):
    """The body did not arrive completely."""

    default_status, default_code = 400, "malformed-request"


class HelloRefused(Problem):
    """The first message of an external environment is not a valid hello."""

    default_status, default_code = 400, "bad-hello"


class Unauthorized(Problem):
    """The token is missing or wrong."""

    default_status, default_code = 401, "unauthorized"


#: Why what a token has opened ends.
REVOKED = "the token was removed from the server's --tokens file"


class TicketRefused(Problem):
    """The ticket opens no stream: it is unknown, was used, or is too old."""

    default_status, default_code = 401, "ticket-refused"


class HostRefused(Problem):
    """The Host header names neither this machine nor an allowed host."""

    default_status, default_code = 403, "host-refused"


class OriginRefused(Problem):
    """The request comes from a web page whose origin is not allowed."""

    default_status, default_code = 403, "origin-refused"


class EnvRefused(Problem):
    """The settings do not allow this environment."""

    default_status, default_code = 403, "env-refused"


class ScopeMissing(Problem):
    """The token is valid, but lacks the scope that the request needs."""

    default_status, default_code = 403, "scope-missing"

    def __init__(self, name: str, scopes: str) -> None:
        super().__init__(
            f"the token {name!r} lacks the scope {scopes}, which this takes; the "
            "server's --tokens file lists the scopes of each token"
        )


class RunTokenRefused(Problem):
    """The token of a run is shown where it opens nothing."""

    default_status, default_code = 403, "scope-missing"

    def __init__(self) -> None:
        super().__init__(
            "the token is one of a training run, and opens only those routes of its "
            "run that its role uses; expected a token of the server",
        )


class NodesOnly(Problem):
    """Another node of a fleet may call this, and no client."""

    default_status, default_code = 403, "scope-missing"

    def __init__(self) -> None:
        super().__init__("only other nodes of this fleet may call this")


class ShutdownDisabled(Problem):
    """The settings do not allow requests to shut the server down."""

    default_status, default_code = 403, "shutdown-disabled"


class LogsDisabled(Problem):
    """The settings do not allow clients to read logs."""

    default_status, default_code = 403, "logs-disabled"


class NotFound(Problem):
    """No route has this path."""

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
            "ended with it: the server was restarted; create it anew, or resume its "
            "recording if it has one"
        )


class UploadGone(Problem):
    """The service that results were uploaded to no longer exists."""

    default_status, default_code = 410, "upload-gone"


class BodyTooLarge(Problem):
    """The body is larger than the server allows."""

    default_status, default_code = 413, "body-too-large"


class BundleTooLarge(Problem):
    """A bundle has more batches, or more bytes of heads, than the server allows."""

    default_status, default_code = 413, "bundle-too-large"


class ContentEncoding(Problem):
    """The body is compressed."""

    default_status, default_code = 415, "content-encoding"


class TooManyInstances(Problem):
    """The server has reached its limit of instances."""

    default_status, default_code = 429, "too-many-instances"


class TooManyTickets(Problem):
    """The server has reached its limit of unused tickets."""

    default_status, default_code = 429, "too-many-tickets"


class TooManyWrongTokens(Problem):
    """More wrong tokens a second came from one address than are allowed."""

    default_status, default_code = 429, "too-many-wrong-tokens"


class QueueFull(Problem):
    """The maximum number of requests already waits for the instance."""

    default_status, default_code = 429, "queue-full"

    def __init__(self, instance_id: str, most: int, what: str = "wait for") -> None:
        super().__init__(
            f"{most} requests {what} instance {instance_id}, the most that this "
            "server allows; send this one again later, send fewer at a time, or raise "
            "--max-waiting"
        )


class EnvCrashed(Problem):
    """The host ended while it had the request."""

    default_status, default_code = 502, "env-crashed"


class FleetAway(Problem):
    """The store of the fleet does not answer this node."""

    default_status, default_code = 503, "fleet-away"


class NodeAway(Problem):
    """The node of the instance does not answer for the moment."""

    default_status, default_code = 503, "node-away"


class Draining(Problem):
    """The server is stopping, and creates no more instances."""

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


class TooManyExternal(Problem):
    """The server has reached its limit of external environments."""

    default_status, default_code = 503, "too-many-external"


class CreateDeadline(Problem):
    """Making the environment took too long; its host was ended."""

    default_status, default_code = 504, "create-deadline"


class StepDeadline(Problem):
    """A call took too long; the host was ended."""

    default_status, default_code = 504, "step-deadline"


class DigestMismatch(Problem):
    """The body is not the one that ``Content-Digest`` describes."""

    default_status, default_code = 400, "digest-mismatch"


class UnknownRun(Problem):
    """No run has this name."""

    default_status, default_code = 404, "unknown-run"


class UnknownSession(Problem):
    """The run has no session with this ID."""

    default_status, default_code = 404, "unknown-session"


class UnknownReader(Problem):
    """The run has no reader with this name."""

    default_status, default_code = 404, "unknown-reader"


class UnknownRunToken(Problem):
    """The run has no token with this ID."""

    default_status, default_code = 404, "unknown-run-token"


class NoWeights(Problem):
    """The run has no weights yet, or this version is not kept."""

    default_status, default_code = 404, "no-weights"


class NoState(Problem):
    """The run has no state of a trainer yet."""

    default_status, default_code = 404, "no-state"


class CannotBranch(Problem):
    """A copy of the host would not have all of its environment."""

    default_status, default_code = 409, "cannot-branch"


class CannotResume(Problem):
    """The recording does not lead to a state, or is being written."""

    default_status, default_code = 409, "cannot-resume"


class ResumeDiffers(Problem):
    """The environment did not do again what was recorded."""

    default_status, default_code = 409, "resume-differs"


class RecordingActive(Problem):
    """An instance writes the recording, so it cannot be deleted or replaced."""

    default_status, default_code = 409, "recording-active"


class RunExists(Problem):
    """The run exists, with other limits or columns."""

    default_status, default_code = 409, "run-exists"


class LimitReached(Problem):
    """Raised if a server has as many runs, or a run as many tokens, as it may."""

    default_status, default_code = 409, "limit-reached"


class Gap(Problem):
    """Batches of the session are missing before this one."""

    default_status, default_code = 409, "gap"


class Stale(Problem):
    """The batch was made with weights that are too old."""

    default_status, default_code = 409, "stale"


class PositionPassed(Problem):
    """The reader is past this position."""

    default_status, default_code = 409, "position-passed"


class SamplesGone(Problem):
    """The batches after this position are no longer kept."""

    default_status, default_code = 410, "samples-gone"


class VersionConflict(Problem):
    """The newest weights, or state, are not those that the request names."""

    default_status, default_code = 412, "version-conflict"


class RangeNotSatisfiable(Problem):
    """The weights, or the state, have fewer bytes than the range begins at."""

    default_status, default_code = 416, "range-not-satisfiable"


class BadColumns(Problem):
    """The batch has other columns than the run declares."""

    default_status, default_code = 422, "bad-columns"


class PreconditionRequired(Problem):
    """The request does not name the weights, or state, that it replaces."""

    default_status, default_code = 428, "precondition-required"


class RunQueueFull(Problem):
    """The queue of the run has no room for the batch."""

    default_status, default_code = 429, "queue-full"


class ShareUsedUp(Problem):
    """A token, or a worker of a run, has its share of something limited."""

    default_status, default_code = 429, "share-used-up"


class LimiterWaits(Problem):
    """The limiter of the run waits for the trainer to draw."""

    default_status, default_code = 429, "limiter-waits"


class TooManySessions(Problem):
    """The token, or the run, has as many sessions as it may."""

    default_status, default_code = 429, "too-many-sessions"


class RelayUnavailable(Problem):
    """The relay does not answer."""

    default_status, default_code = 503, "relay-unavailable"


class RelayDamaged(Problem):
    """The relay's database cannot be read."""

    default_status, default_code = 503, "relay-damaged"


class RelayTaken(Problem):
    """Another server uses the relay's directory."""

    default_status, default_code = 503, "relay-taken"


class StorageFull(Problem):
    """The relay has no room for the body."""

    default_status, default_code = 507, "storage-full"


class GatewayProblem(Problem):
    """An error that only peers by ZeroMQ get."""


class TangoTaken(GatewayProblem):
    """Another agent of Tango is connected; there can be only one."""

    default_status, default_code = 409, "tango-taken"


class ConversationEnded(GatewayProblem):
    """The server has ended the conversation with an external environment."""

    default_status, default_code = 410, "ended"


class StreamEnded(GatewayProblem):
    """The host has ended the stream, but runs."""

    default_status, default_code = 503, "stream-ended"


class TooManyPeers(GatewayProblem):
    """The gateway has reached its limit of peers."""

    default_status, default_code = 503, "too-many-peers"
