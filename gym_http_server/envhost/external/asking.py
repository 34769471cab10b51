"""Asking: what is said to one far side, and what an agent is told of its answer."""

from __future__ import annotations

import time
from typing import Any

from gym_http_server.envhost.external.calls import Call
from gym_http_server.envhost.external.far_side import FarSide
from gym_http_server.envhost.external.outside import Outside
from gym_http_wire.external.asks import REPEATABLE, Ask, BadMessage
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
from gym_http_wire.values import UnsupportedValue

__all__ = ["Asking"]

CLOSE_SECONDS = 1.0
#: What an environment may say of itself that leaves it as it was.
_SOFT: dict[str, type[Problem]] = {
    "bad-parameter": BadParameter,
    "invalid-action": InvalidAction,
    "no-attribute": NoAttribute,
    "no-render-mode": NoRenderMode,
    "reset-needed": ResetNeeded,
    "unsupported": Unsupported,
}
_EXTRAS = ("arguments", "error_type", "mro", "text")


class Asking:
    """Asks one far side, one thing at a time.

    Args:
        far: The connection.
        outside: Where it belongs.

    Attributes:
        wants_reset: Why a step has to wait for a reset; "" if it need not.
    """

    def __init__(self, far: FarSide, outside: Outside) -> None:
        self.wants_reset = ""
        self._far = far
        self._outside = outside
        self._deadline_s = outside.terms.deadline_s
        # What was asked when the connection was lost, if that may matter.
        self._pending: Call | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the agent's request is the one that the connection was lost in."""
        pending, key = self._pending, self._outside.key
        return pending is not None and bool(key) and pending.key == key

    def ask(self, ask: Ask, given: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            Problem: What the agent is to be told instead.
        """
        call = self._begun(ask, given)
        while not call.over:
            if time.monotonic() >= call.deadline:
                self._far.give_up(call)
                self._doubt(ask, "it did not answer in time")
                raise ExternalDeadline(
                    f"{self._far.name} did not answer to {ask.name.lower()} within "
                    f"{self._deadline_s:g} s; raise --external-deadline, if it may "
                    "take longer"
                )
            self._outside.pause(call)
        if call.lost:
            if ask not in REPEATABLE:
                self._pending = call
            raise self._away()
        if call.problem is not None:
            self._doubt(ask, "its last answer was none")
            raise call.problem
        answer = call.answer
        if answer is None or answer.result is None:
            raise self._reported(ask, (answer and answer.error) or {})
        return answer.result

    def end(self) -> None:
        """Tell it that the agent goes, and see that it has heard."""
        far = self._far
        if far.away_since is not None:
            return
        until = time.monotonic() + CLOSE_SECONDS
        call = Call(Ask.CLOSE, {}, far.number(), until)
        far.send(call)
        while not call.over and time.monotonic() < until:
            self._outside.pause(call)
        if call.answer is None:
            # Nobody knows what it is doing; it may connect anew.
            far.lose("it did not answer to close")

    def bad(self, error: BadMessage) -> BadAnswer:
        """Tell both sides what was wrong with an answer."""
        self._far.blame(error)
        self.wants_reset = f"{self._far.name} gave a bad answer"
        words = f"{self._far.name} gave a bad answer: {error}"
        return BadAnswer(words, extras={"field": error.field})

    def _begun(self, ask: Ask, given: dict[str, Any]) -> Call:
        """Send a request; or go on with the one that the connection was lost in."""
        far, key = self._far, self._outside.key
        if far.away_since is not None:
            # It may have come back just now.
            self._outside.attend()
        pending, self._pending = self._pending, None
        if pending is not None and not pending.is_again(ask, given, key):
            if ask not in REPEATABLE and ask != Ask.RESET:
                self._pending = pending
                raise ResetNeeded(
                    f"{far.name} was lost in another call, and nobody knows whether "
                    "that was done: send it again as it was, or reset"
                )
            if ask in REPEATABLE:
                self._pending = pending
            pending = None
        if far.away_since is not None:
            self._pending = self._pending or pending
            raise self._away()
        deadline = time.monotonic() + self._deadline_s
        if pending is None:
            call = Call(ask, given, far.number(), deadline, key)
        elif far.hello.has("replay"):
            # Under its ID: what was done is not done again.
            call, call.deadline = pending, deadline
        else:
            self._doubt(ask, "nobody knows whether its last call was done")
            raise OutcomeUnknown(
                f"{far.name} came back, and cannot say whether it had done the "
                f"{ask.name.lower()} that it was lost in; reset it"
            )
        try:
            far.send(call)
        except UnsupportedValue as error:
            raise BadParameter(f"this cannot be told to {far.name}: {error}") from None
        return call

    def _away(self) -> ExternalAway:
        grace = self._outside.terms.grace_s
        return ExternalAway(
            f"{self._far.name} has lost its connection, and has {grace:g} s to come "
            "back; ask again",
            headers={"Retry-After": "1"},
        )

    def _doubt(self, ask: Ask, why: str) -> None:
        if ask in (Ask.STEP, Ask.RESET):
            self.wants_reset = f"{self._far.name} has to be reset, since {why}"

    def _reported(self, ask: Ask, error: dict[str, Any]) -> Problem:
        words = str(error.get("message", "it failed"))
        soft = _SOFT.get(str(error.get("code")))
        if soft is not None:
            return soft(words)
        self._doubt(ask, "its last call failed")
        told = error.get("extras")
        extras = told if isinstance(told, dict) else {}
        kept = {name: extras[name] for name in _EXTRAS if name in extras}
        return EnvError(words, extras=kept)
