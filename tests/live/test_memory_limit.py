"""The memory limit does not end instances that only share memory."""

from collections.abc import Callable

import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.server import Server
from tests.support.wait import wait_until

COUNT = 64
#: A vector once ended within the first two: its shared pages counted many times.
TICKS = 12


@pytest.mark.slow
def test_the_largest_vectors_live_under_default_settings(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api = Api(server)
    vectors = [
        api.create(num_envs=COUNT, vectorization_mode="sync", hosts=COUNT),
        api.create(num_envs=COUNT, vectorization_mode="async"),
    ]
    supervisor = server.supervisor

    def turns() -> int:
        # Without requests the supervisor wakes up for its ticks alone.
        return int(supervisor.num_ctx_switches().voluntary)

    before = turns()
    wait_until(lambda: turns() > before + TICKS, 20.0, "the supervisor's ticks")
    for vector in vectors:
        vector.reset()
        assert len(vector.step([0] * COUNT)["reward"]) == COUNT
        calls.no_content(vector.close())
