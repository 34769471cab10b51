"""Sends requests to one external environment; turns failures into agents' problems."""

from __future__ import annotations

import time
from typing import Any

from gym_http_core.env_errors import shortened
from gym_http_server.external.connection import Call
from gym_http_server.host.external.connections import ExternalConnections
from gym_http_server.host.external.leased_connection import LeasedConnection
from gym_http_wire.external.messages import REPEATABLE, BadMessage
from gym_http_wire.messages import Op
from gym_http_wire.problems import (
    BadAnswer,
    BadParameter,
    EnvError,
    ExternalAway,
    ExternalDeadline,
    InvalidAction,
    NoAttribute,
    NoRenderMode,
    OutcomeUnknown,
    Problem,
    ResetNeeded,
    Unsupported,
)
from gym_http_wire.values import UnsupportedValue, binary

__all__ = ["ProgramReplaced", "Requester"]

CLOSE_SECONDS = 1.0
#: Longest that a request waits for a connection that is lost, in seconds.
RETURN_SECONDS = 0.5
#: Error codes of an environment that has not changed.
_HARMLESS: dict[str, type[Problem]] = {
    "bad-parameter": BadParameter,
    "invalid-action": InvalidAction,
    "no-attribute": NoAttribute,
    "no-render-mode": NoRenderMode,
    "reset-needed": ResetNeeded,
    "unsupported": Unsupported,
}
_EXTRAS = ("arguments", "error_type", "mro", "text")


class ProgramReplaced(Exception):
    """Another program has taken the place of the environment: it has to begin."""


