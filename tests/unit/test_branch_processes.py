"""What the branches of an environment may allocate, and what they close."""

import os
import resource
import subprocess
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gym_http_core.operations import Operations
from gym_http_server.errors import ForkFailed
from gym_http_server.host.branch_limits import BranchLimits
from gym_http_server.host.branch_plan import BranchPlan
from gym_http_server.host.branches import Branches
from gym_http_server.linux import machine
from tests.support.processes import running_below

MIB = 1 << 20
#: A machine with 60 GiB, and a container with a part of it.
FILES = {
    "/proc/meminfo": "MemTotal: 67108864 kB\nMemAvailable: 62914560 kB\n",
    "/proc/self/cgroup": "0::/",
    "/sys/fs/cgroup/memory.max": str(1024 * MIB),
    "/sys/fs/cgroup/memory.current": str(512 * MIB),
}


class Allocates(gymnasium.Env[int, int]):
    """Allocates as many MiB as its action says."""

    action_space = spaces.Discrete(4096)
    observation_space = spaces.Discrete(1)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, Any]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        np.empty(int(action) * MIB, np.uint8)
        return 0, 0.0, False, False, {}


def branches_of(limits: BranchLimits, files: Sequence[int] = ()) -> Branches:
    operations = Operations(Allocates())
    operations.reset(seed=None, options=None)
    # A host ends all that branches have left: here, without them, shared servers too.
    others = {each.pid for each in running_below(os.getpid())}
    return Branches(operations, limits, 1 << 20, lambda: (list(files), others))


def played(
    limits: BranchLimits, actions: list[int], files: Sequence[int] = ()
) -> list[dict[str, Any]]:
    branches = branches_of(limits, files)
    lists = [[action] for action in actions]
    plan = BranchPlan(lists, len(lists), 0, None, reseed=False, whole=False)
    return branches.play(plan, exact=True)


def test_branches_leave_half_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_read", lambda path: FILES.get(path, ""))
    fits, large = played(BranchLimits(), [100, 300])
    assert "error" not in fits
    assert "MemoryError" in large["error"]["message"]


def test_each_branch_has_some_memory_however_many_there_are() -> None:
    found = played(BranchLimits(memory=1), [50] * 8)
    assert not any("error" in each for each in found)


def test_a_branch_keeps_the_pipe_of_its_results() -> None:
    # A recording has closed its file since, and the pipe has that descriptor.
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    (found,) = played(BranchLimits(), [1], [writer])
    assert found["steps"] == 1


def test_branches_end_nothing_of_this_process() -> None:
    with subprocess.Popen(["sleep", "600"]) as bystander:
        played(BranchLimits(), [1])
        assert bystander.poll() is None
        bystander.kill()


def test_a_host_without_descriptors_has_no_room() -> None:
    branches = branches_of(BranchLimits())
    plan = BranchPlan([[1]], 1, 0, None, reseed=False, whole=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(ForkFailed, match="no room for a branch"):
            branches.check()
        with pytest.raises(ForkFailed, match="no room for a branch"):
            branches.play(plan, exact=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
