"""Values in typed JSON and in the binary form."""

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import GraphInstance
from gymnasium.vector import AutoresetMode

from tests.conformance.making import Case
from tests.conformance.making.arrays import arrays, bits_of_arrays, scalars
from tests.conformance.making.forms import binary, typed
from tests.conformance.making.models import Model, model_of

DESCRIPTION = (
    "Values in the model form, in typed JSON and in the binary form, as in "
    "docs/api.md, Values without loss"
)


def cases() -> Iterator[Case]:
    """Yield all cases."""
    groups = (_simple(), _nested(), arrays(), scalars(), _real_time())
    for name, value in [item for group in groups for item in group.items()]:
        yield _case(name, model_of(value))
    for name, space in _spaces().items():
        yield _case(name, model_of(space))
    for name, bits in _floats().items():
        yield _case(f"float-{name}", {"float": bits})
    for name, dtype, bits in bits_of_arrays():
        content = {"dtype": dtype, "shape": [len(bits)], "items": bits}
        yield _case(f"nd-{name}", {"nd": content})
    for name, unsent in _unsent().items():
        yield _case(f"unsent-{name}", unsent)
    yield _case("ns-f4-nan-payload", {"ns": {"dtype": "<f4", "items": ["7fc12345"]}})
    # Languages write these bounds differently, and as well.
    box = spaces.Box(np.array([0.1, -np.inf], "f4"), np.array([1e20, np.inf], "f4"))
    yield {**_case("space-box-bounds", model_of(box)), "decode_only": True}
    yield from _foreign()


def _case(name: str, model: Model) -> Case:
    return {
        "id": name,
        "value": model,
        "typed": typed(model),
        "binary": binary(model).hex(),
    }


def _real_time() -> dict[str, Any]:
    """Return an update of a world, and requests with actions."""
    timing = {
        "update": 813,
        "tick": 815,
        "episode": 3,
        "action": {"number": 611, "value": 1, "priority": 0},
        "capture_ns": 2**53 + 1,
        "late_ns": -1,
        "age_ns": 400_000,
        "now_ns": 2**53 + 400_001,
        "timed_out": False,
        "skipped": 1,
        "queued": 0,
        "merged": 2,
    }
    update = {
        "info": {},
        "observation": np.array([0.5, -0.5], "f4"),
        "realtime": timing,
        "reward": 1.0,
        "rewards": np.array([1.0, math.nan, 0.0]),
        "terminated": False,
        "truncated": False,
    }
    chunk = np.array([[0.5], [-0.5]], "f4")
    return {
        "realtime-update": update,
        "realtime-updates": {
            "updates": [update, {**update, "last": True}],
            "lost": 2,
            "state": "ended",
            "now_ns": 2**53 + 400_001,
        },
        "realtime-action": {"action": 1, "for": 813, "session": "a", "sequence": 1},
        "realtime-chunk": {"actions": chunk, "at": 815, "blend": 0.7},
    }


def _foreign() -> Iterator[Case]:
    """Yield values that are written differently than by our clients."""
    yield {
        "id": "typed-blanks-and-escapes",
        "value": {"list": [{"int": "1"}, {"str": "a/\u00e9"}, {"float": _bits(100.0)}]},
        "typed": ' [ 1 ,\t"\\u0061\\/\\u00E9",\n1E2 ] ',
        "binary": None,
        "decode_only": True,
    }
    yield {
        "id": "typed-surrogate-pair-escaped",
        "value": {"str": "\U0001f600"},
        "typed": '"\\ud83d\\ude00"',
        "binary": None,
        "decode_only": True,
    }
    yield {
        "id": "typed-int-small-in-string",
        "value": {"int": "7"},
        "typed": '{"$t":"int","v":"7"}',
        "binary": None,
        "decode_only": True,
    }
    yield {
        "id": "typed-dict-as-pairs",
        "value": {"dict": [[{"str": "a"}, {"int": "1"}]]},
        "typed": '{"$t":"dict","v":[["a",1]]}',
        "binary": None,
        "decode_only": True,
    }


