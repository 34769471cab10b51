"""Replay buffers draw what was added, by chance or priority, until overwritten."""

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_client.relay.replay import Limiter, PrioritizedReplay, Replay

KINDS = (Replay, PrioritizedReplay)


def episode(first: int, count: int, **extras: Any) -> dict[str, Any]:
    """An episode whose values are numbers of their transitions."""
    numbers = np.arange(first, first + count)
    return {
        "observations": np.arange(first, first + count + 1, dtype=np.float32)[:, None],
        "actions": numbers,
        "rewards": numbers / 2,
        "terminated": numbers == first + count - 1,
        "truncated": np.zeros(count, np.bool_),
        "infos": [{}] * (count + 1),
        "length": count,
        "return": float(numbers.sum()) / 2,
        "scalars": [],
        **extras,
    }


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120, deadline=None)
@given(counts=st.lists(st.integers(0, 12), max_size=20), capacity=st.integers(2, 25))
def test_a_transition_is_drawn_whole(
    kind: type[Replay], counts: list[int], capacity: int
) -> None:
    replay = kind(capacity, seed=1)
    # Rows of each batch, the one of its last observation included.
    model: deque[int | None] = deque(maxlen=capacity)
    first = 0
    for count in counts:
        assert replay.add(episode(first, count)) == count
        model.extend([*range(first, first + count), None] if count else [])
        first += count + 100
    expected = {each for each in model if each is not None}
    assert len(replay) == len(expected)
    assert replay.added == sum(counts)
    if not expected:
        with pytest.raises(ValueError, match="empty"):
            replay.draw(1)
        return
    drawn = replay.draw(40 * len(expected))
    assert set(drawn["actions"].tolist()) == expected
    numbers = drawn["actions"]
    np.testing.assert_array_equal(drawn["observations"][:, 0], numbers)
    np.testing.assert_array_equal(drawn["next_observations"][:, 0], numbers + 1)
    np.testing.assert_array_equal(drawn["rewards"], numbers / 2)
    assert replay.draws == len(numbers)


def test_the_columns_keep_their_dtypes() -> None:
    replay = Replay(10)
    replay.add(episode(0, 3, log_probabilities=np.zeros(3, np.float32)))
    assert {name: each.dtype.name for name, each in replay.draw(4).items()} == {
        "observations": "float32",
        "next_observations": "float32",
        "actions": "int64",
        "rewards": "float64",
        "terminated": "bool",
        "truncated": "bool",
        "log_probabilities": "float32",
    }


def test_draws_are_even() -> None:
    replay = Replay(64, seed=3)
    for first in range(0, 60, 6):
        replay.add(episode(first, 5))
    counts = np.unique(replay.draw(100_000)["actions"], return_counts=True)[1]
    # 2,000 each, with a standard deviation of 45.
    assert len(counts) == 50
    assert abs(counts - 2000).max() < 5 * 45


def test_draws_follow_priorities() -> None:
    replay = PrioritizedReplay(16, alpha=1.0, beta=1.0, seed=3)
    replay.add(episode(0, 4))
    drawn = replay.draw(64)
    index = dict(zip(drawn["actions"].tolist(), drawn["indices"].tolist(), strict=True))
    replay.update(np.array([index[each] for each in range(4)]), [1.0, 2.0, 3.0, 4.0])
    drawn = replay.draw(100_000)
    counts = np.unique(drawn["actions"], return_counts=True)[1]
    assert abs(counts - [10_000, 20_000, 30_000, 40_000]).max() < 5 * 160
    # The importance (N x chance) ** -beta over the largest, by hand.
    np.testing.assert_allclose(drawn["weights"], 1 / (1 + drawn["actions"]))


def test_a_new_transition_has_the_highest_priority() -> None:
    replay = PrioritizedReplay(16, alpha=1.0, seed=3)
    replay.add(episode(0, 1))
    replay.update(replay.draw(1)["indices"], [9.0])
    replay.add(episode(5, 1))
    counts = np.unique(replay.draw(10_000)["actions"], return_counts=True)[1]
    assert abs(counts - 5000).max() < 5 * 50


def test_overwritten_transitions_are_not_updated() -> None:
    replay = PrioritizedReplay(4, alpha=1.0, seed=3)
    replay.add(episode(0, 3))
    old = replay.draw(8)["indices"]
    replay.add(episode(10, 3))
    replay.update(old, np.full(8, 1000.0))
    counts = np.unique(replay.draw(9_000)["actions"], return_counts=True)[1]
    assert abs(counts - 3000).max() < 5 * 45


@pytest.mark.parametrize("priority", [-1.0, np.nan, np.inf])
def test_priorities_are_checked(priority: float) -> None:
    replay = PrioritizedReplay(4)
    replay.add(episode(0, 3))
    with pytest.raises(ValueError, match="priority"):
        replay.update(replay.draw(1)["indices"], [priority])


def test_ready_needs_enough_transitions() -> None:
    replay = Replay(10)
    assert not replay.ready(0)
    replay.add(episode(0, 3))
    assert replay.ready(3)
    assert not replay.ready(4)


def test_ready_obeys_the_limiter() -> None:
    replay = Replay(100)
    # Each transition twice, with 4 draws more or less: bounds 10 x 2 - 4 and + 4.
    replay.limiter = Limiter(2.0, min_size=10, min_diff=16.0)
    replay.add(episode(0, 9))
    assert not replay.ready(1)
    replay.add(episode(9, 1))
    assert replay.ready(4)
    assert not replay.ready(5)
    replay.draw(4)
    assert not replay.ready(1)
    replay.add(episode(10, 1))
    assert replay.ready(2)
    assert not replay.ready(3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rewards": None}, "rewards is a NoneType: expected one array"),
        ({"observations": [{}, {}]}, "observations is a list.*hook"),
        ({"observations": np.zeros((3, 1), "f4")}, "observations has 3 rows: .* 4"),
        ({"actions": np.zeros(2, "i8")}, "actions has 2 rows: expected 3"),
        ({"actions": np.zeros((3, 2), "i8")}, r"actions has rows of int64 \(2,\)"),
        ({"extra": np.zeros(3)}, "columns.*'extra'.*expected"),
    ],
)
def test_other_columns_are_refused(change: dict[str, Any], words: str) -> None:
    replay = Replay(10)
    replay.add(episode(0, 3))
    with pytest.raises(ValueError, match=words):
        replay.add(episode(0, 3, **change))
    assert len(replay) == 3


def test_a_missing_column_is_named() -> None:
    columns = episode(0, 3)
    del columns["truncated"]
    with pytest.raises(ValueError, match="no truncated"):
        Replay(10).add(columns)


def test_a_capacity_holds_a_transition() -> None:
    with pytest.raises(ValueError, match="capacity is 1"):
        Replay(1)
