"""The Sokoban example: its page in a browser, connected to a server, and a solver."""

import contextlib
import json
import subprocess
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.api import Api, ok
from tests.support.drivers import needs
from tests.support.peers.chromium import Chromium
from tests.support.peers.example_pages import served_page
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

FOLDER = ROOT / "examples/sokoban"
ENV_ID = "external/sokoban"
FLOOR, WALL, GOAL, CRATE, PLACED, PLAYER, PLAYER_ON_GOAL = range(7)
WAYS = [(-1, 0), (1, 0), (0, -1), (0, 1)]

Field = tuple[int, int]
Grid = list[list[int]]


@dataclass(frozen=True)
class Game:
    """An open page, and the server that it is connected to.

    Attributes:
        origin: Where the page is served.
        server: Where agents find it, as `ENV_ID`.
        page: The browser.
    """

    origin: str
    server: Server
    page: Chromium


@contextlib.contextmanager
def open_game() -> Iterator[Game]:
    """Open the page in a browser, and wait until its game can be created."""
    with (
        served_page(FOLDER / "serve.mjs") as origin,
        Server("--allow-origin", origin) as server,
        Chromium() as browser,
    ):
        browser.open(f"{origin}/?server={server.url}")
        api = Api(server)
        wait_until(
            lambda: ok(api.get(f"/v1/registry/?search={ENV_ID}"))["count"],
            30.0,
            "the page to connect",
        )
        yield Game(origin, server, browser)


def solution(grid: Grid) -> list[int] | None:
    """Return the shortest solution of a level, from its observation alone."""
    fields = {
        (row, column): tile
        for row, tiles in enumerate(grid)
        for column, tile in enumerate(tiles)
    }
    goals = {
        at for at, tile in fields.items() if tile in (GOAL, PLACED, PLAYER_ON_GOAL)
    }
    crates = frozenset(at for at, tile in fields.items() if tile in (CRATE, PLACED))
    (player,) = (at for at, tile in fields.items() if tile in (PLAYER, PLAYER_ON_GOAL))
    todo = deque([(player, crates, list[int]())])
    seen = {(player, crates)}
    while todo:
        (row, column), crates, actions = todo.popleft()
        if crates == goals:
            return actions
        for action, (down, right) in enumerate(WAYS):
            to, beyond = (
                (row + down, column + right),
                (row + 2 * down, column + 2 * right),
            )
            pushed = crates
            if to in crates:
                pushed = (crates - {to}) | {beyond}
                if beyond in crates or fields[beyond] == WALL:
                    continue
            if fields[to] != WALL and (to, pushed) not in seen:
                seen.add((to, pushed))
                todo.append((to, pushed, [*actions, action]))
    return None


def grid_of(level: int, crates: int = 1) -> Grid:
    """Return a level as agents observe it, from the example's rules without a page."""
    tiles: list[int] = node(f"""
        import {{ makeLevel }} from "./levels.js";
        import {{ Game }} from "./rules.js";
        const game = new Game(makeLevel({level}, {crates}));
        console.log(JSON.stringify([...game.tiles()]));
    """)
    return [tiles[at : at + 6] for at in range(0, 36, 6)]


def node(program: str) -> Any:
    """Run a JavaScript module in the example's folder, and parse its output."""
    needs("node")
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", program],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
