"""A remote environment equals the local one: values, types, bits, errors, samples."""

import copy
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gym_http_client import RemoteEnv, ServerError, ServerUnreachable, through_wire
from tests.support.identity import assert_identical
from tests.support.server import Server

# Before anything imports mujoco: without a display it renders by EGL only.
os.environ.setdefault("MUJOCO_GL", "egl")

SEEDS = (0, 7, 2**40)
STEPS = 334
# Each of its steps draws a picture, here and there.
FEWER_STEPS = {"CarRacing-v3": 110}
ENVS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "FrozenLake-v1": {},
    "Taxi-v4": {},
    "Blackjack-v1": {},
    "CliffWalking-v1": {"max_episode_steps": 90},
    "Pendulum-v1": {"max_episode_steps": 90},
    "MountainCar-v0": {"max_episode_steps": 90},
    "MountainCarContinuous-v0": {"max_episode_steps": 90},
    "Acrobot-v1": {"max_episode_steps": 90},
    "LunarLander-v3": {},
    "BipedalWalker-v3": {"max_episode_steps": 90},
    "CarRacing-v3": {"max_episode_steps": 30},
    "HalfCheetah-v5": {"max_episode_steps": 90},
    "Hopper-v5": {},
    "Ant-v5": {"max_episode_steps": 90},
    "ALE/Pong-v5": {"max_episode_steps": 90},
}

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:UserWarning", "ignore::DeprecationWarning"
)


@pytest.fixture
def pair(server: Server) -> Iterator[Callable[..., tuple[Any, Any]]]:
    """Return a factory of remote environments with their local references."""
    made: list[Any] = []

    def make(env_id: str, **options: Any) -> tuple[Any, Any]:
        import ale_py

        gymnasium.register_envs(ale_py)
        made.append(RemoteEnv(server.url, env_id, **options))
        made.append(gymnasium.make(env_id, **options))
        return made[-2], made[-1]

    yield make
    for env in made:
        env.close()


def actions(space: gymnasium.Space[Any], count: int) -> Iterator[Any]:
    """Yield samples, and other actions that work locally."""
    for number in range(count):
        action = space.sample()
        if isinstance(space, gymnasium.spaces.Box):
            if number % 7 == 3:
                action = action.astype(np.float64)
            if number % 11 == 5:
                action = action * 3
        elif number % 3 == 1:
            action = int(action)
        yield action


@pytest.mark.timeout(180)
@pytest.mark.parametrize("env_id", ENVS)
def test_values_are_identical(
    pair: Callable[..., tuple[Any, Any]], env_id: str
) -> None:
    remote, local = pair(env_id, **ENVS[env_id])
    steps = FEWER_STEPS.get(env_id, STEPS)
    ends = 0
    for seed in SEEDS:
        local.action_space.seed(seed % 1000)
        assert_identical(remote.reset(seed=seed), local.reset(seed=seed), "reset")
        for number, action in enumerate(actions(local.action_space, steps)):
            here = f"step {number} of seed {seed}"
            answer = remote.step(copy.deepcopy(action))
            expected = local.step(action)
            assert_identical(answer, expected, here)
            if expected[2] or expected[3]:
                ends += 1
                assert_identical(remote.reset(), local.reset(), f"reset after {here}")
        assert remote.np_random_seed == local.unwrapped.np_random_seed
        state = local.unwrapped.np_random.bit_generator.state
        assert remote.np_random.bit_generator.state == state
    assert ends >= 3
    assert remote.spec == local.spec
    assert_identical(remote.metadata, local.metadata)
    for which in ("action_space", "observation_space"):
        ours, theirs = getattr(remote, which), getattr(local, which)
        assert ours == theirs
        assert ours is getattr(remote, which)
        ours.seed(3)
        theirs.seed(3)
        for _ in range(5):
            assert_identical(ours.sample(), theirs.sample(), which)


