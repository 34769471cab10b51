"""The example of a language model that plays a word game, without its GPU."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.api import Api
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

EXAMPLE = ROOT / "examples" / "openenv"
GAMES = 32


def test_32_games_at_once(make_server: Callable[..., Server]) -> None:
    server = make_server(
        *("--import", str(EXAMPLE / "words.py"), "--workers", "2"),
        *("--max-instances", str(GAMES)),
    )
    done = subprocess.run(
        [sys.executable, EXAMPLE / "play.py", server.url, "--games", str(GAMES)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests/support/standins")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"32 games, (\d+) won, in (\d+) guesses\n", done.stdout)
    assert found, done.stdout
    assert int(found[1]) == GAMES
    assert GAMES <= int(found[2]) < 6 * GAMES
    wait_until(lambda: Api(server).instances() == {}, 20.0, "the ends")


def test_an_assistant_plays_over_mcp(toy_server: Server) -> None:
    calls = [
        {"name": "actions", "arguments": {}},
        {"name": "reset", "arguments": {"seed": 42}},
        {"name": "step", "arguments": {"action": 1}},
        {"name": "step", "arguments": {"action": 7}},
    ]
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "examples/mcp_server.py",
            toy_server.url,
            "CartPole-v1",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests/support/standins")},
        input="".join(json.dumps(each) + "\n" for each in calls),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    space, begun, stepped, refused = map(json.loads, done.stdout.splitlines())
    assert (space["name"], space["n"]) == ("Discrete", 2)
    assert space["example"] in (0, 1)
    assert begun["observation"][0] == 0.027395604
    assert (stepped["reward"], stepped["done"]) == (1.0, False)
    assert refused == "action is 7, but must be an integer from 0 to 1"
    assert Api(toy_server).instances() == {}


def test_the_page_shows_that_server() -> None:
    page = (ROOT / "docs" / "openenv.md").read_text()
    assert (ROOT / "examples" / "mcp_server.py").read_text() in page
