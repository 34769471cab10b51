"""``GET /v1/instances/``: all instances with their figures, without asking a host."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.peers.watcher import open_stream, open_watcher
from tests.support.server import Server
from tests.support.status_page import host_of, page_of
from tests.support.wait import wait_until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """A server with environments that misbehave."""
    with Server("--import", "tests.support.envs.hostile") as server:
        yield server


@pytest.fixture
def api(shared: Server) -> Api:
    """A client of that server."""
    return Api(shared)


def listed(api: Api, instance_id: str) -> dict[str, Any]:
    """Return the list's entry of a running instance, or nothing."""
    rows = ok(api.get("/v1/instances/"))["instances"]
    return next((row for row in rows if row["instance_id"] == instance_id), {})


def ended(api: Api, instance_id: str) -> dict[str, Any]:
    """Return the list's entry of an ended instance."""
    rows = ok(api.get("/v1/instances/"))["ended"]
    return next((row for row in rows if row["instance_id"] == instance_id), {})


def test_it_shows_the_activity_of_an_instance(api: Api) -> None:
    instance = api.create("FrozenLake-v1", label="ppo, run 3: ünïcode", seed=1)
    fresh = listed(api, instance.id)
    assert fresh.pop("age_s") >= fresh.pop("idle_s") >= 0
    # A Python process with NumPy and Gymnasium has more than 20 MiB.
    assert 20 * 2**20 < fresh.pop("memory_bytes") < 2**30
    assert 0 <= fresh.pop("cpu_s") < 60
    assert fresh == {
        "arguments": None,
        "busy_s": None,
        "env_id": "FrozenLake-v1",
        "episodes": 0,
        "instance_id": instance.id,
        "label": "ppo, run 3: ünïcode",
        "last_length": None,
        "last_return": None,
        "num_envs": None,
        "owner": None,
        "program": None,
        "realtime": None,
        "recording": None,
        "render_mode": None,
        "state": "waiting",
        "step_ms": None,
        "steps": 0,
        "streams": 0,
        "watchers": 0,
    }
    assert ok(instance.get(""))["label"] == "ppo, run 3: ünïcode"
    steps = episodes = 0
    for _ in range(3):
        instance.reset()
        done = False
        while not done:
            done = instance.step(1)["done"]
            steps += 1
        episodes += 1
    row = listed(api, instance.id)
    assert (row["steps"], row["episodes"]) == (steps, episodes)
    no_content(instance.close())
    assert listed(api, instance.id) == {}
    last = ended(api, instance.id)
    assert last.pop("age_s") > 0
    assert last.pop("ended_s_ago") >= 0
    assert last == {
        "detail": None,
        "env_id": "FrozenLake-v1",
        "episodes": episodes,
        "exit_status": 0,
        "instance_id": instance.id,
        "label": "ppo, run 3: ünïcode",
        "log": f"/v1/envs/{instance.id}/log/",
        "log_tail": None,
        "owner": None,
        "reason": "closed",
        "signal": None,
        "steps": steps,
    }


def test_it_counts_streams_and_watchers(api: Api) -> None:
    instance = api.create()

    def counts() -> tuple[int, int]:
        row = listed(api, instance.id)
        return row["streams"], row["watchers"]

    with open_stream(instance), open_stream(instance), open_watcher(instance):
        # A watcher is answered before its host counts it.
        wait_until(lambda: counts() == (2, 1))
    wait_until(lambda: counts() == (0, 0))
    no_content(instance.close())


def test_a_busy_instance_is_listed_at_once(api: Api) -> None:
    instance = api.create("hostile/Slow-v0", kwargs={"seconds": 3.0})
    instance.reset()
    with ThreadPoolExecutor(1) as pool:
        step = pool.submit(instance.step, 1)
        wait_until(lambda: listed(api, instance.id)["busy_s"])
        first = listed(api, instance.id)
        wait_until(lambda: listed(api, instance.id)["busy_s"] > first["busy_s"])
        assert first["idle_s"] is None
        wait_until(lambda: listed(api, instance.id)["state"] == "running")
        for state in ("busy", "running"):
            rows = ok(api.get(f"/v1/instances/?state={state}"))["instances"]
            assert [row["instance_id"] for row in rows] == [instance.id]
        assert not step.done()
        step.result()
    row = listed(api, instance.id)
    assert (row["state"], row["busy_s"]) == ("running", None)
    assert row["idle_s"] < 2.5
    assert ok(api.get("/v1/instances/?state=idle"))["instances"]
    no_content(instance.close())


def test_the_state_follows_what_happens(make_server: Callable[..., Server]) -> None:
    server = make_server(
        "--import", "tests.support.envs.hostile", "--step-deadline", "4"
    )
    api = Api(server)
    instance = api.create("hostile/Slow-v0", kwargs={"seconds": 30.0})
    clocked = api.create(
        "Pendulum-v1",
        realtime={"mode": "free_running", "hz": 20, "default_action": [0.0]},
    )
    played = api.create()

    def state(of: Instance) -> str:
        return str(listed(api, of.id).get("state", "ended"))

    for each in (instance, clocked, played):
        assert state(each) == "waiting"
        each.reset()
    # A reset is no step.
    assert (state(instance), state(played)) == ("waiting", "waiting")
    played.step(0)
    assert state(played) == "running"
    wait_until(lambda: state(clocked) == "running")
    ok(clocked.post("realtime/pause/", {}))
    wait_until(lambda: state(clocked) == "paused")
    ok(clocked.post("realtime/resume/", {}))
    wait_until(lambda: state(clocked) == "running")
    with ThreadPoolExecutor(1) as pool:
        step = pool.submit(instance.post, "step/", {"action": 1})
        # Half of the deadline is long for a call, if nothing shows what is usual.
        wait_until(lambda: state(instance) == "stuck")
        assert listed(api, instance.id)["busy_s"] > 2
        error(step.result(), 504, "step-deadline")
    assert ended(api, instance.id)["reason"] == "step-deadline"
    wait_until(lambda: state(played) == "waiting")
    assert listed(api, played.id)["idle_s"] > 4


