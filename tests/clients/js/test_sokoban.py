"""The Sokoban example in headless Chromium, played by people and by agents."""

import importlib.util
import itertools
import re
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RealTimeEnv, RemoteEnv, ServerError
from tests.support.peers.chromium import Chromium
from tests.support.peers.sokoban import (
    CRATE,
    ENV_ID,
    FOLDER,
    PLACED,
    WALL,
    Game,
    grid_of,
    node,
    open_game,
    solution,
)
from tests.support.server import Server
from tests.support.wait import wait_until

LEVELS = 200

TOKEN = "a-token-for-games-only"

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]


@pytest.mark.parametrize("crates", [1, 2])
def test_all_levels_can_be_solved_and_are_small(crates: int) -> None:
    grids = node(f"""
        import {{ makeLevel }} from "./levels.js";
        import {{ Game }} from "./rules.js";
        const tiles = (level) => [...new Game(makeLevel(level, {crates})).tiles()];
        const made = Array.from({{ length: {LEVELS} }}, (_, level) => tiles(level));
        const again = Array.from({{ length: {LEVELS} }}, (_, level) => tiles(level));
        console.log(JSON.stringify({{ made, again }}));
    """)
    assert grids["made"] == grids["again"]
    assert len(set(map(str, grids["made"]))) > LEVELS * 0.9
    for tiles in grids["made"]:
        grid = np.reshape(tiles, (6, 6))
        assert (grid == CRATE).sum() + (grid == PLACED).sum() == crates
        border = np.concatenate([grid[0], grid[-1], grid[:, 0], grid[:, -1]])
        assert (border == WALL).all()
        found = solution(grid.tolist())
        assert found is not None, grid
        assert 5 <= len(found) <= (18, 30)[crates - 1]


def test_crates_are_pushed_one_at_a_time_and_never_pulled() -> None:
    output = node("""
        import { Game, SIZE } from "./rules.js";
        const walls = new Set([12, 17]);
        const goals = new Set([16]);
        const at = (player, crates) => new Game({ walls, goals, crates, player });
        const done = (game, actions) => {
            const rewards = actions.map((action) => game.step(action));
            return [game.player, [...game.crates], rewards, game.solved];
        };
        console.log(JSON.stringify([
            done(at(13, [14]), [3, 3, 3]),
            done(at(13, [14, 15]), [3]),
            done(at(13, []), [2]),
            done(at(14, [15]), [2]),
        ]));
    """)
    pushed, blocked, stopped, left = output
    # Onto the goal with the second push; the third meets the wall.
    assert pushed[:2] == [15, [16]]
    assert pushed[2] == pytest.approx([-0.1, 10.9, 9.9])
    assert blocked[:2] == [13, [14, 15]]
    assert stopped[0] == 13
    assert left[:2] == [13, [15]]


@pytest.fixture(scope="module")
def game() -> Iterator[Game]:
    with open_game() as game:
        yield game


@pytest.fixture(scope="module")
def origin(game: Game) -> str:
    return game.origin


@pytest.fixture(scope="module")
def server(game: Game) -> Server:
    return game.server


@pytest.fixture(scope="module")
def page(game: Game) -> Chromium:
    return game.page


def text_of(page: Chromium, name: str) -> str:
    return str(page.run(f"document.getElementById('{name}').textContent"))


def press(page: Chromium, key: str) -> None:
    page.run(f"dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}' }}))")


def made(server: Server, **kwargs: Any) -> RemoteEnv:
    return RemoteEnv(server.url, ENV_ID, wait_s=20, **kwargs)


def test_people_play_until_an_agent_comes(page: Chromium, server: Server) -> None:
    assert text_of(page, "player") == "You play, until an agent connects."
    press(page, "n")
    level = re.match(r"level (\d+), 0 steps", text_of(page, "state"))
    assert level
    for key in ("ArrowUp", "a"):
        press(page, key)
    assert f"level {level[1]}, 2 steps" in text_of(page, "state")
    press(page, "r")
    assert f"level {level[1]}, 0 steps" in text_of(page, "state")

    # A person can solve the level that an agent observes.
    with made(server, fast=True) as env:
        assert text_of(page, "player") == "An agent plays."
        observation, _ = env.reset(options={"level": int(level[1])})
        drawn = text_of(page, "state")
        press(page, "n")
        assert text_of(page, "state") == drawn
    wait_until(lambda: text_of(page, "player").startswith("You play"), 10.0)
    assert solution(observation.tolist())


def test_a_random_agent_finishes_episodes(page: Chromium, server: Server) -> None:
    with made(server, fast=True) as env:
        assert env.observation_space == gymnasium.spaces.Box(0, 6, (6, 6), np.uint8)
        assert env.action_space == gymnasium.spaces.Discrete(4)
        env.action_space.seed(0)
        observation, info = env.reset(seed=1)
        for _ in range(20):
            over = False
            assert info["crates"] == 1
            while not over:
                assert env.observation_space.contains(observation)
                observation, reward, terminated, truncated, info = env.step(
                    env.action_space.sample()
                )
                assert -1.1 <= float(reward) <= 10.9
                over = terminated or truncated
            observation, info = env.reset()


