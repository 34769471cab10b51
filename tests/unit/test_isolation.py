"""A forked host reseeds the global random generators."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from gym_http_server.host.isolation import reseed


@pytest.fixture
def same_start() -> Iterator[None]:
    """Restore the global generators after the test."""
    states = random.getstate(), np.random.get_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])


@pytest.mark.usefixtures("same_start")
def test_the_global_generators_draw_something_else_each_time() -> None:
    draws = []
    for _ in range(5):
        # As each fork inherits them: half of a pair of normal numbers is left over.
        random.seed(1)
        np.random.seed(1)
        np.random.normal()
        reseed()
        draws.append(
            (
                random.random(),
                np.random.random(),
                np.random.normal(),
                np.random.bytes(8),
            )
        )
    for column in zip(*draws, strict=True):
        assert len(set(column)) == len(draws)


@pytest.mark.usefixtures("same_start")
def test_the_global_generator_of_numpy_is_fair() -> None:
    reseed()
    # Five times the standard deviation of a mean of so many.
    assert abs(np.random.random(100_000).mean() - 0.5) < 0.005
    assert len(np.unique(np.random.random(2_000))) == 2_000
