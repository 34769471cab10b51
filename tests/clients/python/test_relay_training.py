"""Trainings whose server, workers and trainer are killed use each batch once."""

from pathlib import Path

import pytest

from tests.support.training_checks import (
    check_a_second_server,
    check_asynchronous,
    check_double_dqn,
    check_equal_to_the_bit,
)

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(240)]


def test_weights_equal_those_of_one_process_to_the_bit(tmp_path: Path) -> None:
    check_equal_to_the_bit(tmp_path, updates=40, kills=5)


def test_the_commands_work_on_a_second_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_a_second_server(tmp_path, monkeypatch)


def test_asynchronous_batches_arrive_once_and_in_order(tmp_path: Path) -> None:
    check_asynchronous(tmp_path, ("w1", "w2"), episodes=30, kills=3, seed=5)


def test_double_dqn_learns_cartpole(tmp_path: Path) -> None:
    check_double_dqn(tmp_path, 1)
