"""A forked host reseeds the global random generators."""

import random
import subprocess
import sys
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


FORKS = """
import os, random
import numpy as np
from gym_http_server.host import isolation

np.random.normal()
isolation.find_state()
state = np.random.get_state(legacy=False)
print(state["state"]["pos"], state["has_gauss"], isolation._state is not None)
for _ in range(3):
    pid = os.fork()
    if not pid:
        isolation.reseed_unused()
        print(np.random.normal(), np.random.normal(), np.random.bytes(8), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_forks_draw_different_numbers_from_memory_that_they_have_filled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, check=True
    )
    state, *draws = done.stdout.splitlines()
    assert state == "624 0 True"
    assert len(set(draws)) == 3
