"""Offline play uses the wanted version of the weights, and repeats by its seed."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client.relay import (
    load_weights,
    play,
    play_weights,
    save_weights,
)
from gym_http_client.relay import play as play_function
from gym_http_client.relay.episodes import episode_seed
from tests.support.envs.several_rewards import SeveralRewards
from tests.support.fake_relay import FakeRelay


def policy(weights: Any, _: Any, generator: np.random.Generator) -> int:
    return int(generator.random() < weights["right"])


def with_extras(weights: Any, observation: Any, generator: np.random.Generator) -> Any:
    return policy(weights, observation, generator), {"log_probability": -1.0}


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> FakeRelay:
    relay = FakeRelay()
    monkeypatch.setitem(play_function.__globals__, "RelayCalls", lambda *_, **__: relay)
    etag = None
    for right in (0.0, 0.5):
        data = save_weights({"right": right})
        etag = relay.put_weights(data, etag=etag, content_type="")["etag"]
    return relay


def expected(right: float, episodes: int, seed: int) -> list[tuple[float, int]]:
    """Play with Gymnasium alone, as the documentation says."""
    env = gymnasium.make("CartPole-v1")
    found = []
    for number in range(1, episodes + 1):
        reset_seed, generator = episode_seed(seed, "play", number, "evaluation")
        env.reset(seed=reset_seed)
        length, over = 0, False
        while not over:
            _, _, ended, cut, _ = env.step(int(generator.random() < right))
            over = ended or cut
            length += 1
        found.append((float(length), length))
    return found


@pytest.mark.parametrize(("version", "right"), [("newest", 0.5), ("best", 0.5), (1, 0)])
def test_the_wanted_version_plays(
    relay: FakeRelay, version: Any, right: float, capsys: pytest.CaptureFixture[str]
) -> None:
    env = gymnasium.make("CartPole-v1")
    played = play(
        *("http://127.0.0.1:1", "r"),
        env=env,
        policy=policy,
        version=version,
        episodes=3,
        seed=4,
    )
    assert played == expected(right, 3, 4)
    assert f"r, version {1 if version == 1 else 2}: mean return" in (
        capsys.readouterr().out
    )


def test_without_weights_the_error_says_so(relay: FakeRelay) -> None:
    relay.blobs["weights"].clear()
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(LookupError, match="no weights of version 'best'"):
        play("http://127.0.0.1:1", "r", env=env, policy=policy, version="best")


def test_saved_weights_play_without_a_server(relay: FakeRelay, tmp_path: Path) -> None:
    env = gymnasium.make("CartPole-v1")
    path = tmp_path / "weights.npz"
    url = "http://127.0.0.1:1"
    first = play(url, "r", env=env, policy=policy, episodes=2, save=path)
    weights = load_weights(path.read_bytes())
    assert play_weights(env, with_extras, weights, episodes=2) == first


def test_rewards_of_several_components_have_as_many_returns(
    relay: FakeRelay, capsys: pytest.CaptureFixture[str]
) -> None:
    played = play("", "run", env=SeveralRewards(2), policy=policy, episodes=2)
    assert [(each.value.tolist(), each.length) for each in played] == [
        ([7.5, -15.0], 3)
    ] * 2
    assert "mean return 7.5, -15.0 (7.5, -15.0 to" in capsys.readouterr().out
