"""The container's parts that can be checked without building it."""

import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gym_http_server import healthcheck

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, each as its name and its arguments."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    code = "\n".join(line for line in lines if not line.startswith("#"))
    joined = code.replace("\\\n", " ").splitlines()
    pairs = [line.split(maxsplit=1) for line in joined if line.strip()]
    return [(name, " ".join(arguments.split())) for name, arguments in pairs]


def last(name: str) -> str:
    """Return the arguments of the last instruction of that name: the one in force."""
    return [arguments for each, arguments in instructions() if each == name][-1]


def sources() -> list[str]:
    """Return the paths that the image takes from the repository."""
    copies = [a.split() for name, a in instructions() if name == "COPY"]
    return [path for words in copies if "--from" not in words[0] for path in words[:-1]]


def test_the_linter_reports_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    command = str(hadolint) if hadolint.exists() else shutil.which("hadolint")
    if command is None:
        assert not os.environ.get("CI"), "hadolint is missing"
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [command, "--no-color", str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_copied_files_exist() -> None:
    assert sources()
    missing = [path for path in sources() if not (ROOT / path).exists()]
    assert not missing


def test_copied_files_are_not_ignored() -> None:
    lines = (ROOT / ".dockerignore").read_text().split()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert lines[0] == "*"
    for path in sources():
        assert any(path == k or k.startswith(f"{path}/") for k in kept), path
    assert all((ROOT / path).exists() for path in kept)


def test_targets_of_links_are_copied() -> None:
    paths = [path for source in sources() for path in (ROOT / source).rglob("*")]
    links = [path for path in paths if path.is_symlink()]
    assert ROOT / "gym_http_server/web/api/javascript" in links
    for link in links:
        target = link.resolve().relative_to(ROOT)
        kept = [path for path in sources() if target.is_relative_to(path)]
        assert kept, f"{link} leads to {target}, which is not copied"
        for path in kept:
            assert ("COPY", f"{path} ./{path}") in instructions()


def test_programs_of_each_option_are_installed() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pinned = {canonicalize_name(Requirement(line).name) for line in lines if line}
    for folder in (ROOT, ROOT / "clients" / "python"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        options = project["optional-dependencies"]
        # PyTorch, Ray and EnvPool are too large for the image, and no environment needs
        # plots. Workers, trainers and exports of training runs are programs beside the
        # server.
        without = {"envpool", "minari", "plot", "safetensors", "sb3", "tensorboard"}
        # Worlds of several agents bring packages of their own.
        without |= {"pettingzoo", "ray", "zstd"}
        wanted = [w for name, ws in options.items() if name not in without for w in ws]
        names = {canonicalize_name(Requirement(each).name) for each in wanted}
        assert names
        assert names <= pinned


def test_secret_and_large_files_are_ignored() -> None:
    lines = (ROOT / ".dockerignore").read_text().split()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    for path in (".git", ".venv", "tests", "data", ".env"):
        assert not any(fnmatch.fnmatch(path, pattern) for pattern in kept)


def test_it_runs_as_an_unprivileged_user() -> None:
    user, group = last("USER").split(":")
    assert int(user) > 0
    assert int(group) > 0


def test_tini_starts_the_server_without_a_shell() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["/usr/bin/tini", "--", "gym-http-server"]
    assert json.loads(last("CMD")) == ["serve"]
    assert last("STOPSIGNAL") == "SIGTERM"


def test_the_healthcheck_is_the_one_that_is_shipped() -> None:
    command = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    assert command[1:] == ["-P", "-m", healthcheck.__name__]


def test_the_server_and_its_healthcheck_agree_on_the_port() -> None:
    settings = dict(pair.split("=", 1) for pair in last("ENV").split())
    assert int(settings["GHS_PORT"]) == healthcheck.DEFAULT_PORT
    assert last("EXPOSE") == settings["GHS_PORT"]
