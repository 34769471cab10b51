"""The start of the server shows how many instances the machine has room for."""

from collections.abc import Callable

import pytest

from tests.support import processes
from tests.support.server import Server

pytestmark = pytest.mark.live

FILES = 600
PREFIX = ("prlimit", f"--nofile={FILES}:{FILES}")


def test_the_start_names_each_limit_that_is_too_low(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--max-instances", "101", prefix=PREFIX)
    log = server.stderr
    assert (
        "--max-instances is 101, but there is room for about 100: "
        f"{FILES} open files in a process; raise the hard limit of open files"
    ) in log


def test_the_start_shows_the_room_that_suffices(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--max-instances", "100", "--log-level", "info", prefix=PREFIX)
    assert (
        "room for about 100 instances: 600 open files in a process\n" in server.stderr
    )
    assert "but there is room" not in server.stderr


def test_the_server_chooses_a_number_of_web_workers(
    make_server: Callable[..., Server],
) -> None:
    # With one core as with two, there are two.
    server = make_server("--workers", "auto", prefix=("taskset", "-c", "0"))
    assert len(processes.gunicorn(server.pid)[1]) == 2
