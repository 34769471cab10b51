"""Far sides: environments that live elsewhere, and come in by ZeroMQ.

To everybody else such a one is a connection like those by plain TCP: one end of a pair
of sockets, of which the gateway has the other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from gym_http_server.access import Identity
from gym_http_server.errors import ConversationEnded
from gym_http_server.gateway.buffered_socket import BufferedSocket
from gym_http_server.gateway.context import Context
from gym_http_server.gateway.messages import REFUSED, refusal
from gym_http_server.gateway.router import Outbox
from gym_http_wire.external.framing import CountedFraming, FramingError

__all__ = ["ExternalPeer"]

#: Of the largest messages, how many may wait for a host to take them.
MAX_WAITING = 2


class ExternalPeer:
    """One of them.

    Args:
        context: What everybody needs.
        outbox: Where what is said to it goes out.
        identity: The identity of the token that it has shown.
        on_over: Called when the conversation is over.
    """

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        identity: Identity,
        on_over: Callable[[], None],
    ) -> None:
        self._outbox = outbox
        self._on_over = on_over
        self._refused = False
        most = context.settings.max_message
        self._framing = CountedFraming(most)
        ours, theirs = socket.socketpair()
        self._socket = BufferedSocket(
            context.poller, ours, self._said, self._ended, MAX_WAITING * most
        )
        with theirs:
            try:
                context.broker.hand_over(theirs, identity)
            except OSError:
                context.timers.add(0.0, self._ended)

    def receive(self, payload: bytes) -> None:
        """Pass on what it says."""
        self._socket.send(self._framing.message(payload, text=True))

    def resume(self) -> None:
        """Go on, since it takes messages again."""
        self._socket.resume()

    def leave(self) -> None:
        """Take note that it is gone."""
        self._socket.close()

    def _said(self, data: bytes) -> None:
        try:
            for heard in self._framing.feed(data):
                self._refused = heard.payload.startswith(REFUSED)
                self._outbox.send(heard.payload)
        except FramingError:
            self._socket.close()
            self._ended()
            return
        if self._outbox.full_since:
            self._socket.pause()

    def _ended(self) -> None:
        if not self._refused:
            # No connection of its own ends by which it could know.
            words = "the server ended the conversation; say hello again"
            self._outbox.send(refusal(ConversationEnded(words)))
        self._on_over()
