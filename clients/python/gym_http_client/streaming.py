"""Streaming: what is said on a stream, whatever that is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from gym_http_client.failures import Failure, FailureKind
from gym_http_client.http1 import BadAnswer
from gym_http_wire.fast_frames import MISSED
from gym_http_wire.frames import HEADER
from gym_http_wire.messages import Form
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.streams import ACKNOWLEDGED
from gym_http_wire.values import BadValue

__all__ = ["Answer", "Asked", "Streaming", "answer_in"]

_HEADER_SIZE = HEADER.size
_BOTH_BINARY = int(Form.BINARY) | int(Form.BINARY) << 4


class Asked(NamedTuple):
    """A request.

    Attributes:
        number: Its number in its session.
        op: The operation.
        head: The frame's head, padded, or nothing.
        signature: The value's signature, padded; nothing if there is no value.
        leaves: The value's leaves.
    """

    number: int
    op: int
    head: bytes
    signature: bytes
    leaves: bytes


class Answer(NamedTuple):
    """An answer.

    Attributes:
        number: The request's.
        status: As of HTTP.
        form: Of the body.
        message: The whole message; new for each answer.
        start: Where the body begins in it.
    """

    number: int
    status: int
    form: int
    message: bytes | memoryview
    start: int


class Streaming(ABC):
    """One connection; what it loses is lost.

    Args:
        time_limit: Seconds to wait for each answer.
    """

    def __init__(self, time_limit: float) -> None:
        self._time_limit = time_limit
        self._announcing = SentSignatures()
        self._announced = ReceivedSignatures()

    @abstractmethod
    def send(self, asked: Asked, *, acknowledged: bool) -> None:
        """Send a request.

        Args:
            asked: The request.
            acknowledged: Whether all earlier ones have been answered.

        Raises:
            Failure: The connection is lost.
        """

    @abstractmethod
    def receive(self) -> Answer:
        """Wait for the next answer.

        Raises:
            NoStream: The instance is gone.
            Failure: The connection is lost, or what came is no answer.
        """

    def exchange(self, op: int, number: int, given: Any) -> Any:
        """Ask in the quick lane, with no other request on its way.

        Returns:
            The value of the answer; or `MISSED`, if nothing was sent, since this is
            not for the lane, or there is none; or an `Answer`, if that is not.

        Raises:
            Failure: The connection is lost, or what came is no answer.
        """
        return MISSED

    def value(self, answer: Answer) -> object:
        """Read the value of an answer in the binary form.

        Raises:
            Failure: It is none.
        """
        try:
            return self._announced.read(answer.message, answer.start)
        except BadValue as error:
            words = f"a value {error}"
            raise Failure(FailureKind.MALFORMED, words) from error

    @abstractmethod
    def close(self) -> None:
        """Close the connection without a word."""

    def _message(self, asked: Asked, *, acknowledged: bool) -> bytes:
        """Write a request."""
        number, op, head, signature, leaves = asked
        value = self._announcing.header(signature) + leaves if signature else b""
        status = ACKNOWLEDGED if acknowledged else 0
        header = HEADER.pack(len(value), len(head), status, op, _BOTH_BINARY, number)
        return b"".join((header, head, value))


def answer_in(message: bytes | memoryview) -> Answer:
    """Read an answer, but for its value.

    Raises:
        BadAnswer: It is none.
    """
    size = len(message)
    if size < _HEADER_SIZE:
        raise BadAnswer(f"a message has {size} bytes")
    body_size, head_size, status, _, form, number = HEADER.unpack_from(message)
    start = _HEADER_SIZE + head_size
    if start + body_size != size:
        raise BadAnswer(f"a message of {size} bytes announces others")
    return Answer(number, status, form, message, start)
