"""Builds projects for tests of the C++ client, which use the installed client."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.support import cpp_programs
from tests.support.cpp_programs import STRICT
from tests.support.drivers import CLIENTS

HERE = CLIENTS / "cpp"
URL = "http://127.0.0.1:5000"

_BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CMAKE = re.compile(r"^```cmake\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PKG_CONFIG = re.compile(r"^g\+\+ (.*\$\(pkg-config.*\))$", re.MULTILINE)
ADDRESS = "<address of the release>"
#: It includes and links what the client needs, and compiles in a second.
AGENT = """
#include <boost/version.hpp>
#include <curl/curl.h>
#include <gym_http_client/span.hpp>
#include <nlohmann/json_fwd.hpp>
static_assert(__cplusplus >= 201703L);
int main() { return curl_easy_init() ? 0 : 1; }
"""

# A project in another folder, as a user of the client writes it.
_PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(agent CXX)
add_executable(agent agent.cpp)
"""
#: Of a project that wants no streams.
REST = """
find_package(gym_http_client 0.1 REQUIRED)
target_link_libraries(agent gym_http_client::gym_http_client)
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


def build_all(folder: Path, url: str) -> None:
    """Build the examples and the tests in C++ with Clang, in a folder.

    The driver is built with GCC. One of the tests runs the programs of the README after
    the first one, for a server. They are another translation unit that includes
    everything.
    """
    first, *others = programs()
    texts = {"first": first.replace(URL, url), "readme": _one_of(others, url)}
    for name, text in texts.items():
        (folder / f"{name}.cpp").write_text(text, encoding="utf-8")
    readme = folder / "readme.o"
    cpp_programs.build_object(folder / "readme.cpp", readme, *STRICT, "-Wshadow")
    examples = [HERE / "examples" / f"{n}.cpp" for n in ("random_agent", "frozen_lake")]
    for source in (folder / "first.cpp", *examples):
        cpp_programs.build(source, folder / source.stem, *STRICT, "-Wshadow")
    native = HERE / "tests" / "native.cpp"
    cpp_programs.build(native, folder / "native", *STRICT, "-Wshadow", readme)


def _one_of(programs: list[str], url: str) -> str:
    """Make one program of several: a function of each, and one that calls all."""
    names = [f"program_{number}" for number in range(len(programs))]
    parts = [
        program.replace("int main()", f"static void {name}()").replace(URL, url)
        for name, program in zip(names, programs, strict=True)
    ]
    calls = "".join(f"    {name}();\n" for name in names)
    return "\n".join([*parts, f"void run_readme();\nvoid run_readme() {{\n{calls}}}\n"])
