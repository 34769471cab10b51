"""The lobby's loop: one process, one thread, no environment.

Environments that live elsewhere come in here: web workers hand over their sockets. The
lobby reads what they say of themselves, keeps the connections alive, and passes them to
the hosts that take them. It hears no step.
"""

from __future__ import annotations

import logging
import secrets
import select
import socket
import time
from collections.abc import Callable

import msgspec

from gym_http_server.lobby.arrivals import Arrival, Gone
from gym_http_server.lobby.boxes import Boxes
from gym_http_server.lobby.guests import Guests, Taken, Taking
from gym_http_server.lobby.reception import check_spaces, is_same
from gym_http_server.lobby.said import Come, LobbySettings, State, Wanted
from gym_http_server.passing import PassingLine
from gym_http_wire.external.carriers import COUNTED, WEBSOCKET, Heard
from gym_http_wire.external.greetings import (
    PROTOCOL,
    BadHello,
    Hello,
    Limits,
    Welcome,
    hello_of,
)
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Form, Op, answer, problem_answer, request_head
from gym_http_wire.problems import ExternalAway, Problem

__all__ = ["Lobby"]

HELLO_SECONDS = 10.0
TICK_SECONDS = 0.25
#: Connections by plain TCP that have not said hello yet.
MAX_STRANGERS = 64

log = logging.getLogger("gym_http_server.lobby")


