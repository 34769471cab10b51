"""The JavaScript client's own tests, types and documents."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.drivers import CLIENTS, needs
from tests.support.server import Server

JS = CLIENTS / "js"
TESTS = sorted(str(path) for path in (JS / "tests").glob("*.test.js"))

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(300)]


def run(*command: str, env: Mapping[str, str] | None = None) -> str:
    """Run a command in the client's folder, and check that it succeeds."""
    done = subprocess.run(
        command,
        cwd=JS,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.live
def test_its_own_tests_pass(server: Server) -> None:
    needs("node")
    variables = {"GYM_HTTP_TEST_URL": server.url}
    output = run("node", "--test", "--test-reporter=tap", *TESTS, env=variables)
    assert "\n# fail 0\n" in output
    assert "\n# skipped 0\n" in output


def test_a_strict_compiler_takes_its_types(packages: Path) -> None:
    run(str(packages / ".bin/tsc"), "--project", "tests")


def test_a_strict_compiler_refuses_wrong_types(packages: Path, tmp_path: Path) -> None:
    lines = (JS / "tests/types.ts").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if "@ts-expect-error" in line:
            # On a line without an error, this comment is an error.
            lines[number] = ""
            break
    (JS / "node_modules/.cache").mkdir(exist_ok=True)
    folder = JS / "node_modules/.cache"
    source = folder / "wrong.ts"
    source.write_text("\n".join(lines), encoding="utf-8")
    project = folder / "tsconfig.json"
    project.write_text(
        '{"extends": "../../tests/tsconfig.json", "files": ["wrong.ts"]}'
    )
    with pytest.raises(AssertionError, match="TS2694"):
        run(str(packages / ".bin/tsc"), "--project", str(project))


def test_it_depends_on_nothing_and_names_no_registry() -> None:
    for path in [JS / "package.json", *sorted((JS / "src").rglob("*.js"))]:
        assert "registry.npmjs" not in path.read_text(encoding="utf-8")
    output = (JS / "package.json").read_text(encoding="utf-8")
    assert '"dependencies"' not in output
    assert not (JS / "package-lock.json").exists()


def test_modules_are_small() -> None:
    for path in sorted((JS / "src").rglob("*.js")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) < 250, path
