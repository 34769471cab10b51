"""The JSON dialects of external environments, with values in plain or typed JSON.

::

    {"type": "step", "id": 3, "deadline_s": 30, "action": 1}
    {"id": 3, "result": {"observation": […], "reward": 1.0, "terminated": false, …}}
    {"id": 3, "error": {"message": "the crate is stuck"}}
    {"type": "fault", "id": 3, "message": "…", "field": "observation"}
    {"type": "ping"}   {"type": "pong"}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gym_http_wire.external.messages import (
    NAMES,
    Answer,
    BadMessage,
    Control,
    Fault,
    Request,
)
from gym_http_wire.external.steps import StepReader
from gym_http_wire.frames import MAX_NUMBER
from gym_http_wire.messages import Op

__all__ = ["JSONDialect"]

M = TypeVar("M")

_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_CONTROLS = {"ping": Op.PING, "pong": Op.PONG}
#: The beginning of each request, formatted without a tree since steps are frequent.
_BEGUN = {
    op: b'{"type":"%b","id":%%d,"deadline_s":%%.3f' % name.encode()
    for name, op in NAMES.items()
}
_STEP = _BEGUN[Op.STEP] + b',"action":%d}'
#: Up to here every JSON parser reads integers exactly.
_EXACT = 2**53
_OWN = ("type", "id", "deadline_s")


class JSONDialect:
    """Messages in JSON.

    Args:
        dumps: Encodes a value.
        loads: Decodes a value; raises `ValueError`.
    """

    text = True
    numbered = True

    def __init__(
        self, dumps: Callable[[Any], bytes], loads: Callable[[bytes], Any]
    ) -> None:
        self._dumps = dumps
        self._loads = loads

    def encode_request(self, request: Request, deadline_s: float) -> bytes:
        """Encode a request."""
        op, number, given = request
        encoded = _BEGUN[op] % (number, deadline_s)
        for name, value in given.items():
            encoded += b',"%b":%b' % (name.encode(), self._dumps(value).rstrip())
        return encoded + b"}"

    def encode_step(self, number: int, action: Any, deadline_s: float) -> bytes:
        """Encode the request of a step."""
        # Beyond, not all dialects encode integers as numbers.
        if type(action) is int and -_EXACT <= action <= _EXACT:
            return _STEP % (number, deadline_s, action)
        request = Request(Op.STEP, number, {"action": action})
        return self.encode_request(request, deadline_s)

    def encode_answer(self, answer: Answer) -> bytes:
        """Encode an answer."""
        number, result, error = answer
        if error is not None:
            return _encode({"id": number, "error": error})
        encoded = msgspec.Raw(self._dumps(result).rstrip())
        return _encode({"id": number, "result": encoded})

    def encode_control(self, op: Op) -> bytes:
        """Encode a ping or a pong."""
        return _encode({"type": op.name.lower()})

    def encode_fault(self, fault: Fault) -> bytes:
        """Encode the report of an error."""
        message: dict[str, Any] = {"type": "fault", "message": fault.message}
        if fault.number:
            message["id"] = fault.number
        if fault.field:
            message["field"] = fault.field
        return _encode(message)

    def peek_id(self, payload: bytes) -> Control | int:
        """Decode only the request ID of an answer."""
        members = _members(payload)
        return _control(members) if "type" in members else _number(members)

    def decode_answer(self, payload: bytes) -> Answer | Control:
        """Decode a message of an environment."""
        # Nearly every message is an answer with a result, which one pass decodes.
        try:
            message = self._loads(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self._decode_other(payload)
        if type(message) is dict and "type" not in message and "error" not in message:
            number, result = message.get("id"), message.get("result")
            if (
                type(number) is int
                and 0 < number <= MAX_NUMBER
                and type(result) is dict
            ):
                return Answer(number, result)
        return self._decode_other(payload)

    def decode_step(
        self, payload: bytes, reader: StepReader[M]
    ) -> tuple[int, M] | None:
        """Decode the answer to a step, if it has nothing unusual."""
        return reader.answer(payload)

    def _decode_other(self, payload: bytes) -> Answer | Control:
        """Decode an error, ping or pong; or raise with the reason."""
        members = _members(payload)
        if "type" in members:
            return _control(members)
        number = _number(members)
        if ("result" in members) == ("error" in members):
            words = "an answer has either a result or an error"
            raise BadMessage(words, number=number, field="result")
        if "error" in members:
            return Answer(number, None, _error(members["error"], number))
        try:
            result = self._loads(bytes(members["result"]))
        except ValueError as error:
            words = f"result: {error}"
            raise BadMessage(words, number=number, field="result") from None
        if not isinstance(result, dict):
            words = f"result is {_shown(members['result'])}: expected an object"
            raise BadMessage(words, number=number, field="result")
        return Answer(number, result)

    def decode_request(self, payload: bytes) -> Request | Control | Fault:
        """Decode a message of a server."""
        members = _members(payload)
        kind = _text(members.get("type"))
        op = NAMES.get(kind)
        if op is None:
            raise BadMessage(f"type is {kind!r:.80}: there is no such request")
        if op in (Op.PING, Op.PONG):
            return Control(op)
        if op == Op.FAULT:
            fault = _decode_object(payload)
            number = fault.get("id")
            return Fault(
                str(fault.get("message", "")),
                number if isinstance(number, int) else 0,
                str(fault.get("field", "")),
            )
        number = _number(members)
        given = {}
        for name, raw in members.items():
            # An environment that waits for others has to know it when it begins.
            if name not in _OWN or (op == Op.INIT and name == "deadline_s"):
                try:
                    given[name] = self._loads(bytes(raw))
                except ValueError as error:
                    words = f"{name}: {error}"
                    raise BadMessage(words, number=number, field=name) from None
        return Request(op, number, given)


def _members(payload: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _decode_members(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        words = f"a message is not a JSON object: {error}"
        raise BadMessage(words, field="message", fatal=True) from None


def _control(members: dict[str, msgspec.Raw]) -> Control:
    kind = _CONTROLS.get(_text(members["type"]))
    if kind is None:
        raise BadMessage(
            f"type is {_shown(members['type'])}: expected ping, pong, or an answer, "
            "which has an id and no type",
            field="type",
        )
    return Control(kind)


def _number(members: dict[str, msgspec.Raw]) -> int:
    raw = members.get("id")
    try:
        number = None if raw is None else msgspec.json.decode(raw, type=int)
    except (msgspec.MsgspecError, ValueError):
        number = None
    if number is None or not 0 < number <= MAX_NUMBER:
        shown = "missing" if raw is None else _shown(raw)
        raise BadMessage(f"id is {shown}: expected that of a request", field="id")
    return number


def _error(raw: msgspec.Raw, number: int) -> dict[str, Any]:
    try:
        error = _decode_object(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        error = {}
    if not isinstance(error.get("message"), str):
        words = f"error is {_shown(raw)}: expected an object with a message"
        raise BadMessage(words, number=number, field="error")
    return error


def _text(raw: msgspec.Raw | None) -> str:
    try:
        return "" if raw is None else msgspec.json.decode(raw, type=str)
    except (msgspec.MsgspecError, ValueError):
        return ""


def _shown(raw: msgspec.Raw) -> str:
    return bytes(raw)[:80].decode(errors="replace")
