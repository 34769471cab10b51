"""The error messages of example programs that cannot serve their page."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.drivers import needs
from tests.support.server import ROOT

EXAMPLES = ROOT / "examples"

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(60)]


def error_output(program: Path, *words: str) -> str:
    """Run a program that fails, and return its error message."""
    needs("node")
    done = subprocess.run(
        ["node", str(program), *words], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1, done.stdout
    return done.stderr


@pytest.mark.parametrize("example", ["sokoban", "phaser"])
def test_a_used_port_is_reported(example: str, tmp_path: Path) -> None:
    folder = tmp_path / "examples" / example
    shutil.copytree(EXAMPLES / example, folder)
    phaser = tmp_path / "clients/js/node_modules/phaser/dist"
    phaser.mkdir(parents=True)
    (phaser / "phaser-arcade-physics.min.js").touch()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = error_output(folder / "serve.mjs", str(port))
    assert f"address already in use 127.0.0.1:{port}: give another port" in words
    assert len(words.splitlines()) == 1


def test_a_missing_phaser_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "examples" / "phaser"
    shutil.copytree(EXAMPLES / "phaser", folder)
    words = error_output(folder / "serve.mjs", "0")
    assert words == (
        "Phaser is not installed: make clients/js/node_modules/.installed\n"
    )
