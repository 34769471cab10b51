"""Messages between a server and an external environment."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

from gym_http_wire.external.steps import StepReader
from gym_http_wire.messages import Op

__all__ = [
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


#: The operations that an external environment may receive.
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
#: Operations that change nothing, so that a request may be repeated.
REPEATABLE = frozenset({Op.RENDER, Op.DESCRIBE, Op.GENERATOR, Op.ATTRIBUTE})
NAMES = {op.name.lower(): op for op in OPS}


class Request(NamedTuple):
    """A request of the server.

    Attributes:
        op: The operation.
        number: The request's ID; IDs increase during a connection.
        given: Arguments by name.
    """

    op: Op
    number: int
    given: dict[str, Any]


class Answer(NamedTuple):
    """An answer of the environment.

    Attributes:
        number: The request's ID.
        result: Results by name; ``None`` after an error.
        error: ``message``, and maybe ``code`` and ``extras``; or ``None``.
    """

    number: int
    result: dict[str, Any] | None
    error: dict[str, Any] | None = None


class Control(NamedTuple):
    """A ping or a pong."""

    op: Op


class Fault(NamedTuple):
    """The server's report of an error in a message.

    Attributes:
        message: The error.
        number: ID of the request whose answer was wrong, or 0.
        field: The wrong field of the answer, or "".
    """

    message: str
    number: int = 0
    field: str = ""


class BadMessage(ValueError):
    """A malformed message.

    Attributes:
        number: ID of the request that it answers, or 0.
        field: The wrong field, or "".
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
    """Encodes and decodes messages, on either side.

    Attributes:
        text: Whether messages are text.
        numbered: Whether answers have the ID of their request.
    """

    text: bool
    numbered: bool

    def encode_request(self, request: Request, deadline_s: float) -> bytes:
        """Encode a request.

        Returns:
            The message; empty if the dialect does not have the operation, whose answer
            is then empty, too.

        Raises:
            UnsupportedValue: A value in it has no representation.
        """

    def encode_step(self, number: int, action: Any, deadline_s: float) -> bytes:
        """Encode the request of a step, as `encode_request` does.

        Args:
            number: The request's ID.
            action: The action.
            deadline_s: Seconds until the answer is due.

        Raises:
            UnsupportedValue: The action has no representation.
        """

    def encode_answer(self, answer: Answer) -> bytes:
        """Encode an answer.

        Raises:
            UnsupportedValue: A value in it has no representation.
        """

    def encode_control(self, op: Op) -> bytes:
        """Encode a ping or a pong."""

    def encode_fault(self, fault: Fault) -> bytes:
        """Encode the report of an error."""

    def peek_id(self, payload: bytes) -> Control | int:
        """Decode only the request ID of an answer.

        Returns:
            The request's ID, or a ping or pong.

        Raises:
            BadMessage: It is not a message of an environment.
        """

    def decode_answer(self, payload: bytes) -> Answer | Control:
        """Decode a message of an environment.

        Raises:
            BadMessage: It is malformed.
        """

    def decode_step(
        self, payload: bytes, reader: StepReader[M]
    ) -> tuple[int, M] | None:
        """Decode the answer to a step, in the fast way.

        Returns:
            The request's ID and the step; ``None`` if `decode_answer` has to decode it.
        """

    def decode_request(self, payload: bytes) -> Request | Control | Fault:
        """Decode a message of a server.

        Raises:
            BadMessage: It is malformed.
        """
