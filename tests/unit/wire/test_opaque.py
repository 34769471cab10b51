"""Spaces of other classes than Gymnasium's are named, and rebuilt only where known."""

import copy
import json
import pickle
import sys
import types
from typing import Any

import numpy as np
import pytest
from gymnasium import Space
from gymnasium import spaces as gs
from gymnasium.vector.utils import batch_space

from gym_http_core import legacy
from gym_http_wire.elements import mask_reader, membership
from gym_http_wire.opaque import RemoteSpace, bind
from gym_http_wire.space_parsing import BadDescription, parse_space
from gym_http_wire.spaces import describe
from gym_http_wire.values import typed
from gym_http_wire.values.loss_report import losses
from tests.support.envs.opaque_spaces import Even, Mission, Mute, polite
from tests.support.spaces import assert_same_space

MODULE = "tests.support.envs.opaque_spaces"
EVEN = {
    "type": "Opaque",
    "class": f"{MODULE}:Even",
    "repr": "Discrete(6)",
    "base": {"type": "Discrete", "n": 6, "start": 0, "dtype": "int64"},
    "arguments": {"limit": 6},
}


class Scaled(gs.Box):
    """A Box with a rule of its own, and arguments of several kinds."""

    def __init__(self, shape: Any, factor: Any = 1.0, seed: Any = None) -> None:
        self.factor = factor
        super().__init__(0, 1, tuple(shape), seed=seed)

    def contains(self, x: Any) -> bool:
        return bool(np.all(x))


