"""Bodies of requests and answers: read in the form they have, written as asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_server.envhost import plain_json
from gym_http_wire.frames import UNREAD, Frame, Pieces
from gym_http_wire.messages import Form
from gym_http_wire.problems import (
    AnswerTooLarge,
    BadJSON,
    BadParameter,
    CannotSay,
    MissingParameter,
)
from gym_http_wire.values import BadValue, UnsupportedValue, binary, typed
from gym_http_wire.values.binary import compile_reader
from gym_http_wire.values.writing import Writing

__all__ = [
    "fitting",
    "flag",
    "lossless",
    "member",
    "optional_object",
    "path_value",
    "read",
    "required",
    "value_frame",
]

_PLAIN, _BINARY = int(Form.PLAIN), int(Form.BINARY)
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    Form.PLAIN: plain_json.loads,
    Form.TYPED: typed.decode,
    Form.BINARY: binary.decode,
}
_ENCODERS: dict[int, Callable[[Any], bytes]] = {
    Form.PLAIN: plain_json.dumps,
    Form.TYPED: typed.encode,
    Form.BINARY: binary.encode,
}


def lossless(frame: Frame) -> bool:
    """Whether the body says exactly what it means, so that nothing needs casting."""
    return frame.form & 15 != _PLAIN


def wants_lossless(frame: Frame) -> bool:
    """Whether the answer is to say exactly what it means."""
    return frame.form >> 4 != _PLAIN


def read(frame: Frame) -> Any:
    """Read a body.

    Raises:
        BadJSON: It is not what its form says.
    """
    body = frame.body
    try:
        if type(body) is Pieces:
            if body.value is not UNREAD:
                return body.value
            return compile_reader(body.signature)(body.leaves[0], 0)
        return _DECODERS[frame.form & 15](body)
    except (plain_json.BadJSON, BadValue) as error:
        raise BadJSON(str(error)) from None


def optional_object(frame: Frame) -> dict[str, Any]:
    """Read a body in which everything is optional.

    Old clients send null, "", {}, [], a form or nothing where nothing is wanted.
    """
    if not frame.body:
        return {}
    try:
        given = read(frame)
    except BadJSON:
        if lossless(frame):
            raise
        return {}
    return given if isinstance(given, dict) else {}


def required(frame: Frame, name: str) -> tuple[Any, dict[str, Any]]:
    """Read a required parameter, and the object that it stands in.

    Raises:
        BadJSON: The body is no object.
        MissingParameter: It is absent; in plain JSON also null, an empty string or an
            empty list, which old clients send for nothing.
    """
    given = read(frame)
    return member(frame, given, name), given


def member(frame: Frame, given: Any, name: str) -> Any:
    """Give a required parameter of a body that was read.

    Raises:
        BadJSON: The body is no object.
        MissingParameter: It is absent; in plain JSON also null, an empty string or an
            empty list, which old clients send for nothing.
    """
    if not isinstance(given, dict):
        raise BadJSON()
    value = given.get(name)
    if lossless(frame):
        if name not in given:
            raise MissingParameter(name)
    elif not plain_json.is_given(value):
        raise MissingParameter(name)
    return value


def path_value(text: str) -> Any:
    """Read a value that stands in the path.

    Raises:
        BadParameter: It is none.
    """
    try:
        return plain_json.loads(text.encode())
    except (plain_json.BadJSON, UnicodeEncodeError):
        raise BadParameter(
            f"the path ends in {text!r:.80}: expected a value in JSON, as 1 or [0.5]"
        ) from None


def flag(given: dict[str, Any], name: str) -> bool:
    """Read a flag; the old Lua client sends "true" and "false".

    Raises:
        BadParameter: It is neither true nor false.
    """
    value = given.get(name)
    if value == 0 or not plain_json.is_given(value):
        return False
    if value in (1, "true", "True"):
        return True
    if value in ("false", "False"):
        return False
    raise BadParameter(f"{name} is {value!r:.80}: expected true or false")


def value_frame(frame: Frame, value: Any, writing: Writing | None = None) -> Frame:
    """Answer a request with a value, in the form asked for.

    Args:
        frame: The request.
        value: What to answer.
        writing: Splits values, where the body may be `Pieces`.

    Raises:
        CannotSay: The value has something in it that this form cannot say.
    """
    form = frame.form >> 4
    body: Any
    try:
        if writing is not None and form == _BINARY:
            body = writing.pieces(value)
        else:
            body = _ENCODERS[form](value)
    except UnsupportedValue as error:
        raise CannotSay(
            f"the answer cannot be said in this form without loss: {error}"
        ) from None
    return Frame(0, frame.number, 200, form, b"", body)


def fitting(reply: Frame, limit: int) -> Frame:
    """Give an answer that is not too large.

    Args:
        reply: The answer.
        limit: Bytes that its body may have.

    Raises:
        AnswerTooLarge: It is.
    """
    if len(reply.body) > limit:
        raise AnswerTooLarge(
            f"the answer has {len(reply.body)} bytes; this server gives {limit} at most"
        )
    return reply
