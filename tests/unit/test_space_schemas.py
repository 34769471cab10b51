"""JSON Schema of spaces: it has the elements that the server sends, and no others."""

import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from gymnasium import spaces

from gym_http_server.host import plain_json
from gym_http_server.web.api.openenv.spaces import keys_of, schema_of
from gym_http_wire.spaces import describe
from tests.support.envs.toys import SPACES

MORE = {
    "image": spaces.Box(0, 255, (3, 2, 3), np.uint8),
    "nested": spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), spaces.Text(3)))}),
    "nvec": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "sequence": spaces.Sequence(spaces.Discrete(3)),
    "one of": spaces.OneOf((spaces.Discrete(2), spaces.Box(0, 1, (2,)))),
    "brackets": spaces.Text(5, charset="a]^-\\["),
    "flags": spaces.Box(0, 1, (2,), np.bool_),
    "large": spaces.Discrete(2**60, start=2**55),
    "odd": spaces.Box(np.array([0, -np.inf]), np.array([np.inf, 9]), dtype=np.float64),
}
EMPTY = {
    "empty": spaces.Box(0, 1, (0,)),
    "empty rows": spaces.Box(0, 1, (3, 0)),
    "no rows": spaces.Box(0, 255, (0, 3), np.uint8),
    "no counts": spaces.MultiDiscrete(np.zeros((0,), np.int64)),
    "no characters": spaces.Text(1, min_length=0, charset=""),
    "no keys": spaces.Dict({}),
    "no items": spaces.Tuple(()),
    "in a dict": spaces.Dict({"a": spaces.Box(0, 1, (0,)), "b": spaces.Discrete(2)}),
    "in a tuple": spaces.Tuple((spaces.Box(0, 1, (2, 0)), spaces.Discrete(2))),
}
#: The classes below, as spaces of their own, and inside others.
OPAQUE: dict[str, spaces.Space[Any]] = {}
KINDS: tuple[tuple[type[spaces.Space[Any]], tuple[Any, ...]], ...] = (
    (spaces.Discrete, (3,)),
    (spaces.Box, (0, 1, (2,))),
    (spaces.MultiBinary, (3,)),
    (spaces.MultiDiscrete, ([2, 3],)),
    (spaces.Text, (4,)),
    (spaces.Dict, ({"go": spaces.Discrete(3), "by": spaces.Box(0, 1, (2,))},)),
    (spaces.Tuple, ((spaces.Discrete(2), spaces.Discrete(3)),)),
    (spaces.Sequence, (spaces.Discrete(3),)),
)
for kind, arguments in KINDS:

    class Own(kind):  # type: ignore[misc, valid-type]
        """Samples as it likes, so that only it knows its elements."""

        def sample(self, *args: Any, **kwargs: Any) -> Any:
            """Return what the base would."""
            return super().sample(*args, **kwargs)

    name = kind.__name__
    OPAQUE[f"opaque {name}"] = Own(*arguments)
    OPAQUE[f"in a dict: opaque {name}"] = spaces.Dict({"a": Own(*arguments)})
    OPAQUE[f"in a tuple: opaque {name}"] = spaces.Tuple((Own(*arguments),))
ALL = SPACES | MORE | EMPTY | OPAQUE


def made(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return the schema, from the description as web workers get it."""
    schema = schema_of(json.loads(plain_json.dumps(describe(space))))
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


@pytest.mark.parametrize("name", ALL)
def test_elements_as_they_are_sent(name: str) -> None:
    space = ALL[name]
    space.seed(7)
    schema = made(space)
    for _ in range(20):
        jsonschema.validate(json.loads(plain_json.dumps(space.sample())), schema)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("discrete", (-1, 3, "1", None, [1])),
        ("start", (4, 8)),
        ("multidiscrete", ([2, 0], [0, 3], [0], [0, 0, 0])),
        ("multibinary", ([0, 1], [0, 1, 2])),
        ("bytes", ([0, 1, 256], [0, 1], [0.5, 1, 1])),
        ("point", (1.5, [0.5])),
        ("text", ("", "abcde", "ä", 3)),
        ("brackets", ("b", "aaaaaa")),
        ("dict", ({"go": 3, "by": [0, 0]}, {"go": 0}, {"go": 0, "by": [0, 0], "x": 1})),
        ("tuple", ([0], [2, [0, 0]], [0, [0, 0], 0])),
        ("odd", ([-1, 0], [0, 10])),
        ("sequence", ([3], [0, "1"])),
        ("flags", ([True, 1], [True])),
        ("no characters", ("a",)),
        ("empty", ([0], [[]], 0, None)),
        ("empty rows", ([], [[], []], [[0], [], []])),
        ("no rows", ([[]], [[0, 0, 0]])),
        ("no counts", ([0],)),
        ("opaque Discrete", (3, -1, "1")),
        ("opaque Box", ([0, 2], [0])),
        ("opaque MultiBinary", ([0, 1], [0, 1, 2])),
        ("opaque MultiDiscrete", ([2, 0], [0])),
        ("opaque Text", ("", "abcde", 3)),
        ("opaque Dict", ({"go": 3, "by": [0, 0]}, {"go": 0})),
        ("opaque Tuple", ([0], [2, 0])),
        ("opaque Sequence", ([3],)),
        ("in a dict: opaque Discrete", ({"a": 3}, {})),
        ("in a tuple: opaque Discrete", ([3], [])),
    ],
)
def test_what_is_no_element(name: str, wrong: tuple[Any, ...]) -> None:
    """Here, an opaque space has all elements of its base."""
    schema = made(ALL[name])
    for each in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(each, schema)


def test_a_space_of_no_known_base_has_any_elements() -> None:
    described = {"type": "Opaque", "class": "far:Words", "repr": None, "base": None}
    assert (schema_of(described), keys_of(described)) == ({}, None)


def test_keys_of_a_dict() -> None:
    described = {name: json.loads(json.dumps(describe(ALL[name]))) for name in ALL}
    assert keys_of(described["dict"]) == {"go", "by"}
    assert keys_of(described["nested"]) == {"a"}
    assert keys_of(described["opaque Dict"]) == {"go", "by"}
    assert keys_of(described["no keys"]) == frozenset()
    assert keys_of(described["discrete"]) is None
    assert keys_of(described["opaque Discrete"]) is None
