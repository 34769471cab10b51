"""Batches and infos of a vector whose parts are on several nodes."""

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from gym_http_client.envs.spread_values import join, join_infos, seeds_of, split
from tests.support.identity import assert_identical

LEAVES = st.sampled_from(
    [
        spaces.Box(-1, 1, (2, 3)),
        spaces.Box(0, 255, (), np.uint8),
        spaces.Discrete(5, start=2),
        spaces.MultiBinary(3),
        spaces.MultiDiscrete([2, 4]),
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Graph(spaces.Box(0, 1, (2,)), None),
    ]
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(spaces.Dict),
    ),
    max_leaves=4,
)


@st.composite
def bounds(draw: st.DrawFn) -> list[tuple[int, int]]:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


@given(SPACES, bounds(), st.integers(0, 2**31))
def test_parts_of_a_batch_make_it_again(
    single: spaces.Space[Any], parts: list[tuple[int, int]], seed: int
) -> None:
    batched = batch_space(single, parts[-1][1])
    batched.seed(seed)
    batch = batched.sample()
    shares = split(single, batch, parts)
    for (start, stop), share in zip(parts, shares, strict=True):
        assert share in batch_space(single, stop - start)
    assert_identical(join(single, shares), batch)


@pytest.mark.parametrize("actions", [np.zeros(3), [0] * 5, (0,)])
def test_the_number_of_actions_is_checked(actions: Any) -> None:
    with pytest.raises(ValueError, match=r"there are \d actions: expected 4"):
        split(spaces.Discrete(2), actions, [(0, 1), (1, 4)])


INFOS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "count": st.integers(-9, 9),
            "share": st.floats(-1, 1),
            "name": st.text(max_size=3),
            "position": st.just(np.arange(3.0)),
            "inner": st.fixed_dictionaries({}, optional={"depth": st.integers(0, 3)}),
        },
    ),
    min_size=1,
    max_size=8,
)


@given(INFOS, st.data())
def test_infos_of_parts_are_those_of_one_vector(
    infos: list[dict[str, Any]], data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(infos)), max_size=3)) | {len(infos)}
    parts = list(itertools.pairwise([0, *sorted(cuts)]))
    shares = [folded(infos[start:stop]) for start, stop in parts]
    assert_identical(join_infos(shares, parts), folded(infos))


def folded(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the infos as a vector of Gymnasium returns them."""
    vector: gymnasium.vector.VectorEnv[Any, Any, Any] = gymnasium.vector.VectorEnv()
    vector.num_envs = len(infos)
    whole: dict[str, Any] = {}
    for number, info in enumerate(infos):
        whole = vector._add_info(whole, info, number)
    return whole


def test_each_part_has_the_seeds_of_its_environments() -> None:
    parts = [(0, 2), (2, 3)]
    assert seeds_of(None, parts) == [None, None]
    assert seeds_of(7, parts) == [7, 9]
    assert seeds_of([1, None, 3], parts) == [[1, None], [3]]