class Requester:
    """Sends requests over one connection, one at a time, and waits for the answers.

    Args:
        connection: The connection.
        connections: All connections of the host; it waits for all of them.
        needs_reset: Why a step needs a reset before it; "" if it does not.

    Attributes:
        connection: The connection.
        deadline_s: Seconds in which the environment has to answer.
        lost_call: The call in which the connection was lost, if it may have changed
            something; else ``None``.
        needs_reset: Why a step needs a reset before it; "" if it does not.
        last_step: The last step of the episode, or the observation that began it;
            ``None`` if there is no episode.
    """

    def __init__(
        self,
        connection: LeasedConnection,
        connections: ExternalConnections,
        needs_reset: str = "",
    ) -> None:
        self.connection = connection
        self.deadline_s = connections.settings.deadline_s
        self.needs_reset = needs_reset
        self._connections = connections
        self.lost_call: Call | None = None
        self.last_step: Any = None

    @property
    def retries_lost(self) -> bool:
        """Whether the agent's request retries the call that lost the connection."""
        lost, key = self.lost_call, self._connections.key
        return lost is not None and bool(key) and lost.key == key

    def request(
        self, op: Op, parameters: dict[str, Any], call: Call | None = None
    ) -> dict[str, Any]:
        """Send a request, and wait for its result.

        Args:
            op: The operation.
            parameters: Its parameters by name.
            call: The call of the same request if it was sent already.

        Raises:
            Problem: The agent gets this instead.
            ProgramReplaced: It was not sent, or its outcome went with the program.
        """
        return self._result(self._completed(op, parameters, call))

    def _completed(self, op: Op, parameters: dict[str, Any], sent: Call | None) -> Call:
        """Return the call when its outcome is known; resend it if that is safe."""
        until = time.monotonic() + self.deadline_s
        key = self._connections.key
        if self.connection.replaced:
            self.lost_call = None
        call = (
            None if self.lost_call is None else self._lost_before(op, parameters, key)
        )
        while True:
            if sent is not None:
                call, sent = sent, None
                call.key, until = key, call.deadline
            else:
                if self.connection.lost:
                    self._await_return(op, until)
                if self.connection.replaced:
                    self.lost_call = call = None
                    if op is not Op.INIT:
                        raise ProgramReplaced
                call = self._started(call, op, parameters, until)
            self._wait_for(call)
            if not call.lost:
                return call
            if op is Op.INIT and not self.connection.hello.has("replay"):
                # No state is lost with it, and another environment can begin.
                raise ExternalAway(
                    f"{self.connection.env_id} lost its connection while it began; "
                    "try again",
                    headers={"Retry-After": "1"},
                )
            if op in REPEATABLE:
                call = None
            else:
                self.lost_call = call

    def end(self) -> None:
        """Send the request to close, and wait for its answer."""
        connection = self.connection
        if connection.lost:
            # It may have been resumed just now.
            self._connections.attend()
        if connection.lost or connection.replaced:
            return
        until = time.monotonic() + CLOSE_SECONDS
        call = Call(Op.CLOSE, {}, connection.new_number(), until)
        connection.start(call)
        while not call.over and time.monotonic() < until:
            self._connections.wait(call)
        if call.answer is None:
            # Its state is unknown; it can connect anew.
            connection.lose("it did not answer to close")

    def reject(self, error: BadMessage, *, harmless: bool = False) -> BadAnswer:
        """Report a bad result to the environment, and return the problem for the agent.

        Args:
            error: The fault of the result.
            harmless: Whether the request leaves the environment unchanged.
        """
        self.connection.fault(error)
        if not harmless:
            self.needs_reset = f"{self.connection.env_id} sent a malformed answer"
        words = f"{self.connection.env_id} sent a malformed answer: {error}"
        return BadAnswer(words, extras={"field": error.field})

    def _lost_before(self, op: Op, parameters: dict[str, Any], key: str) -> Call | None:
        """Return the call that lost the connection, if this request is its retry.

        Raises:
            ResetNeeded: This request must not come before that retry.
        """
        lost = self.lost_call
        if lost is None or _is_retry(lost, op, parameters, key):
            return lost
        if op in REPEATABLE or op == Op.RESET:
            return None
        raise ResetNeeded(
            f"{self.connection.env_id} was lost in another call, and it is unknown "
            "whether that was done: send it again as it was, or reset"
        )

    def _await_return(self, op: Op, until: float) -> None:
        """Wait a moment for a lost connection: most are resumed at once.

        Args:
            op: The operation to request then.
            until: When its answer is due. Half of the deadline is left for it.

        Raises:
            ExternalAway: The connection was not resumed so soon.
        """
        connection, connections = self.connection, self._connections
        connections.attend()
        last = min(time.monotonic() + RETURN_SECONDS, until - self.deadline_s / 2)
        back = _Return(connection, last)
        resumable = connection.details.resumable
        # While an environment begins, the agent should try another one.
        waits = resumable and op != Op.INIT
        while waits and not back.over and time.monotonic() < last:
            connections.wait(back)
        if not back.over:
            # Requests that are retried often must not postpone the check of the grace.
            connections.check_soon()
            hope = (
                f"has {connections.settings.grace_s:g} s to come back; try again"
                if resumable
                else "cannot come back to this instance"
            )
            raise ExternalAway(
                f"{connection.env_id} has lost its connection, and {hope}",
                headers={"Retry-After": "1"},
            )

    def _started(
        self, call: Call | None, op: Op, parameters: dict[str, Any], until: float
    ) -> Call:
        """Send a request, or send the call again that lost the connection."""
        connection = self.connection
        if call is None:
            number = connection.new_number()
            call = Call(op, parameters, number, until, self._connections.key)
        elif connection.hello.has("replay"):
            # Under its ID: the environment does not do it twice.
            call.deadline = until
        else:
            self.lost_call = None
            self._require_reset(op, "it is unknown whether its last call was done")
            raise OutcomeUnknown(
                f"{connection.env_id} resumed, and does not know whether it had done "
                f"the {op.name.lower()} that it was lost in; reset it"
            )
        if op not in REPEATABLE:
            self.lost_call = None
        try:
            connection.start(call)
        except UnsupportedValue as error:
            raise BadParameter(
                f"this cannot be sent to {connection.env_id}: {error}"
            ) from None
        return call

    def _wait_for(self, call: Call) -> None:
        """Wait until the outcome of a call is known.

        Raises:
            ExternalDeadline: It is not known in time.
        """
        while not call.over:
            if time.monotonic() >= call.deadline:
                self.connection.abandon(call)
                self._require_reset(call.op, "it did not answer in time")
                raise ExternalDeadline(
                    f"{self.connection.env_id} did not answer to "
                    f"{call.op.name.lower()} within {self.deadline_s:g} s; raise "
                    "--external-deadline, if it may take longer"
                )
            self._connections.wait(call)

    def _result(self, call: Call) -> dict[str, Any]:
        """Return the result of a call that is over.

        Raises:
            Problem: The environment answered with an error, or malformed.
        """
        env_id, error, answer = self.connection.env_id, call.error, call.answer
        if error is not None:
            self._require_reset(call.op, "its last answer was malformed")
            words = f"{env_id} sent a malformed answer: {error}"
            raise BadAnswer(words, extras={"field": error.field})
        if answer is None or answer.result is None:
            problem = _problem_of((answer and answer.error) or {})
            if isinstance(problem, EnvError):
                self._require_reset(call.op, "its last call failed")
            raise problem
        return answer.result

    def _require_reset(self, op: Op, why: str) -> None:
        """Require a reset if the operation may have changed the environment."""
        if op in (Op.STEP, Op.RESET):
            self.needs_reset = f"{self.connection.env_id} has to be reset, since {why}"


class _Return:
    """The resumption of a lost connection, to wait for."""

    def __init__(self, connection: LeasedConnection, deadline: float) -> None:
        self.deadline = deadline
        self._connection = connection

    @property
    def over(self) -> bool:
        return not self._connection.lost


def _is_retry(call: Call, op: Op, parameters: dict[str, Any], key: str) -> bool:
    """Return whether a request is the agent's retry of a call.

    Two requests with keys are compared by these, and others by their content.
    """
    if op != call.op or (key and call.key and key != call.key):
        return False
    return binary.encode(parameters) == binary.encode(call.parameters)


def _problem_of(error: dict[str, Any]) -> Problem:
    """Return the problem of an error answer: an `EnvError`, unless it is harmless."""
    words = str(error.get("message", "it failed"))
    if error.get("code") == ExternalAway.default_code:
        return ExternalAway(words, headers={"Retry-After": "1"})
    harmless = _HARMLESS.get(str(error.get("code")))
    if harmless is not None:
        return harmless(words)
    given = error.get("extras")
    given = given if isinstance(given, dict) else {}
    extras = {name: given[name] for name in _EXTRAS if name in given}
    if isinstance(given.get("traceback"), str):
        extras["traceback"] = shortened(given["traceback"])
    return EnvError(words, extras=extras)
