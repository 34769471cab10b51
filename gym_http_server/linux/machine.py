"""What the machine, or the container, allows: cores, and how many instances.

Each limit is read where the kernel has it, and counted in instances. An instance is a
process, has some descriptors in the supervisor, memory, and files in the run directory.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "SUPERVISOR_DESCRIPTORS",
    "MachineLimit",
    "chosen_workers",
    "cores",
    "free_memory",
    "rooms",
]

#: Web workers of a server that chooses their number: one alone would let a slow request
#: delay others.
LEAST_WORKERS, MOST_WORKERS = 2, 8
#: Descriptors that the supervisor has for an instance: channel, status page and its
#: mapping, the pipe of its output, and its log.
SUPERVISOR_DESCRIPTORS = 5
#: Descriptors, processes and files for all else.
RESERVED = 100
#: Memory of a small instance, without the pages that it shares.
INSTANCE_BYTES = 5 * 1024 * 1024
#: Of an instance in the run directory: three directories, a socket and a log.
INSTANCE_FILES, INSTANCE_DISK_BYTES = 5, 16 * 1024
_CGROUPS = "/sys/fs/cgroup"
_MIB = 1024 * 1024
# Version 1 of control groups writes such a number for "max".
_UNLIMITED = 1 << 60


class MachineLimit(NamedTuple):
    """How many instances a limit allows, besides all that there is now.

    Attributes:
        instances: Their number.
        limit: The limit and its value.
        remedy: What to change for more.
    """

    instances: int
    limit: str
    remedy: str


def cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    A container may have part of the time of all cores: that counts as so many cores.
    """
    most = float(len(os.sched_getaffinity(0)))
    for quota, period in _quotas():
        with contextlib.suppress(ValueError, ZeroDivisionError):
            if int(quota) > 0:
                most = min(most, int(quota) / int(period))
    return max(1, math.ceil(most))


def chosen_workers() -> int:
    """Return the number of web workers for this machine: one a core, within bounds."""
    return min(MOST_WORKERS, max(LEAST_WORKERS, cores()))


def rooms(run_path: str) -> list[MachineLimit]:
    """Return the limits of this machine on further instances, the lowest first.

    Args:
        run_path: The run directory.
    """
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = [
        MachineLimit(
            (files - RESERVED) // SUPERVISOR_DESCRIPTORS,
            f"{files} open files in a process",
            "raise the hard limit of open files (ulimit -Hn, LimitNOFILE, or "
            "docker run --ulimit nofile)",
        ),
        *_processes(),
        *_memory(),
        *_disk(run_path),
    ]
    return sorted(each._replace(instances=max(0, each.instances)) for each in found)


def _processes() -> Iterator[MachineLimit]:
    # Threads count as well.
    running = int(_read("/proc/loadavg").split()[3].partition("/")[2] or 0)
    for name in ("pid_max", "threads-max"):
        if (most := _number(f"/proc/sys/kernel/{name}")) is not None:
            room = most - running - RESERVED
            yield MachineLimit(
                room, f"kernel.{name} = {most}", f"raise it: sysctl kernel.{name}"
            )
    own, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if own != resource.RLIM_INFINITY and os.geteuid() != 0:
        yield MachineLimit(
            own - RESERVED,
            f"{own} processes of this user",
            "raise it: ulimit -u, or LimitNPROC",
        )
    for folder in _groups("pids"):
        most, now = _number(f"{folder}/pids.max"), _number(f"{folder}/pids.current")
        if most is not None:
            yield MachineLimit(
                most - (now or 0) - RESERVED,
                f"{most} processes in the control group",
                "raise pids.max (TasksMax, or docker run --pids-limit)",
            )


def free_memory() -> int | None:
    """Return the bytes of memory that are available; ``None`` if that is not known."""
    return min((free for free, _ in _free_memory()), default=None)


def _memory() -> Iterator[MachineLimit]:
    each = f"{INSTANCE_BYTES // _MIB} MiB for a small instance"
    for free, what in _free_memory():
        words = f"{free // _MIB} MiB of memory {what}, {each}"
        yield MachineLimit(free // INSTANCE_BYTES, words, "use a larger machine")


def _free_memory() -> Iterator[tuple[int, str]]:
    """Yield what the machine and each control group have left, and in which words."""
    lines = dict(
        line.split(":", 1)
        for line in _read("/proc/meminfo").splitlines()
        if ":" in line
    )
    with contextlib.suppress(KeyError, ValueError):
        yield int(lines["MemAvailable"].split()[0]) * 1024, "available"
    for folder in _groups("memory"):
        for limit, usage in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most, used = _number(f"{folder}/{limit}"), _number(f"{folder}/{usage}")
            if most is not None and most < _UNLIMITED:
                yield most - (used or 0), "left in the control group"


def _disk(run_path: str) -> Iterator[MachineLimit]:
    disk = os.statvfs(run_path)
    remedy = "choose another place with --run-dir"
    # Some file systems have no fixed number of blocks or files, and report 0.
    if disk.f_blocks:
        free = disk.f_bavail * disk.f_frsize
        what = f"{free // _MIB} MiB free at the run directory"
        yield MachineLimit(free // INSTANCE_DISK_BYTES, what, remedy)
    if disk.f_files:
        what = f"{disk.f_favail} files free at the run directory"
        yield MachineLimit((disk.f_favail - RESERVED) // INSTANCE_FILES, what, remedy)


def _quotas() -> Iterator[tuple[str, str]]:
    """Yield the limits of processor time of this process's groups, and their period."""
    for folder in _groups("cpu"):
        quota, _, period = _read(f"{folder}/cpu.max").partition(" ")
        yield quota, period
        yield _read(f"{folder}/cpu.cfs_quota_us"), _read(f"{folder}/cpu.cfs_period_us")


def _groups(controller: str) -> Iterator[str]:
    """Yield the directories of this process's control group and of those above it."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = f"{_CGROUPS}/{controller}" if controllers else _CGROUPS
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts), -1, -1):
            # In a container, the group may be mounted as if it were the root.
            yield "/".join([root, *parts[:count]])


def _number(path: str) -> int | None:
    """Return the number in a file; ``None`` if there is no such file, or no number."""
    try:
        return int(_read(path))
    except ValueError:
        return None


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
        return file.read().strip()
    return ""
