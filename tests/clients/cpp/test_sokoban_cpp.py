"""The Sokoban example with its page in headless Chromium and an agent in C++."""

from pathlib import Path

import pytest

from tests.clients.cpp.building import run
from tests.support import cpp_programs
from tests.support.drivers import CLIENTS, needs
from tests.support.peers.sokoban import grid_of, open_game, solution

LEVEL = 7

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(180)]


def test_a_known_solution_gets_its_return(tmp_path: Path) -> None:
    needs("clang++")
    program = tmp_path / "sokoban"
    cpp_programs.build(
        CLIENTS / "cpp/examples/sokoban.cpp", program, *cpp_programs.STRICT
    )
    actions = solution(grid_of(LEVEL))
    assert actions
    moves = "".join("udlr"[action] for action in actions)
    with open_game() as game:
        # Each step costs 0.1; the crate on the goal is worth 1, and the end 10.
        steps = len(actions)
        printed = run(program, game.server.url, str(LEVEL), moves)
        expected = 11 - 0.1 * steps
        assert printed == f"level 7: return {expected:.1f} in {steps} steps, solved\n"
        printed = run(program, game.server.url, str(LEVEL), moves[:-1])
        assert printed.endswith("not solved\n")
