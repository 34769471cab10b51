"""Tango's dialect: messages in JSON without IDs, as its pages and games have them.

::

    {"type": "reset", "seed": null, "options": null}
    {"type": "action", "action": "2"}
    {"type": "close"}
    {"observation": […], "info": {}}
    {"observation": […], "reward": 1, "terminated": false, "truncated": false, …}
    {"info": "closed"}

An answer is to the request that is under way. What comes otherwise could be taken for
the next answer, so it ends the connection.
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
    """Messages of Tango's, as a server writes and reads them.

    Args:
        dumps: Writes a value.
        loads: Reads a value; raises `ValueError`.
    """

    text = True
    numbered = False

    def __init__(
        self, dumps: Callable[[Any], bytes], loads: Callable[[bytes], Any]
    ) -> None:
        self._dumps = dumps
        self._loads = loads
        # ID of the request that is under way, or 0.
        self._number = 0

    def encode_request(self, request: Request, deadline_s: float) -> bytes:
        """Write a request; nothing for what such an environment is not asked."""
        ask, number, given = request
        if ask == Op.STEP:
            action = given["action"]
            if type(action) is int:
                asked = b'{"type":"action","action":"%d"}' % action
            else:
                asked = self._acted(self._dumps(action).rstrip())
        elif ask == Op.RESET:
            asked = _encode(
                {
                    "type": "reset",
                    "seed": self._written(given["seed"]),
                    "options": self._written(given["options"]),
                }
            )
        elif ask == Op.CLOSE:
            asked = b'{"type":"close"}'
        else:
            return b""
        self._number = number
        return asked

    def encode_answer(self, answer: Answer) -> bytes:
        """Write an answer, which only the other side does.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError

    def encode_control(self, ask: Op) -> bytes:
        """Write nothing: the carrier has pings."""
        return b""

    def encode_fault(self, fault: Fault) -> bytes:
        """Write what was wrong; who does not know this type does nothing."""
        return _encode(
            {"type": "fault", "message": fault.message, "field": fault.field}
        )

    def peek_id(self, payload: bytes) -> Control | int:
        """Refuse a message that came while nothing was asked."""
        raise _unasked()

    def decode_answer(self, payload: bytes) -> Answer | Control:
        """Read what an environment says."""
        number, self._number = self._number, 0
        if not number:
            raise _unasked()
        try:
            result = self._loads(payload)
        except ValueError as error:
            words = f"a message is none: {error}"
            raise BadMessage(words, number=number, fatal=True) from None
        if not isinstance(result, dict):
            said = payload[:80].decode(errors="replace")
            words = f"a message is {said}: expected an object"
            raise BadMessage(words, number=number, fatal=True)
        return Answer(number, result)

    def decode_step(
        self, payload: bytes, reader: StepReader[M]
    ) -> tuple[int, M] | None:
        """Read what came of a step, if it is just that."""
        number = self._number
        step = reader.result(payload) if number else None
        if step is None:
            return None
        self._number = 0
        return number, step

    def decode_request(self, payload: bytes) -> Request | Control | Fault:
        """Read what a server says, which only the other side does.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError

    def _written(self, value: Any) -> msgspec.Raw:
        return msgspec.Raw(self._dumps(value).rstrip())

    def _acted(self, action: bytes) -> bytes:
        """Write an action as the text that Tango's environments know it by."""
        if b'"' not in action:
            return b'{"type":"action","action":"%b"}' % action
        named = _decode_string(action) if action[:1] == b'"' else action.decode()
        return _encode({"type": "action", "action": named})


def _unasked() -> BadMessage:
    words = (
        "a message came while nothing was asked, and would be taken for the next answer"
    )
    return BadMessage(words, fatal=True)
