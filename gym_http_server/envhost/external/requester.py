"""Asking: what is said to one far side, and what an agent is told of its answer."""

from __future__ import annotations

import time
from typing import Any

from gym_http_server.envhost.external.calls import Call
from gym_http_server.envhost.external.connection import Begun, ExternalConnection
from gym_http_server.envhost.external.connections import ExternalConnections
from gym_http_server.envhost.external.errors import problem_of_error
from gym_http_wire.external.messages import REPEATABLE, BadMessage
from gym_http_wire.external.steps import Step
from gym_http_wire.messages import Op
from gym_http_wire.problems import (
    BadAnswer,
    BadParameter,
    EnvError,
    ExternalAway,
    ExternalDeadline,
    OutcomeUnknown,
    ResetNeeded,
)
from gym_http_wire.values import UnsupportedValue

__all__ = ["Requester"]

CLOSE_SECONDS = 1.0
#: That a call waits for a far side that is away, before the agent is told.
RETURN_SECONDS = 0.5


class Requester:
    """Asks one far side, one thing at a time.

    Args:
        far: The connection.
        outside: Where it belongs.

    Attributes:
        begun: A step that was asked for already, for `step` to go on with.
        pending: What was asked when the connection was lost, if that may matter.
        wants_reset: Why a step has to wait for a reset; "" if it need not.
    """

    def __init__(self, far: ExternalConnection, outside: ExternalConnections) -> None:
        self.wants_reset = ""
        self._far = far
        self._outside = outside
        self._deadline_s = outside.terms.deadline_s
        self.begun: Begun | None = None
        self.pending: Call | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the agent's request is the one that the connection was lost in."""
        pending, key = self.pending, self._outside.key
        return pending is not None and bool(key) and pending.key == key

    def ask(self, ask: Op, given: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            Problem: What the agent is to be told instead.
        """
        return self._result(self._over(ask, given))

    def step(self, action: Any) -> Step | dict[str, Any]:
        """Ask for a step, and wait for the answer.

        Returns:
            What came of it; its members if they are still to be read.

        Raises:
            Problem: What the agent is to be told instead.
        """
        call = self._over(Op.STEP, {"action": action})
        return self._result(call) if call.step is None else call.step

    def _over(self, ask: Op, given: dict[str, Any]) -> Call:
        """Give the call that asks, once it is over."""
        until = time.monotonic() + self._deadline_s
        call = None if self.pending is None else self._lost_before(ask, given)
        begun, self.begun = self.begun, None
        while True:
            if begun is not None:
                until = begun.deadline
                call = self._gone_on(begun, given)
                begun = None
            else:
                if self._far.away_since is not None:
                    self._find(ask, until)
                call = self._sent(call, ask, given, until)
                if ask is Op.STEP and self._outside.alone:
                    self._far.decode_step(call)
            if call.step is None:
                self._wait_for(call)
            if not call.lost:
                return call
            if ask is Op.INIT and not self._far.hello.has("replay"):
                # Nothing is lost with it, and another one may begin.
                raise ExternalAway(
                    f"{self._far.name} lost its connection while it began; ask again",
                    headers={"Retry-After": "1"},
                )
            if ask in REPEATABLE:
                call = None
            else:
                self.pending = call

    def _gone_on(self, begun: Begun, given: dict[str, Any]) -> Call:
        """Give the call of a step that was asked for already."""
        number, deadline, data, _ = begun
        call = Call(Op.STEP, given, number, deadline, self._outside.key)
        self._far.go_on(call, data)
        return call

    def end(self) -> None:
        """Tell it that the agent goes, and see that it has heard."""
        far = self._far
        if far.away_since is not None:
            # It may just have come back.
            self._outside.attend()
        if far.away_since is not None:
            return
        until = time.monotonic() + CLOSE_SECONDS
        call = Call(Op.CLOSE, {}, far.number(), until)
        far.send(call)
        while not call.over and time.monotonic() < until:
            self._outside.pause(call)
        if call.answer is None:
            # Nobody knows what it is doing; it may connect anew.
            far.lose("it did not answer to close")

    def bad(self, error: BadMessage, *, harmless: bool = False) -> BadAnswer:
        """Tell both sides what was wrong with an answer.

        Args:
            error: What it was.
            harmless: Whether what was asked leaves the environment as it was.
        """
        self._far.blame(error)
        if not harmless:
            self.wants_reset = f"{self._far.name} gave a bad answer"
        words = f"{self._far.name} gave a bad answer: {error}"
        return BadAnswer(words, extras={"field": error.field})

    def _lost_before(self, ask: Op, given: dict[str, Any]) -> Call | None:
        """Give the call that the connection was lost in, if this is that again.

        Raises:
            ResetNeeded: This may not be done before that.
        """
        pending = self.pending
        if pending is None or pending.is_again(ask, given, self._outside.key):
            return pending
        if ask in REPEATABLE or ask == Op.RESET:
            return None
        raise ResetNeeded(
            f"{self._far.name} was lost in another call, and nobody knows whether "
            "that was done: send it again as it was, or reset"
        )

    def _find(self, ask: Op, until: float) -> None:
        """Wait a moment for a far side that is away: most are back at once.

        Args:
            ask: What it is to be asked.
            until: When there has to be an answer; monotonic seconds. So as not to give
                up later what may be begun now, half of the time is left for it.

        Raises:
            ExternalAway: It did not come back so soon.
        """
        far, terms = self._far, self._outside.terms
        self._outside.attend()
        last = min(time.monotonic() + RETURN_SECONDS, until - terms.deadline_s / 2)
        back = _Return(far, last)
        # While it begins it is nobody's: the agent had better begin with another one.
        waits = ask != Op.INIT and far.comes_back
        while waits and not back.over and time.monotonic() < last:
            self._outside.pause(back)
        if not back.over:
            # Who asks again and again must not put off the look at how long this lasts.
            self._outside.due = 0.0
            hope = (
                f"has {terms.grace_s:g} s to come back; ask again"
                if far.comes_back
                else "cannot come back to this instance"
            )
            raise ExternalAway(
                f"{far.name} has lost its connection, and {hope}",
                headers={"Retry-After": "1"},
            )

    def _sent(
        self, call: Call | None, ask: Op, given: dict[str, Any], until: float
    ) -> Call:
        """Send a request; or go on with the one that the connection was lost in."""
        far = self._far
        if call is None:
            call = Call(ask, given, far.number(), until, self._outside.key)
        elif far.hello.has("replay"):
            # Under its ID: what was done is not done again.
            call.deadline = until
        else:
            self.pending = None
            self._doubt(ask, "nobody knows whether its last call was done")
            raise OutcomeUnknown(
                f"{far.name} came back, and cannot say whether it had done the "
                f"{ask.name.lower()} that it was lost in; reset it"
            )
        if ask not in REPEATABLE:
            self.pending = None
        try:
            far.send(call)
        except UnsupportedValue as error:
            raise BadParameter(f"this cannot be told to {far.name}: {error}") from None
        return call

    def _wait_for(self, call: Call) -> None:
        """Wait until a call is over.

        Raises:
            ExternalDeadline: It is not in time.
        """
        while not call.over:
            if time.monotonic() >= call.deadline:
                self._far.give_up(call)
                self._doubt(call.ask, "it did not answer in time")
                raise ExternalDeadline(
                    f"{self._far.name} did not answer to {call.ask.name.lower()} "
                    f"within {self._deadline_s:g} s; raise --external-deadline, if it "
                    "may take longer"
                )
            self._outside.pause(call)

    def _result(self, call: Call) -> dict[str, Any]:
        if call.problem is not None:
            self._doubt(call.ask, "its last answer was none")
            raise call.problem
        answer = call.answer
        if answer is None or answer.result is None:
            problem = problem_of_error((answer and answer.error) or {})
            if isinstance(problem, EnvError):
                self._doubt(call.ask, "its last call failed")
            raise problem
        return answer.result

    def _doubt(self, ask: Op, why: str) -> None:
        if ask in (Op.STEP, Op.RESET):
            self.wants_reset = f"{self._far.name} has to be reset, since {why}"


class _Return:
    """The return of a far side that is away."""

    def __init__(self, far: ExternalConnection, deadline: float) -> None:
        self.deadline = deadline
        self._far = far

    @property
    def over(self) -> bool:
        return self._far.away_since is None
