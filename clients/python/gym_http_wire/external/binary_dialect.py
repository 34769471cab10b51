"""The binary dialect of external environments: the frames of streams.

Here the server sends requests and the environment answers. Signatures have numbers,
which each side counts from 1; an ``init`` begins anew.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from gym_http_wire.external.messages import (
    OPS,
    Answer,
    BadMessage,
    Control,
    Fault,
    Request,
)
from gym_http_wire.external.steps import StepReader
from gym_http_wire.frames import HEADER, MAX_HEAD_BYTES
from gym_http_wire.messages import Form, Op
from gym_http_wire.signatures import ReceivedSignatures, SentSignatures
from gym_http_wire.values import BadValue
from gym_http_wire.values.binary import split

__all__ = ["BinaryDialect"]

M = TypeVar("M")
_SIZE = HEADER.size
_PLAIN = int(Form.PLAIN)
_BINARY = int(Form.BINARY)
_BOTH = _BINARY | _BINARY << 4
_CONTROLS = (Op.PING, Op.PONG)
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class BinaryDialect:
    """Frames, with numbered signatures in both directions."""

    text = False
    numbered = True

    def __init__(self) -> None:
        self._forget()

    def encode_request(self, request: Request, deadline_s: float) -> bytes:
        """Encode a request."""
        op, number, given = request
        if op == Op.INIT:
            self._forget()
            given = {**given, "deadline_s": deadline_s}
        head = b""
        if "name" in given:
            head = _encode({"value": given["name"]})
            head += b" " * (-len(head) % 8)
            given = {key: value for key, value in given.items() if key != "name"}
        body = self._value(given) if given else b""
        form = _BOTH if given else _BINARY << 4
        return HEADER.pack(len(body), len(head), 0, op, form, number) + head + body

    def encode_step(self, number: int, action: Any, deadline_s: float) -> bytes:
        """Encode the request of a step."""
        request = Request(Op.STEP, number, {"action": action})
        return self.encode_request(request, deadline_s)

    def encode_answer(self, answer: Answer) -> bytes:
        """Encode an answer."""
        number, result, error = answer
        if error is not None:
            body = _encode(error)
            status = error.get("status", 502)
            return HEADER.pack(len(body), 0, status, 0, _PLAIN, number) + body
        body = self._value(result)
        return HEADER.pack(len(body), 0, 200, 0, _BINARY, number) + body

    def encode_control(self, op: Op) -> bytes:
        """Encode a ping or a pong."""
        return HEADER.pack(0, 0, 0, op, 0, 0)

    def encode_fault(self, fault: Fault) -> bytes:
        """Encode the report of an error."""
        body = _encode({"message": fault.message, "field": fault.field})
        return HEADER.pack(len(body), 0, 0, Op.FAULT, _PLAIN, fault.number) + body

    def peek_id(self, payload: bytes) -> Control | int:
        """Decode only the request ID of an answer."""
        _, _, kind, _, number = _parse_header(payload)
        return Control(Op(kind)) if kind in _CONTROLS else number

    def decode_answer(self, payload: bytes) -> Answer | Control:
        """Decode a message of an environment."""
        start, status, kind, form, number = _parse_header(payload)
        if kind in _CONTROLS:
            return Control(Op(kind))
        if kind:
            words = f"operation is {kind}: expected 0, as in every answer"
            raise BadMessage(words, number=number, field="operation")
        if not number:
            raise BadMessage("number is 0: expected that of a request", field="number")
        if status != 200:
            return Answer(number, None, _error(payload[start:], status, number))
        if form & 15 != _BINARY:
            words = f"form is {form & 15}: expected {_BINARY}, the binary one"
            raise BadMessage(words, number=number, field="form")
        result = self._read(payload, start, number)
        if not isinstance(result, dict):
            words = f"result is a {type(result).__name__}: expected a dict"
            raise BadMessage(words, number=number, field="result")
        return Answer(number, result)

    def decode_step(
        self, payload: bytes, reader: StepReader[M]
    ) -> tuple[int, M] | None:
        """Return ``None``: only JSON has a fast way."""
        return None

    def decode_request(self, payload: bytes) -> Request | Control | Fault:
        """Decode a message of a server."""
        start, _, kind, form, number = _parse_header(payload)
        if kind in _CONTROLS:
            return Control(Op(kind))
        if kind == Op.FAULT:
            fault = _plain(payload[start:])
            return Fault(
                str(fault.get("message", "")), number, str(fault.get("field", ""))
            )
        if kind not in OPS:
            raise BadMessage(f"there is no operation {kind}", number=number)
        if kind == Op.INIT:
            self._forget()
        given: dict[str, Any] = {}
        if form & 15 == _BINARY and start < len(payload):
            given = self._read(payload, start, number)
            if not isinstance(given, dict):
                raise BadMessage("the body is not a dict", number=number)
        if start > _SIZE:
            given["name"] = str(_plain(payload[_SIZE:start]).get("value", ""))
        return Request(Op(kind), number, given)

    def _forget(self) -> None:
        self._sent = SentSignatures()
        self._received = ReceivedSignatures()

    def _value(self, value: Any) -> bytes:
        signature, leaves = split(value)
        return b"".join((self._sent.header(signature), *leaves))

    def _read(self, payload: bytes, start: int, number: int) -> Any:
        try:
            return self._received.read(payload, start)
        except BadValue as error:
            words = f"the body is malformed: {error}"
            raise BadMessage(words, number=number, field="body") from None


def _parse_header(payload: bytes) -> tuple[int, int, int, int, int]:
    """Return the position of the body, and status, operation, form and number."""
    if len(payload) < _SIZE:
        words = f"a message has {len(payload)} bytes, less than a header"
        raise BadMessage(words, field="message", fatal=True)
    body_size, head_size, status, kind, form, number = HEADER.unpack_from(payload)
    start = _SIZE + head_size
    if start + body_size != len(payload) or head_size > MAX_HEAD_BYTES:
        words = (
            f"a message of {len(payload)} bytes announces a head of {head_size} and a "
            f"body of {body_size}"
        )
        raise BadMessage(words, field="message", fatal=True)
    return start, status, kind, form, number


def _plain(body: bytes) -> dict[str, Any]:
    try:
        return _decode_object(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def _error(body: bytes, status: int, number: int) -> dict[str, Any]:
    error = _plain(body)
    if status < 400 or not isinstance(error.get("message"), str):
        words = (
            f"status is {status}: expected 200, or 400 and above with a problem, an "
            "object with a message"
        )
        raise BadMessage(words, number=number, field="status")
    return error
