"""Leftover processes of hosts are assigned to instances by an inherited mark."""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_http_server.host.mark import SPARE, read_mark, set_mark
from gym_http_server.supervisor import processes
from tests.support.processes import running_below
from tests.support.wait import wait_until

OURS, THEIRS = "00000001", "fffffffe"
ESCAPE = "(exec setsid env -i /bin/sleep 600) >/dev/null & echo $!"


@pytest.fixture
def start() -> Iterator[Callable[..., int]]:
    """Return a function that starts a child with a mark, which does something first."""
    children: list[int] = []

    def start(mark: str, act: Callable[[], object] = os.setsid) -> int:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                assert not mark or set_mark(mark)
                act()
                os.write(writer, b"x")
                time.sleep(600)
            finally:
                os._exit(1)
        children.append(pid)
        os.close(writer)
        assert os.read(reader, 1) == b"x"
        os.close(reader)
        return pid

    yield start
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


def killed(pid: int) -> bool:
    """Whether a child has been killed; it is reaped."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return found == pid and os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("mark", ["00000000", OURS, "3c657dbc", "ffffffff"])
def test_the_mark_survives_fork_exec_session_and_environment(mark: str) -> None:
    started = subprocess.run(
        ["/bin/sh", "-c", ESCAPE],
        preexec_fn=lambda: set_mark(mark),
        stdout=subprocess.PIPE,
        check=True,
    )
    pid = int(started.stdout)
    try:
        wait_until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes())
        assert read_mark(pid) == mark
        assert read_mark(os.getpid()) == ""
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_server_inside_an_instance_marks_its_processes() -> None:
    """Its own mark is there already, and without privileges it cannot raise it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            set_mark("3c657dbc")
            if os.getuid() == 0:
                os.setuid(65534)
            inner = os.fork()
            if inner == 0:
                set_mark(THEIRS)
                time.sleep(600)
            wait_until(lambda: read_mark(inner))
            os.write(writer, read_mark(inner).encode())
            os.kill(inner, signal.SIGKILL)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == THEIRS
    os.waitpid(pid, 0)


def test_strays_of_ended_instances_are_killed_and_no_others(
    start: Callable[..., int],
) -> None:
    host, exempt = start(OURS), start("")
    ours, theirs = start(OURS), start(THEIRS)
    strays = processes.Strays()
    known = {host, exempt, *_others({host, exempt, ours, theirs})}
    assert strays.kill({OURS: host}, known)
    wait_until(lambda: killed(theirs))
    assert not strays.kill({OURS: host}, known)
    assert not any(map(killed, (host, exempt, ours)))
    assert strays.kill({}, known)
    wait_until(lambda: killed(ours))


def test_a_process_without_a_mark_may_be_of_any_host_that_ran(
    start: Callable[..., int],
) -> None:
    first, second, third = (start("") for _ in range(3))
    unmarked = start("")
    strays = processes.Strays()
    known = {first, second, third, *_others({unmarked})}
    assert not strays.kill({OURS: first, THEIRS: second}, known)
    assert not strays.kill({OURS: first, "00000003": third}, known)
    # No host that runs now ran when the process was first seen.
    assert strays.kill({"00000003": third}, known)
    wait_until(lambda: killed(unmarked))


def test_an_unmarked_process_belongs_to_the_host_of_its_session(
    start: Callable[..., int],
) -> None:
    host, other = start(""), start("")
    hosts = {OURS: host, THEIRS: other}
    pid = start("", lambda: os.setpgid(0, 0))
    sessions = {pid: host, 0: os.getsid(0)}
    strays = processes.Strays()
    known = {host, other, *_others({pid})}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getsid", sessions.__getitem__)
        assert not strays.kill(hosts, known)
        assert strays.kill({THEIRS: other}, known)
    wait_until(lambda: killed(pid))


def in_this_session() -> None:
    os.setpgid(0, 0)


def marked_as_spare() -> None:
    os.setsid()
    set_mark(SPARE)


@pytest.mark.parametrize("begin", [in_this_session, marked_as_spare])
def test_a_process_that_may_become_a_spare_host_has_some_time(
    start: Callable[..., int], begin: Callable[[], None]
) -> None:
    host = start("")
    spare = start("", begin)
    strays = processes.Strays()
    known = {host, *_others({host, spare})}
    # It is looked at again.
    assert strays.kill({}, known, now=100.0)
    assert strays.kill({}, known, now=109.9)
    assert not killed(spare)
    assert not strays.kill({}, {*known, spare}, now=111.0)
    assert strays.kill({}, known, now=112.0)
    assert not killed(spare)
    assert strays.kill({}, known, now=122.1)
    wait_until(lambda: killed(spare))


def test_the_mark_of_an_instance_cannot_become_that_of_spare_hosts(
    start: Callable[..., int],
) -> None:
    def pretend() -> None:
        os.setsid()
        set_mark(OURS)
        # Root may raise limits.
        os.setuid(65534)
        # As a server inside the instance would.
        set_mark(SPARE)

    assert read_mark(start("", pretend)) == ""
    assert read_mark(start("", marked_as_spare)) == SPARE


def test_a_former_limit_is_no_mark() -> None:
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_RTTIME, (10**6, 10**6))
        time.sleep(600)
    try:
        wait_until(lambda: b"1000000" in Path(f"/proc/{pid}/limits").read_bytes())
        assert read_mark(pid) == ""
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _others(known: set[int]) -> set[int]:
    """Return the processes below this one that this test has not started.

    The kernel's list of children may lack some while one of them ends. Shared servers
    that were missing here would be killed.
    """
    return {each.pid for each in running_below(os.getpid())} - known
