"""All clients see the same, and just what local Gymnasium gives.

Each driver plays one environment from one seed with one list of actions, and prints
the bits of all that it gets. Lines are compared with those of a local environment, and
so with each other.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support import mixtures
from tests.support.agreement import Walk
from tests.support.drivers import DRIVERS, Program
from tests.support.server import Server

ENV_IDS = ["CartPole-v1", "Taxi-v4", "Blackjack-v1", "Pendulum-v1", *mixtures.ENV_IDS]
TRANSPORTS = ["rest", "stream"]
# Every driver with every environment, and both of them over every transport.
PAIRWISE = [
    (name, env_id, TRANSPORTS[(i + j) % len(TRANSPORTS)])
    for i, name in enumerate(DRIVERS)
    for j, env_id in enumerate(ENV_IDS)
]
STEPS = 220

pytestmark = [
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]
walk = cache(Walk)


@pytest.fixture(scope="module")
def mixed_server() -> Iterator[Server]:
    with Server("--import", mixtures.__name__) as server:
        yield server


@pytest.mark.live
@pytest.mark.parametrize(("name", "env_id", "transport"), PAIRWISE)
def test_lines_are_those_of_a_local_environment(
    name: str,
    env_id: str,
    transport: str,
    driver: Callable[[str], Program],
    mixed_server: Server,
    tmp_path: Path,
) -> None:
    program = driver(name)
    walked = walk(env_id, 42, STEPS)
    args = walked.args(mixed_server.url, transport, tmp_path)
    walked.compare(program.output(*args))


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_walks_are_long_and_go_beyond_the_end_of_an_episode(env_id: str) -> None:
    walked = walk(env_id, 42, STEPS)
    assert walked.ends > 0
    assert len(walked.lines) == 1 + STEPS + walked.ends


def test_another_seed_gives_other_lines() -> None:
    for env_id in ENV_IDS:
        assert walk(env_id, 42, STEPS).lines != walk(env_id, 43, STEPS).lines
