"""Hosts are forked in advance, and creates succeed when the fork server fails."""

import concurrent.futures
import signal
from collections.abc import Callable

import psutil
import pytest

from tests.support.api import Api, no_content
from tests.support.processes import titled
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

ENV_ID = "CartPole-v1"


@pytest.fixture
def api(make_server: Callable[..., Server]) -> Api:
    server = make_server()
    spare(server)
    return Api(server)


def child(server: Server, title: str) -> psutil.Process | None:
    """Return the child of the supervisor with a title."""
    below = server.supervisor.children()
    return next((each for each in below if titled(each, title)), None)


def spare(server: Server) -> psutil.Process:
    """Wait for the spare host, and return it."""
    wait_until(lambda: child(server, "spare host"), 10.0, "a spare host")
    found = child(server, "spare host")
    assert found is not None
    return found


def fork_server(server: Server) -> psutil.Process:
    """Return the fork server."""
    found = child(server, "fork server")
    assert found is not None
    return found


def play(api: Api) -> None:
    """Use and close an instance."""
    instance = api.create(ENV_ID)
    instance.reset()
    instance.step(0)
    no_content(instance.close())


def test_a_spare_host_becomes_the_host_of_the_next_instance(api: Api) -> None:
    waiting = spare(api.server)
    instance = api.create(ENV_ID)
    assert titled(waiting, f"{instance.id} {ENV_ID}")
    assert waiting.ppid() == api.server.supervisor.pid
    # The end of an instance ends no process that no environment has started.
    following = spare(api.server)
    no_content(instance.close())
    assert following.is_running()
    second = api.create(ENV_ID)
    assert titled(following, f"{second.id} {ENV_ID}")
    no_content(second.close())


def test_many_creates_at_a_time_do_not_wait_for_spare_hosts(api: Api) -> None:
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        made = list(pool.map(lambda _: api.create(ENV_ID), range(12)))
    assert len({each.id for each in made}) == 12
    for each in made:
        each.reset()
        no_content(each.close())


def test_a_dead_spare_host_costs_no_create(api: Api) -> None:
    ended = spare(api.server)
    ended.kill()
    wait_until(lambda: not ended.is_running())
    play(api)
    assert spare(api.server) != ended
    play(api)


def test_a_fork_server_that_ends_is_replaced(api: Api) -> None:
    instance = api.create(ENV_ID)
    instance.reset()
    ended, orphan = fork_server(api.server), spare(api.server)
    ended.kill()
    play(api)
    wait_until(lambda: child(api.server, "fork server"), 10.0, "another fork server")
    wait_until(lambda: not orphan.is_running(), 10.0, "the end of the old spare host")
    assert "the fork server ended; starting another one" in api.server.stderr
    waiting = spare(api.server)
    second = api.create(ENV_ID)
    assert titled(waiting, f"{second.id} {ENV_ID}")
    instance.step(0)
    no_content(second.close())
    no_content(instance.close())


def test_a_stopped_fork_server_is_replaced(api: Api) -> None:
    before = fork_server(api.server)
    before.send_signal(signal.SIGSTOP)
    # The first one takes the spare host.
    for _ in range(2):
        play(api)
    wait_until(lambda: not before.is_running())
    assert fork_server(api.server) != before
    assert "the fork server ended; starting another one" in api.server.stderr


def test_spare_hosts_are_as_many_as_were_taken_lately(api: Api) -> None:
    def spares() -> int:
        below = api.server.supervisor.children()
        return sum(titled(each, "spare host") for each in below)

    assert spares() == 1
    for _ in range(3):
        play(api)
    wait_until(lambda: spares() == 3, 10.0, "three spare hosts")
    wait_until(lambda: spares() == 1, 20.0, "one spare host")
