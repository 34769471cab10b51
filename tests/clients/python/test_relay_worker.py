"""Rollout workers with a real relay: samples, records, signals, synchronous rounds."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gym_http_client import ServerError
from gym_http_client.http.retries import Retries
from gym_http_client.relay import (
    Batch,
    RelayCalls,
    RolloutWorker,
    SpoolError,
    load_weights,
    save_weights,
)
from gym_http_client.relay.batches import batches_of
from gym_http_client.relay.episodes import episode_seed
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

WEIGHTS = {"scale": np.array([0.5, 1.5])}


class Corridor(gymnasium.Env[Any, Any]):
    """Counts steps; every third action is replaced by 7 if it intervenes."""

    observation_space = spaces.Box(-1e9, 1e9, (2,), np.float64)
    action_space = spaces.Box(-10, 10, (1,), np.float32)

    def __init__(self, length: int = 5, *, intervenes: bool = False) -> None:
        self._length = length
        self._intervenes = intervenes

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        info = {}
        if self._intervenes and self.steps % 3 == 0:
            info["intervene_action"] = np.array([7.0], np.float32)
        over = self.steps == self._length
        return self._seen(), float(action[0]), over, False, info

    def _seen(self) -> Any:
        return np.array([self.steps, self.np_random.normal()])


def act(weights: Any, observation: Any, rng: np.random.Generator) -> Any:
    scale = 1.0 if weights is None else weights["scale"].sum()
    action = np.array([rng.normal() * scale + observation[1]], np.float32)
    return action, {"log_probability": np.float32(-abs(action[0]))}


@pytest.fixture
def calls(server: Server) -> Iterator[RelayCalls]:
    """The calls of a new run on the shared server."""
    with RelayCalls(server.url, f"w-{uuid.uuid4().hex[:8]}") as made:
        made.create()
        yield made
        made.delete()


Make = Callable[..., RolloutWorker]


@pytest.fixture
def make(calls: RelayCalls, tmp_path: Path) -> Iterator[Make]:
    """Return a factory of workers of the run, closed after the test."""
    made: list[RolloutWorker] = []

    def worker(**options: Any) -> RolloutWorker:
        options = {"env": Corridor(), "policy": act, "progress": None, **options}
        options = {"worker": "w1", "spool": tmp_path / "spool", **options}
        made.append(RolloutWorker(calls.url, calls.run, **options))
        return made[-1]

    yield worker
    for each in made:
        each.close()


def all_batches(calls: RelayCalls) -> list[Batch]:
    found: list[Batch] = []
    while bundle := calls.samples(found[-1].position if found else 0):
        found += batches_of(bundle)
    return found


def played_by_hand(number: int, scale: float, length: int = 5) -> dict[str, Any]:
    """Play an episode without any code of the client but its seeds."""
    seed, rng = episode_seed(3, "w1", number)
    env = Corridor(length)
    observation, _ = env.reset(seed=seed)
    observations, actions, rewards = [observation], [], []
    for _ in range(length):
        action = np.array([rng.normal() * scale + observation[1]], np.float32)
        observation, reward, *_ = env.step(action)
        observations.append(observation)
        actions.append(action)
        rewards.append(reward)
    return {"observations": observations, "actions": actions, "rewards": rewards}


def check_episode(batch: Batch, number: int, scale: float) -> None:
    expected = played_by_hand(number, scale)
    columns = batch.columns
    assert columns["episode"] == number
    for name, values in expected.items():
        np.testing.assert_array_equal(columns[name], values)
    assert columns["terminated"].tolist() == [False] * 4 + [True]
    assert columns["return"] == sum(expected["rewards"])
    assert columns["log_probability"].dtype == np.float32
    assert columns["log_probability"].tolist() == [
        -abs(action[0]) for action in expected["actions"]
    ]
    assert not columns["intervention"].any()


def test_episodes_arrive_as_a_local_loop_plays_them(
    calls: RelayCalls, make: Make
) -> None:
    with make(seed=3) as worker:
        worker.run(episodes=2)
    calls.put_weights(save_weights(WEIGHTS))
    with make(seed=3) as restarted:
        assert restarted.episodes == 2
        restarted.run(episodes=1)
        assert restarted.version == 0  # it fetches only while it runs
    batches = all_batches(calls)
    assert [batch.policy_version for batch in batches] == [0, 0, 1]
    assert [batch.count for batch in batches] == [5, 5, 5]
    for number, batch in enumerate(batches, 1):
        check_episode(batch, number, 2.0 if number == 3 else 1.0)
    status = calls.status()
    assert status["samples"]["sent"] == status["samples"]["stored"] == 3
    (worker_status,) = status["workers"]
    assert (worker_status["worker"], worker_status["state"]) == ("w1", "left")
    records = calls.records()
    assert [each["return"] for each in records] == [
        batch.columns["return"] for batch in batches
    ]
    assert [each["version"] for each in records] == [0, 0, 1]
    assert {each["mode"] for each in records} == {"training"}


def test_a_long_episode_is_sent_in_parts(calls: RelayCalls, make: Make) -> None:
    make(env=Corridor(7), seed=3, part_steps=3, packing="deflate").run(episodes=1)
    parts = [batch.columns for batch in all_batches(calls)]
    assert [part["start"] for part in parts] == [0, 3, 6]
    assert [part["length"] for part in parts] == [3, 3, 1]
    assert [len(part["observations"]) for part in parts] == [4, 4, 2]
    for part, following in itertools.pairwise(parts):
        np.testing.assert_array_equal(
            part["observations"][-1], following["observations"][0]
        )
    whole = played_by_hand(1, 1.0, length=7)
    actions = np.concatenate([part["actions"] for part in parts])
    np.testing.assert_array_equal(actions, whole["actions"])
    (record,) = calls.records()
    assert record["length"] == 7
    assert record["return"] == sum(whole["rewards"])


def test_interventions_replace_actions(calls: RelayCalls, make: Make) -> None:
    make(env=Corridor(intervenes=True)).run(episodes=1)
    (batch,) = all_batches(calls)
    taken = batch.columns["intervention"].tolist()
    assert taken == [False, False, True, False, False]
    assert batch.columns["actions"][2].tolist() == [7.0]
    assert 7.0 not in batch.columns["actions"][[0, 1, 3, 4]]


def test_evaluations_are_recorded_and_not_sent(calls: RelayCalls, make: Make) -> None:
    calls.put_weights(save_weights(WEIGHTS))
    with make() as worker:
        worker.run(episodes=4, evaluate_every=2, evaluations=5)
        assert len(worker.evaluate(2, version="best")) == 2
    records = calls.records()
    modes = [each["mode"] for each in records]
    assert modes.count("evaluation") == 12
    assert modes.count("training") == 4
    assert len(all_batches(calls)) == 4
    assert calls.status()["weights"]["best"]["evaluations"] == 12
    # An evaluation that was done before a restart is not done again.
    with make() as worker:
        worker.run(episodes=0, evaluate_every=2)
    assert len(calls.records()) == 16


def test_an_expert_needs_no_weights(calls: RelayCalls, make: Make) -> None:
    calls.put_weights(save_weights(WEIGHTS))
    seen: list[Any] = []

    def expert(weights: Any, observation: Any, rng: Any) -> Any:
        seen.append(weights)
        return np.zeros(1, np.float32)

    make(policy=expert, expert=True).run(episodes=1)
    assert seen == [None] * 5
    (batch,) = all_batches(calls)
    assert (batch.columns["mode"], batch.lag) == ("expert", 0)
    assert calls.records()[0]["mode"] == "expert"


def test_a_hook_changes_batches_before_they_are_sent(
    calls: RelayCalls, make: Make
) -> None:
    def transitions(columns: dict[str, Any]) -> dict[str, Any] | None:
        if columns["episode"] == 2:
            return None
        return {"observation": columns["observations"][:2]}

    make(before_sending=transitions).run(episodes=3)
    batches = all_batches(calls)
    assert [list(batch.columns) for batch in batches] == [["observation"]] * 2
    assert [batch.count for batch in batches] == [2, 2]
    assert len(calls.records()) == 3


def test_refused_batches_are_kept_and_declared(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def transitions(columns: dict[str, Any]) -> dict[str, Any]:
        values = columns["observations"][1:]
        return {"o": values.astype(np.float32 if columns["episode"] == 2 else float)}

    columns = {"o": {"dtype": "float64", "shape": [2]}}
    with RelayCalls(server.url, f"w-{uuid.uuid4().hex[:8]}") as calls:
        calls.create(columns=columns)
        with RolloutWorker(
            server.url,
            calls.run,
            env=Corridor(),
            policy=act,
            spool=tmp_path,
            before_sending=transitions,
            progress=None,
        ) as worker:
            worker.run(episodes=4)
            assert (worker.spool.refused, worker.spool.dropped) == (1, 1)
        assert [batch.count for batch in all_batches(calls)] == [5, 5, 5]
        samples = calls.status()["samples"]
        assert (samples["sent"], samples["stored"], samples["dropped"]) == (4, 3, 1)
        calls.delete()
    assert [path.name for path in sorted((tmp_path / "refused").iterdir())] == [
        "0000000000000002.bundle",
        "0000000000000002.json",
    ]
    assert "refuses batch 2" in caplog.text


def test_stale_batches_are_used_up(server: Server, tmp_path: Path) -> None:
    with RelayCalls(server.url, f"w-{uuid.uuid4().hex[:8]}") as calls:
        calls.create(limits={"max_lag": 0, "stale": "refuse"})
        calls.put_weights(save_weights(WEIGHTS))
        etag = calls.put_weights(save_weights({"w": np.ones(1)}), etag=newest(calls))
        assert etag["version"] == 2
        expert = np.zeros(1, np.float32)
        with RolloutWorker(
            server.url,
            calls.run,
            env=Corridor(),
            policy=lambda weights, observation, rng: expert,
            spool=tmp_path,
            progress=None,
        ) as worker:
            worker.spool.begin(calls.create_session(worker.name)["session"])
            for policy in (2, 1, 2):
                worker.spool.append(
                    b"", policy=policy, count=0, content_type="text/plain"
                )
            worker.run(episodes=1)
            assert (worker.spool.stale, worker.spool.dropped) == (1, 0)
        samples = calls.status()["samples"]
        assert (samples["sent"], samples["stored"], samples["stale"]) == (4, 3, 1)
        calls.delete()


def newest(calls: RelayCalls) -> str:
    found = calls.weights()
    assert found is not None
    return found.etag


def test_synchronous_workers_play_each_version_once(
    calls: RelayCalls, make: Make, tmp_path: Path
) -> None:
    workers = [
        make(
            worker=name, spool=tmp_path / name, synchronous=True, episodes_per_version=2
        )
        for name in ("w1", "w2")
    ]
    threads = [
        threading.Thread(target=worker.run, args=(6,), daemon=True)
        for worker in workers
    ]
    for thread in threads:
        thread.start()
    etag = None
    for version in range(1, 4):
        answer = calls.put_weights(
            save_weights({"scale": np.full(2, float(version))}), etag=etag
        )
        etag = answer["etag"]
        wait_until(
            lambda count=4 * version: calls.status()["samples"]["stored"] >= count, 30.0
        )
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    for name in ("w1", "w2"):
        own = [each for each in all_batches(calls) if each.worker == name]
        assert [batch.policy_version for batch in own] == [1, 1, 2, 2, 3, 3]


def test_a_synchronous_worker_does_not_wait_for_ever(make: Make) -> None:
    with pytest.raises(TimeoutError, match=r"no weights after version 0 within 0.3 s"):
        make(synchronous=True, version_timeout=0.3).run(episodes=1)


@pytest.mark.parametrize("token", ["", "ghr_" + "a" * 43])
def test_a_refused_worker_ends_at_once(
    token: str, server: Server, tmp_path: Path
) -> None:
    with (
        RolloutWorker(
            server.url,
            "no-such-run",
            env=Corridor(),
            policy=act,
            spool=tmp_path,
            token=token,
            progress=None,
        ) as worker,
        pytest.raises(ServerError) as caught,
    ):
        worker.run(episodes=1)
    assert caught.value.code == ("unauthorized" if token else "unknown-run")


@pytest.mark.parametrize("synchronous", [False, True])
def test_an_episode_that_stop_cuts_off_is_no_whole_one(
    synchronous: bool, calls: RelayCalls, make: Make
) -> None:
    calls.put_weights(save_weights(WEIGHTS))

    def stops(weights: Any, observation: Any, rng: Any) -> Any:
        if observation[0] == 2:
            worker.stop()
        return act(weights, observation, rng)

    with make(policy=stops, synchronous=synchronous, seed=3) as worker:
        worker.run()
        assert worker.episodes == (0 if synchronous else 1)
    counts = [batch.count for batch in all_batches(calls)]
    assert counts == ([] if synchronous else [3])
    assert not calls.records()
    with make(synchronous=synchronous, seed=3) as worker:
        worker.run(episodes=1)
    # A synchronous worker plays the episode again; another one goes on.
    check_episode(all_batches(calls)[-1], 1 if synchronous else 2, 2.0)
    assert len(calls.records()) == 1


def delete_and_create(calls: RelayCalls) -> None:
    calls.delete()
    calls.create()


def delete(calls: RelayCalls) -> None:
    calls.delete()


@pytest.mark.parametrize("episodes", [0, 1])
@pytest.mark.parametrize("change", [delete_and_create, delete])
def test_the_spool_of_a_finished_run_is_refused(
    change: Callable[[RelayCalls], None], episodes: int, calls: RelayCalls, make: Make
) -> None:
    with make() as worker:
        worker.run(episodes=1)
    change(calls)
    with pytest.raises(SpoolError) as caught:
        # With 0, all episodes that were wanted are in the spool, as in a loop
        # `run(wanted - worker.episodes)`. Without an error, a trainer would wait.
        make().run(episodes=episodes)
    text = str(caught.value)
    assert text.count(f"run {calls.run!r} at {calls.url}") == 2
    assert "spool=" in text
    if change is delete:
        calls.create()
    assert calls.status()["samples"]["stored"] == 0
    with make(spool=worker.spool.folder.with_name("new")) as worker:
        worker.run(episodes=1)
    assert calls.status()["samples"]["stored"] == 1


def test_the_spool_of_another_server_is_refused(
    calls: RelayCalls, make: Make, make_server: Callable[..., Server]
) -> None:
    with make() as worker:
        worker.run(episodes=1)
        folder = worker.spool.folder
    with RelayCalls(make_server().url, calls.run) as others:
        others.create()
        with (
            RolloutWorker(
                others.url, calls.run, env=Corridor(), policy=act, spool=folder
            ) as worker,
            pytest.raises(SpoolError) as caught,
        ):
            worker.run(episodes=0)
        for url in (calls.url, others.url):
            assert f"run {calls.run!r} at {url}" in str(caught.value)
        assert others.status()["samples"]["stored"] == 0
    # The spool still is that of its own run.
    with make() as worker:
        worker.run(episodes=1)
    assert calls.status()["samples"]["stored"] == 2


def test_a_spool_follows_its_run_to_another_address(
    calls: RelayCalls, make: Make
) -> None:
    with make() as worker:
        worker.run(episodes=1)
        folder = worker.spool.folder
    moved = calls.url.replace("127.0.0.1", "localhost")
    assert moved != calls.url
    with RolloutWorker(
        moved, calls.run, env=Corridor(), policy=act, spool=folder, progress=None
    ) as worker:
        worker.run(episodes=1)
    assert json.loads((folder / "state.json").read_text())["server"] == moved
    assert calls.status()["samples"]["stored"] == 2


def test_an_old_spool_is_bound_when_it_is_used(calls: RelayCalls, make: Make) -> None:
    with make() as worker:
        worker.run(episodes=1)
        path = worker.spool.folder / "state.json"
    # As an earlier version wrote it.
    state = json.loads(path.read_text())
    assert state.pop("server") == calls.url
    path.write_text(json.dumps(state))
    with make() as worker:
        worker.run(episodes=1)
    assert json.loads(path.read_text())["server"] == calls.url
    assert calls.status()["samples"]["stored"] == 2
    path.write_text(json.dumps(state))
    delete_and_create(calls)
    with pytest.raises(SpoolError, match="another run"):
        make().run(episodes=1)


def fail(weights: Any, observation: Any, rng: Any) -> Any:
    raise RuntimeError("the policy fails")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"policy": fail}, RuntimeError),
        ({"synchronous": True, "version_timeout": 0.1}, TimeoutError),
        ({"token": "ghr_" + "a" * 43}, ServerError),
    ],
)
def test_a_worker_that_raises_releases_its_spool(
    options: Any, error: type[Exception], calls: RelayCalls, make: Make
) -> None:
    failing = make(**options)
    for _ in range(2):
        # Twice, since it opens its spool again.
        with pytest.raises(error):
            failing.run(episodes=1)
        with make() as other:
            other.run(episodes=1)
    assert calls.status()["samples"]["stored"] == 2


def test_workers_wait_for_a_server_that_starts_later(
    launch_server: Callable[..., Server],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ("--data-dir", str(tmp_path / "data"))
    first = launch_server(*flags)
    first.wait_listening()
    with RelayCalls(first.url, "late") as calls:
        calls.create()
    first.stop()
    shown: list[str] = []

    def played() -> None:
        with RolloutWorker(
            first.url, "late", env=Corridor(), policy=act, spool=tmp_path / "spool"
        ) as worker:
            worker.run(episodes=1)

    def waits() -> bool:
        shown.append(capsys.readouterr().out)
        return "waiting" in "".join(shown)

    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(played)
        wait_until(waits, 10.0, "the line of the worker")
        assert f"{first.url}, 60 s at most" in "".join(shown)
        second = launch_server(*flags, "--port", str(first.port))
        playing.result(30)
    second.wait_listening()
    with RelayCalls(second.url, "late") as calls:
        assert calls.status()["samples"]["stored"] == 1


@pytest.mark.parametrize("wait_s", [None, 7.0, 400.0])
def test_workers_wait_as_long_as_they_are_told(
    wait_s: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://secret@127.0.0.1:{free.getsockname()[1]}"
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    options = {} if wait_s is None else {"wait_s": wait_s}
    with (
        RolloutWorker(
            url,
            "pendulum",
            env=Corridor(),
            policy=act,
            spool=tmp_path,
            retries=Retries(clock=lambda: now, sleep=sleep, random=lambda: 1.0),
            **options,
        ) as worker,
        pytest.raises(ServerError, match="refused"),
    ):
        worker.run(episodes=1)
    limit = wait_s or 60.0
    # The last pause would have ended too late.
    assert limit - 5.0 <= now <= limit
    shown = capsys.readouterr().out
    assert shown.count("waiting for the server at http://127.0.0.1:") == 1
    assert "secret" not in shown


def test_a_worker_that_is_stopped_does_not_wait_for_a_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with RolloutWorker(
        url, "pendulum", env=Corridor(), policy=act, spool=tmp_path, progress=None
    ) as worker:
        timer = threading.Timer(0.3, worker.stop)
        timer.start()
        began = time.monotonic()
        worker.run(episodes=1)
        assert time.monotonic() - began < 20.0
        timer.join()
        assert worker.episodes == 0


def test_errors_of_the_policy_keep_the_steps_before(
    calls: RelayCalls, make: Make
) -> None:
    def fails(weights: Any, observation: Any, rng: Any) -> Any:
        if observation[0] == 3:
            raise RuntimeError("the policy fails")
        return np.zeros(1, np.float32)

    with make(policy=fails) as worker, pytest.raises(RuntimeError, match="fails"):
        worker.run(episodes=1)
    (batch,) = all_batches(calls)
    assert batch.count == 3
    assert not calls.records()


def test_the_spool_is_for_one_worker(make: Make) -> None:
    make()
    with pytest.raises(SpoolError, match=f"in use by process {os.getpid()}"):
        make()


SCRIPT = """
import sys
from gym_http_client.relay import RolloutWorker
from tests.clients.python.test_relay_worker import Corridor, act
url, run, spool, episodes = sys.argv[1:]
worker = RolloutWorker(
    url, run, env=Corridor(), policy=act, spool=spool, worker="w1", seed=3,
    progress=0.0,
)
worker.run(int(episodes) or None)
"""


def start(calls: RelayCalls, spool: Path, episodes: int = 0) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, calls.url, calls.run, str(spool), str(episodes)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
    )


def test_sigterm_sends_everything_and_says_goodbye(
    calls: RelayCalls, tmp_path: Path
) -> None:
    with start(calls, tmp_path / "spool") as process:
        wait_until(lambda: calls.status()["samples"]["stored"] > 20, 30.0)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        printed = process.stdout.read().decode()
        assert process.wait(30) == -signal.SIGTERM
    status = calls.status()
    assert status["workers"][0]["state"] == "left"
    batches = all_batches(calls)
    numbers = [batch.head.number for batch in batches]
    assert numbers == list(range(1, len(batches) + 1))
    assert f"{calls.run}, worker w1: episode" in printed
    # The last episode may be cut off; it was not recorded then.
    full = sum(bool(batch.columns["terminated"][-1]) for batch in batches)
    assert len(calls.records(limit=10_000)) == full


def test_a_killed_worker_goes_on_with_its_next_episode(
    calls: RelayCalls, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    for kill in range(1, 4):
        with start(calls, spool) as process:
            stored = calls.status()["samples"]["stored"]
            wait_until(
                lambda seen=stored: calls.status()["samples"]["stored"] > seen + 20,
                30.0,
                f"batches before kill {kill}",
            )
            process.kill()
            process.wait()
            assert process.stdout is not None
    with start(calls, spool, episodes=1) as process:
        process.communicate(timeout=50)
        assert process.returncode == 0
    batches = all_batches(calls)
    episodes = [batch.columns["episode"] for batch in batches]
    assert episodes == list(range(1, len(batches) + 1))
    assert [batch.head.number for batch in batches] == episodes
    check_episode(batches[-1], len(batches), 1.0)
    recorded = [each["episode"] for each in calls.records(limit=10_000)]
    assert recorded == episodes
    samples = calls.status()["samples"]
    assert samples["sent"] == samples["stored"] == len(batches)


def test_weights_that_cannot_be_loaded_are_named(calls: RelayCalls, make: Make) -> None:
    calls.put_weights(b"no weights")
    with pytest.raises(ValueError, match="neither npz nor safetensors"):
        make().run(episodes=1)
    assert load_weights(save_weights(WEIGHTS)).keys() == WEIGHTS.keys()
