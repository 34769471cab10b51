"""Descriptions of spaces."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from tests.conformance.making import Case
from tests.conformance.making.describing import described

DESCRIPTION = "Spaces as data, as in docs/api.md, and what must be refused as one"

_INF = np.inf
_DISCRETE = spaces.Discrete(3)
_BOX = spaces.Box(-1, 1, (2,))


def cases() -> Iterator[Case]:
    """Yield all cases."""
    groups = (_boxes(), _discretes(), _texts(), _made_of_others())
    for name, data in _opaque().items():
        # Only the process that has the class can draw samples.
        yield {"id": f"opaque-{name}", "space": data, "samples": 0}
    for name, space in (item for group in groups for item in group.items()):
        # Gymnasium cannot sample all 64-bit integers: high + 1 is no such integer.
        samples = {"samples": 0} if name.endswith("-full") else {}
        yield {"id": name, "space": described(space), **samples}
    for name, data in _refused().items():
        yield {"id": f"refused-{name}", "space": data, "refused": True}


def _boxes() -> dict[str, Any]:
    low = np.array([[-1.5, -_INF], [0.1, -3.4028235e38]], "f4")
    high = np.array([[1.5, 2.0], [_INF, 3.4028235e38]], "f4")
    made = {
        f"box-{name}": spaces.Box(0, 100, (3,), name)
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    }
    return made | {
        "box-float32": _BOX,
        "box-float64": spaces.Box(-1, 1, (2,), "f8"),
        "box-float16": spaces.Box(-1, 1, (2,), "f2"),
        "box-int64": spaces.Box(-5, 5, (2,), "i8"),
        "box-int64-beyond-2-53": spaces.Box(-(2**62), 2**62, (2,), "i8"),
        "box-uint64": spaces.Box(0, 9, (2,), "u8"),
        "box-int64-full": spaces.Box(-(2**63), 2**63 - 1, (2,), "i8"),
        "box-uint64-full": spaces.Box(0, 2**64 - 1, (2,), "u8"),
        "box-bool": spaces.Box(0, 1, (2,), "bool"),
        "box-picture": spaces.Box(0, 255, (4, 6, 3), "u1"),
        "box-unbounded": spaces.Box(-_INF, _INF, (3,)),
        "box-bounded-below": spaces.Box(0, _INF, (3,)),
        "box-bounded-above": spaces.Box(-_INF, 0, (3,)),
        "box-bounds-for-each": spaces.Box(low, high),
        "box-bounds-for-each-f8": spaces.Box(low.astype("f8"), high.astype("f8")),
        "box-bounds-of-int": spaces.Box(
            np.array([-1, 0], "i2"), np.array([1, 300], "i2"), dtype="i2"
        ),
        "box-no-axes": spaces.Box(-1, 1, ()),
        "box-size-0": spaces.Box(-1, 1, (0, 2)),
        "box-one-value": spaces.Box(0.5, 0.5, (2,)),
        "box-shortest-f4": spaces.Box(np.float32(-4.8), np.float32(4.8), (1,)),
        "box-subnormal": spaces.Box(np.float32(0), np.float32(1e-45), (1,)),
        "box-zeros-of-two-signs": spaces.Box(
            np.array([0.0, -0.0], "f4"), np.array([1, 1], "f4")
        ),
        "box-big-endian": spaces.Box(-1, 1, (2,), ">f4"),
    }


def _discretes() -> dict[str, Any]:
    return {
        "discrete": _DISCRETE,
        "discrete-1": spaces.Discrete(1),
        "discrete-start": spaces.Discrete(3, start=-1),
        "discrete-start-large": spaces.Discrete(2, start=2**53 + 1),
        "discrete-large": spaces.Discrete(2**62),
        "discrete-largest": spaces.Discrete(2**63 - 1),
        "discrete-int32": spaces.Discrete(5, dtype=np.int32),
        "discrete-uint8": spaces.Discrete(200, start=50, dtype=np.uint8),
        "multi-binary": spaces.MultiBinary(4),
        "multi-binary-1": spaces.MultiBinary(1),
        "multi-binary-2x3": spaces.MultiBinary([2, 3]),
        "multi-discrete": spaces.MultiDiscrete([5, 2]),
        "multi-discrete-equal": spaces.MultiDiscrete([3, 3, 3]),
        "multi-discrete-2x2": spaces.MultiDiscrete([[2, 3], [4, 5]]),
        "multi-discrete-start": spaces.MultiDiscrete([2, 3], start=[-1, 10]),
        "multi-discrete-int32": spaces.MultiDiscrete([2, 3], dtype=np.int32),
    }


def _texts() -> dict[str, Any]:
    return {
        "text": spaces.Text(8),
        "text-charset": spaces.Text(8, charset="ab"),
        "text-order-of-charset": spaces.Text(3, charset="zya"),
        "text-one-length": spaces.Text(4, min_length=4, charset="01"),
        "text-empty-allowed": spaces.Text(3, min_length=0, charset="x"),
        "text-odd-charset": spaces.Text(5, charset='"\\ \n\x01/'),
        "text-unicode": spaces.Text(5, charset="\u00e9\u73af\u2028"),
        "text-beyond-bmp": spaces.Text(3, charset="\U0001f600a"),
    }


def _made_of_others() -> dict[str, Any]:
    nested: Any = _DISCRETE
    for _ in range(10):
        nested = spaces.Tuple([nested])
    pairs: list[tuple[Any, Any]] = [("z", _DISCRETE), ("a", _BOX)]
    many = spaces.Tuple([_DISCRETE, _BOX, spaces.MultiBinary(2), spaces.Text(3)])
    return {
        "dict": spaces.Dict(go=_DISCRETE),
        "dict-sorted": spaces.Dict(dict(pairs)),
        "dict-unsorted": spaces.Dict(pairs, sort_keys=False),
        "dict-empty": spaces.Dict({}),
        "dict-of-dicts": spaces.Dict({"a": spaces.Dict({"b": _BOX}), "c": many}),
        "dict-keys-int": spaces.Dict({0: _DISCRETE, 1: _BOX, -3: _DISCRETE}),
        "dict-keys-odd": spaces.Dict({"$t": _DISCRETE, "": _BOX, "\u73af": _BOX}),
        "tuple": many,
        "tuple-empty": spaces.Tuple([]),
        "tuple-deep": nested,
        "one-of": spaces.OneOf([_DISCRETE, _BOX]),
        "one-of-one": spaces.OneOf([spaces.MultiBinary(1)]),
        "sequence": spaces.Sequence(_DISCRETE),
        "sequence-stacked": spaces.Sequence(_BOX, stack=True),
        "sequence-of-sequences": spaces.Sequence(spaces.Sequence(_DISCRETE)),
        "sequence-of-dicts": spaces.Sequence(spaces.Dict(a=_BOX)),
        "graph": spaces.Graph(_BOX, _DISCRETE),
        "graph-without-edges": spaces.Graph(_DISCRETE, None),
        "graph-of-boxes": spaces.Graph(_BOX, spaces.Box(0, 9, (1,), "i8")),
    }


def _opaque() -> dict[str, Any]:
    mission = {
        "type": "Opaque",
        "class": "minigrid.core.mission:MissionSpace",
        "repr": "<minigrid.core.mission.MissionSpace object>",
        "base": None,
    }
    even = {
        "type": "Opaque",
        "class": "company.spaces:Outer.Even",
        "repr": None,
        "base": described(_DISCRETE),
        "arguments": {"limit": 3, "names": ["a", None], "more": {"x": 0.5}},
    }
    pairs = [["direction", described(spaces.Discrete(4))], ["mission", mission]]
    return {
        "text": mission,
        "with-a-base": even,
        "without-arguments": {**even, "arguments": {}},
        "in-a-dict": {"type": "Dict", "spaces": pairs},
        "in-a-sequence": {"type": "Sequence", "space": even, "stack": False},
    }


def _refused() -> dict[str, Any]:
    box = described(_BOX)
    discrete = described(_DISCRETE)
    return {
        "null": None,
        "list": [],
        "number": 1,
        "string": "Discrete",
        "no-type": {"n": 3},
        "type-unknown": {"type": "Sphere", "n": 3},
        "type-other-case": {**discrete, "type": "discrete"},
        "type-no-string": {**discrete, "type": 1},
        "discrete-no-n": {"type": "Discrete"},
        "discrete-0": {**discrete, "n": 0},
        "discrete-negative": {**discrete, "n": -1},
        "discrete-fraction": {**discrete, "n": 2.5},
        "discrete-n-string": {**discrete, "n": "three"},
        "discrete-n-null": {**discrete, "n": None},
        "discrete-float-dtype": {**discrete, "dtype": "float32"},
        "box-no-low": {k: v for k, v in box.items() if k != "low"},
        "box-no-shape": {k: v for k, v in box.items() if k != "shape"},
        "box-dtype-unknown": {**box, "dtype": "float33"},
        "box-dtype-object": {**box, "dtype": "object"},
        "box-low-too-long": {**box, "low": [-1.0, -1.0, -1.0]},
        "box-low-too-short": {**box, "low": [-1.0]},
        "box-low-above-high": {**box, "low": 2.0},
        "box-low-string": {**box, "low": "low"},
        "box-low-null": {**box, "low": None},
        "box-shape-negative": {**box, "shape": [-2]},
        "box-shape-fraction": {**box, "shape": [1.5]},
        "box-shape-number": {**box, "shape": 2},
        "box-shape-overflows": {**box, "shape": [4294967296, 4294967296]},
        "multi-binary-negative": {"type": "MultiBinary", "n": -1},
        "multi-binary-string": {"type": "MultiBinary", "n": "four"},
        "multi-discrete-0": {
            **described(spaces.MultiDiscrete([2, 3])),
            "nvec": [2, 0],
        },
        "text-no-charset-string": {**described(spaces.Text(3)), "charset": 5},
        "text-lengths-cross": {
            **described(spaces.Text(3)),
            "min_length": 4,
        },
        "dict-no-pairs": {"type": "Dict", "spaces": {"a": discrete}},
        "dict-key-twice": {"type": "Dict", "spaces": [["a", discrete]] * 2},
        "dict-key-null": {"type": "Dict", "spaces": [[None, discrete]]},
        "tuple-no-list": {"type": "Tuple", "spaces": discrete},
        "tuple-of-null": {"type": "Tuple", "spaces": [None]},
        "sequence-no-space": {"type": "Sequence", "stack": False},
        "opaque-no-class": {"type": "Opaque", "repr": None, "base": None},
        "opaque-class-number": {"type": "Opaque", "class": 1},
        "opaque-of-no-space": {"type": "Opaque", "class": "a:B", "base": {"n": 3}},
        "graph-no-nodes": {"type": "Graph", "edge_space": None},
        "deep": _deep(200),
    }


def _deep(levels: int) -> dict[str, Any]:
    space: dict[str, Any] = described(_DISCRETE)
    for _ in range(levels):
        space = {"type": "Tuple", "spaces": [space]}
    return space
