"""What is asked of an environment that lives elsewhere, and what may come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from gym_http_wire.messages import Op

if TYPE_CHECKING:
    from gym_http_wire.external.steps import StepReader

__all__ = [
    "MAX_NUMBER",
    "NAMES",
    "OPS",
    "REPEATABLE",
    "Answer",
    "BadMessage",
    "Control",
    "Dialect",
    "Fault",
    "Request",
]

M = TypeVar("M")
MAX_NUMBER = 2**32 - 1


#: The operations that an external environment may get.
OPS = frozenset(
    {
        Op.RESET,
        Op.STEP,
        Op.RENDER,
        Op.DESCRIBE,
        Op.GENERATOR,
        Op.SET_GENERATOR,
        Op.ATTRIBUTE,
        Op.SET_ATTRIBUTE,
        Op.CALL_ATTRIBUTE,
        Op.INIT,
        Op.CLOSE,
        Op.PING,
        Op.PONG,
        Op.FAULT,
    }
)
#: What changes nothing, and so may be asked twice.
REPEATABLE = frozenset({Op.RENDER, Op.DESCRIBE, Op.GENERATOR, Op.ATTRIBUTE})
NAMES = {ask.name.lower(): ask for ask in OPS}


class Request(NamedTuple):
    """What the server asks.

    Attributes:
        ask: What is asked for.
        number: The request's ID; they increase over a connection's life.
        given: By name, what it is asked with.
    """

    ask: Op
    number: int
    given: dict[str, Any]


class Answer(NamedTuple):
    """What the environment answers.

    Attributes:
        number: The request's ID.
        result: By name, what came of it; ``None`` if it failed.
        error: ``message``, and maybe ``code`` and ``extras``; ``None`` if it did not.
    """

    number: int
    result: dict[str, Any] | None
    error: dict[str, Any] | None = None


class Control(NamedTuple):
    """A message that is neither: a ping or a pong."""

    ask: Op


class Fault(NamedTuple):
    """What the server found wrong with a message.

    Attributes:
        message: What it was.
        number: ID of the request that was answered so, or 0.
        field: Where in the answer it was wrong, or "".
    """

    message: str
    number: int = 0
    field: str = ""


class BadMessage(ValueError):
    """A message that is none.

    Attributes:
        number: ID of the request that it was to answer, or 0.
        field: The part of it that is wrong, or "".
        fatal: Whether it cannot be parsed, so that the connection has to end.
    """

    def __init__(
        self, words: str, *, number: int = 0, field: str = "", fatal: bool = False
    ) -> None:
        super().__init__(words)
        self.number = number
        self.field = field
        self.fatal = fatal


class Dialect(Protocol):
    """Writes and reads messages, on either side.

    Attributes:
        text: Whether messages are text.
        numbered: Whether answers say which request they are to.
    """

    text: bool
    numbered: bool

    def encode_request(self, request: Request, deadline_s: float) -> bytes:
        """Write a request.

        Returns:
            The message; nothing, if such an environment is not asked this, and its
            answer is nothing special.

        Raises:
            UnsupportedValue: Something in it cannot be said.
        """

    def encode_answer(self, answer: Answer) -> bytes:
        """Write an answer.

        Raises:
            UnsupportedValue: Something in it cannot be said.
        """

    def encode_control(self, ask: Op) -> bytes:
        """Write a ping or a pong."""

    def encode_fault(self, fault: Fault) -> bytes:
        """Write what was wrong."""

    def peek_id(self, payload: bytes) -> Control | int:
        """Tell which request a message answers, without reading what it says.

        Returns:
            The request's ID, or what else the message is.

        Raises:
            BadMessage: It is nothing that an environment says.
        """

    def decode_answer(self, payload: bytes) -> Answer | Control:
        """Read what an environment says.

        Raises:
            BadMessage: It is nothing that an environment says.
        """

    def decode_step(
        self, payload: bytes, reader: StepReader[M]
    ) -> tuple[int, M] | None:
        """Read what came of a step, and which request's that is.

        Returns:
            These; ``None`` if it is not just that, for `decode_answer` to read.
        """

    def decode_request(self, payload: bytes) -> Request | Control | Fault:
        """Read what a server says.

        Raises:
            BadMessage: It is nothing that a server says.
        """
