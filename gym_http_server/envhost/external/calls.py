"""Calls: what was asked of environments elsewhere, and what else is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from gym_http_wire.external.messages import Answer
from gym_http_wire.external.steps import Step
from gym_http_wire.messages import Op
from gym_http_wire.problems import Problem
from gym_http_wire.values import binary

__all__ = ["Awaited", "Call"]


class Awaited(Protocol):
    """Something that is waited for.

    Attributes:
        deadline: Monotonic seconds, after which nobody waits for it any more.
    """

    deadline: float

    @property
    def over(self) -> bool:
        """Whether nothing more is waited for."""


@dataclass(eq=False, slots=True)
class Call:
    """One of them, until it is answered.

    Attributes:
        given: By name, what it is asked with.
        number: Its ID.
        deadline: Monotonic seconds.
        key: Of the agent's request that it belongs to, or "".
        answer: What came back.
        step: The same, if it was a step that could be read at once.
        problem: What went wrong instead, as the agent is told.
        lost: Whether the connection was lost since it was sent.
    """

    ask: Op
    given: dict[str, Any]
    number: int
    deadline: float
    key: str = ""
    answer: Answer | None = None
    step: Step | None = None
    problem: Problem | None = None
    lost: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing more is waited for."""
        return (
            self.step is not None
            or self.answer is not None
            or self.problem is not None
            or self.lost
        )

    def is_again(self, ask: Op, given: dict[str, Any], key: str) -> bool:
        """Whether the agent asks the same again.

        Two requests with keys are the same by these; an agent that sends none says
        the same words.
        """
        if ask != self.ask or (key and self.key and key != self.key):
            return False
        return binary.encode(given) == binary.encode(self.given)
