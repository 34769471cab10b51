"""The tests' process helpers see all processes that run."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from subprocess import PIPE

import psutil

from tests.support import processes
from tests.support.wait import wait_until

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"])
print(child.pid, flush=True)
input()
child.kill()
child.wait()
"""


def pids_below() -> set[int]:
    """Return the PIDs of the processes below this one."""
    return {each.pid for each in processes.running_below(os.getpid())}


def test_children_and_their_children_are_seen_until_they_end() -> None:
    before = pids_below()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert pids_below() - before == {parent.pid, child}
        (seen,) = (
            each for each in processes.running_below(os.getpid()) if each.pid == child
        )
        assert seen.found() == psutil.Process(child)
        assert seen._replace(started=seen.started - 1).found() is None
        parent.communicate("\n")
    # Others that were there may have ended meanwhile.
    assert pids_below() <= before
    assert seen.found() is None


def test_children_of_all_threads_are_seen_without_a_look_at_others() -> None:
    before, began = processes.children(), processes.now()
    words = [sys.executable, "-c", PARENT]
    with ThreadPoolExecutor(1) as pool:
        start = partial(subprocess.Popen, words, stdin=PIPE, stdout=PIPE, text=True)
        with pool.submit(start).result() as parent:
            assert parent.stdout.readline()
            (seen,) = processes.children() - before
            assert seen.pid == parent.pid
            assert began - 1 <= seen.started <= processes.now()
            parent.communicate("\n")
    assert seen not in processes.children()


def test_a_zombie_of_this_process_does_not_run() -> None:
    ended = subprocess.Popen(["true"])
    zombie = psutil.Process(ended.pid)
    wait_until(lambda: zombie.status() == psutil.STATUS_ZOMBIE)
    assert ended.pid not in pids_below()
    assert ended.pid not in {each.pid for each in processes.children()}
    ended.wait()
