"""The examples in which several programs play in one world learn something."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.drivers import needs
from tests.support.server import ROOT, Server

EXAMPLES = ROOT / "examples"
ENV = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "clients/python"),
    "LUA_PATH": f"{ROOT}/clients/lua/?.lua;{ROOT}/clients/lua/?/init.lua;;",
}

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@contextlib.contextmanager
def program(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program of the examples until the block ends."""
    words = [*command]
    if words[0].endswith(".py"):
        words.insert(0, sys.executable)
    with subprocess.Popen(
        words, cwd=EXAMPLES, env=ENV, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def output(process: subprocess.Popen[str]) -> str:
    """Wait for the end of a program; return what it has printed."""
    printed, _ = process.communicate()
    assert process.returncode == 0
    return printed


def learned(printed: str) -> list[float]:
    """Return the learned chances of rock, paper and scissors."""
    names = ("rock", "paper", "scissors")
    return [float(re.findall(rf"{name} ([\d.]+)", printed)[0]) for name in names]


@pytest.mark.toolchain
def test_two_learners_play_each_action_as_often(server: Server, tmp_path: Path) -> None:
    needs("lua5.4")
    saved = tmp_path / "policy.json"
    seat = ("external/rps.player_1", "10")
    with (
        program("rps/world.py", server.url),
        program(
            *("rps/learner.py", server.url, "--episodes", "10", "--save", str(saved))
        ) as first,
        program("lua5.4", "rps/learner.lua", server.url, *seat) as second,
    ):
        for printed in (output(first), output(second)):
            assert learned(printed) == pytest.approx([1 / 3] * 3, abs=0.1)
    assert sum(json.loads(saved.read_text())["policy"]) == pytest.approx(1)


def test_a_learner_beats_a_saved_policy(server: Server, tmp_path: Path) -> None:
    saved = tmp_path / "paper.json"
    saved.write_text(json.dumps({"policy": [0.1, 0.8, 0.1]}))
    with (
        program("rps/world.py", server.url, "--policy", str(saved)),
        program("rps/learner.py", server.url, "--episodes", "5") as learner,
    ):
        printed = output(learner)
    assert learned(printed)[2] > 0.9
    # Scissors gets 0.7 on average.
    (reward,) = re.findall(r"then ([\d.]+)", printed)
    assert float(reward) == pytest.approx(0.7, abs=0.15)


def test_a_league_draws_a_curve_of_wins(server: Server, tmp_path: Path) -> None:
    curve, pool = tmp_path / "wins.png", tmp_path / "pool"
    rounds = ("--rounds", "2", "--games", "10")
    with (
        program("league/league.py", server.url, "--pool", str(pool)),
        program(
            *("league/learner.py", server.url, "--pool", str(pool), *rounds),
            *("--plot", str(curve)),
        ) as learner,
    ):
        printed = output(learner)
    wins = [int(each) for each in re.findall(r"^round \d: won (\d+)%$", printed, re.M)]
    assert len(wins) == 2
    assert 20 < sum(wins) / 2 < 100
    assert curve.read_bytes().startswith(b"\x89PNG")
    weights = [json.loads(path.read_text()) for path in sorted(pool.iterdir())]
    assert len(weights) == 2
    # Four of its own in a line are good, and three of the other's bad.
    assert weights[-1][4] > 0 > weights[-1][7]
