"""`scripts/toolchain` reports the missing tools that it may not install."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "toolchain"
# The programs that the script itself needs; no apt-get, and no tools.
BASICS = ("bash", "cat", "dirname", "env", "grep", "id", "mktemp", "rm")
TOOLS = {
    *("gcc", "libc6-dev"),
    *("curl", "jq", "openssl", "libegl1", "libopengl0", "libgl1-mesa-dri"),
    *("lua5.1", "lua5.3", "lua5.4", "luajit", "lua-socket", "lua-dkjson", "lua-sec"),
    *("lua-check", "lua-ldoc", "luarocks"),
    *("g++", "clang", "libclang-rt-dev", "libcurl4-openssl-dev"),
    *("nlohmann-json3-dev", "libboost-dev", "cmake", "doxygen", "git", "pkg-config"),
    *("nodejs", "npm", "chromium", "prometheus", "redis-server", "systemd"),
    "kubernetes-client",
}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Return the environment variables of a machine with few programs."""
    for name in BASICS:
        found = shutil.which(name)
        assert found, name
        (tmp_path / name).symlink_to(found)
    # What it has fetched is in a folder beside its own.
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    return {"PATH": str(tmp_path)}


def run(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    script = Path(variables["PATH"]) / "scripts" / SCRIPT.name
    return subprocess.run(
        [script], env=variables, capture_output=True, text=True, timeout=50
    )


def test_missing_tools_are_named_with_their_purpose(bare: dict[str, str]) -> None:
    done = run(bare)
    assert done.returncode == 0
    lines = re.findall(r"^  (.+) \(for (.+)\)$", done.stderr, re.MULTILINE)
    assert {package for packages, _ in lines for package in packages.split()} == TOOLS
    assert ("chromium", "the JavaScript client in a browser") in lines
    assert "skipped" in done.stderr


def test_with_ci_set_nothing_may_be_missing(bare: dict[str, str]) -> None:
    done = run({**bare, "CI": "true"})
    assert done.returncode == 1
    assert "skipped" not in done.stderr


def test_one_that_cannot_be_installed_keeps_no_other_away(
    bare: dict[str, str], tmp_path: Path
) -> None:
    """An apt-get that knows everything but Chromium, and does nothing."""
    request = tmp_path / "asked"
    stand_in = tmp_path / "apt-get"
    stand_in.write_text(
        "#!/bin/bash\n"
        'case "$*" in *chromium*) exit 100 ;; esac\n'
        f'echo "${{*: -1}}" >>{request}\n'
    )
    stand_in.chmod(0o755)
    # sudo, where the tests do not run as root: no other packages, and no password.
    (tmp_path / "sudo").write_text('#!/bin/bash\n[ "$1" = -n ] && shift\nexec "$@"\n')
    (tmp_path / "sudo").chmod(0o755)
    (tmp_path / "true").symlink_to(shutil.which("true") or "")
    done = run(bare)
    assert "chromium" in done.stderr
    assert {"jq", "npm", "luarocks", "prometheus"} <= set(request.read_text().split())
    assert done.returncode == 0, os.fsdecode(done.stderr)
