"""Session log: requests of streams are executed once, and in order.

Request n of session S has the key ``S-n``. Numbers of a session only increase, so the
log keeps a few requests with their answers: a repeated request is among them, or is so
old that its client does not wait for it any more.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from gym_http_core.idempotency import IdempotencyStore, request_fingerprint
from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import Form, Op, request_head
from gym_http_wire.problems import AnswerGone, ExternalAway

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


# A step in fast frames: session, number, signature and leaves of the request and of the
# answer. It becomes a `_Done` when it is needed.
_FastStep = tuple[str, int, bytes, bytes, bytes, bytes]


class SessionLog:
    """The sessions of one instance.

    Args:
        replays: Answers to requests without a stream; a session may begin with these.

    Attributes:
        uncopied: Whether the last answer has arrays that the environment may change.
    """

    def __init__(self, replays: IdempotencyStore) -> None:
        self._replays = replays
        # By session: the number of its last request.
        self._last: OrderedDict[str, int] = OrderedDict()
        self._done: deque[_Done | _FastStep] = deque()
        self._bytes = 0
        # By session: numbers of requests that were received and not executed.
        self._retracted: dict[str, set[int]] = {}
        self.uncopied = False

    def parse_key(self, key: str) -> tuple[str, int] | None:
        """Return session and number of a key; ``None`` if it is not of a session."""
        session, _, digits = key.rpartition("-")
        if session in self._last and digits.isdecimal():
            return session, int(digits)
        return None

    def is_known(self, session: str, number: int) -> bool:
        """Whether a request was executed, or a later one, so that it is not again."""
        last = self._last.get(session)
        if last is None:
            return f"{session}-{number}" in self._replays
        return number <= last and number not in self._retracted.get(session, ())

    def accept_next(self, session: str, number: int) -> bool:
        """Note a request if it is simply the next of its session; returns whether."""
        last = self._last.get(session)
        if last is None or number <= last or self.uncopied:
            return False
        if self._retracted and session in self._retracted:
            return False
        self._last[session] = number
        return True

    def retract(self, session: str, number: int) -> None:
        """Note that a request was not executed, and may be sent again."""
        numbers = self._retracted.setdefault(session, set())
        if len(numbers) < MAX_ANSWERS:
            numbers.add(number)

    def keep_step(self, step: _FastStep) -> None:
        """Add a step in fast frames."""
        done = self._done
        done.append(step)
        self._bytes += len(step[3]) + len(step[5])
        while len(done) > MAX_ANSWERS or self._bytes > MAX_ANSWER_BYTES:
            old = done.popleft()
            # As `_size_of`, without a call.
            size = old.size if isinstance(old, _Done) else len(old[3]) + len(old[5])
            self._bytes -= size

    def last_step(self) -> Frame | None:
        """Return the answer to the last step in fast frames, if it is still kept."""
        for each in reversed(self._done):
            if not isinstance(each, _Done):
                return _whole(each).answer
        return None

    def copy_last(self, session: str = "", acknowledged: int = 0) -> None:
        """Copy the arrays of the last answer, before the environment changes them.

        Args:
            session: Session of the next request, or "".
            acknowledged: Its client has received the answers to all requests with lower
                numbers; they need not be kept.
        """
        if not self.uncopied:
            return
        self.uncopied = False
        if not self._done:
            return
        last = _whole(self._done.pop())
        if last.session == session and last.number < acknowledged:
            self._bytes -= last.size
        else:
            whole = last.answer._replace(body=last.answer.body.join())
            self._done.append(last._replace(answer=whole))

    def replay_or_begin(
        self, session: str, number: int, request: Frame, *, outcomes_known: bool = True
    ) -> Frame | None:
        """Return the answer to a repeated request; ``None`` if it is to be executed.

        Args:
            session: Session of the request.
            number: Its number.
            request: The request.
            outcomes_known: Whether the client knows the outcomes of earlier requests.

        Raises:
            KeyReused: The number was used for another request.
            AnswerGone: It or a later one was executed, and its answer is not kept.
            ExternalAway: An earlier request was not executed, and has to come first.
        """
        last = self._last.get(session)
        if session in self._retracted and self._take_turn(
            session, number, outcomes_known
        ):
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
        # Before its first stream, requests of a session are kept like any others.
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

    def _take_turn(self, session: str, number: int, outcomes_known: bool) -> bool:
        """Whether this is the first of the requests that were not executed.

        Raises:
            ExternalAway: It has to wait for an earlier one.
        """
        numbers = self._retracted[session]
        first, last = min(numbers), self._last[session]
        if number == first:
            numbers.remove(number)
        elif number > last and outcomes_known:
            # The client does not repeat what was not executed.
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
        """Add an executed request, and keep its answer for a while."""
        body = answer.body
        size = len(request.body)
        if type(body) is Pieces:
            size += body.size
            self.uncopied = not body.lasting
        else:
            size += len(body)
        if size > MAX_ANSWER_BYTES:
            self.uncopied = False
            return
        done = self._done
        done.append(_Done(session, number, request, answer, size))
        self._bytes += size
        while len(done) > MAX_ANSWERS or self._bytes > MAX_ANSWER_BYTES:
            self._bytes -= _size_of(done.popleft())


def _size_of(done: _Done | _FastStep) -> int:
    return done.size if isinstance(done, _Done) else len(done[3]) + len(done[5])


def _whole(done: _Done | _FastStep) -> _Done:
    if isinstance(done, _Done):
        return done
    session, number, request_signature, action, signature, result = done
    body = _pieces(request_signature, action)
    request = Frame(Op.STEP, number, 0, _BOTH_BINARY, b"", body)
    answer = Frame(0, number, 200, Form.BINARY, b"", _pieces(signature, result))
    return _Done(session, number, request, answer, _size_of(done))


def _pieces(signature: bytes, leaves: bytes) -> Pieces:
    return Pieces(signature, [leaves], 8 + len(signature) + len(leaves))
