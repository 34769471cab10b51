"""Compute how large an element of a space is from the space's description alone."""

import math
from typing import Any

from gym_http_wire.space_parsing.fields import MAX_AXES, as_integer
from gym_http_wire.spaces import DTYPES, MAX_DEPTH

__all__ = ["element_bytes"]

_DEFAULTS = {"Box": "float32", "MultiBinary": "int8"}


def element_bytes(description: object) -> int:
    """Return the bytes that an element of a described space takes.

    No array is made. Members of Dict and Tuple add up, of OneOf the largest counts. A
    Text counts with its greatest length in UTF-8; a Sequence counts as one element of
    it, a Graph as one node and one edge, since their lengths are not described.

    Args:
        description: What `rebuild` takes. Where it is malformed it counts nothing,
            since `rebuild` refuses it.
    """
    return _bytes(description, 1)


def _bytes(description: object, depth: int) -> int:
    if not isinstance(description, dict) or depth > MAX_DEPTH:
        return 0
    kind = description.get("type")
    if kind in ("Dict", "Tuple", "OneOf"):
        members = description.get("spaces")
        sizes = [
            _bytes(each[-1] if kind == "Dict" and _is_pair(each) else each, depth + 1)
            for each in (members if isinstance(members, list) else ())
        ]
        return max(sizes, default=0) if kind == "OneOf" else sum(sizes)
    if kind in ("Sequence", "Graph"):
        parts = ("space",) if kind == "Sequence" else ("node_space", "edge_space")
        return sum(_bytes(description.get(part), depth + 1) for part in parts)
    if kind == "Text":
        charset = description.get("charset")
        widest = max(charset, default="") if isinstance(charset, str) else ""
        length = _size(description.get("max_length"))
        return length * max(1, len(widest.encode(errors="surrogatepass")))
    return _elements(description) * _itemsize(description)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _elements(description: dict[Any, Any]) -> int:
    kind = description.get("type")
    sizes: object = description.get("n" if kind == "MultiBinary" else "shape")
    if kind == "MultiBinary" and not isinstance(sizes, list):
        return _size(sizes)
    if not isinstance(sizes, list):
        listed = description.get("nvec")
        return len(listed) if isinstance(listed, list) else 1
    # More axes are refused; their product would take long.
    return math.prod(map(_size, sizes)) if len(sizes) <= MAX_AXES else 0


def _size(value: object) -> int:
    return max(0, as_integer(value, DTYPES["int64"]) or 0)


def _itemsize(description: dict[Any, Any]) -> int:
    kind = description.get("type")
    name = description.get("dtype", _DEFAULTS.get(str(kind), "int64"))
    if kind == "MultiBinary":
        name = "int8"
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    return 8 if dtype is None else dtype.itemsize
