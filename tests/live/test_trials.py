"""Trials: agents in processes, worlds on a server, recordings, and the commands."""

import contextlib
import json
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_client.jitter import Lateness, advice
from gym_http_client.myrtle import bench
from gym_http_client.myrtle.__main__ import main
from gym_http_client.myrtle.agents import BaseAgent
from gym_http_client.myrtle.recording import read_runs
from tests.support.envs import myrtle_worlds, worlds
from tests.support.envs.worlds import Counter
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

FAST = {"hz": 100}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    modules = worlds, myrtle_worlds
    flags = [flag for each in modules for flag in ("--allow-module", each.__name__)]
    with Server(*flags) as started:
        yield started


class Alternating(BaseAgent):
    """Takes both actions in turn, and checks what it is told."""

    expected_rewards = 2

    def run(self) -> None:
        assert (self.n_sensors, self.n_actions) == (1, 2)
        assert self.n_rewards == self.expected_rewards
        super().run()

    def choose(self, sensors: Any, reward: float) -> int:
        assert sensors.shape == (1,)
        return int(sensors[0]) % 2


class Failing(BaseAgent):
    """Raises after some updates."""

    def choose(self, sensors: Any, reward: float) -> int:
        assert sensors[0] < 5, "five updates are enough"
        return 0


def test_a_trial_records_each_update(server: Server, tmp_path: Path) -> None:
    trial = bench.run(
        Alternating,
        Counter,
        timeout=1.0,
        db_name=str(tmp_path / "trial"),
        agent_args={"seed": 1},
        world_args={"start": 10},
        realtime=FAST,
        url=server.url,
    )
    assert (trial.agent, trial.world) == (
        "Alternating",
        f"world/{worlds.__name__}:Counter",
    )
    rows = read_runs(tmp_path / "trial.db")[trial.run]
    steps = [row for row in rows if not row.reset]
    assert trial.updates == len(steps) >= 10
    assert trial.lost == 0
    # Nothing is lost, and nothing comes twice.
    assert [row.step for row in rows] == list(range(rows[0].step, rows[-1].step + 1))
    assert math.isclose(trial.reward, sum(row.reward for row in steps))
    for row in steps:
        first, second = json.loads(row.rewards)
        assert row.reward == first + (second or 0.0)
        assert row.capture_ns > 0
        assert row.late_ns >= 0
    # The world says nothing in its second channel in every other step.
    seconds = [json.loads(row.rewards)[1] for row in steps]
    assert {each is None for each in seconds} == {True, False}
    # The agent acts, and its actions are in force.
    assert {(0.0, None), (1.0, 0.0), (0.0, 1.0), (1.0, None)} & {
        tuple(json.loads(row.rewards)) for row in steps
    } - {(0.0, None)}
    assert any(row.action_number for row in steps)
    received = trial.timing["actions"]
    parts = ("applied", "superseded", "expired", "rejected", "waiting")
    assert received["received"] == sum(received[each] for each in parts)
    assert received["rejected"] == 0
    assert str(trial.path) == str(tmp_path / "trial.db")
    assert re.search(r"lateness [\d.]+ ms median", str(trial))


def test_a_world_ends_the_trial(server: Server) -> None:
    trial = bench.run(
        "random",
        "world/bandit",
        record=False,
        world_args={"episode_steps": 20},
        realtime={**FAST, "episodes": 3},
        url=server.url,
    )
    assert (trial.episodes, trial.updates, trial.path) == (3, 60, None)
    assert len(trial.channels) == 5


def test_a_world_with_its_own_time_ends_the_trial(server: Server) -> None:
    trial = bench.run(
        "single-action",
        worlds.Parting,
        record=False,
        realtime={**FAST, "episodes": None},
        url=server.url,
    )
    assert trial.updates >= 1
    assert trial.timing["state"] == "ended"