def test_the_list_asks_no_host(api: Api) -> None:
    idle = [api.create("hostile/Harmless-v0") for _ in range(3)]
    killed = api.create("hostile/Harmless-v0")
    asleep = api.create("hostile/Slow-v0", kwargs={"seconds": 60.0})
    pids = [int(each.reset()["info"]["pid"]) for each in (*idle, killed)]
    sleeper = int(asleep.reset()["info"]["pid"])
    with ThreadPoolExecutor(1) as pool:
        step = pool.submit(asleep.post, "step/", {"action": 1})
        wait_until(lambda: listed(api, asleep.id)["state"] == "running")
        *stopped, last = pids
        try:
            # A stopped process answers nothing.
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            os.kill(last, signal.SIGKILL)
            wait_until(lambda: ended(api, killed.id))
            rows = ok(api.get("/v1/instances/?search=hostile"))["instances"]
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        states = {row["instance_id"]: row["state"] for row in rows}
        assert states.pop(asleep.id) in ("running", "stuck")
        assert states == {each.id: "waiting" for each in idle}
        row = ended(api, killed.id)
        assert (row["reason"], row["signal"]) == ("crashed", "SIGKILL")
        os.kill(sleeper, signal.SIGKILL)
        error(step.result(), 502, "env-crashed")
    for each in idle:
        no_content(each.close())


def test_an_instance_that_is_being_made_is_listed(api: Api) -> None:
    body = {
        "env_id": "hostile/SlowInit-v0",
        "kwargs": {"seconds": 2.0},
        "label": "slow",
    }

    def making() -> list[dict[str, Any]]:
        rows = ok(api.get("/v1/instances/"))["instances"]
        return [row for row in rows if row["label"] == "slow"]

    with ThreadPoolExecutor(1) as pool:
        created = pool.submit(api.post, "/v1/envs/", body)
        (row,) = wait_until(making)
        assert (row["state"], row["busy_s"], row["idle_s"]) == ("making", None, None)
        instance = Instance(api, ok(created.result())["instance_id"])
    assert row["instance_id"] == instance.id
    no_content(instance.close())


def test_an_instance_that_is_about_to_end_is_listed(api: Api) -> None:
    instance = api.create("hostile/Slow-v0", kwargs={"seconds": 1.5})
    instance.reset()
    with ThreadPoolExecutor(2) as pool:
        step = pool.submit(instance.post, "step/", {"action": 1})
        wait_until(lambda: listed(api, instance.id)["busy_s"])
        closing = pool.submit(instance.close)
        wait_until(lambda: listed(api, instance.id)["state"] == "ending")
        no_content(closing.result())
        step.result()


def test_it_shows_why_an_instance_ended(api: Api) -> None:
    instance = api.create("hostile/Segfault-v0")
    instance.reset()
    error(instance.post("step/", {"action": 1}), 502, "env-crashed")
    row = ended(api, instance.id)
    assert (row["reason"], row["signal"]) == ("crashed", "SIGSEGV")
    assert row["exit_status"] is None
    assert "Segmentation fault" in row["log_tail"]
    assert row["log"] == f"/v1/envs/{instance.id}/log/"


def test_the_newest_that_ended_comes_first(api: Api) -> None:
    instances = [api.create() for _ in range(3)]
    for instance in instances:
        no_content(instance.close())
    rows = ok(api.get("/v1/instances/"))["ended"]
    newest_first = [each.id for each in reversed(instances)]
    assert [row["instance_id"] for row in rows[:3]] == newest_first


@pytest.mark.parametrize("label", ["x" * 64, "日本語", None, ""])
def test_a_label_may_be(api: Api, label: str | None) -> None:
    instance = api.create(label=label)
    assert listed(api, instance.id)["label"] == (label or None)
    no_content(instance.close())


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("x" * 65, "xxx': expected a string of 1 to 64 printable characters"),
        ("two\nlines", "expected a string of 1 to 64 printable characters"),
        ("\x1b[31m", "expected a string of 1 to 64 printable characters"),
        ("\u202eevil", "expected a string of 1 to 64 printable characters"),
        (5, "label is 5: expected a string of 1 to 64"),
        ({"a": 1}, "label is {'a': 1}: expected a string"),
    ],
)
def test_a_label_is_refused(api: Api, label: object, words: str) -> None:
    body = {"env_id": "CartPole-v1", "label": label}
    assert words in error(api.post("/v1/envs/", body), 400, "bad-parameter")["message"]


def test_numbers_that_an_environment_forges_stay_numbers(
    api: Api,
) -> None:
    """An environment can write to its status page."""
    instance = api.create()
    with page_of(host_of(instance)).open("r+b") as file:
        # This one is not looked at by any limit.
        file.seek(48)
        file.write(b"\xff" * 8)
    assert listed(api, instance.id)["watchers"] == 2**64 - 1
    no_content(instance.close())
