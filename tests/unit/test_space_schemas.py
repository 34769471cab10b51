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
    "large": spaces.Discrete(2**60, start=2**55),
    "odd": spaces.Box(np.array([0, -np.inf]), np.array([np.inf, 9]), dtype=np.float64),
}
ALL = SPACES | MORE


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
    ],
)
def test_what_is_no_element(name: str, wrong: tuple[Any, ...]) -> None:
    schema = made(ALL[name])
    for each in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(each, schema)


def test_keys_of_a_dict() -> None:
    described = {name: json.loads(json.dumps(describe(ALL[name]))) for name in ALL}
    assert keys_of(described["dict"]) == {"go", "by"}
    assert keys_of(described["nested"]) == {"a"}
    assert keys_of(described["discrete"]) is None
