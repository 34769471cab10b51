"""The C++ client as users have it: installed, linked, with warnings, sanitized."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import pytest

from tests.clients.cpp import building
from tests.clients.cpp.closing_proxy import ClosingProxy
from tests.support import cpp_programs, made_packages
from tests.support.api import Api
from tests.support.drivers import VECTORS, Program, build_cpp, needs
from tests.support.peers.external_env import ExternalEnv
from tests.support.server import Server

#: Stands for what CMake would download: a project with the target of the library.
JSON = """
add_library(nlohmann_json INTERFACE)
add_library(nlohmann_json::nlohmann_json ALIAS nlohmann_json)
target_compile_definitions(nlohmann_json INTERFACE FETCHED)
"""

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A server whose address is built into programs, and whose broker runs."""
    with Server() as server:
        ExternalEnv.to(Api(server)).drop()
        yield server


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("g++", "cmake")
    return building.install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, own_server: Server) -> Path:
    """The folder with all programs that use the client with streams."""
    needs("clang++")
    folder = tmp_path_factory.mktemp("using")
    building.build_all(folder, own_server.url)
    return folder


@pytest.mark.live
@pytest.mark.slow
def test_the_first_program_needs_ten_lines(built: Path) -> None:
    assert len(building.programs()[0].splitlines()) <= 10
    rewards = building.run(built / "first").split()
    assert len(rewards) > 5
    assert set(rewards) == {"1"}


@pytest.mark.slow
@pytest.mark.parametrize("header", cpp_programs.HEADERS)
def test_several_translation_units_may_include_a_header(header: str) -> None:
    """All that it defines for others is inline, so that they can be linked."""
    needs("clang++")
    shown = building.run("nm", "-C", "--defined-only", cpp_programs.functions(header))
    symbols = [line.split(maxsplit=2) for line in shown.splitlines()]
    assert len(symbols) > 1000
    # Capital letters are symbols for others. Of weak ones, the linker chooses one.
    strong = [name for _, kind, name in symbols if kind.isupper() and kind not in "WV"]
    assert not strong


@pytest.mark.slow
def test_all_headers_are_installed(prefix: Path) -> None:
    def headers(folder: Path) -> dict[str, bytes]:
        files = folder.glob("include/**/*.hpp")
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}

    assert len(headers(building.HERE)) > 50
    assert headers(prefix) == headers(building.HERE)


@pytest.mark.slow
def test_a_project_without_streams_needs_no_boost(prefix: Path, tmp_path: Path) -> None:
    needs("clang++")
    flags = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON"]
    program = building.AGENT.replace("#include <boost/version.hpp>\n", "")
    made = building.project(tmp_path, building.REST, *flags, program=program)
    building.run(made)


@pytest.mark.slow
def test_a_project_includes_it_in_each_way_of_the_readme(
    prefix: Path, tmp_path: Path
) -> None:
    """By CMake from the archive of a release, from a folder, and installed."""
    needs("clang++")
    (archive,) = made_packages.make(tmp_path / "dist", "cpp")
    building.copied(tmp_path / "add_subdirectory" / "gym_http_client")
    ways = building.ways()
    assert sorted(ways) == ["add_subdirectory", "find_package", "include"]
    for way, lines in ways.items():
        lines = lines.replace(building.ADDRESS, archive.parent.as_uri())
        flags = [f"-DCMAKE_PREFIX_PATH={prefix}"] if way == "find_package" else []
        building.run(building.project(tmp_path / way, lines, *flags))


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True], ids=["installed", "missing"])
def test_a_missing_json_library_is_fetched(tmp_path: Path, missing: bool) -> None:
    """Only if it is missing: an installed one is preferred."""
    needs("clang++", "cmake")
    fetched = tmp_path / "json"
    fetched.mkdir()
    (fetched / "CMakeLists.txt").write_text(JSON)
    building.copied(tmp_path / "agent" / "gym_http_client")
    flags = [
        f"-DFETCHCONTENT_SOURCE_DIR_NLOHMANN_JSON={fetched}",
        f"-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json={'ON' if missing else 'OFF'}",
    ]
    check = f"#if {'!' if missing else ''}defined(FETCHED)\n#error json\n#endif\n"
    lines = building.ways()["add_subdirectory"]
    program = check + building.AGENT
    building.run(building.project(tmp_path / "agent", lines, *flags, program=program))