def _unsent() -> dict[str, Model]:
    """Return what stands for values of infos that cannot be sent."""

    def unsent(text: str, kind: str) -> Model:
        return {"unsent": {"repr": text, "type": kind}}

    colour = unsent("<Farbe.GRÜN: 2>", "toys.Farbe")
    return {
        "set": unsent("{1, 2}", "set"),
        "empty": unsent("", ""),
        "in-dict": {
            "dict": [[{"str": "colour"}, colour], [{"str": "a"}, {"int": "1"}]]
        },
        "in-objects": {"oa": {"shape": [2], "items": [colour, {"none": None}]}},
    }


def _bits(number: float) -> str:
    return struct.pack(">d", number).hex()


def _simple() -> dict[str, Any]:
    return {
        "none": None,
        "true": True,
        "false": False,
        "int-0": 0,
        "int-1": 1,
        "int-minus-1": -1,
        "int-2-53-minus-1": 2**53 - 1,
        "int-2-53": 2**53,
        "int-2-53-plus-1": 2**53 + 1,
        "int-minus-2-53": -(2**53),
        "int-minus-2-53-minus-1": -(2**53) - 1,
        "int-2-63-minus-1": 2**63 - 1,
        "int-minus-2-63": -(2**63),
        "int-2-63": 2**63,
        "int-minus-2-63-minus-1": -(2**63) - 1,
        "int-2-64-minus-1": 2**64 - 1,
        "int-10-30": 10**30,
        "int-minus-10-100": -(10**100),
        "int-10-400": 10**400,
        "str-empty": "",
        "str-ascii": "FrozenLake",
        "str-8-bytes": "12345678",
        "str-escapes": '"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\u2029',
        "str-two-bytes": "\u00e9\u00df\u0416",
        "str-three-bytes": "\u73af\u5883\ufeff\ufffd",
        "str-beyond-bmp": "\U0001f600\U0010ffff",
        "str-nul-inside": "a\x00b",
        "str-byte-order-mark": "\ufeffa",
        "str-long": "0123456789" * 300,
        "str-looks-like-number": "1",
        "str-lone-high-surrogate": "\ud800",
        "str-lone-low-surrogate": "a\udfffz",
        "str-surrogates-wrong-way-round": "\ude00\ud83d",
        "bytes-empty": b"",
        "bytes-1": b"\x00",
        "bytes-7": b"\xff\xfe\x80\x7f\x01\x00\x0a",
        "bytes-256": bytes(range(256)),
        "complex": 1.5 - 0.25j,
        "complex-integers": 1 + 2j,
        "complex-special": complex(-0.0, math.inf),
        "complex-nan": complex(math.nan, -math.inf),
        "autoreset-next": AutoresetMode.NEXT_STEP,
        "autoreset-same": AutoresetMode.SAME_STEP,
        "autoreset-disabled": AutoresetMode.DISABLED,
    }