class Derived(gs.Discrete):
    """Its attribute is not what its constructor was called with."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.n = self.n + 1

    def contains(self, x: Any) -> bool:
        return True


def test_they_are_described_by_class_repr_and_base() -> None:
    assert describe(Even(6)) == EVEN
    mission = describe(gs.Tuple([gs.Dict(a=Mission(polite))]))
    assert mission["spaces"][0]["spaces"][0][1] == {  # type: ignore[index]
        "type": "Opaque",
        "class": f"{MODULE}:Mission",
        # Without its address, which differs in each process.
        "repr": f"<{MODULE}.Mission object>",
        "base": None,
    }
    assert parse_space(json.loads(json.dumps(mission))) == parse_space(mission)


def test_one_that_cannot_be_described_has_the_name_of_its_class() -> None:
    described = describe(Mute())
    assert described["class"] == f"{MODULE}:Mute"
    assert (described["base"], described["repr"]) == (None, None)
    assert legacy.info(Mute()) == {"name": "Mute"}
    assert str(parse_space(described)) == f"RemoteSpace({MODULE}:Mute)"


@pytest.mark.parametrize(
    ("space", "arguments"),
    [
        (Even(4), {"limit": 4}),
        # A tuple is not what JSON would bring.
        (Scaled([2], 0.5), None),
        (Derived(3), None),
        (Mission(polite), None),
    ],
)
def test_arguments_are_described_if_they_make_the_same_space(
    space: Space[Any], arguments: Any
) -> None:
    assert describe(space).get("arguments") == arguments


def test_it_is_made_of_its_class_only_where_that_is_imported() -> None:
    made = parse_space(EVEN, imported=True)
    assert type(made) is Even
    assert_same_space(made, Even(6))
    assert type(parse_space(EVEN)) is RemoteSpace
    nested = {"type": "Tuple", "spaces": [EVEN]}
    assert type(parse_space(nested, imported=True)[0]) is Even  # type: ignore[index]


@pytest.mark.parametrize(
    "changes",
    [
        {"class": "antigravity:Space"},
        {"class": f"{MODULE}:Absent"},
        {"class": f"{MODULE}:Errand"},
        {"class": f"{MODULE}:polite"},
        {"class": f"{MODULE}:np.int64"},
        {"class": "subprocess:Popen", "arguments": {"args": ["false"]}},
        {"class": "gymnasium.spaces.discrete:Discrete", "arguments": {"n": 6}},
        {"class": "__main__:Even"},
        {"class": MODULE},
        {"class": ""},
        {"arguments": {"limit": 8}},
        {"arguments": {"limit": -1}},
        {"arguments": {"other": 6}},
        {"repr": "Discrete(8)"},
    ],
    ids=str,
)
def test_another_class_is_never_made_nor_imported(changes: dict[str, Any]) -> None:
    before = set(sys.modules)
    made = parse_space({**EVEN, **changes}, imported=True)
    assert type(made) is RemoteSpace
    assert made.base == gs.Discrete(6)
    assert set(sys.modules) == before


def test_a_module_is_not_asked_to_import_what_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lazy = types.ModuleType("lazy_spaces")
    asked: list[str] = []
    lazy.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "lazy_spaces", lazy)
    parse_space({**EVEN, "class": "lazy_spaces:Even"}, imported=True)
    assert asked == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"class": 1}, "class"),
        ({"class": None}, "class"),
        ({"repr": 1}, "repr"),
        ({"arguments": [6]}, "arguments"),
        ({"base": 1}, "base"),
        ({"base": {"type": "Discrete", "n": 0}}, "base.n"),
    ],
)
def test_malformed_descriptions_are_refused(changes: Any, field: str) -> None:
    with pytest.raises(BadDescription) as raised:
        parse_space({**EVEN, **changes})
    assert raised.value.field == field


def bound(calls: list[Any]) -> Any:
    """Return a space with two opaque parts, whose calls are listed."""
    pairs = [["e", EVEN], ["m", describe(Mission(polite))]]
    space = parse_space(
        {"type": "Tuple", "spaces": [{"type": "Dict", "spaces": pairs}]}
    )

    def call(path: Any, method: str, args: Any, kwargs: Any) -> Any:
        calls.append((path, method, args, kwargs))
        return 4

    bind(space, call)
    return space


def test_its_methods_are_called_where_it_is() -> None:
    calls: list[Any] = []
    space = bound(calls)
    even = space[0]["e"]
    assert space.sample(mask=({"e": [1], "m": None},)) == ({"e": 4, "m": 4},)
    assert even.contains(np.int64(3)) is True
    assert even.seed(5) == 4
    assert even.seed() == 4
    assert calls == [
        ((0, "e"), "sample", [], {"mask": [1]}),
        ((0, "m"), "sample", [], {}),
        ((0, "e"), "contains", [np.int64(3)], {}),
        ((0, "e"), "seed", [5], {}),
        ((0, "e"), "seed", [], {}),
    ]


def test_copies_draw_from_the_same_space_by_seeds_of_their_own() -> None:
    calls: list[Any] = []
    even = bound(calls)[0]["e"]
    batch = batch_space(even, 2)
    # To batch a space must not change its generator.
    assert calls == []
    batch.seed([1, 2])
    assert batch.sample() == (4, 4)
    methods = [(method, args) for _, method, args, _ in calls]
    sample: Any = ("sample", [])
    assert methods == [("seed", [1]), sample, ("seed", [2]), sample]
    batch.sample()
    assert len(calls) == 6


def test_one_without_a_connection_says_so() -> None:
    calls: list[Any] = []
    space = pickle.loads(pickle.dumps(bound(calls)))
    assert space == bound(calls)
    with pytest.raises(RuntimeError, match="only described here"):
        space[0]["m"].sample()
    assert space != copy.deepcopy(space[0])
    assert space[0]["e"] == Even(6)
    assert space[0]["e"] != Even(8)
    assert space[0]["e"].shape == ()


def test_a_space_as_a_value_arrives_as_a_remote_space() -> None:
    sent = gs.Tuple([Even(6), gs.Discrete(2)])
    arrived = typed.decode(typed.encode({"space": sent}))["space"]
    assert describe(arrived) == describe(sent)
    assert type(arrived[0]) is RemoteSpace
    (loss,) = losses({"space": sent})
    assert "Even and arrives as a gym_http_wire.opaque.RemoteSpace" in loss


def test_membership_is_that_of_the_class() -> None:
    contains = membership(Even(6))
    assert contains(np.int64(4))
    assert not contains(np.int64(3))
    assert mask_reader(gs.Dict(a=Mission(polite)))({"a": [1]}) == {"a": [1]}


def test_the_text_of_a_server_is_shown_short_and_without_control_characters() -> None:
    described = {**EVEN, "repr": "\x1b[2J\n" + "é" * 10**6}
    assert repr(parse_space(described)).startswith("RemoteSpace(\\x1b[2J\\né")
    assert len(repr(parse_space(described))) < 1100
