"""The cores that a process may use, and how many instances a machine has room for."""

import os
import resource

import pytest

from gym_http_server.linux import machine

GIB = 1 << 30
UNLIMITED = {
    "/proc/loadavg": "0.10 0.20 0.30 2/900 4711",
    "/proc/meminfo": "MemTotal: 67108864 kB\nMemAvailable: 62914560 kB\n",
    "/proc/self/cgroup": "0::/",
    "/proc/sys/kernel/pid_max": "4194304",
    "/proc/sys/kernel/threads-max": "514000",
}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the files of a machine with 64 cores and 60 GiB, to be changed."""
    found = dict(UNLIMITED)
    monkeypatch.setattr(machine, "_read", lambda path: found.get(path, ""))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    limits = {
        resource.RLIMIT_NOFILE: (1024, 524288),
        resource.RLIMIT_NPROC: (resource.RLIM_INFINITY,) * 2,
    }
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    return found


@pytest.mark.parametrize(
    ("cores", "workers"), [(1, 2), (2, 2), (3, 3), (8, 8), (16, 8)]
)
def test_a_worker_a_core_from_2_to_8(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, cores: int, workers: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert (machine.cores(), machine.chosen_workers()) == (cores, workers)


@pytest.mark.parametrize(
    ("group", "more", "cores"),
    [
        ("0::/a/b", {"/sys/fs/cgroup/a/cpu.max": "250000 100000"}, 3),
        ("0::/a/b", {"/sys/fs/cgroup/a/cpu.max": "max 100000"}, 64),
        ("0::/", {"/sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        (
            "4:cpu,cpuacct:/docker/12",
            {
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (
            "4:cpu:/",
            {
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            64,
        ),
    ],
)
def test_a_container_has_a_part_of_the_cores(
    files: dict[str, str], group: str, more: dict[str, str], cores: int
) -> None:
    files.update({"/proc/self/cgroup": group, **more})
    assert machine.cores() == cores


def test_the_lowest_limit_comes_first(files: dict[str, str], tmp_path: object) -> None:
    by_limit = {each.limit: each.instances for each in machine.rooms(str(tmp_path))}
    assert by_limit["524288 open files in a process"] == (524288 - 100) // 5
    assert by_limit["kernel.pid_max = 4194304"] == 4194304 - 900 - 100
    memory = "61440 MiB of memory available, 5 MiB for a small instance"
    assert by_limit[memory] == 12288
    assert list(by_limit.values()) == sorted(by_limit.values())
    files |= {
        "/proc/self/cgroup": "0::/system.slice/gym.service",
        "/sys/fs/cgroup/system.slice/gym.service/pids.max": "600",
        "/sys/fs/cgroup/system.slice/gym.service/pids.current": "12",
        "/sys/fs/cgroup/system.slice/memory.max": str(4 * GIB),
        "/sys/fs/cgroup/system.slice/memory.current": str(3 * GIB),
    }
    first, second, *_ = machine.rooms(str(tmp_path))
    left = "1024 MiB of memory left in the control group, 5 MiB for a small instance"
    assert (first.instances, first.limit) == (204, left)
    assert second.instances == 600 - 12 - 100
    assert second.limit == "600 processes in the control group"
