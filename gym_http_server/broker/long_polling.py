"""LongPolling: all environments that call by HTTP."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable

import msgspec

from gym_http_server.access import Identity
from gym_http_server.broker.idle_connection import ConnectionEnded
from gym_http_server.broker.long_poll_connection import (
    LongPollConnection,
    no_connection,
)
from gym_http_server.broker.messages import BrokerSettings, PollRequest
from gym_http_server.broker.waiting_worker import WaitingWorker
from gym_http_server.frame_socket import FrameSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Form, answer, request_head

__all__ = ["LongPolling"]

HELLO_SECONDS = 10.0


class LongPolling:
    """All post boxes.

    Args:
        poll: Watches them.
        enter: Takes the other end of a box's pair as a connection like others.
        settings: The broker's settings.
    """

    def __init__(
        self,
        poll: select.poll,
        enter: Callable[[socket.socket, Identity], None],
        settings: BrokerSettings,
    ) -> None:
        self._poll = poll
        self._enter = enter
        self._settings = settings
        self._boxes: dict[int, LongPollConnection] = {}

    def __contains__(self, descriptor: object) -> bool:
        """Whether a descriptor is that of a box."""
        return descriptor in self._boxes

    def __len__(self) -> int:
        """How many there are."""
        return len(self._boxes)

    def hear_hello(self, line: FrameSocket, frame: Frame) -> None:
        """Take an environment in that calls by HTTP."""
        value = request_head(frame).value or ""
        identity = msgspec.json.decode(value, type=Identity)
        ours, theirs = socket.socketpair()
        self._enter(theirs, identity)
        now = time.monotonic()
        caller = WaitingWorker(line, frame.number, now + HELLO_SECONDS)
        most = self._settings.max_message
        box = LongPollConnection(ours, frame.body, caller, most, now)
        box.owner = identity.name
        self._boxes[box.fileno()] = box
        self._poll.register(box, _interest(box))

    def give_next(self, line: FrameSocket, frame: Frame) -> None:
        """Give a web worker the next request, once there is one."""
        head = request_head(frame)
        asked = msgspec.json.decode(head.value or "", type=PollRequest)
        box = self._box(asked.connection, head.owner)
        box.wait(WaitingWorker(line, frame.number, box.seen_at + asked.wait_s))

    def take_answer(self, line: FrameSocket, frame: Frame) -> None:
        """Pass on what an environment posts."""
        head = request_head(frame)
        box = self._box(head.value or "", head.owner)
        try:
            box.post(frame.body)
        except ConnectionEnded:
            self._end(box)
            raise no_connection(box.connection) from None
        self._poll.modify(box, _interest(box))
        line.send(answer(204, number=frame.number, form=Form.NONE))

    def _box(self, connection: str, owner: str) -> LongPollConnection:
        for box in self._boxes.values():
            if owner not in ("", box.owner):
                continue
            if connection and box.connection == connection:
                box.seen_at = time.monotonic()
                return box
        raise no_connection(connection)

    def empty(self, descriptor: int) -> None:
        """Take what the server said to an environment that calls by HTTP."""
        box = self._boxes[descriptor]
        try:
            box.flush()
            box.receive(time.monotonic(), 2 * self._settings.heartbeat_s)
            self._poll.modify(box, _interest(box))
        except (ConnectionEnded, OSError):
            self._end(box)

    def _end(self, box: LongPollConnection) -> None:
        del self._boxes[box.fileno()]
        self._poll.unregister(box)
        with contextlib.suppress(OSError):
            box.close()

    def tick(self, now: float) -> None:
        """Let go who has waited long enough."""
        for box in self._boxes.values():
            if box.waiting is not None and now >= box.waiting.until:
                box.let_go()


def _interest(box: LongPollConnection) -> int:
    return select.POLLIN | (select.POLLOUT if box.unsent else 0)
