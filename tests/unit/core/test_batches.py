"""Batches take the right steps, keep all of them, and end in time."""

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_core import batches
from gym_http_core.batches import BatchObserver, BatchRun, Episode, Rollout
from gym_http_core.operations import Operations
from gym_http_core.vectors import operations_of
from gym_http_wire.problems import EnvError


class Counter(gymnasium.Env[Any, Any]):
    """Counts its steps in one array; an episode has ten, and 13 is bad luck."""

    action_space = gymnasium.spaces.Discrete(20)
    observation_space = gymnasium.spaces.Box(0, 100, (1,))

    def __init__(self) -> None:
        self.count = np.zeros(1)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        self.count[0] = seed or 0
        return self.count, {"options": options}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        if action == 13:
            raise ValueError("bad luck")
        self.count += 1
        return self.count, float(action), np.bool_(self.count[0] == 10), False, {}


class Heard(BatchObserver):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def reset(
        self, seed: int | None, options: Any, observation: Any, info: Any
    ) -> None:
        self.calls.append(("reset", seed))

    def step(self, action: Any, row: tuple[Any, Any, Any, Any, Any]) -> None:
        _, reward, terminated, _, _ = row
        self.calls.append((reward, bool(terminated)))


def run(**options: Any) -> BatchRun:
    return BatchRun(
        Operations(Counter()), options.pop("share", lambda value: 0.0), **options
    )


def played(run: BatchRun, actions: Iterable[Any]) -> dict[str, Any]:
    run.reset(Episode(with_reset=True), None, None)
    episode = Episode(make_plain=run.make_plain)
    run.play(episode, actions)
    return episode.values(exact=False)


def test_a_batch_ends_with_its_actions_or_with_the_episode() -> None:
    first = run()
    answer = played(first, [1, 2, 3])
    assert (first.steps, first.stopped) == (3, None)
    assert answer["observations"].tolist() == [[1.0], [2.0], [3.0]]
    assert answer["rewards"] == [1.0, 2.0, 3.0]
    second = run()
    answer = played(second, range(12))
    assert (second.steps, second.stopped) == (10, "episode")
    assert answer["done"] == answer["terminated"] == [False] * 9 + [True]


def test_an_observer_gets_every_step() -> None:
    message = Heard()
    played(run(observer=message), [1, 2])
    assert message.calls == [("reset", None), (1.0, False), (2.0, False)]


@pytest.mark.parametrize(("share", "steps"), [(2.0, 1), (0.5, 1), (0.2, 4), (0.01, 10)])
def test_a_batch_ends_before_its_answer_is_full(share: float, steps: int) -> None:
    full = run(share=lambda value: share if len(value) == 5 else 0.0)
    answer = played(full, range(10))
    assert (full.steps, len(answer["rewards"])) == (steps, steps)
    assert full.stopped == ("episode" if steps == 10 else "answer-size")


def test_answers_that_grow_are_not_overfilled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "step", lambda env, a: ([], 0.0, False, False, {}))
    sizes = iter(range(1, 20_000))
    taken: list[float] = []

    def actions() -> Iterable[int]:
        for _ in range(10_000):
            taken.append(next(sizes) / 100_000)
            yield 0

    growing = run(share=lambda value: taken[-1] if taken else 0.0)
    played(growing, actions())
    assert growing.stopped == "answer-size"
    assert sum(taken[: growing.steps]) < 1.0
    assert growing.steps > 300


def test_a_batch_ends_when_its_time_is_over() -> None:
    now = [0.0]
    long = run(clock=lambda: now[0])

    def actions() -> Iterable[int]:
        for _ in range(9):
            yield 0
            now[0] += 7.0

    answer = played(long, actions())
    # The fourth begins after 21 seconds.
    assert (long.steps, long.stopped, len(answer["rewards"])) == (3, "time", 3)


def test_a_batch_has_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_STEPS", 5)
    many = run()
    played(many, range(9))
    assert (many.steps, many.stopped) == (5, "steps")


def test_a_rollout_has_whole_episodes() -> None:
    one, rollout = run(), Rollout()
    rollout.play(one, [[1, 2], range(12)], seed=5, options={"x": 1})
    first, second = rollout.values(exact=False)["episodes"]
    assert first["observations"].tolist() == [[5.0], [6.0], [7.0]]
    assert first["actions"] == [1, 2]
    assert (first["length"], first["return"]) == (2, 3.0)
    assert first["infos"] == [{"options": {"x": 1}}, {}, {}]
    assert second["observations"].tolist() == [[float(n)] for n in range(11)]
    assert (second["length"], second["return"]) == (10, 45.0)
    assert (one.steps, one.stopped) == (12, None)


def test_steps_before_a_failure_are_available() -> None:
    one, rollout = run(), Rollout()
    with pytest.raises(EnvError, match="bad luck"):
        rollout.play(one, [[1], [2, 13, 3]])
    assert one.steps == 2
    answer = rollout.values(one.steps, exact=False)["episodes"]
    assert [each["actions"] for each in answer] == [[1], [2]]
    (answer,) = rollout.values(1, exact=False)["episodes"]
    assert answer["observations"].tolist() == [[0.0], [1.0]]


def test_many_environments_that_step_as_one_go_on() -> None:
    env = gymnasium.make_vec("CartPole-v1", num_envs=2, max_episode_steps=3)
    operations = operations_of(env)
    one = BatchRun(operations, lambda value: 0.0)
    episode = Episode(make_plain=one.make_plain)
    operations.reset(0, None)
    one.play(episode, [np.array([0, 1])] * 5)
    answer = episode.values(exact=False)
    assert (one.steps, one.stopped) == (5, None)
    assert [each.tolist() for each in answer["done"]] == [
        [False, False],
        [False, False],
        [True, True],
        [False, False],
        [False, False],
    ]
    exact = episode.values(exact=True)
    assert exact["rewards"].shape == exact["truncated"].shape == (5, 2)
    assert exact["scalars"] == []
    env.close()
