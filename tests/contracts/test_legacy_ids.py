"""The environment IDs of gym-http-api's examples: kept, replaced or retired."""

from collections.abc import Callable

import gymnasium
import pytest

from tests.support.api import Api, Instance, error
from tests.support.plain import plain

Create = Callable[..., Instance]

SAME_IDS = ["CartPole-v0", "MountainCar-v0", "Acrobot-v1", "MountainCarContinuous-v0"]
NEWER_IDS = {
    "FrozenLake-v0": "FrozenLake-v1",
    "FrozenLake8x8-v0": "FrozenLake8x8-v1",
    "Pendulum-v0": "Pendulum-v1",
    "Taxi-v2": "Taxi-v4",
    "CliffWalking-v0": "CliffWalking-v1",
    "Blackjack-v0": "Blackjack-v1",
    "LunarLander-v2": "LunarLander-v3",
}
GONE_IDS = ["Copy-v0", "NChain-v0", "Roulette-v0", "Pong-ram-v0", "Nonsense-v0"]


@pytest.mark.parametrize("env_id", SAME_IDS)
def test_old_ids_that_still_exist(env_id: str, create: Create) -> None:
    instance = create(env_id)
    assert instance.reset()["observation"]
    assert instance.api.instances()[instance.id] == env_id


# Box2D's import warns from C, which a warning made an error would crash.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("env_id", NEWER_IDS)
def test_retired_ids_have_heirs(env_id: str, create: Create) -> None:
    instance = create(env_id, seed=4)
    assert instance.api.instances()[instance.id] == env_id
    with gymnasium.make(NEWER_IDS[env_id]) as local:
        assert instance.reset()["observation"] == plain(local.reset(seed=4)[0])


@pytest.mark.parametrize("env_id", ["Pong-v0", "Breakout-v0"])
def test_atari(env_id: str, create: Create) -> None:
    pytest.importorskip("ale_py")
    instance = create(env_id)
    pixels = instance.reset()["observation"]
    assert (len(pixels), len(pixels[0]), len(pixels[0][0])) == (210, 160, 3)


@pytest.mark.parametrize("env_id", GONE_IDS)
def test_ids_without_an_heir(env_id: str, api: Api) -> None:
    answer = error(api.post("/v1/envs/", {"env_id": env_id}), 400, "unknown-env")
    known = f"Attempted to look up malformed environment ID '{env_id}'"
    assert answer["message"].startswith(known)
