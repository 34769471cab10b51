"""Serves connections on which other processes send requests as frames.

Supervisor, broker, relay and hosts have one thread each, in which a slow reader must
delay no other. What its socket does not accept of an answer waits, and no request of it
is read meanwhile.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.poller import READ, WRITE, Poller
from gym_http_wire.frames import Frame

__all__ = ["FrameServer"]

Connection = TypeVar("Connection", bound=FrameSocket)


class FrameServer(Generic[Connection]):
    """Serves connections in a poll loop until they end.

    Args:
        poller: Polls them.
        name: The process that serves, for the log.
        on_end: Called with a connection that is no longer served.

    Attributes:
        connections: Those that are served.
        stuck: Those of which an answer waits until the other end reads.
    """

    def __init__(
        self, poller: Poller, name: str, on_end: Callable[[Connection], None]
    ) -> None:
        self._poller = poller
        self._name = name
        self._on_end = on_end
        self.connections: set[Connection] = set()
        self.stuck: set[Connection] = set()

    def add(
        self, connection: Connection, handle: Callable[[Connection, Frame], None]
    ) -> None:
        """Serve a connection, from now on.

        Args:
            connection: The connection.
            handle: Called with it and each request. An `OSError` ends the connection,
                and so does a request that cannot be decoded.
        """
        self.connections.add(connection)
        self._poller.add(connection, functools.partial(self.serve, connection, handle))

    def serve(
        self,
        connection: Connection,
        handle: Callable[[Connection, Frame], None],
        events: int = READ,
    ) -> None:
        """Read once, and handle the requests that are now complete."""
        try:
            if events & WRITE:
                connection.flush()
                if not connection.unsent:
                    self.stuck.discard(connection)
                    self._poller.want(connection, READ)
            frames = connection.receive() if events & READ else ()
            if frames is None:
                self.disconnect(connection)
                return
            for frame in frames:
                handle(connection, frame)
        except OSError:
            self.disconnect(connection)
        except (msgspec.MsgspecError, ValueError, KeyError) as error:
            log = logging.getLogger(f"gym_http_server.{self._name}")
            log.warning("a request to the %s is malformed: %r", self._name, error)
            self.disconnect(connection)

    def answer(
        self, connection: Connection, frame: Frame, descriptors: Sequence[int] = ()
    ) -> None:
        """Send an answer, or queue the bytes that the socket does not accept at once.

        Args:
            connection: The connection, whose socket does not block. An answer to one
                that has ended is dropped.
            frame: The answer.
            descriptors: Sent with it; they are closed in any case.
        """
        connection.queue(frame, descriptors)
        if connection.unsent:
            self.stuck.add(connection)
            self._poller.want(connection, WRITE)

    def disconnect_stuck(self, seconds: float) -> None:
        """Close the connections that have accepted nothing of an answer for so long."""
        now = time.monotonic()
        for each in [each for each in self.stuck if now - each.stuck_since > seconds]:
            self.disconnect(each)

    def disconnect(self, connection: Connection) -> None:
        """Close a connection, with the answers that it has not accepted."""
        self.forget(connection)
        connection.close()

    def forget(self, connection: Connection) -> None:
        """Stop serving a connection, and leave it open."""
        if connection in self.connections:
            self.connections.remove(connection)
            self.stuck.discard(connection)
            self._poller.remove(connection)
            self._on_end(connection)
