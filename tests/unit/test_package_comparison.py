"""The comparison of packages sees what differs, and its page says so."""

import functools
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.packages import page
from tests.packages.playing import Record, compare, named_parts, record
from tests.packages.table import PACKAGES, Case

CASE = asdict(Case("CartPole-v1", steps=30))
VALUE = {"a": np.array([0.5, 1.5], np.float32), "b": (1, None)}


def played(**change: Any) -> list[Record]:
    observation = {**VALUE, **change}
    return [("reset of seed 3", VALUE), ("step 1 of seed 3", (observation, 0.5))]


def test_the_same_recordings() -> None:
    assert compare(played(), played()) == {}
    make = functools.partial(gymnasium.make, "CartPole-v1")
    local, again = (list(record(make, CASE, "single")) for _ in range(2))
    assert compare(again, local) == {}
    assert {label.split()[0] for label, _ in local} == {
        *("observation_space", "action_space", "metadata", "spec", "spec.kwargs"),
        *("reset", "action", "step"),
    }


@pytest.mark.parametrize(
    "change",
    [
        {"a": np.array([0.5, np.nextafter(np.float32(1.5), 2)], np.float32)},
        {"a": np.array([0.5, 1.5])},
        {"b": [1, None]},
        {"b": (True, None)},
        {"c": 1},
    ],
)
def test_a_difference_is_named(change: dict[str, Any]) -> None:
    found = compare(played(**change), played())["different"]
    assert found.startswith("step 1 of seed 3[0]")


def test_exceptions() -> None:
    class Broken(gymnasium.Env[Any, Any]):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            raise OSError("no game")

    broken = list(record(Broken, CASE, "single"))
    assert compare(broken, broken) == {"error": "OSError after the beginning: no game"}
    assert "OSError" in compare(broken, [*broken[:-1], *played()])["different"]


def test_spaces_are_compared_by_their_parts() -> None:
    class Own(gymnasium.spaces.Discrete):
        pass

    Own.__module__ = "company.spaces"
    space = gymnasium.spaces.Dict(own=Own(3), box=gymnasium.spaces.Box(0, 1))
    found = named_parts(space)
    assert found["box"] == gymnasium.spaces.Box(0, 1)
    assert found["own"][0].startswith("company.spaces:")
    assert found["own"][1] == "Discrete(3)"


def test_the_page_leaves_nothing_out() -> None:
    kinds = ("same", "different", "unsettled", "fails")
    results: dict[str, dict[str, Any]] = {}
    for number, package in enumerate(PACKAGES):
        outcome = {"way": "single", "kind": kinds[number % 4], "detail": "why `so`"}
        cases = [{"name": str(case), "outcomes": [outcome]} for case in package.cases]
        results[package.name] = {
            "date": "2026-11-27",
            "cases": cases,
            "versions": {"gymnasium": "1.4.0", "numpy": "2.4.6", "pygame": "2.6.1"},
            "conflict": "" if number else "it requires pygame",
        }
    refused = PACKAGES[-1]
    results[refused.name] = {"date": "2026-11-27", "cases": [], "refused": "No wheel"}
    text = page.write(results)
    for package in PACKAGES:
        assert f"| {package.name} | {package.version} | " in text
    for title in ("What is different", "What fails", "What is random", "What cannot"):
        assert f"\n## {title}" in text
    assert "No wheel" in text
    assert "why 'so'" in text


def test_arrays_that_change_afterwards() -> None:
    class Reusing(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 99, (1,))
        action_space = gymnasium.spaces.Discrete(2)
        _array = np.zeros(1, np.float32)

        def reset(self, **_: Any) -> Any:
            self._array[0] = 0
            return self._array, {}

        def step(self, action: Any) -> Any:
            self._array += 1
            return self._array, 0.0, False, False, {}

    played = dict(record(Reusing, CASE, "single"))
    assert played["reset of seed 3"][0] == 0
    assert played["step 2 of seed 3"][0] == 2
