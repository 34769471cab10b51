"""If the kernel kills a host for lack of memory, the reason is `memory`."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.server import Server
from tests.support.wait import wait_until

MOUNT = Path("/sys/fs/cgroup/memory")
LIMIT = 400 << 20


@contextlib.contextmanager
def _member_of(group: Path) -> Iterator[None]:
    """Move this process, and those that it starts, to a control group."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    (own,) = (line.split(":", 2)[2] for line in lines if ":memory:" in line)
    before = MOUNT / own.lstrip("/")
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory."""
    path = MOUNT / f"ghst-{os.getpid()}"
    with contextlib.suppress(OSError):
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(LIMIT))
    if not path.exists():
        assert not os.environ.get("CI"), "no control group can be made"
        pytest.skip("no control group can be made")
    yield path

    def removed() -> bool:
        with contextlib.suppress(OSError):
            path.rmdir()
        return not path.exists()

    wait_until(removed, message="the control group to be empty")


@pytest.mark.slow
def test_a_kill_by_the_kernel_has_the_reason_memory(
    group: Path, launch_server: Callable[..., Server]
) -> None:
    with _member_of(group):
        server = launch_server("--import", "tests.support.envs.hostile")
    server.wait_listening()
    api = Api(server)
    neighbour, leak = api.create(), api.create("hostile/Leak-v0")
    killed = api.create("hostile/KillSelf-v0")
    for instance in (neighbour, leak, killed):
        instance.reset()
    error = calls.error(killed.post("step/", {"action": 1}), 502, "env-crashed")
    assert error["reason"] == "crashed", "what ends by SIGKILL otherwise"
    error = calls.error(leak.post("step/", {"action": 1}), 502, "env-crashed")
    assert (error["reason"], error["signal"]) == ("memory", "SIGKILL")
    assert "memory ran out" in error["message"]
    assert calls.error(leak.get(""), 410, "instance-ended")["reason"] == "memory"
    assert len(neighbour.step(0)["observation"]) == 4
    server.stop()