@pytest.mark.parametrize("episodes", [1, 3])
def test_each_message_of_a_world_of_myrtle_reaches_the_agent(
    server: Server, tmp_path: Path, episodes: int
) -> None:
    heard = tmp_path / "heard"
    steps = 400 // episodes
    trial = bench.run(
        myrtle_worlds.Listening,
        myrtle_worlds.Beating,
        record=False,
        agent_args={"path": str(heard)},
        world_args={"n_time_steps": steps, "n_episodes": episodes},
        url=server.url,
    )
    # At the rate that the world declares.
    assert trial.timing["settings"]["hz"] == 100
    assert (trial.updates, trial.episodes) == (steps * episodes, episodes)
    assert (trial.reward, trial.lost) == (steps * episodes, 0)
    assert trial.timing["state"] == "ended"
    told = [json.loads(line) for line in heard.read_text().splitlines()]
    messages = [each for each in told if each["sensors"]]
    numbers = [each["sensors"][:2] for each in messages]
    assert numbers == [[i, step] for i in range(episodes) for step in range(steps)]
    # The agent's actions reach the world by its next beat, unless the machine is slow.
    delays = [each["sensors"][1] + 100 - each["sensors"][2] for each in messages]
    assert delays.count(1) > 10
    ends = [each for each in told if not each["sensors"]]
    assert [each for each in ends if "truncated" in each] == ends[:-1]
    assert (len(ends), ends[-1]["terminated"]) == (episodes + 1, True)


