"""Finds and reads the status page of a host, which lies in memory."""

import contextlib
import os
from pathlib import Path

from gym_http_server.rundir.status import StatusReader
from tests.support.api import Instance
from tests.support.processes import holds


def host_of(instance: Instance) -> int:
    """Return the process ID of an instance's host."""
    below = instance.api.server.supervisor.children()
    (host,) = (each for each in below if holds(each, instance.id))
    return host.pid


def page_of(host: int) -> Path:
    """Return the path of a host's page, by its process ID."""
    (page,) = (
        each
        for each in Path(f"/proc/{host}/fd").iterdir()
        if os.path.islink(each) and os.readlink(each).startswith("/memfd:status")
    )
    return page


def reader_of(instance: Instance) -> StatusReader:
    """Return a reader of the page of an instance's host."""
    page = page_of(host_of(instance))
    return StatusReader(os.open(page, os.O_RDONLY | os.O_CLOEXEC))


def is_busy(instance: Instance) -> bool:
    """Return whether the host of an instance is in a call."""
    with contextlib.closing(reader_of(instance)) as reader:
        return bool(reader.read().busy_since_ns)
