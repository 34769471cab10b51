"""The example of learning in real time: an agent needs its last action."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import ROOT


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_last_action_is_worth_half_as_much_again(tmp_path: Path) -> None:
    picture = tmp_path / "ring.svg"
    script = ROOT / "examples" / "realtime" / "learn.py"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    done = subprocess.run(
        [sys.executable, str(script), "--plot", str(picture)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    means = [float(each) for each in re.findall(r"mean reward ([\d.]+)", done.stdout)]
    assert len(means) == 2
    assert means[0] >= 1.5 * means[1] > 0, done.stdout
    assert "<svg" in picture.read_text()
