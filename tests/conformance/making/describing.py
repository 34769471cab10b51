"""Describes spaces as data, written from docs/api.md alone."""

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces

_MAX_EXACT = 2**53


def described(space: Space[Any]) -> dict[str, Any]:
    """Describe a space as the page's table has it, members in its order."""
    match space:
        case spaces.Box():
            return {
                "type": "Box",
                "dtype": _dtype(space),
                "shape": list(space.shape),
                "low": _array(space.low),
                "high": _array(space.high),
                "bounded_below": _array(space.bounded_below),
                "bounded_above": _array(space.bounded_above),
            }
        case spaces.Discrete():
            n, start = _number(int(space.n)), _number(int(space.start))
            return {"type": "Discrete", "n": n, "start": start, "dtype": _dtype(space)}
        case spaces.MultiBinary():
            n = space.n if isinstance(space.n, int) else [int(size) for size in space.n]
            return {"type": "MultiBinary", "n": n}
        case spaces.MultiDiscrete():
            return {
                "type": "MultiDiscrete",
                "dtype": _dtype(space),
                "shape": list(space.nvec.shape),
                "nvec": _array(space.nvec),
                "start": _array(space.start),
            }
        case spaces.Text():
            return {
                "type": "Text",
                "min_length": space.min_length,
                "max_length": space.max_length,
                "charset": "".join(space.character_list),
            }
        case spaces.Sequence():
            inner = described(space.feature_space)
            return {"type": "Sequence", "space": inner, "stack": space.stack}
        case spaces.Graph():
            edges = space.edge_space and described(space.edge_space)
            nodes = described(space.node_space)
            return {"type": "Graph", "node_space": nodes, "edge_space": edges}
        case spaces.Dict():
            return _dict(space)
    name = {spaces.Tuple: "Tuple", spaces.OneOf: "OneOf"}[type(space)]
    return {"type": name, "spaces": [described(each) for each in space.spaces]}


def _dict(space: spaces.Dict[Any]) -> dict[str, Any]:
    members = [[key, described(each)] for key, each in space.spaces.items()]
    unsorted = {} if space.sort_keys else {"sort_keys": False}
    return {"type": "Dict", "spaces": members, **unsorted}


def _dtype(space: Space[Any]) -> str:
    dtype = np.dtype(space.dtype)
    return dtype.name if dtype.isnative else dtype.str


def _array(array: Any) -> Any:
    numbers = [_number(_shortest(each)) for each in array.ravel()]
    same = {each.tobytes() for each in array.ravel()}
    return numbers[0] if len(same) == 1 else numbers


def _shortest(number: Any) -> Any:
    """Return the number with the shortest decimal that reads as this one."""
    return float(str(number)) if number.dtype.kind == "f" else number.item()


def _number(number: float) -> Any:
    if isinstance(number, bool):
        return number
    if isinstance(number, int):
        return number if abs(number) <= _MAX_EXACT else str(number)
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number
