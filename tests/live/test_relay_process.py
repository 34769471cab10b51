"""The relay's process: its start, kills, health, a taken directory, and its end."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from gym_http_server.web.backends.relay import SILENT_SECONDS
from tests.support.api import Api, error, no_content
from tests.support.raw import Response
from tests.support.runs import Run, done
from tests.support.server import Server
from tests.support.wait import wait_until

#: Within which health is promised.
HEALTH_S = 2.0


def relays(server: Server) -> list[psutil.Process]:
    """Return the processes of the relay."""
    return server.services("relay")


def restarted(server: Server, before: psutil.Process) -> psutil.Process:
    """Wait for another relay, and return its process."""

    def other() -> psutil.Process | None:
        found = [each for each in relays(server) if each != before]
        return found[0] if found else None

    found = wait_until(other, 15.0, "another relay")
    assert found is not None
    return found


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    """A server of one test, since another relay is another process."""
    return make_server()


def test_the_relay_starts_when_it_is_first_needed_and_ends_with_its_server(
    server: Server,
) -> None:
    api = Api(server)
    assert api.get("/readyz").status == 200
    assert relays(server) == []
    assert not (server.data_dir / "relay").exists()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.get("/v1/runs/"), range(8)))
    assert [answer.status for answer in answers] == [200] * 8
    (relay,) = relays(server)
    assert relay.cmdline()[0].rstrip() == "gym: relay"
    (sock,) = server.run_dir.glob("*/relay.sock")
    assert sock.stat().st_mode & 0o777 == 0o600
    assert (server.data_dir / "relay").stat().st_mode & 0o777 == 0o700
    assert api.get("/readyz").status == 200
    psutil.Process(server.pid).kill()
    wait_until(lambda: not relay.is_running(), 10.0, "the end of the relay")


def test_a_run_goes_on_after_kills_of_the_relay(server: Server) -> None:
    api = Api(server)
    run = Run.create(api, "killed")
    session = run.session()
    number, refused = 1, 0
    for _ in range(2):
        (relay,) = relays(server)
        killer = threading.Timer(0.05, relay.kill)
        killer.start()
        first = number
        # Until some were stored before the kill, and some after it, and the last one is
        # known to be stored.
        deadline = time.monotonic() + 30
        lost = False
        while relay.is_running() or number < first + 20 or lost:
            assert time.monotonic() < deadline
            body = b"%d" % number
            answer = api.request("POST", run.samples(session, number), data=body)
            lost = answer.status == 503
            if lost:
                error(answer, 503, "relay-unavailable")
                assert answer.header("Retry-After")
                refused += 1
                continue
            # 200: it was stored, and its answer lost.
            assert answer.status in (200, 201), answer
            assert answer.json()["next"] == number + 1
            number += 1
        killer.join()
        restarted(server, relay)
    counts = run.stored()
    assert counts["stored"] == number - 1 == counts["waiting"]
    assert refused <= 4
    assert done(run.get(f"sessions/{session}/"))["next"] == number
    (relay,) = relays(server)
    idle = _connections(server)
    target = f"samples/?after={number - 1}&wait_s=15"
    with ThreadPoolExecutor(idle + 1) as pool:
        # One more than the connections that are kept for the next requests.
        waiting = [pool.submit(run.get, target) for _ in range(idle + 1)]
        wait_until(lambda: _connections(server) > idle, 10.0, "the waits")
        relay.kill()
        answers = [each.result(20) for each in waiting]
    lost = [each for each in answers if each.status != 204]
    assert lost
    for each in lost:
        error(each, 503, "relay-unavailable")
    restarted(server, relay)
    done(run.get())


def _connections(server: Server) -> int:
    """Count the connections to the relay of a server."""
    table = Path("/proc/net/unix").read_text().splitlines()
    (sock,) = server.run_dir.glob("*/relay.sock")
    # The third state is that of a connected socket; the listener has the first.
    return sum(str(sock) in line and line.split()[5] == "03" for line in table)


def test_the_next_server_has_the_runs_and_starts_the_relay(
    launch_server: Callable[..., Server], tmp_path: Path
) -> None:
    flags = ("--relay-dir", str(tmp_path / "samples"))
    first, second = launch_server(*flags), launch_server(*flags)
    first.wait_listening()
    second.wait_listening()
    run = Run.create(Api(first), "pendulum")
    session = run.session()
    done(first_put := Api(first).request("POST", run.samples(session), data=b"x"))
    assert first_put.status == 201
    taken = error(Api(second).get("/v1/runs/"), 503, "relay-taken")
    assert str(tmp_path / "samples") in taken["detail"]
    assert "--relay-dir" in taken["detail"]
    # The log says the same.
    assert f"gym_http_server.relay: {taken['detail']}\n" in second.stderr
    # Only runs are unavailable there.
    assert Api(second).get("/readyz").status == 200
    assert Api(second).get("/healthz").status == 200
    assert first.stop() == 0
    wait_until(
        lambda: Api(second).get("/v1/runs/").status == 200, 15.0, "the free directory"
    )
    same = Run(Api(second), run.name, run.tokens)
    assert same.stored()["stored"] == 1
    assert second.stop() == 0
    third = launch_server(*flags)
    third.wait_listening()
    # It runs before a request needs it.
    wait_until(lambda: relays(third), 10.0, "the relay")
    headers = {"Authorization": f"Bearer {run.tokens['trainer']}"}
    answer = Api(third).get(run.path("samples/?after=0"), headers=headers)
    assert answer.status == 200
    assert answer.body.endswith(b"x")


def health(api: Api, path: str) -> Response:
    """Return the answer to a probe, which comes in time."""
    began = time.monotonic()
    answer = api.get(path)
    assert time.monotonic() - began < HEALTH_S
    return answer


def test_health_reports_a_relay_that_stays_stopped(server: Server) -> None:
    api = Api(server)
    run = Run.create(api, "healthy")
    (relay,) = relays(server)
    relay.suspend()
    try:
        began = time.monotonic()
        answered = {path: health(api, path) for path in ("/healthz", "/readyz")}
        # It may be busy, or wait for its disk.
        assert {answer.status for answer in answered.values()} == {200}
        for path in answered:
            wait_until(lambda path=path: health(api, path).status != 200, 30.0, path)
            error(health(api, path), 503, "relay-unavailable")
        assert time.monotonic() - began >= SILENT_SECONDS
        instance = api.create()
        instance.reset()
        no_content(instance.close())
    finally:
        relay.resume()
    wait_until(lambda: api.get("/readyz").status == 200, 5.0, "health")
    done(run.get())


def test_waits_end_when_the_server_stops(server: Server) -> None:
    api = Api(server)
    run = Run.create(api, "pendulum")
    waits: list[Callable[[], Response]] = [
        lambda: run.get("samples/?after=0&wait_s=50"),
        lambda: run.get("weights/?wait_s=50"),
        lambda: run.post("samples/lease/", {"wait_s": 50}),
    ]
    with ThreadPoolExecutor(len(waits)) as pool:
        answers = [pool.submit(wait) for wait in waits]
        wait_until(lambda: _connections(server) == len(waits), 10.0, "the waits")
        began = time.monotonic()
        assert server.stop() == 0
        for answer in answers:
            # Answered as if the time were over.
            assert answer.result(10).status in (204, 404)
    assert time.monotonic() - began < 8
    assert "relay failed" not in server.stderr
    assert "Traceback" not in server.stderr
