"""The example of a language model that plays a word game, without its GPU."""

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
