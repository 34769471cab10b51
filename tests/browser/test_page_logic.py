"""The logic of the dashboard's page without a browser, in Node."""

import subprocess
from pathlib import Path

import pytest

from tests.support.drivers import needs

LOGIC = sorted(str(path) for path in (Path(__file__).parent / "logic").glob("*.mjs"))

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(60)]


def test_widgets_keys_pace_and_scales() -> None:
    needs("node")
    assert LOGIC
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", *LOGIC],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    assert "\n# fail 0\n" in done.stdout
    assert "\n# skipped 0\n" in done.stdout