@pytest.mark.parametrize(
    "env_id",
    ["CartPole-v1", "Taxi-v4", "LunarLander-v3", "HalfCheetah-v5", "ALE/Pong-v5"],
)
def test_frames_are_identical(
    pair: Callable[..., tuple[Any, Any]], env_id: str
) -> None:
    remote, local = pair(env_id, render_mode="rgb_array")
    remote.reset(seed=1)
    local.reset(seed=1)
    for _ in range(3):
        assert_identical(remote.render(), local.render(), "frame")
        remote.step(0 * remote.action_space.sample())
        local.step(0 * local.action_space.sample())


def test_text_and_lists_of_frames(pair: Callable[..., tuple[Any, Any]]) -> None:
    remote, local = pair("FrozenLake-v1", render_mode="ansi")
    remote.reset(seed=1)
    local.reset(seed=1)
    assert_identical(remote.render(), local.render())
    remote, local = pair("CartPole-v1", render_mode="rgb_array_list")
    for env in (remote, local):
        env.reset(seed=1)
        env.step(0)
        env.step(1)
    assert_identical(remote.render(), local.render())
    assert_identical(remote.render(), local.render())


def test_gymnasiums_checker_is_content(pair: Callable[..., tuple[Any, Any]]) -> None:
    for env_id in ("CartPole-v1", "FrozenLake-v1", "Pendulum-v1"):
        remote, local = pair(env_id)
        messages = []
        for env in (remote, local.unwrapped):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                check_env(env, skip_render_check=True)
            messages.append(sorted({str(warning.message) for warning in caught}))
        assert messages[0] == messages[1]


def same_error(call: Callable[[Any], Any], remote: Any, local: Any) -> None:
    """Check that both raise the same class with the same message."""
    raised = []
    for env in (local, remote):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            call(env)
        raised.append((type(caught.value), str(caught.value)))
    assert raised[0] == raised[1]


def test_errors_are_those_of_the_local_one(
    pair: Callable[..., tuple[Any, Any]],
) -> None:
    remote, local = pair("CartPole-v1")
    same_error(lambda env: env.step(0), remote, local)
    same_error(lambda env: env.reset(seed=-1), remote, local)
    same_error(lambda env: env.reset(seed="x"), remote, local)
    same_error(lambda env: env.reset(options={"low": 1, "high": 0}), remote, local)
    remote.reset(seed=0)
    local.reset(seed=0)
    same_error(lambda env: env.step(7), remote, local)
    # Gymnasium's checker does not get over that, neither here nor there.
    same_error(lambda env: env.step(1), remote, local)
    remote, local = pair("CartPole-v1", disable_env_checker=True)
    remote.reset(seed=0)
    local.reset(seed=0)
    same_error(lambda env: env.step(7), remote, local)
    assert_identical(remote.step(1), local.step(1), "after an error")


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(
    ("env_id", "actions"),
    [
        ("CartPole-v1", ["left", None, 1.0, [1], np.float32(1), np.array([0, 1])]),
        ("Pendulum-v1", ["left", None, 1, [[0.5, 0.5]], {"force": 1}]),
        ("Taxi-v4", ["north", None, 17, [1, 2]]),
    ],
)
def test_actions_of_a_wrong_type_raise_what_the_local_one_raises(
    pair: Callable[..., tuple[Any, Any]],
    env_id: str,
    actions: list[Any],
    checked: bool,
) -> None:
    for action in actions:
        remote, local = pair(env_id, disable_env_checker=not checked)
        outcomes = []
        for env in (remote, local):
            env.reset(seed=0)
            try:
                env.step(action)
                outcomes.append(("it steps", ""))
            except Exception as error:
                # NumPy raises private subclasses of built-in exceptions.
                kinds = [k for k in type(error).__mro__ if k.__module__ == "builtins"]
                outcomes.append((kinds[0].__name__, str(error)))
        assert outcomes[0] == outcomes[1], repr(action)


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("Nonsense-v0", {}),
        ("CartPole-v99", {}),
        ("CartPole-v1", {"nonsense": 1}),
        ("FrozenLake-v1", {"map_name": "none such"}),
    ],
)
def test_errors_of_making_are_those_of_gymnasium(
    server: Server, env_id: str, options: dict[str, Any]
) -> None:
    with pytest.raises(Exception) as local:  # noqa: PT011
        gymnasium.make(env_id, **options)
    with pytest.raises(type(local.value)) as remote:
        RemoteEnv(server.url, env_id, **options)
    assert str(remote.value) == str(local.value)
    assert isinstance(remote.value.__cause__, ServerError)