def test_seeds_and_options_are_honoured(page: Chromium, server: Server) -> None:
    with made(server, fast=True) as env:
        first = [env.reset(seed=9), env.reset(), env.reset()]
        second = [env.reset(seed=9), env.reset(), env.reset()]
        assert [info["level"] for _, info in first] == [i["level"] for _, i in second]
        assert len({info["level"] for _, info in first}) == 3
        observation, info = env.reset(options={"level": 7, "crates": 2})
        assert info == {"level": 7, "crates": 2, "placed": info["placed"]}
        assert observation.tolist() == grid_of(7, crates=2)
        found = solution(observation.tolist())
        assert found
        for action in found:
            terminated = env.step(action)[2]
        assert terminated
        for options in ({"crates": 3}, {"level": -1}, {"speed": 1}):
            with pytest.raises(ServerError) as caught:
                env.reset(options=options)
            assert caught.value.code == "bad-parameter"


def test_pixels_equal_the_screen(page: Chromium, server: Server) -> None:
    with made(server, observation="pixels", render_mode="rgb_array") as env:
        observation, _ = env.reset(options={"level": 5})
        assert env.observation_space.contains(observation)
        canvas = page.run(
            "Array.from(document.getElementById('scene').getContext('2d')"
            ".getImageData(0, 0, 48, 48).data)"
        )
        seen = np.reshape(np.array(canvas, np.uint8), (48, 48, 4))
        assert (seen[..., :3] == observation).all()
        assert (env.render() == observation).all()
        after = env.step(0)[0]
        assert after.shape == (48, 48, 3)


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train", FOLDER / "train.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_tabular_agent_solves_a_fixed_set_of_levels(
    page: Chromium, server: Server
) -> None:
    train = example()
    began = time.monotonic()
    with made(server, fast=True) as env:
        for level in range(4):
            steps, _ = train.solve(env, level)
            observation, _ = env.reset(options={"level": level})
            shortest = solution(observation.tolist())
            assert shortest
            assert steps >= len(shortest)
    assert time.monotonic() - began < 60
    # Nothing was drawn of it.
    assert "An agent" not in text_of(page, "player")


BUSY_MS = 250
BUSY = f"""
    globalThis.busy = setInterval(() => {{
        const end = performance.now() + {BUSY_MS};
        while (performance.now() < end);
    }}, {2 * BUSY_MS})
"""


def test_a_clock_at_30_hz_goes_on_while_the_page_is_busy(
    page: Chromium, server: Server
) -> None:
    clock = {"mode": "free_running", "hz": 30, "default_action": 0, "on_done": "reset"}
    page.run(BUSY)
    try:
        with RealTimeEnv(server.url, ENV_ID, clock, wait_s=20, fast=True) as env:
            env.action_space.seed(0)
            env.reset(seed=1)
            timings = []
            with env.updates(deliver="all") as updates:
                for observation, _, _, _, info in itertools.islice(updates, 45):
                    assert env.observation_space.contains(observation)
                    timings.append(info["realtime"])
                    env.act(env.action_space.sample())
            answer = env.timing()
    finally:
        page.run("clearInterval(globalThis.busy)")
    numbers = [timing["update"] for timing in timings]
    assert numbers == list(range(numbers[0], numbers[0] + 45))
    # Each time that the page was busy, ticks were left out, and the updates say so.
    assert answer["skipped"] >= sum(timing["skipped"] for timing in timings) > 0
    ticks = timings[-1]["tick"] - timings[0]["tick"]
    assert ticks > 45
    assert answer["lateness_ns"]["count"] >= 45
    assert answer["lateness_ns"]["max"] >= answer["lateness_ns"]["p50"] > 0
    actions = answer["actions"]
    assert actions.pop("received") == sum(actions.values()) == 45
    assert actions["applied"] > 0


def test_without_permission_the_page_names_the_missing_flag(
    page: Chromium, origin: str, server: Server
) -> None:
    with Server() as other:
        page.open(f"{origin}/?server={other.url}")
        wait_until(lambda: "cannot connect to" in text_of(page, "log"), 20.0)
        assert f"--allow-origin {origin}" in text_of(page, "log")


def test_with_a_token_the_page_comes_by_tickets(
    page: Chromium, origin: str, server: Server
) -> None:
    with Server("--allow-origin", origin, "--token", TOKEN, token=TOKEN) as other:
        url = other.url.replace("://", f"://:{TOKEN}@")
        page.open(f"{origin}/?server={other.url}&name=guarded")
        wait_until(lambda: "the token is missing" in text_of(page, "log"), 20.0)
        page.open(f"{origin}/?server={other.url}&name=hidden#token={TOKEN}")
        with RemoteEnv(url, "external/hidden", wait_s=20, fast=True) as env:
            assert env.reset(seed=1)[0].shape == (6, 6)


def test_a_page_that_is_reloaded_ends_the_episode_and_goes_on(
    page: Chromium, origin: str
) -> None:
    with Server("--allow-origin", origin) as other:
        page.open(f"{origin}/?server={other.url}")
        with made(other, fast=True) as env:
            env.reset(seed=1)
            page.open(f"{origin}/?server={other.url}")
            wait_until(lambda: "connected" in text_of(page, "log"), 20.0)
            _, _, terminated, truncated, info = env.step(0)
            assert (terminated, truncated, info["reconnected"]) == (False, True, True)
            assert "An agent" not in text_of(page, "player")
            env.reset(seed=1)
            assert not env.step(0)[3]
