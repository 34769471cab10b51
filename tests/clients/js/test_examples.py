"""The JavaScript client's examples and the code of its README run unchanged."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.drivers import CLIENTS, needs
from tests.support.server import Server

JS = CLIENTS / "js"
# The output of a line, if it is always the same.
PRINTS = re.compile(r"console\.log\(.*// (?!the |a )(\w[\w ]*)$", re.MULTILINE)
BLOCK = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEFAULT = "http://127.0.0.1:5000"

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]


def programs() -> list[str]:
    text = (JS / "README.md").read_text(encoding="utf-8")
    return [block for block in BLOCK.findall(text) if block.startswith("import")]


def node(path: Path, *args: str) -> str:
    needs("node")
    done = subprocess.run(
        ["node", str(path), *args],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_program_is_short() -> None:
    assert len([line for line in programs()[0].splitlines() if line]) <= 10


def test_links_lead_somewhere() -> None:
    text = (JS / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
        assert (JS / target).exists(), target


@pytest.mark.parametrize("number", range(len(programs())))
def test_programs_of_the_readme_run(
    number: int, server: Server, tmp_path: Path
) -> None:
    # As if npm had installed it, and with this server where it looks by itself.
    package = tmp_path / "node_modules/gym-http-client"
    shutil.copytree(JS, package, ignore=shutil.ignore_patterns("node_modules"))
    source = package / "src/requester.js"
    code = source.read_text(encoding="utf-8")
    assert code.count(f'"{DEFAULT}"') == 1
    source.write_text(code.replace(DEFAULT, server.url), encoding="utf-8")
    path = tmp_path / "program.mjs"
    program = programs()[number].replace(DEFAULT, server.url)
    path.write_text(program, encoding="utf-8")
    printed = node(path)
    for value in PRINTS.findall(program):
        assert value in printed


def test_the_random_agent_plays(server: Server) -> None:
    printed = node(JS / "examples/random_agent.mjs", server.url)
    assert len(re.findall(r"episode \d: return [\d.]+, \d+ steps", printed)) == 3


def test_the_learner_reaches_its_return(server: Server) -> None:
    printed = node(JS / "examples/frozen_lake.mjs", server.url)
    found = re.match(r"mean return ([\d.]+) of 100 episodes", printed)
    assert found
    assert float(found[1]) >= 0.6
