"""The packages in ``dist``, each installed in an empty place: ``make release``.

Not part of ``make test``, whose tests play with what is in the working tree. Here
server and clients are what a stranger downloads, and the programs those with which the
READMEs begin.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.cpp import building
from tests.support.api import Api, ok
from tests.support.drivers import CLIENTS, needs
from tests.support.server import ROOT, Server

DIST = ROOT / "dist"
URL = "http://127.0.0.1:5000"
KINDS = {"wheels": "-py3-none-any.whl", "sdists": ".tar.gz"}

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def run(*words: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command outside the repository, without what ours would lend to it."""
    own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**own, **variables},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr}"
    return done.stdout


def made(pattern: str) -> Path:
    """Return the one file in ``dist`` with such a name."""
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"{pattern}: {found}. make release builds them"
    return found[0]


def installed(folder: Path, *packages: str) -> Path:
    """Install Python packages in an empty environment, and return its Python."""
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    flags = ("--quiet", "--disable-pip-version-check")
    files = [made(each) for each in packages]
    run(python, "-m", "pip", "install", *flags, *files, cwd=folder)
    return python


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that was installed from a wheel, and then one from an sdist."""
    folder = tmp_path_factory.mktemp("server")
    ending = KINDS[request.param]
    names = [f"gymnasium_http_{each}-*{ending}" for each in ("client", "server")]
    program = installed(folder, *names).with_name("gym-http-server")
    with Server(program=str(program)) as started:
        yield started


@pytest.fixture
def played(server: Server) -> Iterator[None]:
    """Check that the test has played CartPole on the server."""
    api = Api(server)
    before = set(ended(api))
    yield
    new = [each for key, each in ended(api).items() if key not in before]
    assert [each["env_id"] for each in new] == ["CartPole-v1"]
    assert new[0]["steps"] > 5


def ended(api: Api) -> dict[str, dict[str, object]]:
    """Return the instances that have ended, by their IDs."""
    found = ok(api.get("/v1/instances/?state=ended"))["ended"]
    return {each["instance_id"]: each for each in found}


def first_program(client: str, kind: str, server: Server) -> str:
    """Return the program with which a client's README begins, for this server."""
    readme = (CLIENTS / client / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^```{kind}\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert match
    return match[1].replace(URL, server.url)


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("ending", KINDS.values(), ids=KINDS)
def test_python(server: Server, tmp_path: Path, ending: str) -> None:
    python = installed(tmp_path, f"gymnasium_http_client-*{ending}")
    program = first_program("python", "python", server)
    run(python, "-I", "-c", program, cwd=tmp_path)


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("name", ["*.all.rock", "*.rockspec"])
def test_lua(server: Server, tmp_path: Path, name: str) -> None:
    needs("luarocks", "lua5.1")
    words = ("--tree", tmp_path / "tree", "install", "--deps-mode", "none")
    # A rockspec names the archive that lies beside it, which LuaRocks unpacks there.
    for file in DIST.glob("gym_http_client-*"):
        shutil.copy(file, tmp_path)
    run("luarocks", *words, made(f"gym_http_client-{name}").name, cwd=tmp_path)
    (folder,) = (tmp_path / "tree").glob("share/lua/*")
    (tmp_path / "program.lua").write_text(first_program("lua", "lua", server))
    path = f"{folder}/?.lua;{folder}/?/init.lua;;"
    run("lua5.1", "program.lua", cwd=tmp_path, LUA_PATH=path)


@pytest.mark.usefixtures("played")
def test_javascript(server: Server, tmp_path: Path) -> None:
    needs("node", "npm")
    flags = ("--offline", "--no-audit", "--no-fund")
    package = made("gym-http-client-*.tgz")
    run("npm", "install", *flags, package, cwd=tmp_path)
    (tmp_path / "program.mjs").write_text(first_program("js", "js", server))
    run("node", "program.mjs", cwd=tmp_path)


@pytest.mark.parametrize("way", ["found", "fetched"])
@pytest.mark.usefixtures("played")
def test_cpp(server: Server, tmp_path: Path, way: str) -> None:
    """Installed, and by FetchContent, which is how the README has it."""
    needs("g++", "cmake")
    archive = made("gym_http_client-cpp-*.tar.gz")
    lines = building.ways()
    if way == "found":
        shutil.unpack_archive(archive, tmp_path)
        (source,) = tmp_path.glob("gym_http_client-cpp-*")
        build, prefix = tmp_path / "package", tmp_path / "prefix"
        run("cmake", "-S", source, "-B", build, cwd=tmp_path)
        run("cmake", "--install", build, "--prefix", prefix, cwd=tmp_path)
        text, flags = lines["find_package"], [f"-DCMAKE_PREFIX_PATH={prefix}"]
    else:
        text, flags = lines["include"], []
        text = text.replace(building.ADDRESS, DIST.as_uri())
    program = first_program("cpp", "cpp", server)
    run(building.project(tmp_path / "agent", text, *flags, program=program), cwd=DIST)
