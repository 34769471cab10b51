"""The version is the same in every file that contains it."""

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import gym_http_server

ROOT = Path(__file__).parents[2]
VERSION = gym_http_server.__version__


def project(path: str) -> dict[str, Any]:
    """Return the project table of a pyproject.toml."""
    return dict(tomllib.loads((ROOT / path).read_text())["project"])


def test_server_and_client_have_one_version() -> None:
    assert project("clients/python/pyproject.toml")["version"] == VERSION


def test_the_server_requires_the_client_of_its_version() -> None:
    requests = [
        requirement
        for requirement in project("pyproject.toml")["dependencies"]
        if requirement.startswith("gymnasium-http-client")
    ]
    assert requests == [f"gymnasium-http-client=={VERSION}"]


def test_the_installed_packages_have_that_version() -> None:
    assert metadata.version("gymnasium-http-server") == VERSION
    assert metadata.version("gymnasium-http-client") == VERSION


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    first = rf"\[{re.escape(VERSION)}\] - (Unreleased|\d{{4}}-\d\d-\d\d)"
    assert re.fullmatch(first, headings[0])


def test_the_changelog_uses_the_fixed_headings() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    headings = set(re.findall(r"^### (.+)$", changelog, re.MULTILINE))
    assert headings <= {
        "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security",
    }  # fmt: skip
