"""Episodes of workers: seeds, further columns, and values of any space."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gym_http_client.relay import play_episode
from gym_http_client.relay.episodes import EpisodePlay, episode_seed


class Echo(gymnasium.Env[Any, Any]):
    """Returns the action as observation and in its info, in arrays that it reuses."""

    def __init__(self, action_space: spaces.Space[Any], length: int = 3) -> None:
        self.action_space = action_space
        self.observation_space = spaces.Box(-100, 100, (2,), np.float32)
        self._seen = np.zeros(2, np.float32)
        self._length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.seed = seed
        self.count = 0
        self._seen[:] = 0
        return self._seen, {"seed": seed}

    def step(self, action: Any) -> Any:
        self.count += 1
        self._seen[:] = self.count
        over = self.count == self._length
        return self._seen, 0.5 * self.count, over, False, {"action": action}


def play(env: Echo, policy: Any, number: int = 1, **options: Any) -> dict[str, Any]:
    options = {"seed": 0, "worker": "w", "number": number, **options}
    return play_episode(env, policy, None, **options)


def test_seeds_are_those_of_the_episode() -> None:
    seen = {
        (seed, worker, number, mode): (reset, rng.integers(2**40))
        for seed in (0, 1)
        for worker in ("w1", "w2")
        for number in (1, 2)
        for mode in ("training", "evaluation", "expert")
        for reset, rng in [episode_seed(seed, worker, number, mode)]  # type: ignore[arg-type]
    }
    assert len({reset for reset, _ in seen.values()}) == len(seen)
    assert len({drawn for _, drawn in seen.values()}) == len(seen)
    reset, rng = episode_seed(0, "w1", 1)
    assert (reset, rng.integers(2**40)) == seen[0, "w1", 1, "training"]
    # Written down once: a resumed run would otherwise go on with other episodes.
    assert reset == 1631592474


def test_the_columns_are_those_of_a_rollout() -> None:
    env = Echo(spaces.Discrete(5))
    columns = play(env, lambda weights, observation, rng: int(observation[0]) % 5)
    np.testing.assert_array_equal(
        columns["observations"], np.repeat(np.arange(4.0), 2).reshape(4, 2)
    )
    assert columns["observations"].dtype == np.float32
    assert columns["actions"].tolist() == [0, 1, 2]
    assert columns["rewards"].tolist() == [0.5, 1.0, 1.5]
    assert columns["terminated"].tolist() == [False, False, True]
    assert columns["truncated"].tolist() == [False, False, False]
    assert columns["infos"] == [{"seed": env.seed}] + [{"action": n} for n in range(3)]
    assert (columns["length"], columns["return"], columns["start"]) == (3, 3.0, 0)
    assert (columns["episode"], columns["mode"]) == (1, "training")
    assert columns["intervention"].tolist() == [False] * 3


def test_steps_are_limited() -> None:
    columns = play(Echo(spaces.Discrete(2), 100), lambda *_: 0, max_steps=4)
    assert columns["length"] == 4
    assert not columns["terminated"].any()


def test_a_policy_may_sample_from_the_seeded_space() -> None:
    env = Echo(spaces.Discrete(1000), 20)
    first = play(env, lambda *_: env.action_space.sample())["actions"]
    assert (
        first.tolist()
        == play(env, lambda *_: env.action_space.sample())["actions"].tolist()
    )
    other = play(env, lambda *_: env.action_space.sample(), number=2)["actions"]
    assert first.tolist() != other.tolist()


def test_pairs_of_a_tuple_space_are_actions() -> None:
    space = spaces.Tuple((spaces.Discrete(2), spaces.Dict({"a": spaces.Discrete(2)})))
    action = (1, {"a": 0})
    assert space.contains(action)
    columns = play(Echo(space), lambda *_: action)
    assert columns["actions"] == [action] * 3
    assert "a" not in columns
    columns = play(Echo(space), lambda *_: (action, {"value": 0.5}))
    assert columns["actions"] == [action] * 3
    assert columns["value"].tolist() == [0.5] * 3


def test_further_columns_are_arrays() -> None:
    def policy(weights: Any, observation: Any, rng: Any) -> Any:
        return 0, {
            "log_probability": np.float32(-0.5),
            "logits": np.full(2, observation[0]),
        }

    columns = play(Echo(spaces.Discrete(2)), policy)
    assert columns["log_probability"].dtype == np.float32
    assert columns["scalars"] == ["log_probability"]
    assert columns["logits"].tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize("name", ["rewards", "episode", 3])
def test_further_columns_have_their_own_names(name: Any) -> None:
    with pytest.raises(ValueError, match=f"column {name!r}: expected"):
        play(Echo(spaces.Discrete(2)), lambda *_: (0, {name: 1}))


def test_further_columns_are_the_same_in_each_step() -> None:
    answers = iter([(0, {"a": 1}), (0, {"b": 1})])
    with pytest.raises(ValueError, match=r"\['b'\] in step 2, and \['a'\] before"):
        play(Echo(spaces.Discrete(2)), lambda *_: next(answers))


def test_parts_join_to_the_whole() -> None:
    env = Echo(spaces.Discrete(5), 7)

    def policy(weights: Any, observation: Any, rng: Any) -> Any:
        return int(rng.integers(5)), {"value": float(rng.normal())}

    whole = play(env, policy)
    one = EpisodePlay(env, policy, None, seed=0, worker="w", number=1)
    parts, over = [], False
    while not over:
        over = one.step()
        if over or one.count == 3:
            parts.append(one.take())
    assert [part["start"] for part in parts] == [0, 3, 6]
    for name in ("actions", "rewards", "value", "intervention", "terminated"):
        joined = np.concatenate([part[name] for part in parts])
        np.testing.assert_array_equal(joined, whole[name])
    assert [part["return"] for part in parts] == [3.0, 7.5, 3.5]
    assert (one.total, one.length) == (14.0, 7)
