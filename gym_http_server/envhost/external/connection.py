"""A far side: one environment elsewhere, and what a host asks of it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, TypeVar

from gym_http_server.envhost.external.calls import Call
from gym_http_server.envhost.external.contact import Contact
from gym_http_server.envhost.external.lines import ALONE_SECONDS, Lost
from gym_http_wire.external.framing import FramingError, ReceivedMessage
from gym_http_wire.external.messages import (
    MAX_NUMBER,
    Answer,
    BadMessage,
    Control,
    Request,
)
from gym_http_wire.external.steps import Step, StepReader
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadAnswer, ExternalAway
from gym_http_wire.websocket import Close

__all__ = ["Begun", "ExternalConnection"]

M = TypeVar("M")


class Begun(NamedTuple):
    """A step that was asked for without a call, and is not over.

    Attributes:
        number: Its ID.
        deadline: Monotonic seconds.
        data: What has come since then.
        unfit: Whether that is a whole message, but not what was to be read.
    """

    number: int
    deadline: float
    data: bytes
    unfit: bool


class ExternalConnection(Contact):
    """One connection, and what is asked over it.

    It takes what `Contact` takes.

    Attributes:
        call: What is asked at the moment.
        steps: Reads what comes of steps; ``None`` where that takes the general way.
    """

    call: Call | None = None
    steps: StepReader[Step] | None = None

    def number(self) -> int:
        """Give the ID of the next request."""
        number = self.state.next_number
        if number > MAX_NUMBER:
            self.lose("all IDs of requests are used up")
            raise ExternalAway(f"{self.name} has to connect anew")
        self.state.next_number += 1
        return number

    def send(self, call: Call) -> None:
        """Ask something; what comes back goes into the call.

        Raises:
            UnsupportedValue: This cannot be said.
        """
        left = max(0.0, call.deadline - time.monotonic())
        payload = self._dialect.encode_request(
            Request(call.ask, call.number, call.given), left
        )
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

    def decode_step(self, call: Call) -> None:
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
            said = self._dialect.decode_step(payload, self.steps)
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
        request = Request(Op.STEP, number, {"action": action})
        try:
            payload = dialect.encode_request(request, deadline_s)
        except Exception:
            # That is found again, and told, where there is a call.
            return None
        self.state.next_number = number + 1
        deadline, data, unfit = time.monotonic() + deadline_s, b"", False
        try:
            asked = carrier.message(payload, text=dialect.text)
            data = self._line.exchange(asked, deadline)
        except Lost as lost:
            self.lose(str(lost))
        if data:
            self._hear()
            self._owed_until = self._heard_at
            text = carrier.whole(data)
            if text is not None:
                said = dialect.decode_step(text, reader)
                if said is not None and said[0] == number:
                    return said[1]
                unfit = True
        return Begun(number, deadline, data, unfit)

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

    def _take_in(self, data: bytes) -> None:
        carrier = self._carrier
        try:
            heard = carrier.feed(data)
        except FramingError as error:
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

    def _take(self, heard: ReceivedMessage) -> None:
        dialect = self._dialect
        try:
            if heard.text is not None and heard.text != dialect.text:
                words = "a message is of the other dialect"
                raise BadMessage(words, field="message", fatal=True)
            said = dialect.decode_answer(heard.payload)
        except BadMessage as error:
            self._fail(error)
            return
        if isinstance(said, Control):
            if said.ask == Op.PING:
                self._say(dialect.encode_control(Op.PONG))
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

    def give_up(self, call: Call) -> None:
        """Wait no longer for the answer to a call; it may still come."""
        if self.call is call:
            self.call = None
            if not self._dialect.numbered:
                words = "it did not answer in time, and a late answer has no ID"
                self._send(self._carrier.farewell(words, Close.POLICY))
                self.lose(words)

    def _let_go(self) -> None:
        """Take note that nothing comes any more of what was asked."""
        if self.call is not None:
            self.call.lost = True
            self.call = None
