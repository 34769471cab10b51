"""Decodes the bodies of requests, and encodes the bodies of answers.

The form of a body is plain JSON, one of the two lossless forms, or a media type for
rendered images and text.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gym_http_server.host import env_warnings, plain_json
from gym_http_server.operations import members as declared
from gym_http_server.operations.table import LENIENT
from gym_http_wire.frames import UNREAD, Frame, Pieces
from gym_http_wire.messages import AnswerHead, Form
from gym_http_wire.problems import (
    AnswerTooLarge,
    BadJSON,
    BadParameter,
    MissingParameter,
    NotAcceptable,
    UnrepresentableValue,
)
from gym_http_wire.values import BadValue, UnsupportedValue, binary, typed
from gym_http_wire.values.binary import compile_reader
from gym_http_wire.values.infos import with_unsent
from gym_http_wire.values.writing import Writing

__all__ = [
    "JSON",
    "PNG",
    "RAW",
    "choose_media",
    "encode",
    "encode_rendered",
    "fitting",
    "is_image",
    "lossless",
    "member",
    "optional_object",
    "path_value",
    "read",
    "read_members",
    "value_frame",
    "wants_lossless",
]

PNG = "image/png"
RAW = "application/octet-stream"
JSON = "application/json"
TEXT = "text/plain"
_WILDCARDS = {"*/*": PNG, "image/*": PNG, "application/*": RAW, "text/*": TEXT}
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
    """Whether the body of a request has exact types, so that nothing is cast."""
    return frame.form & 15 != _PLAIN


def wants_lossless(frame: Frame) -> bool:
    """Whether the answer to a request is to keep exact types."""
    return frame.form >> 4 != _PLAIN


def read(frame: Frame) -> Any:
    """Decode the body of a request.

    Raises:
        BadJSON: The body is not valid in its form.
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
    """Decode a body whose members are all optional.

    Old clients send null, "", {}, [], a form or nothing instead of an empty object.
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


def read_members(frame: Frame, members: declared.Members, what: str) -> dict[str, Any]:
    """Decode a body, and check its members.

    Args:
        frame: The request.
        members: The members that it may have.
        what: What it is, for refusals.

    Raises:
        BadJSON: The body is not an object.
        MissingParameter: A required member is absent.
        BadParameter: A member is unknown, or has another value.
    """
    # No value of a lossless form is empty; none is needed if nothing is required.
    needed = lossless(frame) and any(each.required for each in members.values())
    given = read(frame) if frame.body or needed else {}
    if not isinstance(given, dict):
        raise BadJSON("expected an object")
    is_lenient = frame.kind in LENIENT
    if is_lenient:
        env_warnings.add_unknown(members, given, what)
    counts = declared.is_given if is_lenient else declared.even_null
    return declared.read(members, given, what, is_given=counts, ignores=is_lenient)


def member(frame: Frame, given: Any, name: str) -> Any:
    """Return a required member of a body that was decoded.

    Raises:
        BadJSON: The body is not an object.
        MissingParameter: The member is absent; in plain JSON also if it is null, an
            empty string or an empty list, which old clients send instead.
    """
    if not isinstance(given, dict):
        raise BadJSON()
    value = given.get(name)
    if frame.form & 15 != _PLAIN:
        if name not in given:
            raise MissingParameter(name)
    elif not plain_json.is_given(value):
        raise MissingParameter(name)
    return value


def path_value(text: str) -> Any:
    """Parse a value in a request's path.

    Raises:
        BadParameter: It is not JSON.
    """
    try:
        return plain_json.loads(text.encode())
    except (plain_json.BadJSON, UnicodeEncodeError):
        raise BadParameter(
            f"the path ends in {text!r:.80}: expected a value in JSON, as 1 or [0.5]"
        ) from None


def value_frame(frame: Frame, value: Any, writing: Writing | None = None) -> Frame:
    """Encode the answer to a request in the form that the request accepts.

    Args:
        frame: The request.
        value: The value of the answer.
        writing: Splits values, if the body may be `Pieces`.

    Raises:
        UnrepresentableValue: The form has no exact representation of the value.
    """
    form = frame.form >> 4
    body: Any
    if writing is not None and form == _BINARY:
        body = _with_infos_sent(writing.pieces, value)
    else:
        body = encode(form, value)
    return Frame(0, frame.number, 200, form, b"", body)


def encode(form: int, value: Any) -> bytes:
    """Encode the value of an answer; `Unsent` stands for what an info cannot send.

    Args:
        form: The form.
        value: The value.

    Raises:
        UnrepresentableValue: The form has no exact representation of the value.
    """
    body: bytes = _with_infos_sent(_ENCODERS[form], value)
    return body


def _with_infos_sent(write: Callable[[Any], Any], value: Any) -> Any:
    try:
        try:
            return write(value)
        except UnsupportedValue as error:
            value, replaced = with_unsent(value)
            if not replaced:
                raise error from None
        env_warnings.add_unsent(replaced)
        return write(value)
    except UnsupportedValue as error:
        raise UnrepresentableValue(
            f"the answer has no exact representation in this form: {error}"
        ) from None


def fitting(reply: Frame, limit: int) -> Frame:
    """Check that an answer's body is within a limit, and return the answer.

    Args:
        reply: The answer.
        limit: Bytes that its body may have.

    Raises:
        AnswerTooLarge: The body is larger.
    """
    if len(reply.body) > limit:
        raise AnswerTooLarge(
            f"the answer has {len(reply.body)} bytes: this server sends {limit} at most"
        )
    return reply


def choose_media(accept: tuple[str, ...]) -> str:
    """Choose the media type of a rendered frame.

    Args:
        accept: The media types that the client accepts, the best first; empty accepts
            all.

    Raises:
        NotAcceptable: It accepts no type that this server can write.
    """
    if not accept:
        return PNG
    for wanted in accept:
        if wanted in (PNG, RAW, JSON, TEXT):
            return wanted
        if wanted in _WILDCARDS:
            return _WILDCARDS[wanted]
    raise NotAcceptable(
        f"frames are available as {PNG}, {RAW}, {JSON} or {TEXT}, "
        f"and Accept names {', '.join(accept)}"[:500]
    )


def encode_rendered(rendered: Any, media: str) -> tuple[AnswerHead, bytes]:
    """Encode the result of ``render()``.

    Args:
        rendered: An image, array (height, width, 3) uint8; text; or any other value.
        media: A media type that `choose_media` returned.

    Raises:
        NotAcceptable: The result cannot be encoded as this type.
    """
    if isinstance(rendered, str):
        # Text stays text, for any Accept header of the client.
        return AnswerHead(content_type="text/plain; charset=utf-8"), rendered.encode()
    if media == JSON:
        return AnswerHead(), plain_json.dumps(rendered)
    if media == RAW:
        return _raw(rendered)
    image = rendered if isinstance(rendered, np.ndarray) else None
    if media != PNG or image is None or image.dtype != np.uint8 or not is_image(image):
        raise NotAcceptable(
            f"the environment renders {_kind(rendered)}, which is no {media}; "
            f"request {RAW if image is not None else JSON} with Accept"
        )
    return AnswerHead(content_type=PNG), _png(image)


def is_image(array: NDArray[Any]) -> bool:
    """Return whether an array has the shape of an image, with the channels last."""
    return array.size > 0 and (
        array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    )


def _png(image: NDArray[np.uint8]) -> bytes:
    from PIL import Image  # costs 15 ms, and most hosts render nothing

    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png", compress_level=1)
    return buffer.getvalue()


def _raw(rendered: Any) -> tuple[AnswerHead, bytes]:
    try:
        array = np.ascontiguousarray(rendered)
    except ValueError:
        array = np.array(None, dtype=object)
    if array.dtype.hasobject or array.dtype.kind not in "biuf":
        raise NotAcceptable(
            f"the environment renders {_kind(rendered)}, which is no array; "
            f"request {JSON} with Accept"
        )
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    headers = {
        "Gym-Dtype": array.dtype.name,
        "Gym-Shape": ",".join(map(str, np.shape(rendered))),
    }
    return AnswerHead(content_type=RAW, headers=headers), array.tobytes()


def _kind(rendered: Any) -> str:
    if isinstance(rendered, np.ndarray):
        return f"an array of shape {rendered.shape}, {rendered.dtype}"
    if isinstance(rendered, list):
        return f"a list of {len(rendered)}"
    return f"a {type(rendered).__name__}"
