"""Environments over HTTP return the same values as the same local environments."""

import io
import json
import os
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image

from tests.support.api import Instance

# Before anything imports mujoco: without a display it renders by EGL only.
os.environ.setdefault("MUJOCO_GL", "egl")

STEPS = 60
FEW_STEPS = 12  # frames as JSON are large
ENVS = [
    "CartPole-v1",
    "FrozenLake-v1",
    "Taxi-v4",
    "Blackjack-v1",
    "Pendulum-v1",
    "Acrobot-v1",
    "LunarLander-v3",
    "BipedalWalker-v3",
    "HalfCheetah-v5",
    "ALE/Pong-v5",
]


def as_json(value: Any) -> Any:
    """Write a value as JSON by the rules, with nothing of the server's."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biu":
        return value.tolist()
    if isinstance(value, np.ndarray):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, np.float32):
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    return value


def plain(action: Any) -> Any:
    """Write an action as a thin client would, digits enough for its dtype."""
    return json.loads(json.dumps(np.asarray(action, dtype=np.float64).tolist()))


def same_frame(instance: Instance, local: gymnasium.Env[Any, Any]) -> None:
    """Compare a frame, as picture and as raw array, with the local one."""
    # Rendering changes some environments, so both sides render each frame.
    expected = np.asarray(local.render())
    picture = instance.get("render/", headers={"Accept": "image/png"})
    assert picture.content_type == "image/png"
    np.testing.assert_array_equal(Image.open(io.BytesIO(picture.body)), expected)
    raw = instance.get("render/", headers={"Accept": "application/octet-stream"})
    shape = tuple(int(size) for size in (raw.header("Gym-Shape") or "").split(","))
    frame = np.frombuffer(raw.body, raw.header("Gym-Dtype")).reshape(shape)
    np.testing.assert_array_equal(frame, np.asarray(local.render()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("env_id", ENVS)
def test_reset_step_and_render(create: Callable[..., Instance], env_id: str) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    local = gymnasium.make(env_id, render_mode="rgb_array")
    remote = create(env_id, render_mode="rgb_array")
    try:
        local.action_space.seed(4)
        observation, info = local.reset(seed=11)
        answer = remote.reset(seed=11)
        assert answer["observation"] == as_json(observation)
        assert answer["info"] == as_json(info)
        ends = 0
        for number in range(FEW_STEPS if "ALE" in env_id else STEPS):
            action = local.action_space.sample()
            observation, reward, terminated, truncated, info = local.step(action)
            answer = remote.step(plain(action) if np.shape(action) else int(action))
            assert answer["observation"] == as_json(observation), number
            assert answer["reward"] == as_json(reward), number
            assert (answer["terminated"], answer["truncated"]) == (
                terminated,
                truncated,
            )
            assert answer["done"] == (terminated or truncated)
            assert answer["info"] == as_json(info), number
            if number % 20 == 10:
                same_frame(remote, local)
            if terminated or truncated:
                ends += 1
                observation, info = local.reset()
                assert remote.reset()["observation"] == as_json(observation)
        if env_id in ("CartPole-v1", "Blackjack-v1"):
            assert ends
    finally:
        local.close()


def test_frames_as_text_and_as_json(create: Callable[..., Instance]) -> None:
    local = gymnasium.make("Taxi-v4", render_mode="ansi")
    remote = create("Taxi-v4", render_mode="ansi")
    local.reset(seed=1)
    remote.reset(seed=1)
    answer = remote.get("render/")
    assert answer.content_type == "text/plain; charset=utf-8"
    assert answer.text == local.render()
    local.close()


def test_options_kwargs_steps_and_wrappers(create: Callable[..., Instance]) -> None:
    local = gymnasium.make("FrozenLake-v1", is_slippery=False, map_name="8x8")
    remote = create("FrozenLake-v1", kwargs={"is_slippery": False, "map_name": "8x8"})
    local.reset(seed=0)
    remote.reset(seed=0)
    for action in (2, 2, 1, 1, 0, 3):
        assert remote.step(action)["observation"] == local.step(action)[0]
    local.close()
    local = gymnasium.make("CartPole-v1", max_episode_steps=7)
    local = gymnasium.wrappers.ClipReward(local, -0.5, 0.5)
    clip = {"min_reward": -0.5, "max_reward": 0.5}
    remote = create(
        "CartPole-v1",
        max_episode_steps=7,
        wrappers=[{"name": "ClipReward", "kwargs": clip}],
    )
    options = {"low": -0.01, "high": 0.01}
    observation, _ = local.reset(seed=3, options=options)
    assert remote.reset(seed=3, options=options)["observation"] == as_json(observation)
    for number in range(7):
        observation, reward, _, truncated, _ = local.step(number % 2)
        answer = remote.step(number % 2)
        assert answer["reward"] == reward == 0.5
        assert answer["truncated"] is truncated is (number == 6)
    local.close()


@pytest.mark.parametrize("seed", [0, 7, 2**100])
def test_the_seed_of_creation_is_the_first_resets(
    create: Callable[..., Instance], seed: int
) -> None:
    local = gymnasium.make("CartPole-v1")
    remote = create("CartPole-v1", seed=seed)
    observation, _ = local.reset(seed=seed)
    assert remote.reset()["observation"] == as_json(observation)
    observation, _ = local.reset()
    assert remote.reset()["observation"] == as_json(observation)
    local.close()


def test_samples_are_those_of_the_seeded_space(create: Callable[..., Instance]) -> None:
    local = gymnasium.make("BipedalWalker-v3")
    remote = create("BipedalWalker-v3")
    for which in ("action", "observation"):
        space = getattr(local, f"{which}_space")
        space.seed(5)
        body = remote.post(f"{which}_space/sample", {"seed": 5}).json()
        assert body == {which: as_json(space.sample())}
        assert remote.get(f"{which}_space/sample").json() == {
            which: as_json(space.sample())
        }
    local.close()
