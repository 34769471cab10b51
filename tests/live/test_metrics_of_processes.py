"""Metrics of the server's processes, and those that remain while one is stuck."""

import importlib.metadata
import platform
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

import gym_http_server
from tests.live.test_metrics import Values, metrics
from tests.support.api import Api, no_content
from tests.support.peers.external_env import ExternalEnv
from tests.support.processes import gunicorn, holds, titled
from tests.support.runs import Run
from tests.support.server import Server
from tests.support.token_file import api_of, write_file
from tests.support.wait import wait_until

MakeServer = Callable[..., Server]

#: Within which a scrape is promised, times two.
SCRAPE_S = 2.0
#: A metric of each process that sends figures.
FIGURES = {
    "supervisor": ("gym_slots", ()),
    "broker": ("gym_external_free", ()),
    "relay": ("gym_relay_runs", ()),
}


def scraped(api: Api, without: str) -> Values:
    """Scrape in time; check that the figures of this process alone are missing."""
    began = time.monotonic()
    values = metrics(api)
    assert time.monotonic() - began < SCRAPE_S
    for name, key in FIGURES.items():
        assert values["gym_up", (name,)] == (name != without)
        assert (key in values) == (name != without)
    return values


def title_of(server: Server, name: str) -> psutil.Process:
    """Return the process of a title."""
    (found,) = (each for each in server.members() if titled(each, name))
    return found


@pytest.fixture(scope="module")
def measured() -> Iterator[Api]:
    """A server with a broker, and a relay that has a run."""
    with Server() as server:
        ExternalEnv.to(Api(server)).drop()
        Run.create(Api(server), "measured")
        yield Api(server)


@pytest.mark.parametrize("name", FIGURES)
def test_a_stopped_process_costs_a_scrape_only_its_own_figures(
    measured: Api, name: str
) -> None:
    api = measured
    assert scraped(api, "")["gym_relay_runs", ()] == 1
    process = title_of(api.server, name)
    process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(2):
            scraped(api, name)
    finally:
        process.send_signal(signal.SIGCONT)
    scraped(api, "")


def test_a_relay_directory_of_another_server_costs_only_the_relays_figures(
    make_server: MakeServer, tmp_path: Path
) -> None:
    first, second = (
        Api(make_server("--relay-dir", str(tmp_path / "samples"))) for _ in range(2)
    )
    Run.create(first, "measured")
    second.get("/v1/runs/")
    scraped(second, "relay")
    scraped(first, "")


def test_a_damaged_relay_database_costs_only_the_relays_figures(
    make_server: MakeServer,
) -> None:
    api = Api(make_server())
    path = api.server.data_dir / "relay" / "relay.sqlite3"
    path.mkdir(parents=True)
    with pytest.raises(sqlite3.Error):
        sqlite3.connect(path)
    api.get("/v1/runs/")
    scraped(api, "relay")


def test_processes_have_the_metrics_of_every_prometheus_client(
    make_server: MakeServer,
) -> None:
    server = make_server("--workers", "2")
    api = Api(server)
    workers = gunicorn(server.pid)[1]
    expected = {("web worker", each) for each in workers}
    expected |= {("launcher", psutil.Process(server.pid))}
    expected |= {("supervisor", server.supervisor)}
    values = metrics(api)
    for name in ("resident_memory_bytes", "open_fds", "cpu_seconds_total"):
        keys = {key[1] for key in values if key[0] == f"process_{name}"}
        assert keys == {(str(each.pid), title) for title, each in expected}
    for title, each in expected:
        labels = str(each.pid), title

        def of(name: str, labels: tuple[str, ...] = labels) -> float:
            return values[f"process_{name}", labels]

        # Shortly before, the process was as large as it is now, and hardly younger.
        assert of("resident_memory_bytes") == pytest.approx(each.memory_info().rss, 0.2)
        assert of("start_time_seconds") == pytest.approx(each.create_time(), abs=1.5)
        used = each.cpu_times()
        assert 0 < of("cpu_seconds_total") <= used.user + used.system + 0.02
        assert of("max_fds") == each.rlimit(psutil.RLIMIT_NOFILE)[0]


def test_the_build_is_described(api: Api) -> None:
    text = api.get("/metrics").text
    (family,) = (each for each in parse(text) if each.name == "gym_build_info")
    ((_, labels, value, *_),) = family.samples
    assert value == 1
    assert labels == {
        "gymnasium": importlib.metadata.version("gymnasium"),
        "python": platform.python_version(),
        "version": gym_http_server.__version__,
    }


def test_memory_and_processor_time_are_summed_up_by_environment(
    make_server: MakeServer,
) -> None:
    server = make_server()
    api = Api(server)
    carts = [api.create("CartPole-v1"), api.create("CartPole-v1")]
    vector = api.create("Pendulum-v1", num_envs=2, vectorization_mode="async")
    # The shards of a vector have the title of its host.
    started = server.supervisor.children()
    hosts = {
        made.id: next(each for each in started if holds(each, made.id))
        for made in (*carts, vector)
    }

    def used(*made: str) -> tuple[float, float]:
        below = [
            each
            for name in made
            for each in (hosts[name], *hosts[name].children(recursive=True))
        ]
        times = [each.cpu_times() for each in below]
        return (
            sum(each.memory_info().rss for each in below),
            sum(each.user + each.system for each in times),
        )

    def shown(env_id: str) -> tuple[float, float]:
        values = metrics(api)
        return (
            values["gym_instance_memory_bytes", (env_id,)],
            values["gym_instance_cpu_seconds_total", (env_id,)],
        )

    for made in carts:
        made.reset(seed=1)
        for _ in range(5):
            made.post("rollout/", {"episodes": 50})
    vector.reset(seed=1)
    for env_id, names in (
        ("CartPole-v1", [each.id for each in carts]),
        ("Pendulum-v1", [vector.id]),
    ):
        memory, cpu_s = used(*names)
        # Figures are read anew when they are older than two seconds.
        wait_until(
            lambda env_id=env_id, cpu_s=cpu_s: (
                shown(env_id)[1] == pytest.approx(cpu_s, 0.5, 0.05)
            ),
            5.0,
            "the processor time",
        )
        assert shown(env_id)[0] == pytest.approx(memory, 0.2)
    before = shown("CartPole-v1")
    no_content(carts[0].close())
    hosts[carts[1].id].kill()
    key = "gym_instances_ended_total", ("CartPole-v1", "crashed")
    wait_until(lambda: key in metrics(api), 10.0, "the end")
    memory, cpu_s = shown("CartPole-v1")
    assert memory == 0
    assert cpu_s >= before[1]
    vector.close()


def test_slots_are_counted_by_owner_for_those_who_may_know(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server("--tokens", write_file(tmp_path))
    ada, bob = api_of(server, "ada"), api_of(server, "bob")
    made = [ada.create(), ada.create(), bob.create()]
    for name, expected in (
        ("root", {"ada": 2, "bob": 1}),
        ("ada", {"ada": 2, "other": 1}),
        ("bob", {"bob": 1, "other": 2}),
        ("reader", {"other": 3}),
    ):
        values = metrics(api_of(server, name))
        shown = {
            key[1][0]: v for key, v in values.items() if key[0] == "gym_owned_slots"
        }
        assert shown == expected
    for each in made:
        no_content(each.close())
