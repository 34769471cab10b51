"""The version is the same in every file that contains it."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import gym_http_server

ROOT = Path(__file__).parents[2]
VERSION = gym_http_server.__version__


def script(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``scripts/version`` in a tree."""
    return subprocess.run(
        [folder / "scripts" / "version", *words],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_all_packages_and_documents_have_the_servers_version() -> None:
    done = script(ROOT, "--check")
    assert done.returncode == 0, f"run scripts/version\n{done.stdout}{done.stderr}"


def test_the_script_writes_a_new_version(tmp_path: Path) -> None:
    listed = re.findall(r'^    "(.+)": r', (ROOT / "scripts/version").read_text(), re.M)
    found = [next(ROOT.glob(each)).relative_to(ROOT) for each in listed]
    for path in (*found, Path("scripts/version"), Path("gym_http_server/__init__.py")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    source = tmp_path / "gym_http_server" / "__init__.py"
    source.write_text(source.read_text().replace(VERSION, "7.8.9"))
    assert script(tmp_path, "--check").stdout.count("is not of version 7.8.9") > 8
    assert script(tmp_path).returncode == 0
    assert script(tmp_path, "--check").returncode == 0
    for path in found:
        new = tmp_path / path.with_name(path.name.replace(VERSION, "7.8.9"))
        assert new.read_text() == (ROOT / path).read_text().replace(VERSION, "7.8.9")


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