class Lobby:
    """Holds the free connections.

    Args:
        listener: Where web workers and hosts connect.
        settings: Its settings.
    """

    def __init__(self, listener: socket.socket, settings: LobbySettings) -> None:
        self._settings = settings
        self._listener = listener
        self._guests = Guests()
        self._door: socket.socket | None = None
        self._token = ""
        self._arrivals: dict[int, Arrival] = {}
        self._lines: dict[int, PassingLine] = {}
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._boxes = Boxes(self._poll, self._enter_posted, settings)
        self._operations: dict[int, Callable[[PassingLine, Frame], None]] = {
            Op.FAR_COME: self._come,
            Op.FAR_LIST: self._list,
            Op.FAR_TAKE: self._take,
            Op.FAR_RELEASE: self._release,
            Op.FAR_ADOPT: self._adopt,
            Op.FAR_HELLO: self._boxes.hear_hello,
            Op.FAR_NEXT: self._boxes.give_next,
            Op.FAR_ANSWER: self._boxes.take_answer,
        }

    def run(self) -> None:
        """Work until something ends it."""
        due = 0.0
        while True:
            busy = self._arrivals or self._guests.waiting or self._boxes
            for descriptor, _ in self._poll.poll(TICK_SECONDS * 1000 if busy else None):
                if descriptor in self._arrivals:
                    self._hear(self._arrivals[descriptor])
                elif descriptor in self._boxes:
                    self._boxes.empty(descriptor)
                elif descriptor in self._lines:
                    self._serve(self._lines[descriptor])
                elif descriptor == self._listener.fileno():
                    self._accept()
                elif self._door is not None:
                    self._let_in(self._door)
            now = time.monotonic()
            if now >= due:
                due = now + TICK_SECONDS
                self._tick(now)

    def open_door(self, door: socket.socket, token: str) -> None:
        """Let environments in by plain TCP.

        Args:
            door: Where they connect.
            token: What they have to show; "" is nothing.
        """
        door.setblocking(False)
        self._door = door
        self._token = token
        self._poll.register(door, select.POLLIN)

    def farewell(self) -> None:
        """Tell everybody that the server is stopping."""
        for arrival in self._arrivals.values():
            arrival.farewell("the server is stopping")

    def _accept(self) -> None:
        end, _ = self._listener.accept()
        line = PassingLine(end)
        self._lines[line.fileno()] = line
        self._poll.register(line, select.POLLIN)

    def _let_in(self, door: socket.socket) -> None:
        try:
            end, _ = door.accept()
        except OSError:
            return
        strangers = sum(each.hello is None for each in self._arrivals.values())
        if strangers >= MAX_STRANGERS:
            end.close()
            return
        self._enter(end, COUNTED, trusted=not self._token)

    def _serve(self, line: PassingLine) -> None:
        frames = line.receive()
        if frames is None:
            self._hang_up(line)
            return
        try:
            for frame in frames:
                self._dispatch(line, frame)
        except OSError:
            self._hang_up(line)

    def _dispatch(self, line: PassingLine, frame: Frame) -> None:
        try:
            self._operations[frame.kind](line, frame)
        except Problem as problem:
            line.send(problem_answer(problem, frame.number))

    def _hang_up(self, line: PassingLine) -> None:
        self._forget(line)
        line.close()

    def _forget(self, line: PassingLine) -> None:
        if self._lines.pop(line.fileno(), None) is not None:
            self._poll.unregister(line)
            self._guests.forget_line(line)

    def _come(self, line: PassingLine, frame: Frame) -> None:
        """Take a connection: the socket that came along, or else this very one."""
        come = msgspec.json.decode(request_head(frame).value or "", type=Come)
        line.send(answer(204, number=frame.number, form=Form.NONE))
        end = line.taken()
        if end is None:
            self._forget(line)
            end = line.surrender()
        arrival = self._enter(end, WEBSOCKET, trusted=True)
        try:
            arrival.say(come.greeting.encode())
            if frame.body:
                self._sort(arrival, arrival.feed(frame.body, time.monotonic()))
        except Gone as gone:
            self._leave(arrival, gone)

    def _enter(self, end: socket.socket, carrier: str, *, trusted: bool) -> Arrival:
        arrival = Arrival(end, carrier, trusted=trusted, now=time.monotonic())
        self._arrivals[arrival.fileno()] = arrival
        self._poll.register(arrival, select.POLLIN)
        return arrival

    def _enter_posted(self, end: socket.socket) -> None:
        self._enter(end, COUNTED, trusted=True)

    def _hear(self, arrival: Arrival) -> None:
        try:
            self._sort(arrival, arrival.receive(time.monotonic()))
        except Gone as gone:
            self._leave(arrival, gone)

    def _sort(self, arrival: Arrival, messages: list[Heard]) -> None:
        for heard in messages:
            if arrival.hello is None:
                self._greet(arrival, heard.payload)
            elif arrival.fileno() >= 0:
                arrival.idle(heard)

    def _greet(self, arrival: Arrival, payload: bytes) -> None:
        try:
            hello = hello_of(payload)
            check_spaces(hello)
        except BadHello as error:
            arrival.refuse(error.code, str(error))
        if not arrival.trusted and not is_same(hello.token, self._token):
            arrival.refuse("unauthorized", "the token is missing or wrong")
        earlier = self._guests.taken.get(hello.resume)
        if earlier is not None and earlier.hello == hello.public():
            self._go_on(arrival, hello.public(), earlier)
            return
        older = self._guests.free_with(hello.resume) if hello.resume else None
        resumed = older is not None and older.hello == hello.public()
        if older is not None and resumed:
            older.farewell("another connection showed the same resume token")
            arrival.connection, arrival.resume = older.connection, older.resume
            arrival.next_number = older.next_number
            self._leave(older, Gone("a newer connection took its place"))
        elif self._guests.count >= self._settings.max_external:
            arrival.refuse(
                "too-many-external",
                f"all {self._settings.max_external} connections that this server may "
                "have are there; raise --max-external",
            )
        else:
            arrival.connection = secrets.token_hex(4)
            arrival.resume = secrets.token_urlsafe(16)
        arrival.adopt(hello.public())
        self._welcome(arrival, resumed=resumed)
        self._guests.add(arrival)
        log.info("external/%s came, connection %s", hello.name, arrival.connection)
        self._serve_waiting()

    def _welcome(self, arrival: Arrival, *, resumed: bool) -> None:
        settings = self._settings
        arrival.greet(
            Welcome(
                PROTOCOL,
                arrival.connection,
                arrival.resume,
                resumed,
                settings.heartbeat_s,
                settings.grace_s,
                Limits(settings.max_message),
            )
        )

    def _go_on(self, arrival: Arrival, hello: Hello, taken: Taken) -> None:
        """Pass a connection on to the host that had it before it was lost."""
        arrival.connection, arrival.resume = taken.connection, taken.resume
        arrival.adopt(hello)
        self._welcome(arrival, resumed=True)
        if not arrival.takeable:
            raise Gone("it said more than hello")
        try:
            frame = Frame(Op.FAR_BACK, body=arrival.state())
            taken.line.send(frame, arrival.line)
        except OSError:
            raise Gone("the host that had it is gone") from None
        self._leave(arrival)

    def _leave(self, arrival: Arrival, why: Gone | None = None) -> None:
        """Let go of a connection: it is gone, or another process has it."""
        if self._arrivals.pop(arrival.fileno(), None) is None:
            return
        self._poll.unregister(arrival)
        self._guests.remove(arrival)
        arrival.close()
        if why is not None and arrival.hello is not None:
            name = arrival.hello.name
            log.info("external/%s left, %s: %s", name, arrival.connection, why)

    def _list(self, line: PassingLine, frame: Frame) -> None:
        body = msgspec.json.encode(self._guests.listed())
        line.send(answer(200, body, number=frame.number))

    def _take(self, line: PassingLine, frame: Frame) -> None:
        wanted = msgspec.json.decode(frame.body, type=Wanted)
        until = time.monotonic() + wanted.wait_s
        self._guests.waiting.append(Taking(line, wanted.name, wanted.count, until))
        self._serve_waiting()
        self._refuse_late(time.monotonic())

    def _serve_waiting(self) -> None:
        """Give to who waits, in their order: who wants many is not passed by."""
        guests = self._guests
        passed: set[str] = set()
        for taking in list(guests.waiting):
            found = guests.takeable(taking.name)[: taking.count]
            if taking.name in passed or len(found) < taking.count:
                passed.add(taking.name)
                continue
            guests.waiting.remove(taking)
            try:
                for arrival in found:
                    self._give(taking.line, arrival)
            except OSError:
                self._hang_up(taking.line)

    def _give(self, line: PassingLine, arrival: Arrival) -> None:
        hello = arrival.hello
        assert hello is not None  # noqa: S101 - it was free
        line.send(answer(200, arrival.state()), arrival.line)
        taken = Taken(line, arrival.connection, arrival.resume, hello)
        self._leave(arrival)
        self._guests.taken[taken.resume] = taken

    def _refuse_late(self, now: float) -> None:
        for taking in list(self._guests.waiting):
            if now >= taking.until:
                self._guests.waiting.remove(taking)
                free = len(self._guests.takeable(taking.name))
                some = "none is" if not free else f"only {free} of them are"
                words = (
                    f"external/{taking.name} was to be made of {taking.count} "
                    f"connection{'s' if taking.count > 1 else ''}, and {some} free; "
                    "it is made once they connect: ask again, or with wait_s"
                )
                try:
                    taking.line.send(problem_answer(ExternalAway(words)))
                except OSError:
                    self._hang_up(taking.line)

    def _release(self, line: PassingLine, frame: Frame) -> None:
        """Take a connection back from a host."""
        state = msgspec.json.decode(frame.body, type=State)
        end = line.taken()
        self._guests.taken.pop(state.resume, None)
        if end is None:
            return
        arrival = self._enter(end, state.carrier, trusted=True)
        arrival.connection, arrival.resume = state.connection, state.resume
        arrival.next_number = state.next_number
        arrival.adopt(state.hello)
        self._guests.add(arrival)
        self._serve_waiting()

    def _adopt(self, line: PassingLine, frame: Frame) -> None:
        """Learn what a host has, after another lobby ended that knew."""
        for state in msgspec.json.decode(frame.body, type=list[State]):
            taken = Taken(line, state.connection, state.resume, state.hello)
            self._guests.taken[state.resume] = taken

    def _tick(self, now: float) -> None:
        heartbeat = self._settings.heartbeat_s
        for arrival in list(self._arrivals.values()):
            silent = now - arrival.heard_at
            try:
                if arrival.hello is None and silent > HELLO_SECONDS:
                    arrival.refuse("bad-hello", f"no hello in {HELLO_SECONDS:g} s")
                elif silent > 2 * heartbeat:
                    arrival.farewell("no answer to a ping")
                    raise Gone("no answer to a ping")
                elif silent > heartbeat and arrival.hello and not arrival.pinged:
                    arrival.ping()
            except Gone as gone:
                self._leave(arrival, gone)
        self._refuse_late(now)
        self._boxes.tick(now)
        # One that was within a message may have come to its end.
        self._serve_waiting()
