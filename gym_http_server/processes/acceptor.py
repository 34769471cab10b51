"""Accepts connections at the server's internal sockets; refuses those of environments.

Supervisor, broker and relay have one thread each. An environment that connects in a
loop must not occupy it, nor fill the log.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

from gym_http_server.processes.frame_socket import close_unread
from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.processes.poller import READ, Poller

__all__ = ["MOST_ACCEPTED", "Acceptor"]

#: Connections that are accepted in a row, before the loop does other work. So many
#: refusals take about 3 ms.
MOST_ACCEPTED = 64


class Acceptor:
    """Accepts the connections of a listener in a poll loop.

    Args:
        listener: The socket, which does not block from now on. The caller adds it to
            the poller.
        poller: Polls it.
        take: Called with each accepted connection.
        name: The process that accepts, for its log: at most one line a second.
        peers: Distinguishes processes of the server from those of environments;
            ``None``: everybody may connect.

    Attributes:
        paused: Whether too many descriptors are open to accept a connection.
    """

    def __init__(
        self,
        listener: socket.socket,
        poller: Poller,
        take: Callable[[socket.socket], None],
        name: str,
        peers: PeerCredentials | None = None,
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._poller = poller
        self._take = take
        self._log = LimitedLog(logging.getLogger(f"gym_http_server.{name}"))
        self._name = name
        self._peers = peers
        self.paused = False

    def accept(self, events: int = READ) -> None:
        """Accept some of the connections that wait; the poller reports the others."""
        for _ in range(MOST_ACCEPTED):
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # The poller would report the connection again and again.
                self._poller.want(self._listener, 0)
                self.paused = True
                self._log.warning(
                    f"the {self._name} cannot accept connections: {error.strerror}"
                )
                return
            if self._peers is None or self._peers.permits(sock):
                self._take(sock)
            else:
                self._log.warning(
                    f"refused a connection of an environment to the {self._name}"
                )
                close_unread(sock)

    def resume(self) -> None:
        """Try again after a pause; there may be fewer descriptors by now."""
        if self.paused:
            self.paused = False
            self._poller.want(self._listener, READ)
