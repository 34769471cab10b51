"""The Lua client's own tests, on each interpreter."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.drivers import CLIENTS, needs
from tests.support.server import Server

HERE = CLIENTS / "lua"
INTERPRETERS = ["lua5.1", "lua5.3", "lua5.4", "luajit"]
BLOCK = re.compile(r"^```lua\n(.*?)^```$", re.DOTALL | re.MULTILINE)

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(120)]
interpreters = pytest.mark.parametrize("interpreter", INTERPRETERS)


def run(*words: str, path: Path = HERE, **options: str) -> str:
    """Run a program in Lua, check that it succeeds, and return what it prints."""
    needs(words[0])
    own = {"PATH": "/usr/local/bin:/usr/bin:/bin", **options}
    own["LUA_PATH"] = f"{path}/?.lua;{path}/?/init.lua;;"
    done = subprocess.run(
        words, cwd=HERE, env=own, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@interpreters
def test_units(interpreter: str) -> None:
    assert ", 0 failed" in run(interpreter, "tests/unit.lua")


@interpreters
@pytest.mark.parametrize(
    "words", [[], ["http://127.0.0.1:1"], ["http://127.0.0.1:1", "x", "u"]]
)
def test_an_example_prints_its_usage(interpreter: str, words: list[str]) -> None:
    needs(interpreter)
    command = [interpreter, "examples/sokoban.lua", *words]
    path = {"LUA_PATH": f"{HERE}/?.lua;{HERE}/?/init.lua;;"}
    done = subprocess.run(
        command,
        cwd=HERE,
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("usage: lua sokoban.lua URL LEVEL MOVES")


@pytest.mark.live
@interpreters
def test_against_a_server(interpreter: str, server: Server) -> None:
    assert ", 0 failed" in run(interpreter, "tests/live.lua", server.url)


@pytest.mark.live
@interpreters
def test_mistakes(interpreter: str, server: Server) -> None:
    assert ", 0 failed" in run(interpreter, "tests/wrong_use.lua", server.url)


@pytest.mark.live
@pytest.mark.slow
@interpreters
def test_examples(interpreter: str, server: Server) -> None:
    printed = run(interpreter, "examples/random_agent.lua", server.url)
    assert printed.count("return") == 3
    learnt = run(interpreter, "examples/frozen_lake.lua", server.url)
    assert float(learnt.split()[5]) >= 0.7


@pytest.mark.live
@pytest.mark.parametrize("interpreter", ["lua5.1", "lua5.4"])
def test_programs_of_the_readme(
    interpreter: str, server: Server, tmp_path: Path
) -> None:
    blocks = BLOCK.findall((HERE / "README.md").read_text(encoding="utf-8"))
    assert len(blocks) == 9
    assert blocks[0].count("\n") <= 10
    program = tmp_path / "program.lua"
    for block in blocks:
        # Without an address, the client uses its default.
        text = f'require("gym_http_client").DEFAULT_URL = "{server.url}"\n{block}'
        program.write_text(text.replace("http://127.0.0.1:5000", server.url))
        run(interpreter, str(program))


@pytest.mark.live
def test_a_token_is_found(make_server: Callable[..., Server], tmp_path: Path) -> None:
    token = "a-token-of-many-letters"
    guarded = make_server("--token", token)
    program = tmp_path / "program.lua"
    program.write_text(
        'local gym = require("gym_http_client")\n'
        "local env, failed = gym.make('CartPole-v1', {url = arg[1], token = arg[2]})\n"
        "if failed then print(failed) else env:reset() env:step(0) "
        "print(env:transport()) env:close() end"
    )
    url = guarded.url
    output = run("lua5.4", str(program), url)
    assert "401, unauthorized" in output
    assert run("lua5.4", str(program), url, token) == "stream\n"
    assert run("lua5.4", str(program), url, GHS_TOKEN=token) == "stream\n"
    within = url.replace("//", f"//:{token}@")
    assert run("lua5.4", str(program), within) == "stream\n"
    assert token not in run("lua5.4", str(program), within, "another")


def test_style() -> None:
    needs("luacheck")
    subprocess.run(["luacheck", "-q", "."], cwd=HERE, check=True)


@pytest.mark.live
def test_package(tmp_path: Path, server: Server) -> None:
    """It is installed outside the repository, made in place or packed, and plays."""
    needs("luarocks", "lua5.1")
    source = tmp_path / "source"
    shutil.copytree(HERE, source)
    (rockspec,) = source.glob("*.rockspec")
    luarocks(source, "lint", rockspec.name)
    readme = (source / "README.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"^    luarocks (.+ --deps-mode none.*|install .+)$", readme, re.M
    )
    make, pack, install = map(str.split, lines)
    trees = [tmp_path / "made", tmp_path / "unpacked"]
    luarocks(source, "--tree", trees[0], *make)
    luarocks(source, *pack)
    (rock,) = source.glob("*.rock")
    shutil.move(rock, tmp_path)
    luarocks(tmp_path, "--tree", trees[1], *install)
    for tree in trees:
        # What is installed is what there is, and runs from there, without luarocks.
        (installed,) = tree.glob("share/lua/*/gym_http_client")
        names = {str(each.relative_to(installed)) for each in installed.rglob("*.lua")}
        folder = HERE / "gym_http_client"
        there = {str(each.relative_to(folder)) for each in folder.rglob("*.lua")}
        assert names == there
        text = "print(require('gym_http_client')._VERSION)"
        version = run("lua5.1", "-e", text, path=installed.parent).strip()
        assert rockspec.name == f"gym_http_client-{version}-1.rockspec"
        (example,) = tree.glob("lib/luarocks/*/*/*/examples/random_agent.lua")
        played = run("lua5.1", str(example), server.url, path=installed.parent)
        assert played.count("return") == 3


def luarocks(folder: Path, *words: str | Path) -> None:
    """Run LuaRocks in a folder, and check that it succeeds."""
    done = subprocess.run(
        ["luarocks", *words], cwd=folder, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
