"""The two wheels, each installed into a separate virtual environment as users do it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support import made_packages
from tests.support.server import PYTHON, ROOT, Server

#: The oldest supported version, with other packages of that time.
OLD = ("gymnasium==1.2.2", "numpy==1.26.4")
#: Tests of the client whose environments are the same in old versions and in new ones,
#: by words that pytest finds in their names.
OLD_TESTS = {
    "test_remote_env.py": (
        "test_values_are_identical and (CartPole or FrozenLake or Blackjack)",
        "test_gymnasiums_checker_is_content",
        "test_the_generator",
        "test_attributes_go_through",
        "test_by_gymnasium_make",
    ),
    "test_remote_vector_env.py": (
        "test_values_are_those_of_a_local_sync_vector and (CartPole or FrozenLake)",
        "test_by_make_vec",
    ),
    "test_wrappers.py": (
        "test_it_is_the_same_as_locally and (StickyAction or TimeAware)",
    ),
}
STEPS = """
import sys
from gym_http_client import RemoteEnv, RemoteVectorEnv
with RemoteEnv(sys.argv[1], "CartPole-v1") as env:
    env.reset(seed=42)
    print(env.step(1)[0].tolist())
envs = RemoteVectorEnv(sys.argv[1], "CartPole-v1", num_envs=2)
print(envs.reset(seed=42)[0].shape)
envs.close()
"""

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(300)]


def run(*words: str | Path, **variables: str) -> str:
    """Run a command, check that it succeeds, and return what it prints."""
    own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**own, **variables},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, (
        f"{words}\n{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


def pip(*words: str | Path, python: Path | None = None) -> str:
    """Run pip, for this environment or another one, which need not have it."""
    where = ("--python", python) if python else ()
    return run(sys.executable, "-m", "pip", *where, *words)


def new_environment(folder: Path) -> Path:
    """Make an empty environment, and return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of server and client, by their names."""
    made = made_packages.make(tmp_path_factory.mktemp("dist"), "python")
    return {p.name.partition("-")[0]: p for p in made if p.suffix == ".whl"}


def copy_required(packages: Path) -> None:
    """Copy all that the packages in a folder require from this environment.

    It has the pinned versions, and they are compiled. Pip takes many times as long.
    """
    folder = str(packages)
    left = [Requirement(each.name) for each in metadata.distributions(path=[folder])]
    known = set(map(str, left))
    while left:
        asking = left.pop()
        found = metadata.distributions(name=asking.name, path=[folder])
        dist = next(iter(found), None)
        if dist is None:
            dist = metadata.distribution(asking.name)
            for name in {file.parts[0] for file in dist.files or ()} - {".."}:
                path = Path(str(dist.locate_file(name)))
                if path.is_dir():
                    shutil.copytree(path, packages / name, dirs_exist_ok=True)
                else:
                    shutil.copy2(path, packages / name)
        for each in map(Requirement, dist.requires or ()):
            extras = [{"extra": extra} for extra in ("", *asking.extras)]
            wanted = each.marker is None or any(map(each.marker.evaluate, extras))
            if wanted and str(each) not in known:
                known.add(str(each))
                left.append(each)


def test_without_extras_a_server_starts_and_steps(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    """The versions are the pinned ones; no version provides missing packages."""
    python = new_environment(tmp_path / "venv")
    pip("install", "-q", "--no-compile", "--no-deps", *wheels.values(), python=python)
    (packages,) = (tmp_path / "venv").glob("lib/*/site-packages")
    copy_required(packages)
    assert not list(packages.glob("mujoco*"))
    assert "No broken requirements" in pip("check", python=python)
    with Server(program=str(python.with_name("gym-http-server"))) as server:
        output = run(python, "-I", "-c", STEPS, server.url).splitlines()
    # By Gymnasium itself.
    first = [0.02727336, 0.18847767, 0.03625453, -0.26141977]
    assert [float(n) for n in re.findall(r"[-.\de]+", output[0])] == pytest.approx(
        first
    )
    assert output[1:] == ["(2, 4)"]


def test_the_client_works_with_an_older_gymnasium(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Beside a server that has a newer one: tests of the client, in another Python."""
    declared = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())
    needs = {r.name: r for r in map(Requirement, declared["project"]["dependencies"])}
    for each in map(Requirement, OLD):
        (version,) = each.specifier
        assert version.version in needs[each.name].specifier
    python = new_environment(tmp_path / "venv")
    client = wheels["gymnasium_http_client"]
    pip("install", "-q", "--no-compile", "--no-deps", *OLD, client, python=python)
    # The tests' own packages come after these.
    (packages,) = (tmp_path / "venv").glob("lib/*/site-packages")
    own = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "tests.pth").write_text(f"{own}\n")
    files = [ROOT / "tests/clients/python" / name for name in OLD_TESTS]
    words = [each for several in OLD_TESTS.values() for each in several]
    chosen = " or ".join(f"({each})" for each in words)
    flags = ("-q", "-p", "no:cacheprovider", "--override-ini=pythonpath=.")
    command = (python, "-m", "pytest", *flags, "-k", chosen, *files)
    output = run(*command, **{PYTHON: sys.executable})
    (count,) = re.findall(r"^(\d+) passed", output, re.MULTILINE)
    assert int(count) > len(words)
