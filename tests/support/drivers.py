"""Builds and calls the drivers: one program per client, with the same command line.

The README of the vectors describes that command line.
"""

import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.server import ROOT

VECTORS = ROOT / "tests" / "conformance" / "vectors"
CLIENTS = ROOT / "clients"
_LUA_PATH = f"{CLIENTS}/lua/?.lua;{CLIENTS}/lua/?/init.lua;;"


@dataclass(frozen=True)
class Driver:
    """A client's driver, before it is built.

    Attributes:
        name: Its name in tests.
        tools: Programs that are needed to build or run it.
        build: Builds it in a folder, and returns the words that start it.
        variables: The environment variables that it needs.
    """

    name: str
    tools: tuple[str, ...]
    build: Callable[[Path], list[str]]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A driver that can be started."""

    words: tuple[str, ...]
    variables: Mapping[str, str]

    def start(self, *args: str, token: str | None = None) -> subprocess.Popen[str]:
        """Start it and return at once."""
        return subprocess.Popen(
            [*self.words, *args],
            cwd=ROOT,
            env=self._environment(token),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *args: str, timeout: float = 50.0, token: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end.

        Args:
            args: Words of its command line.
            timeout: Seconds after which it is killed, and the test fails.
            token: The value of ``GHS_TOKEN``.
        """
        with self.start(*args, token=token) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                raise AssertionError(
                    f"{shlex.join([*self.words, *args])} still ran after {timeout} s\n"
                    f"--- stdout\n{out[-4000:]}\n--- stderr\n{err[-4000:]}"
                ) from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def output(self, *args: str, timeout: float = 50.0) -> str:
        """Run it, check that it succeeds, and return what it printed."""
        done = self.run(*args, timeout=timeout)
        shown = f"{shlex.join(done.args)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        assert done.returncode == 0, shown
        return done.stdout

    def _environment(self, token: str | None) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
        if token is not None:
            own["GHS_TOKEN"] = token
        return {**own, **self.variables}


def _python(_folder: Path) -> list[str]:
    return [sys.executable, str(ROOT / "tests/clients/python/driver.py")]


def _lua(interpreter: str) -> Driver:
    words = [interpreter, str(CLIENTS / "lua/tests/driver.lua")]
    return Driver(interpreter, (interpreter,), lambda _: words, {"LUA_PATH": _LUA_PATH})


def _cpp(folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "driver").exists():
        return [str(folder / "driver")]
    return build_cpp(folder, "-O0", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def build_cpp(folder: Path, *flags: str, compiler: str = "g++") -> list[str]:
    """Build the C++ client's driver, which takes a minute, and return its words."""
    program = str(folder / "driver")
    subprocess.run(
        [
            *(compiler, "-std=c++17", *flags, "-pthread"),
            *("-I", str(CLIENTS / "cpp/include")),
            *(str(CLIENTS / "cpp/tests/driver.cpp"), "-o", program, "-lcurl"),
        ],
        check=True,
        timeout=300,
    )
    return [program]


def _js(_folder: Path) -> list[str]:
    return ["node", str(CLIENTS / "js/tests/driver.mjs")]


DRIVERS = {
    driver.name: driver
    for driver in (
        Driver(
            "python",
            (),
            _python,
            {"PYTHONPATH": os.pathsep.join([str(ROOT), str(CLIENTS / "python")])},
        ),
        *(_lua(name) for name in ("lua5.1", "lua5.3", "lua5.4", "luajit")),
        Driver("cpp", ("g++",), _cpp),
        Driver("js", ("node",), _js),
    )
}


_LUA_MODULES = "require 'socket' require 'dkjson'"
_HEADERS = """
#if !__has_include(<curl/curl.h>) || !__has_include(<nlohmann/json.hpp>)
#error "libcurl4-openssl-dev or nlohmann-json3-dev is missing"
#elif !__has_include(<boost/beast.hpp>)
#error "libboost-dev is missing"
#endif
"""
#: What fails if a tool is there without the libraries of its language that clients
#: need; each with its input.
_CHECKS = {
    **{
        lua: ([lua, "-e", _LUA_MODULES], "")
        for lua in ("lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit")
    },
    **{
        compiler: (
            [compiler, "-std=c++17", "-fsyntax-only", "-x", "c++", "-"],
            _HEADERS,
        )
        for compiler in ("g++", "clang++")
    },
}


@functools.cache
def missing(tool: str) -> str:
    """Return what is missing of a tool, or nothing if it works."""
    if shutil.which(tool) is None:
        return f"{tool} is not installed"
    command, given = _CHECKS.get(tool, ([], ""))
    if not command:
        return ""
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    return f"{tool} does not work here: {done.stderr}" if done.returncode else ""


def needs(*tools: str) -> None:
    """Skip the test that is running, by name, if a tool is missing; fail with CI."""
    # Here, since benchmarks use the drivers without any tests.
    import pytest

    for tool in tools:
        if words := missing(tool):
            assert not os.environ.get("CI"), words
            pytest.skip(words)


def prepare(name: str, folder: Path) -> Program:
    """Build a driver in its folder unless it exists; skip if its tools are missing."""
    driver = DRIVERS[name]
    needs(*driver.tools)
    return Program(tuple(driver.build(folder)), driver.variables)
