"""Clients in other languages send arrays as arguments, small and large."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gym_http_client import RemoteEnv
from tests.support import cpp_programs
from tests.support.drivers import CLIENTS, needs
from tests.support.identity import assert_identical
from tests.support.server import Server

ENV_ID = "keyword/Arguments-v0"
#: Beyond the size that is passed to hosts in a frame, and below it.
SIZES = [100_000, 3]

JS = """
import { make, scalar } from "CLIENT";
const [url, size] = process.argv.slice(1);
const map = Float32Array.from({ length: Number(size) }, (_, index) => index / 2);
const kwargs = { map, count: 3, pair: { a: [1, "b", null] }, one: scalar(5, "int8") };
const env = await make("keyword/Arguments-v0", { url, kwargs, label: "js", seed: 3 });
console.log(env.instanceId);
"""
LUA = """
local gym = require("gym_http_client")
local url, size = ...
local items = {}
for index = 1, tonumber(size) do items[index] = (index - 1) / 2 end
local env = gym.assert(gym.make("keyword/Arguments-v0", {
  url = url, label = "lua", seed = 3,
  kwargs = {
    count = 3, map = gym.array("float32", items), one = gym.scalar("int8", 5),
    pair = { a = { 1, "b", gym.null } },
  },
}))
print(env.instance_id)
"""
CPP = """
#include <gym_http_client.hpp>
#include <iostream>
int main(int, char** argv) {
    std::vector<float> items(std::stoul(argv[2]));
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<float>(i) / 2;
    gym_http::EnvOptions options;
    options.kwargs = {{"count", 3}, {"pair", {{"a", {1, "b", nullptr}}}}};
    options.exact_kwargs = {{"map", gym_http::Value::array(items)},
                            {"one", gym_http::Value::scalar<std::int8_t>(5)}};
    options.label = "cpp";
    options.seed = 3;
    gym_http::Env env(argv[1], "keyword/Arguments-v0", options);
    std::cout << env.release() << std::endl;
}
"""
pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def keeping() -> Iterator[Server]:
    with Server("--import", "tests.support.envs.keyword_arguments") as started:
        yield started


@pytest.fixture(scope="module")
def in_cpp(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    needs("clang++")
    source = tmp_path_factory.mktemp("exact") / "exact.cpp"
    source.write_text(CPP, encoding="utf-8")
    program = source.with_suffix("")
    cpp_programs.build(source, program)
    return [str(program)]


@pytest.fixture
def in_js() -> list[str]:
    needs("node")
    program = JS.replace("CLIENT", str(CLIENTS / "js" / "src" / "index.js"))
    return ["node", "--input-type=module", "--eval", program]


@pytest.fixture(params=["lua5.1", "lua5.4", "luajit"])
def in_lua(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    needs(request.param)
    (tmp_path / "exact.lua").write_text(LUA, encoding="utf-8")
    return [request.param, str(tmp_path / "exact.lua")]


def check(server: Server, words: list[str], size: int) -> None:
    """Run a program, and check the arguments that its environment has received."""
    lua = f"{CLIENTS}/lua/?.lua;{CLIENTS}/lua/?/init.lua;;"
    done = subprocess.run(
        [*words, server.url, str(size)],
        env=os.environ | {"LUA_PATH": lua},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with contextlib.closing(RemoteEnv.attach(server.url, done.stdout.strip())) as env:
        kept = env.kept
        assert_identical(kept.pop("map"), np.arange(size, dtype=np.float32) / 2)
        expected = {
            "size": (2, 3),
            "count": 3,
            "one": np.int8(5),
            "pair": {"a": [1, "b", None]},
        }
        assert_identical(dict(sorted(kept.items())), dict(sorted(expected.items())))


@pytest.mark.parametrize("size", SIZES)
def test_javascript(keeping: Server, in_js: list[str], size: int) -> None:
    check(keeping, in_js, size)


@pytest.mark.parametrize("size", SIZES)
def test_lua(keeping: Server, in_lua: list[str], size: int) -> None:
    check(keeping, in_lua, size)


@pytest.mark.parametrize("size", SIZES)
def test_cpp(keeping: Server, in_cpp: list[str], size: int) -> None:
    check(keeping, in_cpp, size)
