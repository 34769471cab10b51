"""The dialect of Tango's pages and games: JSON messages without IDs.

::

    {"type": "reset", "seed": null, "options": null}
    {"type": "action", "action": "2"}
    {"type": "close"}
    {"observation": […], "info": {}}
    {"observation": […], "reward": 1, "terminated": false, "truncated": false, …}
    {"info": "closed"}

An answer belongs to the pending request. Any other message could be mistaken for the
next answer, so it ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gym_http_wire.external.messages import Answer, BadMessage, Control, Fault, Request
from gym_http_wire.external.steps import StepReader
from gym_http_wire.messages import Op

__all__ = ["TangoDialect"]

M = TypeVar("M")

_encode = msgspec.json.Encoder().encode
_decode_string = msgspec.json.Decoder(str).decode


class TangoDialect:
    """Encodes and decodes Tango's messages, for a server.

    Args:
        dumps: Encodes a value.
        loads: Decodes a value; raises `ValueError`.
    """

    text = True
    numbered = False

    def __init__(
        self, dumps: Callable[[Any], bytes], loads: Callable[[bytes], Any]
    ) -> None:
        self._dumps = dumps
        self._loads = loads
        # ID of the pending request, or 0.
        self._number = 0

    def encode_request(self, request: Request, deadline_s: float) -> bytes:
        """Encode a request; empty for operations that the dialect does not have."""
        op, number, given = request
        if op == Op.STEP:
            return self.encode_step(number, given["action"], deadline_s)
        if op == Op.RESET:
            message = _encode(
                {
                    "type": "reset",
                    "seed": self._raw(given["seed"]),
                    "options": self._raw(given["options"]),
                }
            )
        elif op == Op.CLOSE:
            message = b'{"type":"close"}'
        else:
            return b""
        self._number = number
        return message

    def encode_step(self, number: int, action: Any, deadline_s: float) -> bytes:
        """Encode the request of a step."""
        if type(action) is int:
            message = b'{"type":"action","action":"%d"}' % action
        else:
            message = self._action_message(self._dumps(action).rstrip())
        self._number = number
        return message

    def encode_answer(self, answer: Answer) -> bytes:
        """Raise: only environments encode answers.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError

    def encode_control(self, op: Op) -> bytes:
        """Return no bytes: the WebSocket itself has pings."""
        return b""

    def encode_fault(self, fault: Fault) -> bytes:
        """Encode the report of an error; pages that do not support it ignore it."""
        return _encode(
            {"type": "fault", "message": fault.message, "field": fault.field}
        )

    def peek_id(self, payload: bytes) -> Control | int:
        """Refuse a message that arrived without a pending request."""
        raise _unexpected()

    def decode_answer(self, payload: bytes) -> Answer | Control:
        """Decode a message of an environment."""
        number, self._number = self._number, 0
        if not number:
            raise _unexpected()
        try:
            result = self._loads(payload)
        except ValueError as error:
            words = f"a message is malformed: {error}"
            raise BadMessage(words, number=number, fatal=True) from None
        if not isinstance(result, dict):
            shown = payload[:80].decode(errors="replace")
            words = f"a message is {shown}: expected an object"
            raise BadMessage(words, number=number, fatal=True)
        return Answer(number, result)

    def decode_step(
        self, payload: bytes, reader: StepReader[M]
    ) -> tuple[int, M] | None:
        """Decode the answer to a step, if it has only the usual members."""
        number = self._number
        step = reader.result(payload) if number else None
        if step is None:
            return None
        self._number = 0
        return number, step

    def decode_request(self, payload: bytes) -> Request | Control | Fault:
        """Raise: only environments decode requests.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError

    def _raw(self, value: Any) -> msgspec.Raw:
        return msgspec.Raw(self._dumps(value).rstrip())

    def _action_message(self, action: bytes) -> bytes:
        """Encode an action as text, which Tango's environments expect."""
        if b'"' not in action:
            return b'{"type":"action","action":"%b"}' % action
        named = _decode_string(action) if action[:1] == b'"' else action.decode()
        return _encode({"type": "action", "action": named})


def _unexpected() -> BadMessage:
    words = (
        "a message arrived without a request, and would be mistaken for the next answer"
    )
    return BadMessage(words, fatal=True)
