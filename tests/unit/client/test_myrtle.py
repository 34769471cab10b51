"""Agents of trials, their process, arrays for spaces, and recordings."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from gym_http_client.myrtle import recording
from gym_http_client.myrtle.agent_process import AgentFailed, AgentProcess
from gym_http_client.myrtle.agents import (
    AGENTS,
    GreedyAgent,
    QTable,
    RandomAgent,
    SingleActionAgent,
    TabularQAgent,
)
from gym_http_client.myrtle.recording import Recording, path_of, read_runs
from gym_http_client.myrtle.spaces import actions_of, sensors_of
from gym_http_core.value_queue import ValueQueue
from tests.support.identity import assert_identical
from tests.support.server import ROOT

Exchange = Callable[..., int]


def start_agent(kind: Any, **options: Any) -> tuple[Exchange, Callable[[], None]]:
    """Run an agent in a thread; return functions that send an update, and the end."""
    sensors, ours = ValueQueue.pair()
    actions, theirs = ValueQueue.pair()
    options = {"n_sensors": 2, "n_actions": 4, "n_rewards": 2, "seed": 3, **options}
    agent = kind(sensor_q=sensors, action_q=actions, **options)
    thread = threading.Thread(target=agent.run)
    thread.start()

    def exchange(sensors: Any = (0.0, 0.0), rewards: Any = (0.0, None)) -> int:
        ours.put({"sensors": np.array(sensors), "rewards": list(rewards)})
        message = theirs.get(timeout=20)["actions"]
        assert sorted(message.tolist()) == [0.0, 0.0, 0.0, 1.0]
        return int(np.argmax(message))

    def end() -> None:
        ours.put({"truncated": True})
        ours.put({"terminated": True})
        thread.join(20)
        assert not thread.is_alive()
        for each in (sensors, ours, actions, theirs):
            each.abandon()

    return exchange, end


def test_the_random_agent_takes_all_actions() -> None:
    exchange, end = start_agent(RandomAgent)
    assert {exchange() for _ in range(60)} == {0, 1, 2, 3}
    end()


def test_the_single_action_agent_takes_one() -> None:
    exchange, end = start_agent(SingleActionAgent, action=2)
    assert {exchange() for _ in range(5)} == {2}
    end()
    with pytest.raises(ValueError, match="action is 4: expected from 0 to 3"):
        SingleActionAgent(2, 4, action=4)


def test_the_greedy_agent_finds_the_action_that_pays() -> None:
    exchange, end = start_agent(GreedyAgent)
    action, taken = exchange(), []
    for _ in range(200):
        action = exchange(rewards=(None, 1.0 if action == 3 else 0.0))
        taken.append(action)
    assert taken[100:].count(3) > 70
    end()


@pytest.mark.parametrize(("history", "learns"), [(1, True), (0, False)])
def test_the_tabular_agent_sees_its_last_actions(history: int, learns: bool) -> None:
    # The reward is for alternating, which sensors do not show.
    exchange, end = start_agent(TabularQAgent, history=history, n_actions=4, rate=0.5)
    last, action, rewards = -1, exchange(), []
    for _ in range(1500):
        good = {action, last} == {0, 1}
        last = action
        action = exchange(rewards=(1.0 if good else 0.0, None))
        rewards.append(good)
    assert (np.mean(rewards[-300:]) > 0.6) == learns
    end()


def test_the_table_learns_values_by_hand() -> None:
    table = QTable(1, np.random.default_rng(0), epsilon=0.0, rate=0.5, discount=0.5)
    for reward in (9.0, 4.0, 0.0):
        # The first reward belongs to no action.
        assert table.step("a", reward) == 0
    # 0 + 0.5 (4 + 0.5·0 - 0) = 2, then 2 + 0.5 (0 + 0.5·2 - 2) = 1.5.
    assert table._values == {"a": np.array([1.5])}
    table.end(3.5)
    assert table._values["a"] == 2.5


def test_updates_that_an_agent_missed_do_not_count() -> None:
    sensors, ours = ValueQueue.pair()
    actions, theirs = ValueQueue.pair()
    for number in range(3):
        ours.put({"sensors": np.array([float(number)]), "rewards": [float(number)]})
    ours.put({"truncated": True})
    ours.put({"sensors": np.array([7.0]), "rewards": [5.0]})
    ours.put({"sensors": np.array([8.0]), "rewards": [None]})
    seen: list[Any] = []

    class Recorder(RandomAgent):
        def choose(self, sensors: Any, reward: float) -> int:
            seen.append((sensors.tolist(), reward))
            return 0

        def end_episode(self, reward: float) -> None:
            seen.append(("end", reward))

    agent = Recorder(1, 1, 1, sensors, actions)
    thread = threading.Thread(target=agent.run)
    thread.start()
    assert theirs.get(timeout=20)["actions"].tolist() == [1.0]
    ours.put({"terminated": True})
    thread.join(20)
    assert seen == [("end", 2.0), ([8.0], 0.0)]
    for each in (sensors, ours, actions, theirs):
        each.abandon()


def test_all_agents_have_names() -> None:
    assert list(AGENTS) == ["random", "single-action", "greedy", "tabular-q"]


class Doubling:
    """Answers each update with twice its sensors; fails or dies on request."""

    def __init__(self, sensor_q: Any, action_q: Any) -> None:
        self.sensor_q = sensor_q
        self.action_q = action_q

    def run(self) -> None:
        while not (message := self.sensor_q.get()).get("terminated"):
            if message.get("die"):
                os.kill(os.getpid(), signal.SIGKILL)
            assert not message.get("fail"), "as the test wants"
            self.action_q.put({"actions": message["sensors"] * 2})


def test_an_agent_runs_in_a_process_of_its_own_on_unix() -> None:
    with AgentProcess(Doubling) as agent:
        agent.sensor_q.put({"sensors": np.array([1.5])})
        message = agent.action_q.get(timeout=20)
        assert_identical(message, {"actions": np.array([3.0])})
        agent.finish()
        assert agent.end_of() == "ended with status 0"


@pytest.mark.parametrize(
    ("message", "words"),
    [("fail", "ended with status 1"), ("die", "ended by signal 9")],
)
def test_the_failure_of_an_agent_is_reported_on_unix(message: str, words: str) -> None:
    with AgentProcess(Doubling) as agent:
        agent.sensor_q.put({message: True})
        with pytest.raises(EOFError):
            agent.action_q.get(timeout=20)
        with pytest.raises(AgentFailed, match=words):
            agent.finish()


@pytest.mark.parametrize(
    ("space", "element", "expected"),
    [
        (
            spaces.Box(-1, 1, (2, 2), np.float32),
            np.eye(2, dtype=np.float32),
            [1, 0, 0, 1],
        ),
        (spaces.Discrete(3, start=5), 6, [0, 1, 0]),
        (spaces.MultiBinary(2), np.array([1, 0], np.int8), [1, 0]),
        (
            spaces.Tuple((spaces.Discrete(2), spaces.Box(-9, 9, (1,)))),
            (1, np.array([4.0], np.float32)),
            [0, 1, 4],
        ),
    ],
)
def test_sensors_of_spaces(space: Any, element: Any, expected: list[float]) -> None:
    count, sensors = sensors_of(space)
    assert count == len(expected)
    assert_identical(sensors(element), np.array(expected, np.float64))


@pytest.mark.parametrize(
    ("space", "actions", "expected"),
    [
        (spaces.Discrete(3, start=5), [0.0, 1.0, 0.5], 6),
        (spaces.MultiBinary(2), [0.5, 0.0], np.array([1, 0], np.int8)),
        (
            spaces.Box(-1, 1, (2, 1), np.float32),
            [0.5, 7.0],
            np.array([[0.5], [1.0]], np.float32),
        ),
        (spaces.Box(-np.inf, np.inf, (1,), np.float64), [1e9], np.array([1e9])),
    ],
)
def test_actions_of_spaces(space: Any, actions: list[float], expected: Any) -> None:
    count, action = actions_of(space)
    assert count == len(actions)
    assert_identical(action(np.array(actions)), expected)
    assert space.contains(action(np.array(actions)))


def test_spaces_without_a_fixed_size_are_refused() -> None:
    with pytest.raises(ValueError, match="elements have a fixed size, such as a Box"):
        sensors_of(spaces.Sequence(spaces.Discrete(2)))
    with pytest.raises(ValueError, match="expected a Discrete, a Box or a MultiBinary"):
        actions_of(spaces.Text(4))


def update(number: int, reward: float, **more: Any) -> Any:
    """Return an update as the client returns it."""
    timing = {
        "update": number,
        "tick": number + 1,
        "episode": 1,
        "action": {"number": 4, "value": np.array([0.5]), "priority": 0},
        "capture_ns": number * 10_000_000,
        "late_ns": 70_000,
        "age_ns": 200_000,
        "timed_out": 0,
        "skipped": 2,
    }
    info = {"realtime": {**timing, **more}}
    return SimpleNamespace(reward=reward, terminated=False, truncated=True, info=info)


def test_each_update_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_COMMIT_SECONDS", -1.0)
    file = path_of(str(tmp_path / "bench"))
    assert file == tmp_path / "bench.db"
    assert path_of("a.db") == Path("a.db")
    with Recording(file, "greedy", "world/bandit", "r1") as record:
        record.add(update(1, 0.0, reset=True), [None, None])
        # Others can read it meanwhile.
        with closing(sqlite3.connect(file)) as other:
            assert other.execute("SELECT count(*) FROM bench").fetchone() == (1,)
        record.add(update(2, 1.5), [1.5, None])
    with Recording(file, "random", "world/bandit", "r2") as record:
        record.add(update(1, 0.5), [0.5, 0.0])
    runs = read_runs(file)
    assert {run: len(rows) for run, rows in runs.items()} == {"r1": 2, "r2": 1}
    first, second = runs["r1"]
    assert (first.reset, second.reset) == (1, 0)
    assert (second.reward, second.rewards) == (1.5, "[1.5, null]")
    assert (second.agentname, second.worldname) == ("greedy", "world/bandit")
    assert (second.step, second.tick, second.episode) == (2, 3, 1)
    assert (second.action, second.action_number) == ("[0.5]", 4)
    assert (second.terminated, second.truncated, second.skipped) == (0, 1, 2)
    assert (second.capture_ns, second.late_ns) == (20_000_000, 70_000)
    assert second.received_s >= 0
    assert second.step_timestamp >= second.run_timestamp - 1
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.db"):
        read_runs(tmp_path / "none.db")


DRAWING = """
import sys
from pathlib import Path
from gym_http_client.myrtle.plot import draw_curves, draw_runs
from gym_http_client.myrtle.recording import read_runs
draw_runs(read_runs(Path("a.db")), Path("runs.svg"))
draw_curves({"one": [1.0] * 30, "two": []}, Path("curves.png"), title="Two")
"""


def test_recorded_runs_are_drawn(tmp_path: Path) -> None:
    with Recording(tmp_path / "a.db", "greedy", "world/bandit", "r1") as record:
        for number in range(50):
            record.add(update(number, 1.0), [1.0])
    # In a process of its own, since Matplotlib keeps fonts open.
    paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    env = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", DRAWING]
    subprocess.run(command, cwd=tmp_path, env=env, check=True, timeout=50)
    assert "<svg" in (tmp_path / "runs.svg").read_text()
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
