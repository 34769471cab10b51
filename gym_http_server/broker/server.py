"""The broker's loop: one process, one thread, no environment.

Environments that live elsewhere come in here: web workers hand over their sockets.
The broker reads what they say of themselves, keeps the connections alive, and passes
them to the hosts that take them. It hears no step.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable

import msgspec

from gym_http_server.authentication import Authenticator
from gym_http_server.broker.allocation import Allocator
from gym_http_server.broker.idle_connections import IdleConnections
from gym_http_server.broker.long_polling import LongPolling
from gym_http_server.broker.messages import BrokerSettings, ConnectRequest
from gym_http_server.broker.registry import Registry
from gym_http_server.frame_socket import FrameSocket, limit_sending
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Form, Op, answer, problem_answer, request_head
from gym_http_wire.problems import ExternalAway, Problem

__all__ = ["Broker"]

TICK_SECONDS = 0.25
#: Descriptors that a connection may bring before they are taken.
MAX_DESCRIPTORS = 16

log = logging.getLogger("gym_http_server.broker")


class Broker:
    """Holds the free connections.

    Args:
        listener: Where web workers and hosts connect.
        settings: Its settings.
    """

    def __init__(self, listener: socket.socket, settings: BrokerSettings) -> None:
        self._listener = listener
        self._door: socket.socket | None = None
        # Of these two, where nobody can be let in at the moment.
        self._shut: list[socket.socket] = []
        self._lines: dict[int, FrameSocket] = {}
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._guests = Registry()
        self._hall = IdleConnections(self._poll, self._guests, settings)
        self._desk = Allocator(self._guests, self._hall, self._hang_up)
        self._boxes = LongPolling(self._poll, self._hall.enter_posted, settings)
        self._operations: dict[int, Callable[[FrameSocket, Frame], None]] = {
            Op.EXTERNAL_CONNECT: self._come,
            Op.EXTERNAL_LIST: self._desk.list_guests,
            Op.EXTERNAL_TAKE: self._desk.take,
            Op.EXTERNAL_RELEASE: self._desk.release,
            Op.EXTERNAL_ADOPT: self._desk.adopt,
            Op.EXTERNAL_HELLO: self._boxes.hear_hello,
            Op.EXTERNAL_POLL: self._boxes.give_next,
            Op.EXTERNAL_ANSWER: self._boxes.take_answer,
            Op.EXTERNAL_STATUS: _answer_status,
        }

    def run(self) -> None:
        """Work until something ends it."""
        due = 0.0
        while True:
            busy = self._hall or self._guests.waiting or self._boxes or self._shut
            knocked = False
            for descriptor, _ in self._poll.poll(TICK_SECONDS * 1000 if busy else None):
                if descriptor in self._hall:
                    self._hall.hear(descriptor)
                elif descriptor in self._boxes:
                    self._boxes.empty(descriptor)
                elif descriptor in self._lines:
                    self._serve(self._lines[descriptor])
                elif descriptor == self._listener.fileno():
                    self._accept()
                else:
                    knocked = True
            if knocked and self._door is not None:
                # Last, since who left meanwhile has made room.
                self._let_in(self._door)
            # Somebody may be free now: who came, or was within a message until here.
            self._desk.serve_waiting()
            now = time.monotonic()
            if now >= due:
                due = now + TICK_SECONDS
                self._hall.tick(now)
                self._desk.refuse_late(now)
                self._boxes.tick(now)
                while self._shut:
                    self._poll.register(self._shut.pop(), select.POLLIN)

    def open_door(
        self, door: socket.socket, authenticator: Authenticator | None
    ) -> None:
        """Let environments in by plain TCP.

        Args:
            door: Where they connect.
            authenticator: Checks their tokens; ``None``: they need none.
        """
        door.setblocking(False)
        self._door = door
        self._hall.authenticator = authenticator
        self._poll.register(door, select.POLLIN)

    def farewell(self) -> None:
        """Tell everybody that the server is stopping."""
        self._hall.farewell()

    def _let_in(self, door: socket.socket) -> None:
        end = self._accepted(door)
        if end is not None:
            self._hall.let_in(end)

    def _accepted(self, listener: socket.socket) -> socket.socket | None:
        """Accept a connection; nothing, if it is gone or there is no room for it."""
        try:
            return listener.accept()[0]
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError:
            # There may be too many descriptors; there may be fewer at the next tick.
            if listener not in self._shut:
                self._poll.unregister(listener)
                self._shut.append(listener)
            return None

    def _accept(self) -> None:
        end = self._accepted(self._listener)
        if end is None:
            return
        limit_sending(end)
        line = FrameSocket(end, max_descriptors=MAX_DESCRIPTORS)
        self._lines[line.fileno()] = line
        self._poll.register(line, select.POLLIN)

    def _serve(self, line: FrameSocket) -> None:
        try:
            frames = line.receive()
            if frames is None:
                self._hang_up(line)
                return
            for frame in frames:
                self._dispatch(line, frame)
        except OSError:
            self._hang_up(line)
        except (msgspec.MsgspecError, ValueError, KeyError) as error:
            # Environments can connect here, and write what no host does.
            log.warning("a request to the broker is malformed: %r", error)
            self._hang_up(line)

    def _dispatch(self, line: FrameSocket, frame: Frame) -> None:
        try:
            self._operations[frame.kind](line, frame)
        except Problem as problem:
            line.send(problem_answer(problem, frame.number))

    def _hang_up(self, line: FrameSocket) -> None:
        self._forget(line)
        line.close()

    def _forget(self, line: FrameSocket) -> None:
        if self._lines.pop(line.fileno(), None) is not None:
            self._poll.unregister(line)
            self._guests.forget_line(line)

    def _come(self, line: FrameSocket, frame: Frame) -> None:
        """Take a connection: the socket that came along, or else this very one."""
        come = msgspec.json.decode(request_head(frame).value or "", type=ConnectRequest)
        end = None if come.own else line.take_socket()
        if end is None and not come.own:
            raise ExternalAway("too many connections are open here; connect again")
        line.send(answer(204, number=frame.number, form=Form.NONE))
        if end is None:
            self._forget(line)
            end = line.socket
        self._hall.come(end, come, frame.body)


def _answer_status(line: FrameSocket, frame: Frame) -> None:
    """Show that the loop turns."""
    line.send(answer(204, number=frame.number, form=Form.NONE))
