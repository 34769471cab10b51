"""The vectors are where the installed package looks for them."""

import json
import tomllib
from pathlib import Path

import gym_http_server
from gym_http_server.validation.vectors import cases

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "conformance" / "vectors"
PACKAGE = Path(gym_http_server.__file__).parent


def test_the_cases_of_the_package_are_the_vectors() -> None:
    folder = PACKAGE / "validation" / "cases"
    assert folder.resolve() == VECTORS
    assert cases("values") == json.loads((VECTORS / "values.json").read_text())["cases"]


def test_they_are_packed_along() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["gym_http_server"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    assert {path.name for path in VECTORS.glob("*.json")} <= {p.name for p in packed}


def test_the_image_is_built_with_them() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    folder = "tests/conformance/vectors"
    assert f"COPY {folder} ./{folder}" in dockerfile
    assert f"!{folder}" in (ROOT / ".dockerignore").read_text().split()
