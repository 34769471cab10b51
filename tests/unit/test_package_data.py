"""The packages contain all data that they need at run time, such as the vectors."""

import json
import os
import tomllib
from pathlib import Path

import pytest

import gym_http_server
from gym_http_server.validation.vectors import cases

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "conformance" / "vectors"
PACKAGE = Path(gym_http_server.__file__).parent
CLIENT = ROOT / "clients" / "python"
#: Generated in the package's folder, or read by editors only.
LEFT_OUT = (".py", ".pyc", ".d.ts")


def files(folder: Path) -> set[Path]:
    """Return the files below a folder, as a wheel has them: links followed."""
    walk = os.walk(folder, followlinks=True)
    return {Path(where) / name for where, _, names in walk for name in names}


def test_the_cases_of_the_package_are_the_vectors() -> None:
    folder = PACKAGE / "validation" / "cases"
    assert folder.resolve() == VECTORS
    assert cases("values") == json.loads((VECTORS / "values.json").read_text())["cases"]


@pytest.mark.parametrize(
    ("project", "name"),
    [
        (ROOT, "gym_http_server"),
        (CLIENT, "gym_http_client"),
        (CLIENT, "gym_http_core"),
        (CLIENT, "gym_http_wire"),
    ],
)
def test_all_that_is_no_python_is_packed_along(project: Path, name: str) -> None:
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"][name]
    found = {path for each in patterns for path in (project / name).glob(each)}
    # Folders that a pattern finds are left out of the package.
    packed = {path for path in found if path.is_file()}
    there = {p for p in files(project / name) if not p.name.endswith(LEFT_OUT)}
    assert project / name / "py.typed" in there
    assert packed == there


def test_the_client_has_the_licence_along() -> None:
    settings = tomllib.loads((CLIENT / "pyproject.toml").read_text())
    assert settings["project"]["license-files"] == ["LICENSE"]
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_vectors_are_packed_along() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["gym_http_server"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    assert {path.name for path in VECTORS.glob("*.json")} <= {p.name for p in packed}


def test_the_image_is_built_with_them() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    folder = "tests/conformance/vectors"
    assert f"COPY {folder} ./{folder}" in dockerfile
    assert f"!{folder}" in (ROOT / ".dockerignore").read_text().split()
