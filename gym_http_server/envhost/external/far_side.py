"""A far side: the connection with one environment elsewhere, as a host has it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from gym_http_server.envhost.external.calls import Call
from gym_http_server.envhost.external.dialects import dialect_of
from gym_http_server.envhost.external.lines import ALONE_SECONDS, Line, Lost
from gym_http_server.envhost.external.state import State
from gym_http_wire.external.asks import (
    MAX_NUMBER,
    Answer,
    Ask,
    BadMessage,
    Control,
    Fault,
    Request,
)
from gym_http_wire.external.carriers import CarrierError, Heard, carrier_of
from gym_http_wire.external.greetings import TANGO, Hello
from gym_http_wire.external.steps import Step, StepReader
from gym_http_wire.problems import BadAnswer, ExternalAway
from gym_http_wire.websocket import Close

__all__ = ["Begun", "FarSide"]

M = TypeVar("M")


class Begun(NamedTuple):
    """A step that was asked for without a call, and is not over.

    Attributes:
        number: Its ID.
        data: What has come since then.
    """

    number: int
    data: bytes


class FarSide:
    """One connection, which may be lost and come back.

    Args:
        state: How to go on.
        line: The socket.
        max_message: Bytes that a message may have.
        watch: Called with the socket when there is another one.

    Attributes:
        call: What is asked at the moment.
        steps: Reads what comes of steps; ``None`` where that takes the general way.
        away_since: Monotonic seconds; ``None`` while it is there.
    """

    def __init__(
        self,
        state: State,
        line: socket.socket,
        max_message: int,
        watch: Callable[[FarSide], None],
    ) -> None:
        self.state = state
        self.call: Call | None = None
        self.steps: StepReader[Step] | None = None
        self.away_since: float | None = None
        self._max_message = max_message
        self._watch = watch
        self._connect(line)

    @property
    def hello(self) -> Hello:
        """What the environment said of itself."""
        return self.state.hello

    def fileno(self) -> int:
        """Give the descriptor; -1 while the connection is lost."""
        return self._line.fileno()

    def come_back(self, state: State, line: socket.socket) -> None:
        """Go on over another connection; what was asked over the last one is lost."""
        self.lose("a newer connection took its place")
        self.state.carrier = state.carrier
        self._connect(line)
        self.away_since = None

    def _connect(self, line: socket.socket) -> None:
        self._line = Line(line)
        self._carrier = carrier_of(self.state.carrier, self._max_message)
        self._dialect = dialect_of(self.state.hello)
        self._heard_at = self._owed_until = time.monotonic()
        self._pinged_at: float | None = None
        self._watch(self)

    def number(self) -> int:
        """Give the ID of the next request."""
        number = self.state.next_number
        if number > MAX_NUMBER:
            self.lose("all IDs of requests are used up")
            raise ExternalAway(f"{self.name} has to connect anew")
        self.state.next_number += 1
        return number

    @property
    def name(self) -> str:
        """The env ID."""
        return f"external/{self.hello.name}"

    @property
    def comes_back(self) -> bool:
        """Whether it could come back, if it were lost; Tango's have no token for it."""
        return self.hello.dialect != TANGO

    def send(self, call: Call) -> None:
        """Ask something; what comes back goes into the call.

        Raises:
            UnsupportedValue: This cannot be said.
        """
        left = max(0.0, call.deadline - time.monotonic())
        payload = self._dialect.asked(Request(call.ask, call.number, call.given), left)
        call.lost = False
        if not payload:
            # Nobody has to be asked.
            call.answer = Answer(call.number, {})
            return
        self.call = call
        self._owed_until = call.deadline
        self._say(payload, call.deadline)

    def receive(self) -> None:
        """Read what has come, and take it."""
        data = self._read(wait=False)
        if data:
            self._take_in(data)

    def hear_step(self, call: Call) -> None:
        """Wait a moment for what comes of a step, and read it at once.

        If something else comes, or nothing so soon, the call is not over.
        """
        if self.steps is None or self.call is not call:
            return
        if call.deadline - time.monotonic() >= ALONE_SECONDS:
            self._hear_step(call, self._read(wait=True))

    def _hear_step(self, call: Call, data: bytes) -> None:
        if not data:
            return
        payload = self._carrier.whole(data)
        if payload is not None and self.steps is not None:
            said = self._dialect.hear_step(payload, self.steps)
            if said is not None and said[0] == call.number:
                call.step = said[1]
                self.call = None
                self._owed_until = self._heard_at
                return
        self._take_in(data)

    def step(
        self, action: Any, deadline_s: float, reader: StepReader[M]
    ) -> M | Begun | None:
        """Take a step at once, without a call.

        Returns:
            What came of it; or what was begun, for `go_on`; or nothing, if it cannot
            be said, and nothing has happened.
        """
        number = self.state.next_number
        if number > MAX_NUMBER or self.away_since is not None:
            return None
        dialect, carrier = self._dialect, self._carrier
        request = Request(Ask.STEP, number, {"action": action})
        try:
            payload = dialect.asked(request, deadline_s)
        except Exception:
            # That is found again, and told, where there is a call.
            return None
        self.state.next_number = number + 1
        data = b""
        try:
            asked = carrier.message(payload, text=dialect.text)
            data = self._line.exchange(asked, time.monotonic() + deadline_s)
        except Lost as lost:
            self.lose(str(lost))
        if data:
            self._heard_at = time.monotonic()
            self._pinged_at = None
            text = carrier.whole(data)
            if text is not None:
                said = dialect.hear_step(text, reader)
                if said is not None and said[0] == number:
                    return said[1]
        return Begun(number, data)

    def go_on(self, call: Call, data: bytes) -> None:
        """Go on with a step that was begun.

        Args:
            call: The step's.
            data: What has come since then.
        """
        if self.away_since is not None:
            call.lost = True
            return
        self.call = call
        self._owed_until = call.deadline
        self._hear_step(call, data)

    def _read(self, *, wait: bool) -> bytes:
        """Read what has come; nothing, if nothing has or the connection is lost."""
        try:
            data = self._line.read(wait=wait)
        except Lost as lost:
            self.lose(str(lost))
            return b""
        if data:
            self._heard_at = time.monotonic()
            self._pinged_at = None
        return data

    def _take_in(self, data: bytes) -> None:
        carrier = self._carrier
        try:
            heard = carrier.feed(data)
        except CarrierError as error:
            self._send(error.farewell)
            self._fail(BadMessage(str(error), field="message", fatal=True))
            return
        if carrier.replies:
            replies, carrier.replies = carrier.replies, b""
            self._send(replies)
        for message in heard:
            self._take(message)
        if carrier.over:
            self.lose("it ended the connection")

    def _take(self, heard: Heard) -> None:
        dialect = self._dialect
        try:
            if heard.text is not None and heard.text != dialect.text:
                words = "a message is of the other dialect"
                raise BadMessage(words, field="message", fatal=True)
            said = dialect.hear_answer(heard.payload)
        except BadMessage as error:
            self._fail(error)
            return
        if isinstance(said, Control):
            if said.ask == Ask.PING:
                self._say(dialect.control(Ask.PONG))
        elif self.call is not None and said.number == self.call.number:
            self.call.answer = said
            self.call = None
            self._owed_until = self._heard_at
        elif said.number >= self.state.next_number:
            words = f"an answer to {said.number} came, which was not asked"
            self._fail(BadMessage(words, number=said.number, field="id"))
        # Else it is an answer that came too late; nobody waits for it any more.

    def _fail(self, error: BadMessage) -> None:
        """Tell both sides what was wrong with a message."""
        late = error.number and (self.call is None or error.number != self.call.number)
        if not (late and error.number < self.state.next_number):
            self.blame(error)
            if self.call is not None:
                words = f"{self.name} sent what is no answer: {error}"
                self.call.problem = BadAnswer(words, extras={"field": error.field})
                self.call = None
        if error.fatal:
            self._send(self._carrier.farewell(str(error), Close.UNSUPPORTED))
            self.lose(str(error))

    def blame(self, error: BadMessage) -> None:
        """Tell the environment what was wrong with a message of its own."""
        fault = Fault(str(error), error.number, error.field)
        self._say(self._dialect.fault(fault))

    def give_up(self, call: Call) -> None:
        """Wait no longer for the answer to a call; it may still come."""
        if self.call is call:
            self.call = None
            if not self._dialect.numbered:
                words = "it did not answer in time, and a late answer has no ID"
                self._send(self._carrier.farewell(words, Close.POLICY))
                self.lose(words)

    def tick(self, now: float, heartbeat_s: float) -> None:
        """Look whether it is still there: it is pinged when it is silent.

        While it owes an answer it may be silent: an environment that computes in its
        only thread cannot say that it lives.
        """
        if self.away_since is not None:
            return
        if now - max(self._heard_at, self._owed_until) <= heartbeat_s:
            return
        if self._pinged_at is not None:
            # From the ping on: it may be this host that stood still before.
            if now - max(self._pinged_at, self._owed_until) > heartbeat_s:
                self._send(self._carrier.farewell("no answer to a ping"))
                self.lose("no answer to a ping")
        else:
            self._pinged_at = now
            ping = self._carrier.ping()
            if ping is None:
                self._say(self._dialect.control(Ask.PING))
            else:
                self._send(ping)

    def lose(self, why: str) -> None:
        """Take note that the connection has ended, and end it."""
        if self.away_since is not None:
            return
        print(f"{self.name}, connection {self.state.connection}: {why}", flush=True)
        self.away_since = time.monotonic()
        self._line.close()
        if self.call is not None:
            self.call.lost = True
            self.call = None

    def surrender(self) -> socket.socket | None:
        """Give the socket for another process to go on; ``None`` if none could."""
        if self.away_since is not None or not self._carrier.between:
            return None
        return self._line.socket

    def close(self, words: str = "") -> None:
        """End the connection, or let go of the one that another process has."""
        if words and self.away_since is None:
            self._send(self._carrier.farewell(words, Close.GOING_AWAY))
        self._line.close()

    def _say(self, payload: bytes, until: float | None = None) -> None:
        self._send(self._carrier.message(payload, text=self._dialect.text), until)

    def _send(self, data: bytes, until: float | None = None) -> None:
        """Send bytes; who does not take them in time is gone.

        Args:
            data: The bytes.
            until: Monotonic seconds; ``None``: it has to take them at once.
        """
        if self.away_since is None:
            try:
                self._line.send(data, until)
            except Lost as lost:
                self.lose(str(lost))
