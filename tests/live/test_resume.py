"""A recording from the beginning is resumed: a new instance at the same state."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv, resume
from tests.support.server import Server

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Server]:
    """A server with the sandbox on, whose hosts cannot read the data directory."""
    with Server("--sandbox", "on", "--data-dir", str(data_dir)) as running:
        yield running


def assert_same(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    """Compare results of two resets or steps, bit by bit."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, np.ndarray):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.tobytes() == other.tobytes()
        else:
            assert one == other


def test_a_killed_instance_goes_on_where_it_was(server: Server) -> None:
    with gymnasium.make("LunarLander-v3") as local:
        env = RemoteEnv(server.url, "LunarLander-v3", record="killed")
        observation, _ = env.reset()
        seed = env.np_random_seed
        assert_same((observation,), local.reset(seed=seed)[:1])
        for action in (1, 2, 3, 0) * 10:
            assert_same(env.step(action), local.step(action))
        server.host(env.instance_id).kill()
        resumed = resume(server.url, "killed")
        assert resumed.last["action"] == 0
        for action in (3, 2, 1, 0) * 10:
            assert_same(resumed.step(action), local.step(action))
        resumed.close()