def test_the_generator_counts_in_both_directions(
    pair: Callable[..., tuple[Any, Any]],
) -> None:
    remote, local = pair("FrozenLake-v1")
    for env in (remote, local.unwrapped):
        env.reset(seed=3)
    assert remote.np_random.random() == local.unwrapped.np_random.random()
    for _ in range(20):
        assert_identical(remote.step(1)[:4], local.unwrapped.step(1)[:4])
    generator = np.random.Generator(np.random.PCG64(5))
    remote.np_random = generator
    local.unwrapped.np_random = np.random.Generator(np.random.PCG64(5))
    for _ in range(20):
        assert_identical(remote.step(2)[:4], local.unwrapped.step(2)[:4])


def test_the_generator_is_one_object(
    pair: Callable[..., tuple[Any, Any]],
) -> None:
    remote, local = pair("FrozenLake-v1")
    for env in (remote, local.unwrapped):
        env.reset(seed=3)
    draws = [
        [env.unwrapped.np_random.random() for _ in "abc"] for env in (remote, local)
    ]
    assert draws[0] == draws[1]
    assert_identical(remote.step(1)[:4], local.unwrapped.step(1)[:4])
    for env in (remote, local.unwrapped):
        shared_generator = env.np_random
        env.np_random = generator = np.random.Generator(np.random.PCG64(5))
        shared_generator.random()
        generator.random()
        assert env.np_random is generator
    assert_identical(remote.step(2)[:4], local.unwrapped.step(2)[:4])
    for env in (remote, local.unwrapped):
        env.reset(seed=4)
        generator.random()
    assert_identical(remote.step(2)[:4], local.unwrapped.step(2)[:4])
    assert remote.np_random.random() == local.unwrapped.np_random.random()


