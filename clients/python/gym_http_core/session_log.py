"""Sessions: what streams ask of one environment, once and in its order.

Request n of session S has the key ``S-n``. Since a session goes forwards only, a few
requests with their answers are all that has to be remembered: what comes again is among
them, or was executed so long ago that nobody waits for it any more.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from gym_http_core.idempotency import AnswerGone, IdempotencyStore, request_fingerprint
from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import Form, Op, request_head
from gym_http_wire.problems import ExternalAway

__all__ = ["SessionLog"]

MAX_ANSWERS = 16
MAX_ANSWER_BYTES = 8 * 1024 * 1024
MAX_SESSIONS = 1024
_BOTH_BINARY = Form.BINARY | Form.BINARY << 4


class _Done(NamedTuple):
    session: str
    number: int
    request: Frame
    answer: Frame
    size: int


# A step of the quick lane: session, number, signature and leaves of the request and of
# the answer. It becomes the other thing when somebody asks for it.
_Quick = tuple[str, int, bytes, bytes, bytes, bytes]


class SessionLog:
    """The sessions of one instance.

    Args:
        replays: What other requests got; a session may have begun there.
    """

    def __init__(self, replays: IdempotencyStore) -> None:
        self._replays = replays
        # Of each session, the number of its last request.
        self._last: OrderedDict[str, int] = OrderedDict()
        self._done: deque[_Done | _Quick] = deque()
        self._bytes = 0
        # Of each session, the numbers of requests that were not executed after all.
        self._retracted: dict[str, set[int]] = {}
        # Whether the arrays of the last answer are still the environment's.
        self._unsettled = False

    def place(self, key: str) -> tuple[str, int] | None:
        """Give session and number of a key; ``None`` if it is of no session."""
        session, _, digits = key.rpartition("-")
        if session in self._last and digits.isdecimal():
            return session, int(digits)
        return None

    def proceed(self, session: str, number: int) -> bool:
        """Whether a request is simply the next one of its session; then it is noted."""
        last = self._last.get(session)
        if last is None or number <= last or self._unsettled:
            return False
        if self._retracted and session in self._retracted:
            return False
        self._last[session] = number
        return True

    def retract(self, session: str, number: int) -> None:
        """Take note that a request was not executed after all, and may come again."""
        numbers = self._retracted.setdefault(session, set())
        if len(numbers) < MAX_ANSWERS:
            numbers.add(number)

    def keep_step(self, step: _Quick) -> None:
        """Remember a step of the quick lane."""
        done = self._done
        done.append(step)
        self._bytes += len(step[3]) + len(step[5])
        while len(done) > MAX_ANSWERS or self._bytes > MAX_ANSWER_BYTES:
            self._bytes -= _size_of(done.popleft())

    def last_step(self) -> Frame | None:
        """Give the answer to the last step of the quick lane, if it is kept still."""
        for each in reversed(self._done):
            if not isinstance(each, _Done):
                return _whole(each).answer
        return None

    def settle(self, session: str = "", acknowledged: int = 0) -> None:
        """Make the last answer last, before the environment may change it.

        Args:
            session: Whose request comes next; "" if it is of none.
            acknowledged: Its sender has had the answers to all requests with lower
                numbers: they need not be kept.
        """
        if not self._unsettled:
            return
        self._unsettled = False
        if not self._done:
            return
        last = _whole(self._done.pop())
        if last.session == session and last.number < acknowledged:
            self._bytes -= last.size
        else:
            whole = last.answer._replace(body=last.answer.body.join())
            self._done.append(last._replace(answer=whole))

    def earlier(
        self, session: str, number: int, request: Frame, *, going_on: bool = True
    ) -> Frame | None:
        """Give the answer that a request has had; ``None`` if it is to be executed.

        Args:
            session: Its session.
            number: Its number.
            request: The request.
            going_on: Whether its sender knows what became of all earlier ones.

        Raises:
            KeyReused: It was another request.
            AnswerGone: It was executed, or a later one was, and no answer is kept.
            ExternalAway: An earlier one was not executed after all, and comes first.
        """
        last = self._last.get(session)
        if session in self._retracted and self._take_turn(session, number, going_on):
            return None
        if last is not None and number > last:
            self._last[session] = number
            return None
        for each in self._done:
            if each[:2] == (session, number):
                done = _whole(each)
                first = request_fingerprint(done.request, request_head(done.request))
                again = request_fingerprint(request, request_head(request))
                self._replays.compare(f"{session}-{number}", first, again)
                return done.answer
        # Before its first stream, a session's requests are like any others.
        key = f"{session}-{number}"
        if key in self._replays:
            return self._replays.recall(
                key, request_fingerprint(request, request_head(request))
            )
        if last is not None:
            raise AnswerGone(
                f"request {number} of session {session:.80} comes after request "
                f"{last}, and its answer is not kept; it is not executed any more"
            )
        if len(self._last) >= MAX_SESSIONS:
            self._retracted.pop(self._last.popitem(last=False)[0], None)
        self._last[session] = number
        return None

    def _take_turn(self, session: str, number: int, going_on: bool) -> bool:
        """Tell whether this is the request that others of its session wait for.

        Raises:
            ExternalAway: It is one of those that wait.
        """
        numbers = self._retracted[session]
        first, last = min(numbers), self._last[session]
        if number == first:
            numbers.remove(number)
        elif number > last and going_on:
            # Its sender will not ask again for what was not executed.
            numbers.clear()
        elif number > last or number in numbers:
            if number > last:
                self._last[session] = number
                self.retract(session, number)
            raise ExternalAway(
                f"request {first} of this session was answered with 503 and comes "
                "first: send it again, and then this one",
                headers={"Retry-After": "1"},
            )
        if not numbers:
            del self._retracted[session]
        return number == first

    def keep(self, session: str, number: int, request: Frame, answer: Frame) -> None:
        """Remember that a request has been executed, and its answer for a while."""
        body = answer.body
        size = len(request.body)
        if type(body) is Pieces:
            size += body.size
            self._unsettled = not body.lasting
        else:
            size += len(body)
        if size > MAX_ANSWER_BYTES:
            self._unsettled = False
            return
        done = self._done
        done.append(_Done(session, number, request, answer, size))
        self._bytes += size
        while len(done) > MAX_ANSWERS or self._bytes > MAX_ANSWER_BYTES:
            self._bytes -= _size_of(done.popleft())


def _size_of(done: _Done | _Quick) -> int:
    return done.size if isinstance(done, _Done) else len(done[3]) + len(done[5])


def _whole(done: _Done | _Quick) -> _Done:
    if isinstance(done, _Done):
        return done
    session, number, asked, given, told, leaves = done
    request = Frame(Op.STEP, number, 0, _BOTH_BINARY, b"", _pieces(asked, given))
    answer = Frame(0, number, 200, Form.BINARY, b"", _pieces(told, leaves))
    return _Done(session, number, request, answer, _size_of(done))


def _pieces(signature: bytes, leaves: bytes) -> Pieces:
    return Pieces(signature, [leaves], 8 + len(signature) + len(leaves))
