"""`Unsent` takes the places of exactly those values of infos that cannot be sent."""

import enum
import weakref
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import GraphInstance
from hypothesis import given

from gym_http_wire.values import Unsent, UnsupportedValue, binary, infos, typed
from gym_http_wire.values.infos import Replacing, first_unsent, with_unsent
from gym_http_wire.values.model import MAX_REPR
from tests.support.values import VALUES, assert_same

SET = Unsent("{1}", "set")


class Colour(enum.Enum):
    """Keys that cannot be sent."""

    RED = 1


class Silent:
    """An object without a text."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Broken(dict[str, int]):
    """A dict whose items cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("no items")


def objects(*items: Any) -> Any:
    array = np.empty(len(items), object)
    array[:] = items
    return array


@given(VALUES)
def test_values_that_can_be_sent_stay_as_they_are(value: Any) -> None:
    made, replaced = with_unsent({"info": {"value": value}})
    assert replaced == ""
    for codec in (binary, typed):
        assert_same(codec.decode(codec.encode(made)), {"info": {"value": value}})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1}, SET),
        ([1, ({1},)], [1, (SET,)]),
        ({"a": {"b": {1}}}, {"a": {"b": SET}}),
        ({"a": {Colour.RED: 1}}, {"a": Unsent("{<Colour.RED: 1>: 1}", "dict")}),
        (GraphInstance(1, {1}, None), GraphInstance(1, SET, None)),
        (range(3), Unsent("range(0, 3)", "range")),
        ({"x" * 300}, Unsent(repr({"x" * 300})[:MAX_REPR], "set")),
        (Silent(), Unsent("<Silent>", f"{__name__}.Silent")),
        (Broken(a=1), Unsent("{'a': 1}", f"{__name__}.Broken")),
    ],
)
def test_unsent_is_in_the_place_of_the_value(value: Any, expected: Any) -> None:
    made, replaced = with_unsent({"info": {"value": value}, "observation": 1})
    assert made == {"info": {"value": expected}, "observation": 1}
    assert replaced.startswith('info["value"]')
    for codec in (binary, typed):
        received = codec.decode(codec.encode(made))["info"]
        assert received == {"value": expected}
        assert first_unsent(received).startswith('info["value"]')


def test_unsent_is_in_the_place_of_an_object_that_is_gone() -> None:
    made, _ = with_unsent({"info": {"value": weakref.proxy(Silent())}})
    assert made["info"]["value"].type == "weakref.ProxyType"
    for codec in (binary, typed):
        assert_same(codec.decode(codec.encode(made)), made)


def test_items_of_arrays_are_replaced_and_masks_are_not_lost() -> None:
    info = {"o": objects({1}, None), "m": np.ma.masked_array([1, 2], [True, False])}
    made = Replacing().info(info, 1)
    assert made["o"].tolist() == [SET, None]
    assert made["m"].type == "numpy.ma.MaskedArray"
    assert info["o"][0] == {1}


def test_an_info_stays_a_dict_whose_keys_can_be_looked_up() -> None:
    replacing = Replacing()
    assert replacing.info({Colour.RED: 1, "a": 2}, 1) == {"<Colour.RED: 1>": 1, "a": 2}
    assert "has a key" in replacing.first
    assert Replacing().info({1}, 1) == SET


def test_infos_that_hold_themselves_end(monkeypatch: pytest.MonkeyPatch) -> None:
    info: dict[str, Any] = {"a": 1}
    info["self"] = [info]
    made = Replacing().info(info, 1)
    assert made["a"] == 1
    binary.encode(made)
    wide: Any = {1}
    for _ in range(60):
        wide = [wide, wide]
    # A million takes seconds.
    monkeypatch.setattr(infos, "_MAX_PARTS", 10_000)
    with pytest.raises(UnsupportedValue, match="more parts"):
        Replacing().info({"wide": wide}, 1)


def test_every_info_of_an_answer_is_replaced_and_nothing_else() -> None:
    rows = {"episodes": [{"infos": [{"a": {1}}], "observations": [{2}]}]}
    made, _ = with_unsent({**rows, "updates": [{"info": {"b": {1}}}], "value": {3}})
    assert made == {
        "episodes": [{"infos": [{"a": SET}], "observations": [{2}]}],
        "updates": [{"info": {"b": SET}}],
        "value": {3},
    }