@pytest.mark.slow
def test_pkg_config_finds_it(prefix: Path, tmp_path: Path) -> None:
    needs("pkg-config")
    # A prefix that was moved as a whole is one, too.
    moved = shutil.copytree(prefix, tmp_path / "moved")
    (tmp_path / "agent.cpp").write_text(building.AGENT, encoding="utf-8")
    variables = f"PKG_CONFIG_PATH={moved}/share/pkgconfig"
    line = f"cd {tmp_path} && g++ {building.pkg_config_flags()} && ./agent"
    building.run("env", variables, "bash", "-e", "-c", line)


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "agents",
        "threads",
        "warnings",
        "owners",
        "views",
        "containers",
        "vectors",
        "operations",
        "texts",
        "conversations",
        "attached",
        "clocks",
        "requests",
    ],
)
def test_native(built: Path, own_server: Server, command: str) -> None:
    assert building.run(built / "native", command, own_server.url) == "0 failed\n"


@pytest.mark.live
@pytest.mark.slow
def test_the_other_programs_of_the_readme(built: Path) -> None:
    """They are in a translation unit of their own, and linked with another one."""
    lines = building.run(built / "native", "readme").splitlines()
    assert lines[:3] == ["from 0", "to 1, 0", "3 steps, last at 18"]
    assert "CartPole-v1 is still there" in lines
    assert any(line.startswith("Discrete(2) array([0.0273956") for line in lines)
    assert "720000 bytes" in lines
    assert "0.0273956" in lines
    assert "-2 to 2" in lines
    assert "10" in lines
    assert "the end is worth 1" in lines
    assert "the game is at 502" in lines


@pytest.mark.live
@pytest.mark.slow
def test_examples(built: Path, own_server: Server) -> None:
    played = building.run(built / "random_agent", own_server.url, "CartPole-v1", "3")
    assert played.startswith("return ")
    assert played == building.run(
        built / "random_agent", own_server.url, "CartPole-v1", "3"
    )
    # It exits with 1 when it has not learnt enough.
    learnt = building.run(built / "frozen_lake", own_server.url, timeout=120.0)
    assert "reached the goal" in learnt


@pytest.mark.live
@pytest.mark.slow
def test_clang_and_its_sanitizers_find_nothing(tmp_path: Path, server: Server) -> None:
    """All vectors, and episodes, under AddressSanitizer and UBSan."""
    needs("clang++")
    flags = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    words = build_cpp(tmp_path, *flags, *cpp_programs.STRICT, compiler="clang++")
    program = Program(tuple(words), {})
    done = program.run("conformance", str(VECTORS), server.url, timeout=200.0)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert not done.stderr
    assert program.output("converse", str(VECTORS))
    for transport in ("rest", "stream"):
        assert program.output("probe", server.url, transport) == "ok\n"


@pytest.mark.live
def test_steps_that_libcurl_sends_again_are_taken_once(
    driver: Callable[[str], Program], server: Server, tmp_path: Path
) -> None:
    actions = [step % 2 for step in range(100)]
    file = tmp_path / "actions"
    file.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    with ClosingProxy(server.port) as proxy:
        args = ("agree", proxy.url, "CartPole-v1", "42", "rest", str(file))
        printed = driver("cpp").output(*args)
    assert printed.splitlines() == list(_expected(actions))
    forgotten = [step for step in proxy.steps if not step.answered]
    assert len(forgotten) > 40
    for step in forgotten:
        again = [each for each in proxy.steps if each.key == step.key]
        assert len(again) == 2
        assert len({each.body for each in again}) == 1
        assert again[1].connection > again[0].connection


def _expected(actions: list[int]) -> Iterator[str]:
    """Yield the expected lines of a driver, computed with Gymnasium."""
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=42)
    yield f"reset {observation.tobytes().hex()}"
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        assert reward == 1.0
        yield (
            f"{observation.tobytes().hex()} 000000000000f03f "
            f"{int(terminated)} {int(truncated)}"
        )
        if terminated or truncated:
            observation, _ = env.reset()
            yield f"reset {observation.tobytes().hex()}"
    env.close()
