"""Post boxes: environments that fetch what they are asked by HTTP, and post answers.

To everybody else such a one is a connection like others: one end of a pair of sockets,
of which its box has the other.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import Any

import msgspec

from gym_http_server.broker.idle_connection import ConnectionEnded
from gym_http_server.broker.waiting_worker import WaitingWorker
from gym_http_server.errors import HelloRefused, NotFound, TooManyExternal
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.framing import CountedFraming, FramingError
from gym_http_wire.external.handshake import Refused, Welcome, parse_reply
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import BadMessage, Dialect, Fault, Request
from gym_http_wire.messages import AnswerHead, Form, Op, answer, problem_answer
from gym_http_wire.problems import Problem

__all__ = ["LongPollConnection", "no_connection"]

RECEIVE_BYTES = 256 * 1024
MAX_NOTES = 16
_loads: Any = msgspec.json.Decoder().decode


class LongPollConnection:
    """One of them.

    Args:
        end: The box's end of the pair.
        hello: What the environment posted first.
        caller: Who waits for what becomes of that.
        max_message: Bytes that a message may have.
        now: Monotonic seconds.

    Attributes:
        connection: The connection's ID; "" before it is welcome.
        seen_at: When the environment last called.
        waiting: Who waits for the next request.
        owner: Name of the token that it was opened with; "" if it has none.
    """

    def __init__(
        self,
        end: socket.socket,
        hello: bytes,
        caller: WaitingWorker,
        max_message: int,
        now: float,
    ) -> None:
        end.setblocking(False)
        self.end = end
        self.connection = ""
        self.seen_at = now
        self.waiting: WaitingWorker | None = None
        self.owner = ""
        self._greeter: WaitingWorker | None = caller
        self._carrier = CountedFraming(max_message)
        self._most = 2 * max_message
        self._binary = _is_binary(hello)
        # What the server asks and was not answered yet, and its ID.
        self._asked = b""
        self._number = 0
        self._notes: deque[bytes] = deque(maxlen=MAX_NOTES)
        self._out = bytearray()
        self.post(hello)

    def fileno(self) -> int:
        """Give the descriptor."""
        return self.end.fileno()

    @property
    def unsent(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._out)

    def _dialect(self) -> Dialect:
        if self._binary:
            return BinaryDialect()
        return JSONDialect(msgspec.json.encode, _loads)

    def post(self, payload: bytes) -> None:
        """Pass on what the environment says.

        Raises:
            ConnectionEnded: Nobody has the connection any more, or it says too much.
        """
        if len(self._out) > self._most:
            # Who answers each request once never has more than one message waiting.
            raise ConnectionEnded("it says more than anybody reads")
        if self._asked:
            try:
                if self._dialect().peek_id(payload) == self._number:
                    self._asked = b""
            except BadMessage:
                # Whoever reads it tells what is wrong.
                pass
        self._out += self._carrier.message(payload, text=True)
        self.flush()

    def flush(self) -> None:
        """Send what can be sent.

        Raises:
            ConnectionEnded: Nobody has the connection any more.
        """
        try:
            while self._out:
                del self._out[: self.end.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise ConnectionEnded(str(error)) from None

    def receive(self, now: float, patience: float) -> None:
        """Take what the server says.

        Args:
            now: Monotonic seconds.
            patience: Seconds without a call after which the environment is gone.

        Raises:
            ConnectionEnded: Nobody has the connection any more, or it was refused.
        """
        try:
            data = self.end.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectionEnded(str(error)) from None
        if not data:
            raise ConnectionEnded("the server ended the connection")
        try:
            messages = self._carrier.feed(data)
        except FramingError as error:
            raise ConnectionEnded(str(error)) from None
        for heard in messages:
            if self._greeter is not None:
                self._greeted(self._greeter, heard.payload)
            else:
                self._sort(heard.payload, now, patience)
        self.deliver()

    def _greeted(self, greeter: WaitingWorker, payload: bytes) -> None:
        self._greeter = None
        reply = parse_reply(payload)
        if isinstance(reply, Welcome):
            self.connection = reply.connection
            body = msgspec.json.encode(reply, order="sorted") + b"\n"
            greeter.tell(answer(200, body))
            return
        greeter.tell(problem_answer(_problem_of(reply)))
        raise ConnectionEnded(reply.message)

    def _sort(self, payload: bytes, now: float, patience: float) -> None:
        try:
            said = self._dialect().decode_request(payload)
        except BadMessage:
            # A value whose signature came earlier; its number is all that matters.
            said = Request(Op.STEP, _number_in(payload), {})
        if isinstance(said, Request):
            self._asked, self._number = payload, said.number
        elif isinstance(said, Fault):
            self._notes.append(payload)
        elif said.op == Op.PING and (
            self.waiting is not None or now - self.seen_at < patience
        ):
            self.post(self._dialect().encode_control(Op.PONG))

    def wait(self, caller: WaitingWorker) -> None:
        """Have somebody wait for the next request; who waited before is let go."""
        self.let_go()
        self.waiting = caller
        self.deliver()

    def let_go(self) -> None:
        """Tell who waits that there is nothing."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.tell(answer(204, form=Form.NONE))

    def deliver(self) -> None:
        """Give who waits what there is; a request stays until it is answered."""
        if self.waiting is None or not (self._notes or self._asked):
            return
        waiting, self.waiting = self.waiting, None
        payload = self._notes.popleft() if self._notes else self._asked
        kind = "application/octet-stream" if self._binary else "application/json"
        head = AnswerHead(content_type=kind)
        waiting.tell(answer(200, payload, head, form=Form.OTHER))

    def close(self) -> None:
        """End it, and tell who waits."""
        self.end.close()
        for caller in (self._greeter, self.waiting):
            if caller is not None:
                caller.tell(problem_answer(no_connection(self.connection)))
        self._greeter = self.waiting = None


def no_connection(connection: str) -> Problem:
    """Tell that there is no such connection."""
    return NotFound(
        f"there is no connection {connection!r:.40}, or it has ended: say hello again, "
        "by POST to /v1/external/"
    )


def _problem_of(refused: Refused) -> Problem:
    if refused.code == TooManyExternal.default_code:
        return TooManyExternal(refused.message)
    return HelloRefused(refused.message, code=refused.code)


def _is_binary(hello: bytes) -> bool:
    try:
        return bool(_loads(hello).get("dialect") == "binary")
    except (msgspec.MsgspecError, ValueError, RecursionError, AttributeError):
        return False


def _number_in(payload: bytes) -> int:
    return int.from_bytes(payload[12:16], "little")