def _nested() -> dict[str, Any]:
    deep: Any = 1
    deep_tuple: Any = 1
    deep_dict: Any = 1
    for _ in range(40):
        deep, deep_dict = [deep], {1: deep_dict}
    for _ in range(60):
        deep_tuple = (deep_tuple,)
    nodes, edges = np.zeros((2, 3), "f4"), np.ones((1, 2), "f4")
    links = np.array([[0, 1]], "i4")
    objects = np.empty(3, object)
    objects[:] = [None, "a", (1, 2.5)]
    none_in_objects = np.empty((2, 0), object)
    alone = np.empty((), object)
    alone[()] = "b"
    return {
        "list-empty": [],
        "dict-empty": {},
        "tuple-empty": (),
        "list-of-empties": [[], {}, (), "", None, False, 0],
        "list-nulls": [None, 1, None],
        "list-null-last": [1, None, None],
        "list-mixed": [1, 1.0, True, "1", None],
        "list-deep-40": deep,
        "tuple-deep-60": deep_tuple,
        "dict-deep-40": deep_dict,
        "tuple-one": (1,),
        "tuple-nested": ((1, 2), [3, (4,)], ()),
        "tuple-nulls": (None, None),
        "dict-order": {"b": 1, "a": 2, "c": {"z": 0, "y": 1}},
        "dict-null": {"a": None, "b": [None]},
        "dict-keys-odd": {"": 1, " ": 2, "\u73af": 3, 'a"b': 4, "__proto__": 5},
        "dict-keys-like-numbers": {"10": "a", "9": "b", "-1": "c", "1.5": "d"},
        "dict-key-byte-order-mark": {"\ufeff": 1, "\ufeffa": 2},
        "dict-key-tag": {"$t": "int", "v": "1"},
        "dict-key-tag-among-others": {"a": 1, "$t": 2},
        "dict-key-tag-inside": {"a": {"$t": "nd"}},
        "dict-keys-int": {1: "a", 0: "b", -5: "c"},
        "dict-keys-int-and-str": {1: "int", "1": "str"},
        "dict-key-none": {None: 1},
        "dict-keys-bool": {True: "yes", False: "no"},
        "dict-key-float": {1.5: "a"},
        "dict-key-bigint": {2**64: "a", -(2**63): "b"},
        "dict-key-bytes": {b"\x00\xff": "a"},
        "dict-key-lone-surrogate": {"\ud800": 1},
        "dict-keys-tuple": {(0, 1): "a", (): "b", ("x", (None, 2)): "c"},
        "dict-key-scalar": {np.int64(3): "a", np.str_("s"): "b"},
        "dict-of-all": {
            "none": None,
            "bool": True,
            "int": 2**53 + 1,
            "float": 0.1,
            "str": "s",
            "bytes": b"b",
            "list": [1, [2]],
            "tuple": (1, (2,)),
            "array": np.arange(3, dtype="i4"),
            "scalar": np.float32(0.1),
        },
        "step-answer": {
            "info": {"prob": 1.0, "action_mask": np.array([1, 0, 1, 1, 0, 0], "i1")},
            "observation": np.array([0.1, -0.0, 3.4028235e38, 1e-45], "f4"),
            "reward": 1.0,
            "terminated": False,
            "truncated": False,
        },
        "graph": GraphInstance(nodes, edges, links),
        "graph-without-edges": GraphInstance(nodes, None, None),
        "graph-of-tuples": GraphInstance((1, 2), ("a",), links),
        "oa-1-axis": objects,
        "oa-0-axes": alone,
        "oa-empty": none_in_objects,
    }


def _spaces() -> dict[str, Any]:
    discrete = spaces.Discrete(4, start=-1)
    inner = spaces.Tuple([spaces.MultiBinary([2, 3]), spaces.Text(4, charset="ab")])
    return {
        "space-discrete": discrete,
        "space-dict": spaces.Dict({"b": discrete, "a": inner}),
        "space-multi-discrete": spaces.MultiDiscrete([5, 2, 2]),
        "space-sequence": spaces.Sequence(discrete, stack=True),
        "space-graph": spaces.Graph(discrete, None),
        "space-one-of": spaces.OneOf([discrete, inner]),
        "space-box-integers": spaces.Box(0, 255, (2, 2), "u1"),
    }


def _floats() -> dict[str, str]:
    named = {
        "0": 0.0,
        "minus-0": -0.0,
        "1": 1.0,
        "minus-1": -1.0,
        "tenth": 0.1,
        "sum-of-tenths": 0.1 + 0.2,
        "third": 1 / 3,
        "integer-valued": 2.0**53,
        "large-integer-valued": 1e22,
        "largest": 1.7976931348623157e308,
        "smallest-normal": 2.2250738585072014e-308,
        "largest-subnormal": 2.225073858507201e-308,
        "smallest-subnormal": 5e-324,
        "tenth-of-f4": float(np.float32(0.1)),
        "inf": math.inf,
        "minus-inf": -math.inf,
    }
    bits = {name: _bits(number) for name, number in named.items()}
    return bits | {
        "nan": "7ff8000000000000",
        "nan-negative": "fff8000000000000",
        "nan-payload": "7ff8000000abcdef",
    }
