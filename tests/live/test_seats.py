"""Several clients play in one world, each as one of its agents."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pettingzoo.classic.rps import rps

from gym_http_client import RemoteEnv
from tests.support.seats import served_agents
from tests.support.server import Server

STEPS = 100


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that ends instances whose seat is gone after a second."""
    with Server("--external-grace", "1") as server:
        yield server


def play(env_id: str, url: str, own: int, other: int) -> list[tuple[int, float]]:
    """Play rock, paper, scissors in turn; return what was seen."""
    with RemoteEnv(url, env_id, wait_s=20) as env:
        env.reset(seed=1)
        steps = (env.step((own + i) % 3) for i in range(STEPS))
        return [(int(step[0]), float(step[1])) for step in steps]


def test_each_sees_the_actions_of_the_other(server: Server) -> None:
    def factory():  # type: ignore[no-untyped-def]
        return rps.parallel_env(max_cycles=STEPS)

    with (
        served_agents(factory, server.url, name="rps", n=2),
        ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(play, "external/rps.player_0", server.url, 0, 1)
        second = pool.submit(play, "external/rps.player_1", server.url, 1, 0)
        assert [seen for seen, _ in first.result()] == [
            (1 + i) % 3 for i in range(STEPS)
        ]
        assert [seen for seen, _ in second.result()] == [i % 3 for i in range(STEPS)]
        assert {reward for _, reward in first.result()} == {-1.0}
