"""Infos through shared memory equal those of one vector, step by step."""

import os
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_server.host.info_merge import Columns, Folding, merged
from gym_http_server.host.shared_columns import (
    MAX_COLUMNS,
    SharedColumns,
    leaves_of,
    together,
)
from tests.support.identity import assert_identical

COUNT = 5
BOUNDS = [(0, 2), (2, 3), (3, 5)]

_inner = st.fixed_dictionaries(
    {}, optional={"y": st.integers(-9, 9), "z": st.just(np.float32(0.1))}
)
_infos = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from([0.25, -0.0, np.inf]),
        "b": st.booleans(),
        "inner": _inner.filter(bool),
        "array": st.sampled_from([np.arange(3), np.array([5, 6, 7])]),
        "empty": st.just(np.zeros((0, 2))),
    },
)
# By step and environment.
_scripts = st.lists(st.lists(_infos, min_size=COUNT, max_size=COUNT), max_size=6)


def of_one_vector(infos: list[Any]) -> dict[str, Any]:
    """Return Gymnasium's merged infos."""
    vector: VectorEnv[Any, Any, Any] = VectorEnv()
    vector.num_envs = COUNT
    fields: dict[str, Any] = {}
    for number, info in enumerate(infos):
        fields = vector._add_info(fields, info, number)
    return fields


def folded(infos: list[Any]) -> list[Columns | None]:
    """Merge the infos of each shard, as its process does."""
    return [
        Folding(stop - start).folded(
            [(n, info) for n, info in enumerate(infos[start:stop]) if info]
        )
        for start, stop in BOUNDS
    ]


def shared(infos: list[Any]) -> SharedColumns:
    """Make memory for the columns of infos."""
    parts = [leaves_of(part) or [] for part in folded(infos)]
    columns = together([], [column for part in parts for column, _ in part])
    descriptor = os.memfd_create("columns")
    os.ftruncate(descriptor, SharedColumns.size(columns, BOUNDS))
    return SharedColumns(columns, BOUNDS, descriptor)


ALL = {"a": 1.0, "b": True, "inner": {"y": 1, "z": np.float32(1)}}
ALL |= {"array": np.arange(3), "empty": np.zeros((0, 2))}


@given(_scripts)
@settings(max_examples=300, deadline=None)
def test_infos_equal_those_of_one_vector(script: list[list[Any]]) -> None:
    memory = shared([ALL] * COUNT)
    for infos in script:
        parts = folded(infos)
        for number, part in enumerate(parts):
            leaves = leaves_of(part)
            if leaves is None or not memory.write(number, leaves):
                # The order of its keys is another one, so a message has them.
                break
            assert (memory.part(number) is None) is (not leaves)
        else:
            assert_identical(memory.read(), of_one_vector(infos))
            again = [memory.part(number) for number in range(len(BOUNDS))]
            assert_identical(merged(again, BOUNDS, COUNT), of_one_vector(infos))


def test_what_a_step_lacks_is_zero_and_absent() -> None:
    memory = shared([{"a": 1.5, "b": 2}] * COUNT)
    for infos in (
        [{"a": 0.5, "b": 1}] * COUNT,
        [{"b": 7}, {}, {"a": 0.25, "b": 3}, {}, {}],
        [{}] * COUNT,
    ):
        for number, part in enumerate(folded(infos)):
            leaves = leaves_of(part)
            assert leaves is not None
            assert memory.write(number, leaves)
        assert_identical(memory.read(), of_one_vector(infos))


def test_what_cannot_be_shared_is_refused() -> None:
    memory = shared([{"a": 1.5, "b": 2}] * COUNT)
    for info in ({"b": 1, "a": 0.5}, {"a": 1}, {"c": 1}, {"a": {"b": 1}}):
        leaves = leaves_of(folded([info] * COUNT)[0])
        assert leaves
        assert not memory.write(0, leaves)
    for odd in ({"a": "word"}, {"a": {}}, {"a": {"b": None}}, {"final_obs": 1.0}):
        assert leaves_of(folded([odd] * COUNT)[0]) is None


def test_columns_of_other_types_get_no_memory() -> None:
    known = shared([{"a": 1.5, "in": {"b": 2}}] * COUNT).columns
    for info in ({"a": 1}, {"in": 3.0}, {"in": {"b": {"c": 1}}}):
        leaves = leaves_of(folded([info] * COUNT)[0])
        assert leaves
        assert together(known, [column for column, _ in leaves]) == known
    many = shared([{f"k{n}": n for n in range(MAX_COLUMNS)}] * COUNT)
    assert len(many.columns) == MAX_COLUMNS
