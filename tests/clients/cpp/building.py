"""Builds projects for tests of the C++ client, which use the installed client."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.support.drivers import CLIENTS

HERE = CLIENTS / "cpp"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
URL = "http://127.0.0.1:5000"

_BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CMAKE = re.compile(r"^```cmake\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PKG_CONFIG = re.compile(r"^g\+\+ (.*\$\(pkg-config.*\))$", re.MULTILINE)
ADDRESS = "<address of the release>"
#: It includes and links what the client needs, and compiles in seconds.
AGENT = """
#include <boost/beast/core/flat_buffer.hpp>
#include <gym_http_client/curl.hpp>
int main() { return gym_http::detail::new_easy() ? 0 : 1; }
"""

# A project in another folder, as a user of the client writes it.
_PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(agent CXX)
add_executable(agent agent.cpp)
"""
_REST = """
cmake_minimum_required(VERSION 3.16)
project(rest CXX)
find_package(gym_http_client 0.1 REQUIRED)
add_executable(first first.cpp)
target_link_libraries(first gym_http_client::gym_http_client)
"""
_STREAM = """
cmake_minimum_required(VERSION 3.16)
project(stream CXX)
find_package(gym_http_client REQUIRED COMPONENTS stream)
foreach(name random_agent frozen_lake)
  add_executable(${name} ${examples}/${name}.cpp)
  target_link_libraries(${name} gym_http_client::stream)
endforeach()
add_executable(native ${native} readme.cpp)
target_link_libraries(native gym_http_client::stream)
"""


def run(*words: str | Path, timeout: float = 280.0) -> str:
    """Run a command, check that it succeeds, and return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, (
        f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    )
    return done.stdout


def programs() -> list[str]:
    """Return the programs of the README, the first one first."""
    return _BLOCK.findall((HERE / "README.md").read_text(encoding="utf-8"))


def ways() -> dict[str, str]:
    """Return the README's lines for CMake, by the command that they begin with."""
    blocks = _CMAKE.findall((HERE / "README.md").read_text(encoding="utf-8"))
    return {block.partition("(")[0]: block for block in blocks}


def pkg_config_flags() -> str:
    """Return the README's arguments of ``g++`` with pkg-config."""
    (flags,) = _PKG_CONFIG.findall((HERE / "README.md").read_text(encoding="utf-8"))
    return str(flags)


def copied(folder: Path) -> Path:
    """Copy the client's sources into a folder that is not in the repository."""
    for name in ("cmake", "include"):
        shutil.copytree(HERE / name, folder / name)
    shutil.copy(HERE / "CMakeLists.txt", folder)
    return folder


def project(folder: Path, lines: str, *flags: str, program: str = AGENT) -> Path:
    """Build a project with these lines, with Clang, and return its program."""
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(_PROJECT + lines, encoding="utf-8")
    (folder / "agent.cpp").write_text(program, encoding="utf-8")
    build = folder / "build"
    compiler = "-DCMAKE_CXX_COMPILER=clang++"
    run("cmake", "-S", folder, "-B", build, compiler, *flags)
    run("cmake", "--build", build)
    return build / "agent"


def install(folder: Path) -> Path:
    """Install a copy of the client below a folder, and return where."""
    prefix = folder / "prefix"
    copy = copied(folder / "copy")
    run("cmake", "-S", copy, "-B", folder / "package")
    run("cmake", "--install", folder / "package", "--prefix", prefix)
    return prefix


def build_first_program(prefix: Path, folder: Path, url: str) -> Path:
    """Build the README's first program for a server, without Boost."""
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(_REST, encoding="utf-8")
    first = programs()[0].replace(URL, url)
    (folder / "first.cpp").write_text(first, encoding="utf-8")
    _build(prefix, folder, "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON")
    return folder / "build" / "first"


def build_all(prefix: Path, folder: Path, url: str) -> Path:
    """Build the examples and the tests in C++ with Clang, and return where they are.

    Clang is faster; the driver and the first program are built with GCC. One of the
    tests runs the other programs of the README, for a server. They are another
    translation unit that includes everything.
    """
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(_STREAM, encoding="utf-8")
    (folder / "readme.cpp").write_text(_one_of(programs()[1:], url), encoding="utf-8")
    _build(
        prefix,
        folder,
        f"-Dexamples={HERE / 'examples'}",
        f"-Dnative={HERE / 'tests' / 'native.cpp'}",
        "-DCMAKE_CXX_COMPILER=clang++",
        warnings=(*STRICT, "-Wshadow"),
    )
    return folder / "build"


def _build(
    prefix: Path, folder: Path, *flags: str, warnings: tuple[str, ...] = STRICT
) -> None:
    build = folder / "build"
    strict = f"-DCMAKE_CXX_FLAGS={' '.join(warnings)}"
    where = f"-DCMAKE_PREFIX_PATH={prefix}"
    run("cmake", "-S", folder, "-B", build, where, strict, *flags)
    run("cmake", "--build", build, "--parallel", "2")


def _one_of(programs: list[str], url: str) -> str:
    """Make one program of several: a function of each, and one that calls all."""
    names = [f"program_{number}" for number in range(len(programs))]
    parts = [
        program.replace("int main()", f"static void {name}()").replace(URL, url)
        for name, program in zip(names, programs, strict=True)
    ]
    calls = "".join(f"    {name}();\n" for name in names)
    return "\n".join([*parts, f"void run_readme();\nvoid run_readme() {{\n{calls}}}\n"])
