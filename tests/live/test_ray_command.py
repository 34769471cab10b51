"""The command ``ray``, with a real server; ``make engines`` has the real Ray."""

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from gym_http_server.access.identities import line_of
from gym_http_server.access.tokens import new_token
from gym_http_server.commands.cli import main
from gym_http_server.commands.ray_command import Keeper, ServerEvent, order_of
from gym_http_server.config.settings import from_mapping
from gym_http_server.errors import StartError
from tests.support.fleet import TOKEN, Redis, redis_server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain]


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    """A Redis server."""
    with redis_server() as redis:
        yield redis


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """A file with the fleet token."""
    path = tmp_path / "fleet-token"
    path.write_text(TOKEN)
    return path


@pytest.fixture
def run_dir() -> Iterator[str]:
    """A folder for run directories: paths of sockets in it are short enough."""
    with tempfile.TemporaryDirectory(prefix="ghst-", dir="/tmp") as folder:
        yield folder


@contextlib.contextmanager
def kept(keeper: Keeper) -> Iterator[None]:
    """Stop a keeper's server in the end, and wait until it has ended."""
    try:
        yield
    finally:
        keeper.stop()
        while not keeper.event().over:
            pass


def pid_of(url: str) -> int:
    """Return the process ID of the server that listens at a URL."""
    listed = psutil.process_iter(["cmdline"])
    titles = {" ".join(each.info["cmdline"] or ()).strip(): each for each in listed}
    return titles[f"gym: launcher {url}"].pid


def test_a_server_is_started_again_at_its_address(
    redis: Redis,
    token_file: Path,
    tmp_path: Path,
    run_dir: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(line_of("ops", new_token(), "admin", None))
    tokens.chmod(0o600)
    variables = {
        "GHS_TOKENS": str(tokens),
        "GHS_FLEET": redis.url,
        "GHS_FLEET_TOKEN_FILE": str(token_file),
        "GHS_DATA_DIR": str(tmp_path / "data"),
        "GHS_RUN_DIR": run_dir,
    }
    order = order_of(from_mapping(variables, {"workers": "1"}))
    # The machines of the cluster do not have the files.
    token_file.unlink()
    tokens.unlink()
    keeper = Keeper("127.0.0.1")
    keeper.start(order, 7)
    with kept(keeper):
        words = keeper.event().words
        url = words.removeprefix("listening on ")
        assert url.startswith("http://127.0.0.1:")
        pid = pid_of(url)
        shown = f"{psutil.Process(pid).cmdline()} {words} {order!r} {keeper!r}"
        assert TOKEN not in shown
        os.kill(pid, signal.SIGKILL)
        words = keeper.event().words
        assert words.startswith("its server ended with status -9, and is started again")
        assert keeper.event() == ServerEvent(f"listening on {url}")
        records = ("hvals", "{gym}:records")
        wait_until(lambda: f'"ray-7","url":"{url}"' in redis.command(*records))
    assert (tmp_path / "data" / "ray-7").is_dir()
    log = capfd.readouterr().out
    assert f"Listening on {url}" in log
    assert TOKEN not in log


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "--fleet is not set: expected after --"),
        ({"GHS_FLEET": "redis://h"}, "--fleet-token-file is not set"),
        (
            {"GHS_FLEET": "redis://h", "GHS_FLEET_TOKEN_FILE": "/none"},
            "cannot read --fleet-token-file /none: ",
        ),
        (
            {
                "GHS_FLEET": "redis://h",
                "GHS_FLEET_TOKEN_FILE": "x",
                "GHS_TOKEN": "auto",
            },
            "--token auto would make another token for each server",
        ),
    ],
)
def test_wrong_settings(variables: dict[str, str], words: str) -> None:
    with pytest.raises(StartError, match=words):
        order_of(from_mapping(variables, {}))


def test_without_ray(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ["ray", "--nodes=2", "--", "--fleet=redis://h", "--fleet-token-file"]
    done = CliRunner().invoke(main, [*words, str(token_file)])
    assert done.exit_code == 1
    assert "this command needs Ray" in done.stderr
    assert "[fleet,ray]" in done.stderr
