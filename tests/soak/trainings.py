"""The trainings of the soak: many kills, and double DQN from five seeds."""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.training_checks import (
    check_asynchronous,
    check_double_dqn,
    check_equal_to_the_bit,
)

SEEDS = 5
ROUNDS = 5


def trainings() -> list[str]:
    """Run all trainings, and return what went wrong."""
    found = []
    _try(found, "equal to the bit, 100 kills", _equal)
    for number in range(ROUNDS):
        seed = random.randrange(2**31)
        _try(found, f"asynchronous, round {number + 1}, seed {seed}", _rounds(seed))
    for seed in range(1, SEEDS + 1):
        _try(found, f"double DQN, seed {seed}", _learning(seed))
    return found


def _equal(folder: Path) -> None:
    check_equal_to_the_bit(folder, updates=600, kills=100)


def _rounds(seed: int) -> Callable[[Path], None]:
    return lambda folder: check_asynchronous(
        folder, ("w1", "w2", "w3", "w4"), episodes=600, kills=25, seed=seed
    )


def _learning(seed: int) -> Callable[[Path], None]:
    return lambda folder: check_double_dqn(folder, seed)


def _try(found: list[str], name: str, work: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="ghst-soak-") as folder:
        try:
            work(Path(folder))
        except Exception as error:
            found.append(f"{name}: {type(error).__name__}: {error}")
    print(found[-1] if found and found[-1].startswith(name) else f"{name}: done")
