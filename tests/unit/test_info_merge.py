"""Merged infos of shards equal those that a single vector would have."""

import contextlib
import copy
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_server.host.info_merge import Columns, Folding, kept, merged
from tests.support.identity import assert_identical

COUNT = 5
BOUNDS = [(0, 2), (2, 3), (3, 5)]

_scalars = st.one_of(
    st.integers(-9, 9),
    st.sampled_from([0.5, 2.0]),
    st.booleans(),
    st.sampled_from([np.float32(1.5), np.int8(3), np.bool_(True)]),
    st.sampled_from([None, "word", (1, 2)]),
)
_arrays = st.sampled_from([np.arange(2), np.array([0.5, 1.5]), np.array(3)])
_names = st.sampled_from(["a", "b", "final_obs", "_c"])
_infos = st.recursive(
    st.dictionaries(_names, _scalars | _arrays, max_size=3),
    lambda inner: st.dictionaries(_names, inner | _scalars, max_size=3),
    max_leaves=4,
)
# Mostly alike, as the infos of environments are.
_crowds = st.one_of(
    st.lists(_infos, min_size=COUNT, max_size=COUNT),
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "x": st.integers(0, 9),
                "y": st.sampled_from([np.float32(1), np.float32(2)]),
                "name": st.sampled_from(["one", None]),
                "in": st.fixed_dictionaries({}, optional={"z": st.just(np.ones(2))}),
                "final_obs": st.integers(0, 1) | st.just(np.zeros(1)),
            },
        ),
        min_size=COUNT,
        max_size=COUNT,
    ),
)


def of_one_vector(infos: list[Any]) -> dict[str, Any] | Exception:
    """Return Gymnasium's merged infos, or its error."""
    vector: VectorEnv[Any, Any, Any] = VectorEnv()
    vector.num_envs = COUNT
    fields: dict[str, Any] = {}
    try:
        for number, info in enumerate(copy.deepcopy(infos)):
            fields = vector._add_info(fields, info, number)
    except Exception as error:
        return error
    return fields


def folded(infos: list[Any]) -> list[Columns | None]:
    """Put the infos of each part together, as its process does."""
    return [
        Folding(stop - start).folded(
            [(n, kept(info)) for n, info in enumerate(infos[start:stop])]
        )
        for start, stop in BOUNDS
    ]


@given(_crowds)
@settings(max_examples=400, deadline=None)
def test_merged_infos_equal_those_of_one_vector(infos: list[Any]) -> None:
    expected = of_one_vector(infos)
    if isinstance(expected, Exception):
        with contextlib.suppress(type(expected)):
            parts = folded(infos)
            assert None in parts or merged(parts, BOUNDS, COUNT) is None
        return
    parts = folded(infos)
    if any(part is None for part in parts):
        return
    answer = merged(parts, BOUNDS, COUNT)
    if answer is None:
        return
    assert_identical(answer, expected)


def test_infos_of_equal_types_are_merged() -> None:
    infos = [{"x": n, "in": {"y": np.float32(n)}, "s": "word"} for n in range(COUNT)]
    answer = merged(folded(infos), BOUNDS, COUNT)
    assert answer is not None
    assert_identical(answer, of_one_vector(infos))
    assert answer["x"].tolist() == [0, 1, 2, 3, 4]


def test_infos_of_different_types_are_detected() -> None:
    assert folded([{"x": 1}, {"x": 0.5}, {}, {}, {}])[0] is None
    parts = folded([{"x": 1}, {"x": 2}, {"x": 0.5}, {}, {}])
    assert None not in parts
    assert merged(parts, BOUNDS, COUNT) is None
    parts = folded([{"x": {"y": 1}}, {}, {"x": 1}, {}, {}])
    assert merged(parts, BOUNDS, COUNT) is None


def test_a_shard_without_infos() -> None:
    parts = folded([{}, {"x": 7}, {}, {}, {}])
    answer = merged([parts[0], None, None], BOUNDS, COUNT)
    assert_identical(answer, of_one_vector([{}, {"x": 7}, {}, {}, {}]))


def test_mutable_infos_are_copied() -> None:
    array = np.zeros(2)
    info = {"a": array, "in": {"b": array}, "final_obs": array}
    copied = kept(info)
    array[:] = 1
    assert copied["a"].tolist() == copied["in"]["b"].tolist() == [0, 0]
    # Gymnasium keeps this as it is.
    assert copied["final_obs"] is array
