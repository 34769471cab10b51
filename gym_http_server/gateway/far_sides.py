"""Far sides: environments that live elsewhere, and come in by ZeroMQ.

To everybody else such a one is a connection like those by plain TCP: one end of a pair
of sockets, of which the gateway has the other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from gym_http_server.access import Identity
from gym_http_server.gateway.house import House
from gym_http_server.gateway.lines import Line
from gym_http_server.gateway.posts import Post
from gym_http_server.gateway.said import REFUSED, refusal
from gym_http_wire.external.framing import CountedFraming, FramingError
from gym_http_wire.problems import Problem

__all__ = ["FarSide"]

#: Of the largest messages, how many may wait for a host to take them.
MAX_WAITING = 2


class ConversationEnded(Problem):
    """The server has ended the conversation with a far side."""

    default_status, default_code = 410, "ended"


class FarSide:
    """One of them.

    Args:
        house: What everybody needs.
        post: Where what is said to it goes out.
        identity: The identity of the token that it has shown.
        on_over: Called when the conversation is over.
    """

    def __init__(
        self,
        house: House,
        post: Post,
        identity: Identity,
        on_over: Callable[[], None],
    ) -> None:
        self._post = post
        self._on_over = on_over
        self._refused = False
        most = house.settings.max_message
        self._carrier = CountedFraming(most)
        ours, theirs = socket.socketpair()
        self._line = Line(
            house.poller, ours, self._said, self._ended, MAX_WAITING * most
        )
        with theirs:
            try:
                house.lobby.hand_over(theirs, identity)
            except OSError:
                house.timers.add(0.0, self._ended)

    def hear(self, payload: bytes) -> None:
        """Pass on what it says."""
        self._line.send(self._carrier.message(payload, text=True))

    def resume(self) -> None:
        """Go on, since it takes messages again."""
        self._line.resume()

    def leave(self) -> None:
        """Take note that it is gone."""
        self._line.close()

    def _said(self, data: bytes) -> None:
        try:
            for heard in self._carrier.feed(data):
                self._refused = heard.payload.startswith(REFUSED)
                self._post.say(heard.payload)
        except FramingError:
            self._line.close()
            self._ended()
            return
        if self._post.full_since:
            self._line.pause()

    def _ended(self) -> None:
        if not self._refused:
            # No connection of its own ends by which it could know.
            words = "the server ended the conversation; say hello again"
            self._post.say(refusal(ConversationEnded(words)))
        self._on_over()
