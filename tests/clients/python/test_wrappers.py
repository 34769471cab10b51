"""Gymnasium's wrappers work on a remote environment as they do on a local one."""

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers

from gym_http_client import RemoteEnv
from tests.support.identity import assert_identical
from tests.support.server import Server

STEPS = 60
Env = gymnasium.Env[Any, Any]
Dress = Callable[[Env], Env]

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:UserWarning", "ignore::DeprecationWarning"
)

DRESSES: dict[str, tuple[str, Dress]] = {
    "TimeLimit": ("Pendulum-v1", lambda env: wrappers.TimeLimit(env, 12)),
    "FrameStackObservation": (
        "CartPole-v1",
        lambda env: wrappers.FrameStackObservation(env, 3),
    ),
    "FrameStackObservation of a Discrete": (
        "FrozenLake-v1",
        lambda env: wrappers.FrameStackObservation(env, 2, padding_type="zero"),
    ),
    "RecordEpisodeStatistics": ("Taxi-v4", wrappers.RecordEpisodeStatistics),
    "RenderCollection": (
        "CartPole-v1",
        lambda env: wrappers.RenderCollection(env, pop_frames=False),
    ),
    "AddRenderObservation": ("CartPole-v1", wrappers.AddRenderObservation),
    "StickyAction": ("CartPole-v1", lambda env: wrappers.StickyAction(env, 0.5)),
    "RescaleAction": (
        "Pendulum-v1",
        lambda env: wrappers.RescaleAction(env, np.float32(-1), np.float32(1)),
    ),
    "NormalizeObservation": ("Pendulum-v1", wrappers.NormalizeObservation),
    "Autoreset": ("CartPole-v1", wrappers.Autoreset),
    "TimeAwareObservation": ("CartPole-v1", wrappers.TimeAwareObservation),
    "several": (
        "MountainCar-v0",
        lambda env: wrappers.RecordEpisodeStatistics(
            wrappers.FrameStackObservation(wrappers.TimeLimit(env, 20), 4)
        ),
    ),
}


@pytest.fixture
def pair(server: Server) -> Iterator[Callable[..., tuple[Env, Env]]]:
    """Return a factory of wrapped remote environments with their references."""
    made: list[Env] = []

    def make(env_id: str, dress: Dress, **options: Any) -> tuple[Env, Env]:
        remote = RemoteEnv(server.url, env_id, **options)
        local = gymnasium.make(env_id, **options)
        made.extend((remote, local))
        return dress(remote), dress(local)

    yield make
    for env in made:
        env.close()


def without_times(info: dict[str, Any]) -> dict[str, Any]:
    """Leave out how long an episode took, which is the only thing that may differ."""
    if "episode" not in info:
        return info
    episode = {name: value for name, value in info["episode"].items() if name != "t"}
    return {**info, "episode": episode}


@pytest.mark.parametrize("name", DRESSES)
def test_it_is_the_same_as_locally(
    name: str, pair: Callable[..., tuple[Env, Env]]
) -> None:
    env_id, dress = DRESSES[name]
    remote, local = pair(env_id, dress, render_mode="rgb_array")
    assert remote.observation_space == local.observation_space
    assert remote.action_space == local.action_space
    assert_identical(remote.reset(seed=5), local.reset(seed=5))
    local.action_space.seed(5)
    episodes = 0
    for number in range(STEPS):
        action = local.action_space.sample()
        *answer, info = remote.step(action)
        *expected, expected_info = local.step(action)
        here = f"step {number}"
        assert_identical(answer, expected, here)
        assert_identical(without_times(info), without_times(expected_info), here)
        if expected[2] or expected[3]:
            episodes += 1
            assert_identical(remote.reset(), local.reset(), here)
    assert episodes > 0 or env_id in ("Pendulum-v1", "Taxi-v4")
    assert_identical(remote.render(), local.render())


def test_statistics_have_each_episode(
    pair: Callable[..., tuple[Env, Env]],
) -> None:
    def dress(env: Env) -> Env:
        return wrappers.RecordEpisodeStatistics(wrappers.TimeLimit(env, 7))

    for env in pair("Taxi-v4", dress):
        env.reset(seed=1)
        infos = [env.step(0)[4] for _ in range(7)]
        assert ["episode" in info for info in infos] == [False] * 6 + [True]
        assert (infos[-1]["episode"]["l"], infos[-1]["episode"]["r"]) == (7, -7)


def test_all_frames_of_an_episode_are_collected(
    pair: Callable[..., tuple[Env, Env]],
) -> None:
    remote, local = pair(
        "CartPole-v1", wrappers.RenderCollection, render_mode="rgb_array"
    )
    for env in (remote, local):
        env.reset(seed=2)
        for number in range(5):
            env.step(number % 2)
    answer, expected = remote.render(), local.render()
    assert isinstance(answer, list)
    assert len(answer) == 6
    assert_identical(answer, expected)
    assert {np.asarray(frame).dtype for frame in answer} == {np.dtype(np.uint8)}
    assert_identical(remote.render(), local.render())


class Clip:
    """Writes frames as they are, where moviepy would make a film of them."""

    def __init__(self, frames: list[Any], fps: int) -> None:
        self._film = {"frames": np.array(frames), "fps": np.array(fps)}

    def write_videofile(self, path: str, logger: object) -> None:
        """Write the file that the wrapper named."""
        with open(path, "wb") as file:
            np.savez(file, **self._film)


def film(path: Path) -> dict[str, Any]:
    """Read the file that `Clip` wrote."""
    with np.load(path) as written:
        return dict(written)


@pytest.fixture
def moviepy(monkeypatch: pytest.MonkeyPatch) -> None:
    # It refuses the Pillow that everything else needs.
    names = ["moviepy", "moviepy.video", "moviepy.video.io"]
    for name in [*names, f"{names[-1]}.ImageSequenceClip"]:
        module = types.ModuleType(name)
        vars(module)["ImageSequenceClip"] = Clip
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("moviepy")
def test_the_films_of_episodes_have_the_same_frames(
    pair: Callable[..., tuple[Env, Env]], tmp_path: Path
) -> None:
    folders = iter([tmp_path / "remote", tmp_path / "local"])

    def dress(env: Env) -> Env:
        folder = str(next(folders))
        return wrappers.RecordVideo(env, folder, episode_trigger=lambda _: True)

    films = []
    for env in pair("CartPole-v1", dress, render_mode="rgb_array"):
        for seed in (1, 2):
            env.reset(seed=seed)
            while not any(env.step(1)[2:4]):
                pass
        env.close()
        assert isinstance(env, wrappers.RecordVideo)
        paths = sorted(Path(env.video_folder).iterdir())
        films.append([(path.name, film(path)) for path in paths])
    assert [name for name, _ in films[0]] == [
        "rl-video-episode-0.mp4",
        "rl-video-episode-1.mp4",
    ]
    assert len(films[0][0][1]["frames"]) > 5
    assert_identical(*films)
