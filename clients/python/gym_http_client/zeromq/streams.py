"""Streams by ZeroMQ: the messages of a stream, each a message of ZeroMQ's."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gym_http_client.addresses import Address
from gym_http_client.failures import Failure, FailureKind
from gym_http_client.handshakes import NoStream
from gym_http_client.http1 import MAX_BODY, Reply
from gym_http_client.streaming import Answer, Asked, Streaming, answer_in
from gym_http_client.zeromq.dealers import REFUSED, Dealer

__all__ = ["ZeroMQStream"]

HANDSHAKE_SECONDS = 10.0
PROTOCOL = 1


class ZeroMQStream(Streaming):
    """One connection of ZeroMQ's.

    Args:
        address: The server's.
        greeting: What to say first, beside who this is.
        greeting_limit: Seconds to wait for the welcome.
        time_limit: Seconds to wait for each answer.

    Attributes:
        welcome: What the server answered.

    Raises:
        NoStream: There is a server, but no stream.
        Failure: There is no answer.
    """

    def __init__(
        self,
        address: Address,
        greeting: dict[str, Any],
        greeting_limit: float,
        time_limit: float,
    ) -> None:
        super().__init__(time_limit)
        seconds = min(greeting_limit, HANDSHAKE_SECONDS)
        try:
            self._dealer = Dealer(address, MAX_BODY, seconds)
        except OSError as error:
            raise Failure.of(error) from error
        said = {"type": "agent", "protocol": PROTOCOL, "dialect": "binary", **greeting}
        if address.token:
            said["token"] = address.token
        try:
            self._say(json.dumps(said, allow_nan=False).encode())
            self.welcome = _welcome(self._hear(greeting_limit))
        except BaseException:
            self._dealer.close()
            raise

    def send(self, asked: Asked, *, acknowledged: bool) -> None:
        """Send a request.

        Raises:
            NoStream: It is larger than the server takes, which would end the stream.
        """
        message = self._message(asked, acknowledged=acknowledged)
        most = self.welcome.get("limits", {}).get("max_message", len(message))
        if len(message) > most:
            raise _too_large(len(message), most)
        self._say(message)

    def receive(self, seconds: float | None = None) -> Answer:
        """Wait for the next answer, for the time limit or so many seconds."""
        message = self._hear(self._time_limit if seconds is None else seconds)
        try:
            return answer_in(message)
        except ValueError as error:
            raise Failure(FailureKind.MALFORMED, error) from error

    def close(self) -> None:
        """Close the connection without a word."""
        self._dealer.close()

    def _say(self, message: bytes) -> None:
        try:
            self._dealer.send(message)
        except OSError as error:
            raise Failure.of(error) from error

    def _hear(self, seconds: float) -> bytes:
        try:
            message = self._dealer.receive(seconds)
        except OSError as error:
            raise Failure.of(error) from error
        if message is None:
            raise Failure(FailureKind.TIMEOUT, f"nothing within {seconds:g} s")
        if message.startswith(REFUSED):
            raise _refused(message)
        return message


def _welcome(message: bytes) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(message, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        told = {}
    if told.get("type") != "welcome" or not isinstance(told.get("instance_id"), str):
        words = "the greeting was answered by what is no welcome"
        raise Failure(FailureKind.MALFORMED, words)
    return told


def _too_large(size: int, most: int) -> NoStream:
    words = f"the message has {size} bytes, more than the {most} that this server takes"
    told = {"code": "body-too-large", "message": words, "status": 413}
    return NoStream(Reply(413, {}, json.dumps(told).encode()))


def _refused(message: bytes) -> NoStream | Failure:
    """Tell what the end of a conversation means."""
    told = json.loads(message)
    status = told.get("status")
    if not isinstance(status, int):
        return Failure(FailureKind.MALFORMED, "a refusal has no status")
    if told.get("code") == "stream-ended":
        return Failure(FailureKind.LOST, told.get("message"))
    return NoStream(Reply(status, {}, message))
