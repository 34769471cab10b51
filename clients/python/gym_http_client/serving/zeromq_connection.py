"""The connection of a provider to a server by ZeroMQ."""

from __future__ import annotations

from gym_http_client.errors import Failure
from gym_http_client.http.addresses import Address
from gym_http_client.http.error_mapping import parse_object
from gym_http_client.serving.connections import (
    HANDSHAKE_SECONDS,
    MAX_MESSAGE,
    ConnectionLost,
)
from gym_http_client.zeromq.dealer import REFUSED, Dealer
from gym_http_wire.external.framing import ReceivedMessage

__all__ = ["ZeroMQConnection"]


class ZeroMQConnection:
    """A provider's connection over a ZeroMQ socket.

    Args:
        address: The server's.

    Raises:
        ConnectionLost: No server answers, or the port is of another kind.
    """

    idles = True

    def __init__(self, address: Address) -> None:
        # The first message is the reply to hello, which may refuse the environment.
        self._greeted = False
        try:
            self._dealer = Dealer(address, MAX_MESSAGE, HANDSHAKE_SECONDS)
        except Failure as failure:
            words = f"there is no server at {address.url}: {failure}"
            raise ConnectionLost(words) from failure
        except OSError as error:
            raise ConnectionLost(f"there is no server: {error}") from error

    def send(self, payload: bytes, *, text: bool) -> None:
        """Send a message.

        Raises:
            ConnectionLost: The connection has ended.
        """
        try:
            self._dealer.send(payload)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def receive(self, seconds: float | None) -> ReceivedMessage | None:
        """Wait for a message; return ``None`` if none arrived in time.

        Raises:
            ConnectionLost: The connection has ended.
        """
        try:
            payload = self._dealer.receive(seconds)
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        if payload is None:
            return None
        if self._greeted and payload.startswith(REFUSED):
            raise ConnectionLost(f"{parse_object(payload).get('message')!s:.500}")
        self._greeted = True
        return ReceivedMessage(payload, None)

    def close(self) -> None:
        """End the connection."""
        self._dealer.close()
