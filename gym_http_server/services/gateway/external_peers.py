"""External environments that connect by ZeroMQ.

For the broker and hosts, such an environment has a connection like one by plain TCP:
one end of a pair of sockets. The gateway has the other end.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from gym_http_server.access.identities import Identity
from gym_http_server.errors import ConversationEnded
from gym_http_server.services.gateway.buffered_socket import BufferedSocket
from gym_http_server.services.gateway.context import Context
from gym_http_server.services.gateway.messages import REFUSED, refusal
from gym_http_server.services.gateway.router import Outbox
from gym_http_wire.external.framing import CountedFraming, FramingError

__all__ = ["ExternalPeer"]

#: Messages of the largest size that may wait until a host reads them.
MAX_WAITING = 2


class ExternalPeer:
    """The gateway's end of the connection of one external environment.

    Args:
        context: The state that all peers share.
        outbox: Sends messages to it.
        identity: The identity of its token.
        on_close: Called when the conversation is over.
    """

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        identity: Identity,
        on_close: Callable[[], None],
    ) -> None:
        self._outbox = outbox
        self._on_close = on_close
        most = context.settings.max_message
        self._framing = CountedFraming(most)
        ours, theirs = socket.socketpair()
        self._socket = BufferedSocket(
            context.poller, ours, self._send_on, self._ended, MAX_WAITING * most
        )
        with theirs:
            try:
                context.broker.pass_on(theirs, identity)
            except OSError:
                context.timers.add(0.0, self._ended)

    def receive(self, payload: bytes) -> None:
        """Pass a message of the environment on."""
        self._socket.send(self._framing.message(payload, text=True))

    def resume(self) -> None:
        """Continue, since the environment reads messages again."""
        self._socket.resume()

    def leave(self) -> None:
        """Close its connection after the environment has disconnected."""
        self._socket.close()

    def _send_on(self, data: bytes) -> None:
        try:
            for message in self._framing.feed(data):
                self._outbox.send(message.payload)
                if message.payload.startswith(REFUSED):
                    # Its next hello may be here before the end of this connection.
                    self._socket.close()
                    self._on_close()
                    return
        except FramingError:
            self._socket.close()
            self._ended()
            return
        if self._outbox.full_since:
            self._socket.pause()

    def _ended(self) -> None:
        # ZeroMQ does not show it the end of a connection.
        words = "the server ended the conversation; send a hello again"
        self._outbox.send(refusal(ConversationEnded(words)))
        self._on_close()
