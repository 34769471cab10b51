"""A Phaser scene in headless Chromium whose time a Python agent advances."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv
from tests.support.api import Api, ok
from tests.support.drivers import CLIENTS
from tests.support.peers.chromium import Chromium
from tests.support.peers.example_pages import served_page
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

FOLDER = ROOT / "examples/phaser"
LEFT, STAY, RIGHT = range(3)
WIDTH, HEIGHT = 160, 120
UPDATES_OF_A_STEP = 4
UPDATES_OF_A_SECOND = 60
FRUITS = 10

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def origin(packages: Path) -> Iterator[str]:
    """Serve the page on a separate port."""
    assert (packages / "phaser").exists()
    with served_page(FOLDER / "serve.mjs") as origin:
        yield origin


@pytest.fixture(scope="module")
def server(origin: str) -> Iterator[Server]:
    with Server("--allow-origin", origin) as server:
        yield server


@pytest.fixture(scope="module")
def page(origin: str, server: Server) -> Iterator[Chromium]:
    """Open the page, and wait until its game can be created."""
    with Chromium() as browser:
        browser.open(f"{origin}/?fast&server={server.url}")
        api = Api(server)
        wait_until(
            lambda: ok(api.get("/v1/registry/?search=external/catch"))["count"],
            30.0,
            "the page to connect",
        )
        yield browser


def made(server: Server, **kwargs: Any) -> RemoteEnv:
    return RemoteEnv(server.url, "external/catch", wait_s=20, **kwargs)


def towards_fruit(observation: Any) -> int:
    """Return the action that moves the basket towards the fruit."""
    basket, fruit = observation[:2]
    if abs(basket - fruit) * WIDTH < 6:
        return STAY
    return LEFT if fruit < basket else RIGHT


def seen(page: Chromium) -> Any:
    """Return the position of the fruit, and the game's time."""
    return page.run("[game.scene.getScene('catch').fruit.y, game.loop.running]")


def test_the_game_runs_by_itself_until_an_agent_comes(
    page: Chromium, server: Server
) -> None:
    first = seen(page)
    wait_until(lambda: seen(page)[0] != first[0], 20.0, "the fruit to fall")
    with made(server) as env:
        env.reset(seed=1)
        at, running = seen(page)
        assert running is False
        frames = "new Promise((done) => setTimeout(done, 300))"
        page.run(frames)
        assert seen(page) == [at, False]
        env.step(STAY)
        assert seen(page)[0] > at
    wait_until(lambda: seen(page)[1], 20.0, "the game to go on")
    first = seen(page)
    wait_until(lambda: seen(page)[0] != first[0], 20.0, "the fruit to fall")


def test_agents_play_whole_episodes(page: Chromium, server: Server) -> None:
    returns = []
    with made(server) as env:
        assert env.observation_space == gymnasium.spaces.Box(0, 1, (4,), np.float32)
        assert env.action_space == gymnasium.spaces.Discrete(3)
        for episode in range(5):
            observation, info = env.reset(seed=episode)
            assert info == {"caught": 0, "left": FRUITS}
            gained, over = 0.0, False
            while not over:
                assert env.observation_space.contains(observation)
                action = towards_fruit(observation)
                observation, reward, over, truncated, info = env.step(action)
                gained += float(reward)
                assert not truncated
            assert info["left"] == 0
            assert gained == 2 * info["caught"] - FRUITS
            returns.append(gained)
    assert returns == [float(FRUITS)] * 5


def test_the_length_of_a_step_does_not_depend_on_the_clock(
    page: Chromium, server: Server
) -> None:
    with made(server) as env:
        observation, _ = env.reset(seed=3)
        for _ in range(10):
            before = observation
            observation, *_ = env.step(STAY)
            seconds = UPDATES_OF_A_STEP / UPDATES_OF_A_SECOND
            speed = (observation[2] - before[2]) * HEIGHT / seconds
            # Its speed is a whole number of pixels a second.
            assert speed == pytest.approx(round(speed), abs=0.01)
            assert 60 <= round(speed) <= 90
            # Tweens go by the same clock: once around in a second.
            turned = (observation[3] - before[3]) % 1
            assert turned == pytest.approx(seconds, abs=1e-4)


def played(env: RemoteEnv) -> list[Any]:
    """Play with a seed and the same actions; return the observations."""
    steps = [env.reset(seed=11)[0].tolist()]
    for number in range(40):
        observation, reward, *flags, info = env.step(number // 7 % 3)
        steps.append((observation.tolist(), reward, flags, info))
    return steps


def test_it_is_the_same_drawn_and_undrawn(page: Chromium, server: Server) -> None:
    with made(server) as env:
        undrawn = played(env)
        try:
            page.run("document.getElementById('fast').checked = false")
            drawn = played(env)
        finally:
            page.run("document.getElementById('fast').checked = true")
        assert drawn == undrawn == played(env)
        assert env.reset(seed=12)[0].tolist() != undrawn[0]


def test_frames_show_the_drawing_of_the_game(page: Chromium, server: Server) -> None:
    with made(server, render_mode="rgb_array") as env:
        observation, _ = env.reset(seed=5)
        for _ in range(5):
            observation, *_ = env.step(RIGHT)
        frame = env.render()
    assert frame.shape == (HEIGHT, WIDTH, 3)
    assert frame.dtype == np.uint8
    basket, across, down, _ = observation
    assert frame[110, round(basket * WIDTH)].tolist() == [0x8A, 0x5A, 0x2B]
    assert frame[round(down * HEIGHT), round(across * WIDTH)].tolist() == [200, 55, 45]
    assert frame[5, 2].tolist() == [0xBF, 0xE3, 0xF2]


def test_the_agent_of_the_readme_catches_all(page: Chromium, server: Server) -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program.replace("http://127.0.0.1:5000", server.url)],
        env={**os.environ, "PYTHONPATH": str(CLIENTS / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'caught': 10" in done.stdout
