"""gym3's interface, as its documentation defines it, over local and remote vectors.

The tests use gym3 where it is installed, and a substitute for it otherwise.
"""

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from pettingzoo.classic.connect_four.connect_four import env as connect_four
from pettingzoo.classic.rps.rps import parallel_env as rps

from gym_http_client import RemoteVectorEnv
from gym_http_client.gym3 import (
    DictType,
    Discrete,
    Gym3Env,
    Real,
    TensorType,
    discrete_scalar,
    type_of,
)
from gym_http_client.pettingzoo import RemoteAECEnv, RemoteParallelEnv
from tests.support.identity import assert_identical
from tests.support.server import Server

SAME, NEXT, DISABLED = (
    AutoresetMode.SAME_STEP,
    AutoresetMode.NEXT_STEP,
    AutoresetMode.DISABLED,
)


class Counter(gymnasium.Env[Any, Any]):
    """Counts its steps; an episode has as many as its length, and -1 raises."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(-10, 10, (), np.float64)

    def __init__(self, length: int = 3) -> None:
        self.length = length
        self.count = 0
        self.episode = -1

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        self.count = 0
        self.episode += 1
        return np.array(float(self.episode)), {"options": str(options)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if action == 2:
            raise ValueError("two is too much")
        self.count += 1
        observation = np.array(self.episode + self.count / 10)
        over = self.count >= self.length
        info = {"count": self.count, "odd": "odd"} if self.count % 2 else {}
        return observation, float(action), over, False, info

    def add(self, one: int, two: int = 0) -> int:
        return self.length + one + two


def counters(mode: AutoresetMode, *lengths: int, kind: Any = SyncVectorEnv) -> Any:
    makers = [partial(Counter, length) for length in lengths]
    # Python never frees memory that processes share.
    options = {"shared_memory": False} if kind is AsyncVectorEnv else {}
    return kind(makers, autoreset_mode=mode, **options)


@pytest.fixture
def adapted() -> Iterator[Callable[..., Gym3Env]]:
    made: list[Gym3Env] = []

    def adapt(env: Any, **options: Any) -> Gym3Env:
        made.append(Gym3Env(env, **options))
        return made[-1]

    yield adapt
    while made:
        made.pop().close()
    # The garbage collector frees Gymnasium's processes and their memory.
    gc.collect()


def act(env: Gym3Env, *actions: int) -> None:
    env.act(np.array(actions))


@pytest.mark.parametrize("mode", [SAME, NEXT, DISABLED])
def test_the_beginning(mode: AutoresetMode, adapted: Callable[..., Gym3Env]) -> None:
    env = adapted(counters(mode, 3, 4), options={"x": 1})
    assert env.num == 2
    assert env.ac_space == discrete_scalar(3)
    assert env.ob_space == TensorType(Real("float64"), ())
    for _ in range(2):
        reward, ob, first = env.observe()
        assert_identical(reward, np.zeros(2, np.float32))
        assert_identical(ob, np.zeros(2))
        assert_identical(first, np.ones(2, bool))
    assert (
        env.get_info()
        == [{"options": "{'x': 1}", "terminated": False, "truncated": False}] * 2
    )


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", [SAME, DISABLED])
def test_an_act_that_ends_an_episode_begins_the_next(
    mode: AutoresetMode, kind: Any, adapted: Callable[..., Gym3Env]
) -> None:
    env = adapted(counters(mode, 3, 2, kind=kind))
    seen = []
    for _ in range(4):
        act(env, 1, 0)
        observed = env.observe()
        again = env.observe()
        for one, other in zip(observed, again, strict=True):
            assert_identical(one, other)
        reward, ob, first = observed
        assert_identical(reward, np.array([1, 0], np.float32))
        seen.append((ob.tolist(), first.tolist(), env.get_info()))
    assert [ob for ob, _, _ in seen] == [[0.1, 0.1], [0.2, 1.0], [1.0, 1.1], [1.1, 2.0]]
    assert [first for _, first, _ in seen] == [
        [False, False],
        [False, True],
        [True, False],
        [False, True],
    ]
    ended = seen[1][2][1]
    assert (ended["terminated"], ended["truncated"]) == (True, False)
    assert ended["final_obs"] == 0.2
    assert "final_obs" not in seen[1][2][0]
    assert seen[0][2][0] == {
        "count": 1,
        "odd": "odd",
        "terminated": False,
        "truncated": False,
    }
    assert seen[2][2][0]["final_info"]["count"] == 3


def test_next_step_shows_the_last_observation_and_takes_one_act_more(
    adapted: Callable[..., Gym3Env],
) -> None:
    env = adapted(counters(NEXT, 2))
    seen = []
    for _ in range(4):
        act(env, 1)
        reward, ob, first = env.observe()
        seen.append((reward.item(), ob.item(), first.item()))
    assert seen == [
        (1.0, 0.1, False),
        (1.0, 0.2, False),
        (0.0, 1.0, True),
        (1.0, 1.1, False),
    ]


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_acts_queue_in_their_order(kind: Any, adapted: Callable[..., Gym3Env]) -> None:
    env = adapted(counters(SAME, 9, kind=kind))
    ac = np.array([1])
    for action in (1, 1, 0):
        ac[0] = action
        env.act(ac)
    reward, ob, _ = env.observe()
    assert (reward.item(), ob.item()) == (0.0, 0.3)


def test_an_error_of_an_act_is_raised_by_observe(
    adapted: Callable[..., Gym3Env],
) -> None:
    env = adapted(counters(SAME, 9))
    act(env, 1)
    act(env, 2)
    act(env, 1)
    with pytest.raises(ValueError, match="too much"):
        env.observe()
    # The act behind it was dropped.
    assert env.observe()[1].item() == 0.1
    act(env, 1)
    assert env.observe()[1].item() == 0.2
    act(env, 2)
    with pytest.raises(ValueError, match="too much"):
        env.get_info()


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_methods_are_called_in_each(kind: Any, adapted: Callable[..., Gym3Env]) -> None:
    env = adapted(counters(SAME, 3, 5, kind=kind))
    assert env.callmethod("add", [1, 1], two=[2, 2]) == [6, 8]
    with pytest.raises(ValueError, match="expected 2"):
        env.callmethod("add", [1])
    if kind is SyncVectorEnv:
        assert env.callmethod("add", [1, 10]) == [4, 15]
    else:
        with pytest.raises(NotImplementedError, match="same arguments"):
            env.callmethod("add", [1, 10])


class Painted(Counter):
    """Its pictures have the colour of its count."""

    def __init__(self, length: int = 3, render_mode: str | None = "rgb_array") -> None:
        super().__init__(length)
        self.render_mode = render_mode
        self.painted = 0

    def render(self) -> Any:
        self.painted += 1
        return np.full((2, 4, 3), 10 * self.episode + self.count, np.uint8)


@pytest.mark.parametrize("mode", [SAME, NEXT, DISABLED])
def test_infos_have_the_pictures_of_what_was_observed(
    mode: AutoresetMode, adapted: Callable[..., Gym3Env]
) -> None:
    env = adapted(
        SyncVectorEnv([Painted, partial(Painted, 2)], autoreset_mode=mode), seed=1
    )
    for _ in range(4):
        _, ob, _ = env.observe()
        for info, seen in zip(env.get_info(), ob, strict=True):
            # As `Counter` observes: the episode, and the count as a decimal.
            colour = np.uint8(np.round(seen * 10))
            assert_identical(info["rgb"], np.full((2, 4, 3), colour, np.uint8))
        painted = [each.painted for each in env.env.envs]
        env.get_info()
        assert [each.painted for each in env.env.envs] == painted
        act(env, 1, 1)


def test_infos_of_environments_that_do_not_render_have_no_pictures(
    adapted: Callable[..., Gym3Env],
) -> None:
    for render_mode in (None, "human"):
        vector = SyncVectorEnv([partial(Painted, render_mode=render_mode)])
        assert "rgb" not in adapted(vector).get_info()[0]


def test_a_vector_without_an_autoreset_mode_is_refused() -> None:
    vector = counters(SAME, 3)
    vector.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        Gym3Env(vector)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Discrete(4), TensorType(Discrete(4, "int64"), ())),
        (spaces.MultiBinary(3), TensorType(Discrete(2, "int8"), (3,))),
        (spaces.MultiBinary((2, 3)), TensorType(Discrete(2, "int8"), (2, 3))),
        (spaces.MultiDiscrete([5, 5]), TensorType(Discrete(5, "int64"), (2,))),
        (
            spaces.Box(0, 255, (8, 8), np.uint8),
            TensorType(Discrete(256, "uint8"), (8, 8)),
        ),
        (spaces.Box(-1, 1, (2,)), TensorType(Real("float32"), (2,))),
        (
            spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (), np.float64)),
            DictType(a=discrete_scalar(2), b=TensorType(Real("float64"), ())),
        ),
    ],
)
def test_spaces_are_types(space: Any, expected: Any) -> None:
    assert type_of(space) == expected
    assert str(type_of(space)) == str(expected)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(4, start=1),
        spaces.MultiDiscrete([5, 4]),
        spaces.MultiDiscrete([5, 5], start=[0, 1]),
        spaces.Box(-1, 1, (2,), np.int8),
        spaces.Box(0, np.array([1, 2]), dtype=np.int64),
        spaces.Box(0, 1, (2,), np.float16),
        spaces.Text(3),
        spaces.Tuple([spaces.Discrete(2)]),
        spaces.Dict(a=spaces.Text(3)),
    ],
)
def test_spaces_that_gym3_has_no_type_for(space: Any) -> None:
    with pytest.raises(TypeError, match="gym3 has no type"):
        type_of(space)


def test_values_that_are_no_vectors_are_refused() -> None:
    env: Any = gymnasium.make("CartPole-v1")
    with pytest.raises(TypeError, match=r"CartPole-v1.* is no vector .*make_vec"):
        Gym3Env(env)
    env.close()


@pytest.mark.parametrize("mode", [SAME, NEXT, DISABLED])
def test_a_remote_vector_is_like_a_local_one(
    mode: AutoresetMode, server: Server, adapted: Callable[..., Gym3Env]
) -> None:
    options: dict[str, Any] = {
        "num_envs": 3,
        "max_episode_steps": 12,
        "render_mode": "rgb_array",
    }
    remote = adapted(
        RemoteVectorEnv(
            server.url,
            "CartPole-v1",
            vectorization_mode="sync",
            autoreset_mode=mode,
            **options,
        ),
        seed=4,
    )
    local = adapted(
        gymnasium.make_vec(
            "CartPole-v1",
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": mode},
            **options,
        ),
        seed=4,
    )
    assert (remote.ob_space, remote.ac_space) == (local.ob_space, local.ac_space)
    rng = np.random.default_rng(1)
    begun = 0
    for _ in range(40):
        for _ in range(rng.integers(1, 3)):
            ac = rng.integers(0, 2, 3)
            remote.act(ac)
            local.act(ac)
        there, here = remote.observe(), local.observe()
        begun += int(here[2].sum())
        for one, other in zip(there, here, strict=True):
            assert_identical(one, other)
        for one, other in zip(remote.get_info(), local.get_info(), strict=True):
            assert_identical(one.pop("rgb"), other.pop("rgb"))
            assert repr(one) == repr(other)
    assert begun > 3
    assert remote.callmethod("render_mode") == ["rgb_array"] * 3


@pytest.mark.parametrize(
    ("remote", "module", "local"),
    [
        (RemoteParallelEnv, "classic.rps_v2", rps),
        (RemoteAECEnv, "classic.connect_four_v3", connect_four),
    ],
)
def test_a_remote_world_is_like_a_local_one(
    server: Server, remote: Any, module: str, local: Any
) -> None:
    envs = [
        Gym3Env(remote(server.url, f"pettingzoo/{module}"), seed=3),
        Gym3Env(local(), seed=3),
    ]
    dice = np.random.default_rng(5)
    begun = 0
    for _ in range(60):
        results = [env.observe() for env in envs]
        assert_identical(*results)
        assert_identical(*(env.get_info() for env in envs))
        begun += results[0][2].all()
        actions = dice.integers(0, envs[0].ac_space.eltype.n, envs[0].num)
        for env in envs:
            env.act(actions)
    assert begun > 1
    for env in envs:
        env.close()