class Unreliable(gymnasium.Env[Any, Any]):
    """Draws in each step, and raises in each second one, after it drew."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (), np.float64)

    def __init__(self) -> None:
        self.count = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        return self.np_random.random(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        self.count += 1
        drawn = self.np_random.random()
        if self.count % 2:
            raise ValueError(f"drew {drawn}")
        return drawn, 0.0, False, False, {}


def test_draws_of_a_step_that_raised_count_once() -> None:
    remote, local = through_wire(Unreliable()), Unreliable()
    found = []
    for env in (remote, local):
        env.reset(seed=3)
        found.append([env.np_random.random()])
        with pytest.raises(ValueError, match="drew") as error:
            env.step(0)
        found[-1] += [str(error.value), env.step(0)[0], env.np_random.random()]
    assert found[0] == found[1]


def test_draws_are_sent_again_after_a_failure() -> None:
    remote, local = through_wire(Unreliable()), Unreliable()
    for env in (remote, local):
        env.reset(seed=3)
        env.np_random.random()
    handle, remote._handle = remote._handle, Broken()
    with pytest.raises(ServerUnreachable):
        remote.step(0)
    remote._handle = handle
    for env in (remote, local):
        with pytest.raises(ValueError, match="drew"):
            env.step(0)
    assert remote.step(0)[0] == local.step(0)[0]


class Broken:
    """A server that cannot be reached."""

    def call(self, method: str, path: str, given: Any = None) -> Any:
        """Fail."""
        raise ServerUnreachable("gone")

    def end(self) -> None:
        """Do nothing."""


def test_attributes_go_through(pair: Callable[..., tuple[Any, Any]]) -> None:
    remote, local = pair("CartPole-v1")
    remote.reset(seed=0)
    local.reset(seed=0)
    assert_identical(remote.get_wrapper_attr("state"), local.get_wrapper_attr("state"))
    assert remote.unwrapped.gravity == local.unwrapped.gravity
    remote.set_wrapper_attr("gravity", 5.0)
    local.set_wrapper_attr("gravity", 5.0)
    remote.unwrapped.length = local.unwrapped.length = 0.7
    assert_identical(remote.step(1), local.step(1))
    assert remote.has_wrapper_attr("kinematics_integrator")
    assert not remote.has_wrapper_attr("nonsense")
    with pytest.raises(AttributeError):
        remote.get_wrapper_attr("nonsense")
    with pytest.raises(AttributeError):
        remote.get_wrapper_attr("_max_episode_steps_")
    remote, local = pair("Blackjack-v1")
    assert remote.unwrapped.natural is local.unwrapped.natural


def test_wrappers_on_top(pair: Callable[..., tuple[Any, Any]]) -> None:
    def dress(env: Any) -> Any:
        env = gymnasium.wrappers.TimeLimit(env, 12)
        env = gymnasium.wrappers.FrameStackObservation(env, 3)
        return gymnasium.wrappers.RecordEpisodeStatistics(env)

    remote, local = map(dress, pair("CartPole-v1"))
    assert_identical(remote.reset(seed=4), local.reset(seed=4))
    for number in range(12):
        answer, expected = remote.step(number % 2), local.step(number % 2)
        if "episode" in expected[4]:
            for info in (answer[4], expected[4]):
                info["episode"].pop("t")
        assert_identical(answer, expected)


def test_by_gymnasium_make(server: Server) -> None:
    options = {"url": server.url, "env_id": "CartPole-v1", "max_episode_steps": 5}
    env_id = "gym_http_client:gym_http/Remote-v0"
    env = gymnasium.make(env_id, **options)
    assert isinstance(env.unwrapped, RemoteEnv)
    env.reset(seed=1)
    flags = [env.step(0)[3] for _ in range(5)]
    assert flags == [False] * 4 + [True]
    env.close()
    with pytest.raises(ValueError, match="token"):
        gymnasium.make(
            env_id, url="http://:secret-secret-secret@h:1", env_id="CartPole-v1"
        )


def test_attaching_goes_on(
    pair: Callable[..., tuple[Any, Any]], server: Server
) -> None:
    remote, local = pair("CartPole-v1")
    remote.reset(seed=6)
    local.reset(seed=6)
    assert_identical(remote.step(0), local.step(0))
    other = RemoteEnv.attach(server.url, remote.instance_id)
    assert_identical(other.step(1), local.step(1))
    assert_identical(remote.step(1), local.step(1))
    assert other.spec == remote.spec


def test_closing_pickling_and_forking(server: Server) -> None:
    with RemoteEnv(server.url, "CartPole-v1") as env:
        env.reset(seed=0)
        reference = pickle.loads(pickle.dumps(env))
        assert reference.instance_id != env.instance_id
        assert_identical(reference.reset(seed=9), env.reset(seed=9))
        pid = os.fork()
        if pid == 0:
            env.close()
            del env
            os._exit(0)
        os.waitpid(pid, 0)
        assert env.step(0)
        reference.close()
        reference.close()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.step(0)


def test_returned_values_never_change(
    pair: Callable[..., tuple[Any, Any]],
) -> None:
    remote, _ = pair("CartPole-v1")
    first, _ = remote.reset(seed=0)
    kept = first.copy()
    second = remote.step(1)[0]
    assert first.flags.writeable
    assert not np.shares_memory(first, second)
    assert_identical(first, kept)
