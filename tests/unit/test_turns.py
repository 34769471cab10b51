"""Each of many instances has its turn, and each of few has one every time."""

from typing import Any

import pytest

from gym_http_server.supervisor.turns import InstanceTurns


def instances(count: int) -> list[Any]:
    return [object() for _ in range(count)]


@pytest.mark.parametrize("count", [0, 1, 8])
def test_few_are_taken_every_time(count: int) -> None:
    turns, few = InstanceTurns(5, 8), instances(count)
    for _ in range(3):
        assert turns.take(few) == few


@pytest.mark.parametrize("count", [9, 39, 40, 41, 2000])
def test_many_are_taken_once_in_as_many_rounds(count: int) -> None:
    turns, many = InstanceTurns(5, 8), instances(count)
    for _ in range(3):
        taken = [each for _ in range(5) for each in turns.take(many)]
        assert set(taken) == set(many)
        assert len(taken) <= max(5 * 8, count + 5)


def test_those_that_end_keep_no_other_waiting_for_long() -> None:
    turns, many = InstanceTurns(5, 8), instances(100)
    turns.take(many)
    left = many[50:]
    taken = {each for _ in range(7) for each in turns.take(left)}
    assert taken == set(left)
