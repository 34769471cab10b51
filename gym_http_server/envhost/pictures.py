"""From what an environment renders to bytes of a media type."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gym_http_server.envhost import plain_json
from gym_http_wire.messages import AnswerHead
from gym_http_wire.problems import NotAcceptable

__all__ = ["choose", "encode"]

PNG = "image/png"
RAW = "application/octet-stream"
JSON = "application/json"
TEXT = "text/plain"
_WILD = {"*/*": PNG, "image/*": PNG, "application/*": RAW, "text/*": TEXT}


def choose(accept: tuple[str, ...]) -> str:
    """Choose among the media types of frames.

    Args:
        accept: What the caller takes, the best first; empty takes anything.

    Raises:
        NotAcceptable: It takes none of them.
    """
    if not accept:
        return PNG
    for wanted in accept:
        if wanted in (PNG, RAW, JSON, TEXT):
            return wanted
        if wanted in _WILD:
            return _WILD[wanted]
    raise NotAcceptable(
        f"frames are given as {PNG}, {RAW}, {JSON} or {TEXT}, "
        f"and Accept names {', '.join(accept)}"[:500]
    )


def encode(rendered: Any, media: str) -> tuple[AnswerHead, bytes]:
    """Encode what ``render()`` returned.

    Args:
        rendered: An image, array (height, width, 3) uint8; text; or anything else.
        media: What `choose` chose.

    Raises:
        NotAcceptable: It has no such form.
    """
    if isinstance(rendered, str):
        # Text is text, whatever was hoped for.
        return AnswerHead(content_type="text/plain; charset=utf-8"), rendered.encode()
    if media == JSON:
        return AnswerHead(), plain_json.dumps(rendered)
    if media == RAW:
        return _raw(rendered)
    image = rendered if isinstance(rendered, np.ndarray) else None
    if media != PNG or image is None or image.dtype != np.uint8 or not _is_image(image):
        raise NotAcceptable(
            f"the environment renders {_what(rendered)}, which is no {media}; "
            f"ask for {RAW if image is not None else JSON} with Accept"
        )
    return AnswerHead(content_type=PNG), _png(image)


def _is_image(array: NDArray[Any]) -> bool:
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
            f"the environment renders {_what(rendered)}, which is no array; "
            f"ask for {JSON} with Accept"
        )
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    headers = {
        "Gym-Dtype": array.dtype.name,
        "Gym-Shape": ",".join(map(str, np.shape(rendered))),
    }
    return AnswerHead(content_type=RAW, headers=headers), array.tobytes()


def _what(rendered: Any) -> str:
    if isinstance(rendered, np.ndarray):
        return f"an array of shape {rendered.shape}, {rendered.dtype}"
    if isinstance(rendered, list):
        return f"a list of {len(rendered)}"
    return f"a {type(rendered).__name__}"
