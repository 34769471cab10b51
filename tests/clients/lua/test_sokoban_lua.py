"""The Sokoban example with its page in headless Chromium and an agent in Lua."""

from collections.abc import Iterator

import pytest

from tests.clients.lua.test_lua import interpreters, run
from tests.support.peers.sokoban import FOLDER, Game, grid_of, open_game, solution

LEVEL = 7

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def game() -> Iterator[Game]:
    with open_game() as game:
        yield game


@interpreters
def test_a_known_solution_gets_its_return(interpreter: str, game: Game) -> None:
    actions = solution(grid_of(LEVEL))
    assert actions
    moves = "".join("udlr"[action] for action in actions)
    printed = run(
        interpreter, "examples/sokoban.lua", game.server.url, str(LEVEL), moves
    )
    # Each step costs 0.1; the crate on the goal is worth 1, and the end 10.
    steps = len(actions)
    expected = 11 - 0.1 * steps
    assert printed == f"level 7: return {expected:.1f} in {steps} steps, solved\n"
    # As in its README.
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"lua examples/sokoban.lua http://127.0.0.1:5000 {LEVEL} {moves}\n" in readme
    assert printed in readme
    printed = run(
        interpreter, "examples/sokoban.lua", game.server.url, str(LEVEL), moves[:-1]
    )
    assert printed.endswith("not solved\n")