def test_worlds_and_agents_of_myrtle_0_6_get_queues_in_place_of_a_connection(
    server: Server, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    trial = bench.run(
        myrtle_worlds.Asking,
        myrtle_worlds.Topical,
        record=False,
        agent_args={"path": str(heard)},
        world_args={"n_loop_steps": 60},
        url=server.url,
    )
    assert trial.timing["settings"]["hz"] == 100
    assert (trial.updates, trial.episodes, trial.reward) == (180, 3, 180.0)
    assert trial.timing["actions"]["applied"] > 0
    told = [json.loads(line) for line in heard.read_text().splitlines()]
    steps = [each["sensors"] for each in told if isinstance(each, dict)]
    assert steps == [[i, step] for i in range(3) for step in range(60)]
    assert told[-1] == "terminated"


def test_the_exit_of_a_world_with_a_reason_is_a_failure(server: Server) -> None:
    with pytest.raises(RuntimeError, match="SystemExit: the motor is not connected"):
        bench.run("random", myrtle_worlds.Chatty, 20, record=False, url=server.url)


def test_a_world_without_queues_says_which_it_may_have(server: Server) -> None:
    with pytest.raises(Exception, match="Queueless takes no queues: expected the"):
        bench.run("random", myrtle_worlds.Queueless, record=False, url=server.url)


def test_gymnasium_s_environments_are_worlds(server: Server) -> None:
    clock = {**FAST, "default_action": 0}
    trial = bench.run(
        "random", "CartPole-v1", record=False, realtime=clock, url=server.url, seed=1
    )
    assert trial.episodes == 1
    assert trial.reward == trial.updates


def test_the_failure_of_an_agent_ends_the_trial(server: Server) -> None:
    with pytest.raises(bench.AgentFailed, match="ended with status 1 after"):
        bench.run(Failing, Counter, 20.0, record=False, realtime=FAST, url=server.url)


def test_impossible_trials_are_refused(server: Server) -> None:
    with pytest.raises(ValueError, match="there is no agent 'randm'"):
        bench.run("randm", "world/bandit", url=server.url)

    class Within:
        pass

    with pytest.raises(ValueError, match="expected one at the top of a module"):
        bench.run("random", Within, url=server.url)
    with pytest.raises(Exception, match="world/pendulun"):
        bench.run("random", "world/pendulun", record=False, url=server.url)


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command of gym-http-server to its end."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    return subprocess.run(
        [sys.executable, "-m", "gym_http_server", *args],
        cwd=folder,
        env={**own, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


AGENT = """
class Still:
    def __init__(self, n_sensors, n_actions, n_rewards, sensor_q, action_q, word):
        assert word == "quiet"
        self.sensor_q = sensor_q

    def run(self):
        while not self.sensor_q.get().get("terminated"):
            pass
"""
WORLD = """
class Flat:
    n_sensors, n_actions, n_rewards = 1, 1, 1

    def __init__(self, height):
        self.height = height

    def reset(self):
        return [self.height]

    def step(self, actions):
        return [self.height], [self.height]
"""


def test_the_command_starts_a_server_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "my_world.py").write_text(WORLD)
    done = run(
        tmp_path,
        *("trial", "my_agent:Still", "world/my_world:Flat", "--hz", "50"),
        *("--timeout", "0.5", "--agent-arg", "word=quiet", "--world-arg", "height=2.5"),
        *("--db", "flat", "--plot", "flat.svg"),
    )
    assert done.returncode == 0, done.stderr
    assert "Still in world/my_world:Flat: " in done.stdout
    assert "2.5 an update" in done.stdout
    assert "<svg" in (tmp_path / "flat.svg").read_text()
    ((run_id, rows),) = read_runs(tmp_path / "flat.db").items()
    assert f"run {run_id}" in done.stdout
    assert {row.worldname for row in rows} == {"world/my_world:Flat"}


def test_a_trial_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    own = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    command = [sys.executable, "-m", "gym_http_server", "trial"]
    with subprocess.Popen(
        [*command, "random", "world/pendulum"],
        cwd=tmp_path,
        env={**own, "PYTHONPATH": paths},
    ) as trial:
        recording = tmp_path / "bench.db"

        def recorded() -> bool:
            # The file is made before its table.
            with contextlib.suppress(OSError, sqlite3.Error):
                return bool(read_runs(recording))
            return False

        wait_until(recorded, 30.0, "a recorded update")
        trial.send_signal(signal.SIGTERM)
        assert trial.wait(30) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bench.db"]


def test_the_command_explains_itself(
    tmp_path: Path,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    printed = capsys.readouterr().out
    assert "usage: gym-http-server trial" in printed
    assert "random, single-action, greedy, tabular-q" in printed
    for arguments, words in (
        (("no_module:A", "world/bandit"), "No module named 'no_module'"),
        (("json:Decoder", "world/bandit"), "the module 'json' has no class 'Decoder'"),
        (("clever", "world/bandit"), "there is no agent 'clever'"),
        (("random", "world/bandits"), "did you mean 'bandit'"),
        (("random", "CartPole-v1"), "--default-action"),
        (("random", "CartPole-v1", "--default-action", "7"), "--default-action"),
    ):
        assert main([*arguments, "--url", server.url, "--no-record"]) == 1
        assert words in capsys.readouterr().err
    for more, words in (
        (["--plot", "a.png", "--no-record"], "--plot"),
        (["--agent-arg", "seed"], "expected NAME=VALUE"),
        (["--hz", "nan"], "--hz: nan is not a positive number"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["random", "world/bandit", *more])
        assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_exactness_of_clocks_is_measured(tmp_path: Path) -> None:
    done = run(tmp_path, "jitter", "--hz", "200", "--seconds", "0.1", "--turns", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"200 ticks a second on \d+ cores, load .*", lines[0])
    rows = re.findall(
        r"^([a-z, 1]+?) +([\d.]+) +([\d.]+) +([\d.]+) ", done.stdout, re.M
    )
    names = [name for name, *_ in rows]
    assert names == [
        "sleep loop",
        "sleep loop, slack 1 ns",
        "empty world",
        "empty world, spinning",
        "empty world, priority",
    ]
    assert all(0 <= float(p50) <= float(p99) <= float(top) for _, p50, p99, top in rows)
    assert "A tick of the empty world is" in done.stdout


def test_advice_names_what_helps() -> None:
    measured = {
        "sleep loop": Lateness(0.12, 1.0, 9.0),
        "sleep loop, slack 1 ns": Lateness(0.07, 1.0, 9.0),
        "empty world": Lateness(0.08, 6.0, 9.0, 2),
        "empty world, spinning": Lateness(0.001, 6.0, 9.0),
        "empty world, priority": Lateness(0.07, 0.3, 0.9),
    }
    words = " ".join(advice(measured, 100))
    for part in (
        "is 0.080 ms late in the median, and a bare sleep loop 0.120 ms",
        "late by more than half of the period of 10 ms",
        "A timer slack of 1 ns helps a loop (median 0.070 ms)",
        '(0.001 ms): {"spin_us": 500}',
        "Real-time priority helps (p99 0.300 ms)",
    ):
        assert part in words
    measured["empty world, priority"] = Lateness(0.08, 6.0, 9.0, 0, "EPERM")
    words = " ".join(advice(measured, 100))
    assert "Real-time priority was refused (EPERM)" in words
    assert "--cap-add=sys_nice --ulimit rtprio=99" in words
