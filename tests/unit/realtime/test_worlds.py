"""Worlds behind env IDs: shipped ones, classes, interfaces, and own processes."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.errors import EnvRefused, UnknownEnv
from gym_http_server.host.create_request import read_request
from gym_http_server.host.realtime import worlds
from gym_http_server.host.realtime.worlds.running import RunningWorld
from tests.support.envs import worlds as examples
from tests.support.wait import wait_until

HERE = "tests.support.envs.worlds"
BANDITS = ("bandit", "drifting-bandit", "intermittent-bandit")


def world_of(name: str, **kwargs: Any) -> Any:
    return worlds.make(f"world/{name}", kwargs).world


def played(name: str, arm: int, seed: int, steps: int = 400) -> list[Any]:
    world = world_of(name)
    world.reset(seed, None)
    action = np.zeros(5)
    action[arm] = 1.0
    world.send(action)
    return [world.capture().rewards for _ in range(steps)]


@pytest.mark.parametrize("name", BANDITS)
def test_a_seed_fixes_the_rewards_of_a_bandit(name: str) -> None:
    assert played(name, 2, 7) == played(name, 2, 7)
    assert played(name, 2, 7) != played(name, 2, 8)


def test_each_arm_of_the_bandit_pays_in_its_own_channel() -> None:
    means = []
    for arm in range(5):
        rewards = np.array(played("bandit", arm, 3, 4000))
        assert not np.delete(rewards, arm, axis=1).any()
        means.append(rewards[:, arm].mean())
    # By hand: chance times payout of each arm.
    assert means == pytest.approx([1.0, 1.2, 1.5, 0.8, 0.5], abs=0.12)


def test_without_an_action_no_arm_is_pulled() -> None:
    world = world_of("bandit")
    world.reset(1, None)
    assert [world.capture().rewards for _ in range(50)] == [[0.0] * 5] * 50


def test_the_chances_of_the_drifting_bandit_change() -> None:
    world = world_of("drifting-bandit", episode_steps=None)
    world.reset(5, None)
    world.send(np.array([1.0, 0, 0, 0, 0]))
    paid = np.array([world.capture().rewards[0] > 0 for _ in range(20_000)])
    shares = paid.reshape(-1, 1000).mean(axis=1)
    # The standard error of a share is below 0.016.
    assert shares.max() - shares.min() > 0.2


def test_channels_of_the_intermittent_bandit_are_silent_in_a_tenth_of_steps() -> None:
    rewards = played("intermittent-bandit", 4, 9, 1000)
    silent = np.array([[each is None for each in row] for row in rewards])
    assert silent.mean(axis=0) == pytest.approx([0.1] * 5, abs=0.04)
    assert {row[4] for row in rewards} == {0.5, None}


def test_episodes_of_shipped_worlds_end() -> None:
    for name in (*BANDITS, "pendulum"):
        world = world_of(name, episode_steps=3)
        world.reset(None, None)
        flags = [world.capture()[2:4] for _ in range(3)]
        assert flags == [(False, False)] * 2 + [(False, True)]
    with pytest.raises(ValueError, match="episode_steps is 0: expected 1 or more"):
        world_of("bandit", episode_steps=0)


def test_the_pendulum_needs_swinging() -> None:
    world = world_of("pendulum")
    sensors, _ = world.reset(4, None)
    assert sensors.shape == (2,)
    # A constant torque cannot lift it, but a push with its motion can.
    steady = np.zeros(13)
    steady[12] = 1.0
    world.send(steady)
    assert max(world.capture().rewards[0] for _ in range(300)) < 0.9
    world.reset(4, None)
    best = 0.0
    velocity = 0.0
    for _ in range(300):
        push = np.zeros(13)
        push[12 if velocity >= 0 else 0] = 1.0
        world.send(push)
        captured = world.capture()
        velocity = captured.observation[1]
        best = max(best, captured.rewards[0])
    assert best > 0.98


def test_a_world_announces_spaces_and_rate() -> None:
    made = worlds.make("world/pendulum", {})
    assert made.observation_space.shape == (2,)
    assert made.action_space.shape == (13,)
    assert made.settings == {"mode": "free_running", "hz": 30.0}
    assert made.default_action is None
    empty = worlds.make("world/empty", {}).world
    empty.reset(None, None)
    assert empty.capture().rewards == [0.0]


def test_a_class_with_reset_and_step_is_a_world() -> None:
    made = worlds.make(f"world/{HERE}:Counter", {"start": 4})
    assert made.settings["hz"] == 50
    world = made.world
    sensors, info = world.reset(None, None)
    assert (sensors.tolist(), info) == ([4.0], {})
    # Zeros before the first action.
    assert world.capture()[:4] == ([5.0], [0.0, None], False, False)
    world.send(np.array([2.0, 3.0]))
    assert world.capture().rewards == [2.0, 3.0]
    world.send(None)
    assert world.capture().rewards == [2.0, None]
    assert world.reset(11, None)[0].tolist() == [11.0]


def test_wrong_numbers_of_sensors_are_refused() -> None:
    world = worlds.make(f"world/{HERE}:Miscounting", {}).world
    with pytest.raises(ValueError, match=r"shape \(1,\): expected \(3,\)"):
        world.reset(None, None)


def test_an_interface_of_rtgym_is_hosted_as_it_is() -> None:
    made = worlds.make(f"interface/{HERE}:Drone", {"height": 2.0})
    assert made.default_action.tolist() == [0.5]
    assert made.settings == {}
    world: Any = made.world
    observation, info = world.reset(3, {"a": 1})
    assert made.observation_space.contains(observation)
    assert info == {"seed": 3}
    world.send(np.array([0.25], np.float32))
    world.send(None)
    captured = world.capture()
    assert captured.observation[0].tolist() == [2.25]
    assert captured[1:4] == (-2.25, False, False)
    assert type(captured.terminated) is bool
    world.wait()
    world.end(np.array([0.0], np.float32))
    assert (world._interface.waited, world._interface.sent) == (1, [0.25, 0.0])


def test_a_subclass_of_rtgym_s_interface_is_hosted() -> None:
    made = worlds.make("interface/tests.support.envs.rtgym_drone:RealDrone", {})
    observation, _ = made.world.reset(None, None)
    assert made.observation_space.contains(observation)
    made.world.send(made.default_action)
    assert made.world.capture().rewards == -1.5


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("world/pendulun", "did you mean 'pendulum'"),
        (f"world/{HERE}:Counters", "did you mean 'Counter'"),
        ("world/no_such_module:World", "no module 'no_such_module'"),
        (f"world/{HERE}:Aimless", "Aimless has no reset, step: expected"),
        (f"interface/{HERE}:Aimless", "Aimless has no get_observation_space, "),
        ("interface/pendulum", "expected interface/MODULE:CLASS"),
        (f"world/{HERE}:Any", "Any is from the module 'typing'"),
        ("interface/tests.support.wait:wait_until", "no class"),
    ],
)
def test_what_is_no_world_is_refused(env_id: str, words: str) -> None:
    with pytest.raises(UnknownEnv, match=words):
        worlds.make(env_id, {})
    assert examples.Aimless.made == 0


def test_classes_that_a_module_has_only_imported_are_no_worlds() -> None:
    env_id = "world/gym_http_server.host.realtime.worlds.making:RunningWorld"
    with pytest.raises(UnknownEnv, match="RunningWorld is from the module"):
        worlds.make(env_id, {})


@pytest.mark.parametrize("kind", ["interface", "world"])
def test_the_module_of_a_world_must_be_allowed(kind: str) -> None:
    def create(env_id: str) -> None:
        body = msgspec.json.encode({"env_id": env_id})
        read_request(body, Settings(allow_module=("robots", "labs.arms")))

    create(f"{kind}/robots:Arm")
    create(f"{kind}/labs.arms:Arm")
    for name in ("subprocess", "robots.more", "labs", "world/robots", "x/robots"):
        with pytest.raises(EnvRefused, match=f"{name}' is not allowed here"):
            create(f"{kind}/{name}:Arm")


@pytest.fixture
def echo() -> Iterator[RunningWorld]:
    made = worlds.make(f"world/{HERE}:Echo", {})
    assert isinstance(made.world, RunningWorld)
    assert (made.action_space.shape, made.observation_space.shape) == ((1,), (2,))
    yield made.world
    made.world.close()


def step_with(world: RunningWorld, action: float) -> Any:
    """Send an action and return the first capture with something new in it."""
    world.send(np.array([action]))
    last: list[Any] = []

    def new() -> bool:
        last.append(world.capture())
        return last[-1].info["messages"] > 0 or last[-1].truncated

    wait_until(new, 20.0, "an update of the world")
    return last[-1]


def test_a_world_that_runs_by_itself_lives_in_a_process(echo: RunningWorld) -> None:
    sensors, _ = echo.reset(None, None)
    assert sensors.tolist() == [0.0, -1.0]
    answer = step_with(echo, 3.0)
    assert (answer.observation.tolist(), answer.rewards) == ([0.0, 3.0], [3.0, None])
    # Nothing new: the last sensors, and channels that say nothing.
    idle = echo.capture()
    assert (idle.observation.tolist(), idle.rewards) == ([0.0, 3.0], [None, None])
    assert not idle.truncated


def test_skipped_rewards_of_a_running_world_are_added(echo: RunningWorld) -> None:
    echo.reset(None, None)
    for action in (1.0, 2.0, 4.0):
        echo.send(np.array([action]))
    total = count = 0.0

    def all_told() -> bool:
        nonlocal total, count
        captured = echo.capture()
        total += captured.rewards[0] or 0.0
        count += captured.info["messages"]
        return count == 3

    wait_until(all_told, 20.0, "three updates")
    assert total == 7.0


def test_episodes_of_a_running_world_follow_each_other(echo: RunningWorld) -> None:
    echo.reset(None, None)
    over = step_with(echo, 9.0)
    assert (over.truncated, over.terminated, echo.ended) == (True, False, False)
    assert echo.reset(None, None)[0].tolist() == [1.0, -1.0]
    assert step_with(echo, 5.0).observation.tolist() == [1.0, 5.0]
    last = step_with(echo, 10.0)
    assert (last.truncated, echo.ended) == (True, True)


def test_a_reset_within_an_episode_starts_the_world_again(echo: RunningWorld) -> None:
    echo.reset(None, None)
    step_with(echo, 9.0)
    echo.reset(None, None)
    step_with(echo, 5.0)
    assert echo.reset(None, None)[0].tolist() == [0.0, -1.0]


def test_the_exception_of_a_running_world_is_reported(echo: RunningWorld) -> None:
    echo.reset(None, None)
    with pytest.raises(RuntimeError, match="ValueError: an action that it cannot"):
        step_with(echo, 11.0)
    # And another reset starts it again.
    assert echo.reset(None, None)[0].tolist() == [0.0, -1.0]


def test_the_end_of_a_world_s_process_is_reported(echo: RunningWorld) -> None:
    echo.reset(None, None)
    with pytest.raises(RuntimeError, match="has ended: exit status 7"):
        step_with(echo, 12.0)


def test_a_world_keeps_its_own_time() -> None:
    before = psutil.Process().children()
    made = worlds.make(f"world/{HERE}:Ticking", {})
    world: Any = made.world
    try:
        world.reset(1, None)
        count = 0.0

        def ticked() -> bool:
            nonlocal count
            count += world.capture().rewards[0] or 0.0
            return count >= 10

        wait_until(ticked, 20.0, "ten ticks")
    finally:
        world.close()
    assert psutil.Process().children() == before
