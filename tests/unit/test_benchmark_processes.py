"""Processes that end while benchmarks look at them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from benchmarks.processes import find_hosts, processor_ns, pss_mib, with_descendants

SLEEP = ["sleep", "60"]


def test_all_below_are_found_and_only_hosts_work(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with subprocess.Popen(SLEEP) as other, subprocess.Popen(SLEEP, cwd=folder) as host:
        try:
            assert {os.getpid(), other.pid, host.pid} <= {
                *with_descendants(os.getpid())
            }
            assert find_hosts(os.getpid()) == [host.pid]
            assert pss_mib(host.pid) > 0
        finally:
            other.kill()
            host.kill()


def test_what_has_ended_is_left_out() -> None:
    with subprocess.Popen(SLEEP) as ended:
        ended.kill()
    us = os.getpid()
    before = processor_ns([us, ended.pid])
    assert before.keys() == {us}
    began = time.process_time_ns()
    while time.process_time_ns() - began < 20_000_000:
        pass
    assert processor_ns([us, ended.pid])[us] - before[us] > 10_000_000


def test_zombies_are_no_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with subprocess.Popen(SLEEP, cwd=folder) as zombie:
        zombie.kill()
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert zombie.pid in with_descendants(os.getpid())
        assert find_hosts(os.getpid()) == []
