"""The Python client runs without the modules that Windows and macOS lack."""

import os
import subprocess
import sys

import pytest

from tests.support.server import ROOT

#: Tests of the client that need no server. Those of Unix sockets are left out.
FILES = (
    "tests/unit/client",
    "tests/unit/wire/test_handshakes.py",
    "tests/unit/wire/test_streams.py",
    "tests/unit/wire/test_websocket.py",
    "tests/unit/relay/test_client_batches.py",
    "tests/unit/relay/test_episodes.py",
    "tests/unit/relay/test_spool.py",
    "tests/clients/python/test_in_process.py",
    "tests/clients/python/test_socket_transport.py",
)
ITSELF = "tests/unit/client/test_without_linux.py"


@pytest.mark.timeout(300)
def test_the_client_runs_without_modules_that_windows_lacks() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x"]
    # Runs are drawn in a process of their own, which has all modules.
    command += ["-k", "not unix and not runs_are_drawn"]
    # Property tests are about values, not about modules, and take a third of the time.
    command += ["-m", "not hypothesis"]
    # There, no signal interrupts a test that takes too long.
    command += ["--timeout-method=thread", f"--ignore={ITSELF}", *FILES]
    for plugin in ("tests.support.faults.without_linux", "no:cacheprovider"):
        command += ["-p", plugin]
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
