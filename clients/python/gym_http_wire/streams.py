"""Messages of streams, in either of two dialects.

In the dialect ``gym-http.v1`` a message is a frame, as `gym_http_wire.frames` has it,
and values in the binary form have numbered signatures. In ``gym-http.v1.json``
a message is a text that a person can type::

    {"op": "step", "action": 0}
    {"number": 2, "status": 200, "body": {"observation": […], …}}

Clients number their requests from 1. Request n of session S has the idempotency key
``S-n``, over any stream and over HTTP.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from gym_http_wire.fast_frames import FastHostFrames
from gym_http_wire.frames import (
    HEADER,
    MAX_HEAD_BYTES,
    MAX_NUMBER,
    VALUE_HEADER,
    Frame,
    Pieces,
    encode,
)
from gym_http_wire.handshakes import BINARY_PROTOCOL
from gym_http_wire.messages import (
    Form,
    Op,
    RequestHead,
    problem_answer,
    request,
)
from gym_http_wire.problems import BadJSON, BadParameter, Problem
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.values import BadValue
from gym_http_wire.websocket import Close, Opcode, WebSocketError

__all__ = [
    "ACKNOWLEDGED",
    "KEYLESS",
    "BinaryStreamDialect",
    "JSONStreamDialect",
    "RefusedRequest",
    "StreamDialect",
    "stream_dialect",
]

#: In place of the status of a request: all answers to earlier ones were received.
ACKNOWLEDGED = 1

_HEADER_SIZE = HEADER.size
_BINARY = int(Form.BINARY)
#: Operations that need no key: those that do not change an environment, and those of
#: its clock, which may be repeated without harm and have too many answers to keep them.
KEYLESS = frozenset(
    {
        Op.ACT,
        Op.UPDATES,
        Op.REALTIME,
        Op.SET_REALTIME,
        Op.PAUSE,
        Op.RESUME,
        Op.TRACE,
        Op.EPISODES,
        Op.KEYS,
        Op.DESCRIBE,
        Op.ACTION_SPACE,
        Op.OBSERVATION_SPACE,
        Op.ACTION_CONTAINS,
        Op.OBSERVATION_CONTAINS,
        Op.GENERATOR,
        Op.ATTRIBUTE,
    }
)
_OPS = {op.name.lower(): op for op in Op if 0 < op < Op.STREAM}
_KINDS = frozenset(map(int, _OPS.values()))
_FORMS = {"plain": Form.PLAIN, "typed": Form.TYPED}
# Forms of a body, and of the requested answer.
_BODIES = (Form.NONE, *_FORMS.values(), Form.BINARY)
_RENDERED_AS_JSON = RequestHead(accept=("application/json",))
_BOTH = frozenset(
    body | wanted << 4 for body in _BODIES for wanted in (*_FORMS.values(), Form.BINARY)
)


class RefusedRequest(Exception):
    """A message that is not a valid request; the stream goes on.

    Attributes:
        answer: The answer to it.
    """

    def __init__(self, number: int, problem: Problem) -> None:
        super().__init__(problem.message)
        self.answer = problem_answer(problem, number)


class StreamDialect(Protocol):
    """Decodes requests and encodes answers.

    Attributes:
        acknowledges: Whether requests acknowledge earlier answers.
        opcode: WebSocket opcode of its messages.
        fast_frames: The codec of fast frames, if the dialect has them.
    """

    acknowledges: bool
    opcode: int
    fast_frames: FastHostFrames | None

    def read(self, payload: bytes) -> Frame:
        """Decode a request.

        Raises:
            RefusedRequest: The request, or a value in it, is malformed.
            WebSocketError: The message is not a request at all.
        """

    def write(self, answer: Frame) -> list[bytes | memoryview]:
        """Encode an answer, in pieces."""

    def copy(self, answer: Frame, dropped: int) -> list[bytes | memoryview]:
        """Encode the copy of an answer for a watcher, in pieces.

        Args:
            answer: The answer; its kind is the operation. In the JSON dialect, its head
                is the request as JSON, for watchers that ask for it.
            dropped: Number of copies before it that were dropped.
        """


def stream_dialect(protocol: str) -> StreamDialect:
    """Return the dialect of a subprotocol."""
    return BinaryStreamDialect() if protocol == BINARY_PROTOCOL else JSONStreamDialect()


class BinaryStreamDialect:
    """Frames, with numbered signatures in both directions."""

    acknowledges = True
    opcode = int(Opcode.BINARY)

    def __init__(self) -> None:
        self._received = ReceivedSignatures()
        self._sent = SentSignatures()
        self.fast_frames: FastHostFrames | None = FastHostFrames(
            self._sent, self._received
        )

    def read(self, payload: bytes) -> Frame:
        """Decode a request; a value in it is `Pieces`."""
        size = len(payload)
        if size < _HEADER_SIZE:
            raise _malformed(f"a message has {size} bytes, less than a header")
        header = HEADER.unpack_from(payload)
        body_size, head_size, status, kind, form, number = header
        start = _HEADER_SIZE + head_size
        if start + body_size != size or head_size > MAX_HEAD_BYTES:
            raise _malformed(
                f"a message of {size} bytes announces a head of {head_size} "
                f"and a body of {body_size}"
            )
        if kind not in _KINDS or form not in _BOTH:
            words = f"there is no operation {kind} with the forms {form:#x}"
            raise RefusedRequest(number, BadParameter(words))
        head = _head(payload[_HEADER_SIZE:start], number) if head_size else b""
        body: Any
        if body_size and form & 15 == _BINARY:
            try:
                body = self._received.pieces(payload, start)
            except BadValue as error:
                raise RefusedRequest(number, BadJSON(f"the body {error}")) from None
        else:
            body = payload[start:]
        return Frame(kind, number, status, form, head, body)

    def write(self, answer: Frame) -> list[bytes | memoryview]:
        """Encode an answer."""
        body = answer.body
        if not isinstance(body, Pieces):
            return [encode(answer)]
        start = self._sent.header(body.signature)
        size = body.size - VALUE_HEADER.size - len(body.signature) + len(start)
        head = answer.head
        if head:
            head += b" " * (-len(head) % 8)
        header = HEADER.pack(
            size, len(head), answer.status, answer.kind, answer.form, answer.number
        )
        if body.lasting:
            return [b"".join((header, head, start, *body.leaves))]
        return [header + head + start, *body.leaves]

    def copy(self, answer: Frame, dropped: int) -> list[bytes | memoryview]:
        """Encode the copy of an answer."""
        head = b'{"dropped":%d}' % dropped if dropped else b""
        return self.write(answer._replace(head=head))


class JSONStreamDialect:
    """JSON that a person can type."""

    acknowledges = False
    opcode = int(Opcode.TEXT)
    fast_frames: FastHostFrames | None = None

    def __init__(self) -> None:
        self._last = 0

    def read(self, payload: bytes) -> Frame:
        """Decode a request."""
        number = 0
        try:
            given = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
            number = _number(given, self._last + 1)
            self._last = max(number, self._last)
            op = _choice(given, "op", _OPS, None)
            form = _choice(given, "form", _FORMS, "plain")
            name = given.pop("name", None)
            head = None
            if name is not None:
                head = RequestHead(value=msgspec.json.decode(name, type=str))
            elif op == Op.RENDER:
                head = _RENDERED_AS_JSON
        except Problem as problem:
            raise RefusedRequest(number, problem) from None
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            words = f'expected an object, as {{"op": "step", "action": 0}}: {error}'
            raise RefusedRequest(number, BadJSON(words)) from None
        body = msgspec.json.encode(given)
        return request(op, body, head, number, form=form | form << 4)

    def write(self, answer: Frame) -> list[bytes | memoryview]:
        """Encode an answer."""
        start = b'{"number":%d,"status":%d,"body":' % (answer.number, answer.status)
        return [start + _text(answer) + b"}"]

    def copy(self, answer: Frame, dropped: int) -> list[bytes | memoryview]:
        """Encode the copy of an answer."""
        op = Op(answer.kind).name.lower().encode()
        start = b'{"watch":true,"op":"%b","number":%d,"dropped":%d,"status":%d,"body":'
        numbers = op, answer.number, dropped, answer.status
        copy = start % numbers + _text(answer)
        if answer.head:
            copy += b',"request":' + answer.head
        return [copy + b"}"]


def _text(answer: Frame) -> bytes:
    body: bytes = answer.body.rstrip() or b"null"
    if answer.form in (Form.NONE, Form.PLAIN, Form.TYPED):
        return body
    # Other forms are text: pictures were requested as JSON.
    return msgspec.json.encode(answer.body.decode(errors="replace"))


def _head(head: bytes, number: int) -> bytes:
    try:
        msgspec.json.decode(head, type=RequestHead)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RefusedRequest(
            number, BadJSON(f"the head is malformed: {error}")
        ) from None
    return head


def _malformed(words: str) -> WebSocketError:
    return WebSocketError(Close.PROTOCOL_ERROR, words)


def _number(given: dict[str, msgspec.Raw], default: int) -> int:
    raw = given.pop("number", None)
    number = default if raw is None else msgspec.json.decode(raw)
    if type(number) is not int or not 0 < number <= MAX_NUMBER:
        raise BadParameter(f"number is {number!r:.80}: expected 1 to {MAX_NUMBER}")
    return number


def _choice(
    given: dict[str, msgspec.Raw], name: str, known: dict[str, Any], default: str | None
) -> Any:
    raw = given.pop(name, None)
    chosen = default if raw is None else msgspec.json.decode(raw)
    if not isinstance(chosen, str) or chosen not in known:
        expected = ", ".join(known)
        raise BadParameter(f"{name} is {chosen!r:.80}: expected one of {expected}")
    return known[chosen]
