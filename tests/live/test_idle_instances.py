"""Idle instances cost little: nothing wakes their processes up for nothing."""

from collections.abc import Callable

import psutil
import pytest

from tests.support.api import Api
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

#: Ticks of the supervisor, five a second.
TICKS = 25


def waits_of(process: psutil.Process) -> int:
    """Return how many times a process has waited for something so far."""
    return int(process.num_ctx_switches().voluntary)


def test_an_idle_host_sleeps(make_server: Callable[..., Server]) -> None:
    server = make_server()
    api = Api(server)
    hosts = [server.host(api.create().id) for _ in range(3)]
    supervisor = server.supervisor

    def let_pass(ticks: int) -> None:
        # Without requests, the supervisor wakes up for its ticks and pings alone.
        before = waits_of(supervisor)
        wait_until(lambda: waits_of(supervisor) >= before + ticks, 40.0, "ticks")

    let_pass(3)
    before = [waits_of(each) for each in hosts]
    let_pass(TICKS)
    # A ping in ten seconds, which wakes a host up and has it wait again.
    after = [waits_of(each) for each in hosts]
    assert [new - old for old, new in zip(before, after, strict=True)] <= [1, 1, 1]
