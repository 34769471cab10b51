"""A pytest plugin that removes the parts of Python that Windows lacks.

It is loaded with ``-p tests.support.faults.without_linux``. Modules that run the tests
are imported before it; the client and its other imports see Python as on Windows.
"""

import os
import select
import selectors
import signal
import socket
import sys

import gymnasium  # noqa: F401
import numpy  # noqa: F401
import pytest
import requests  # noqa: F401

import tests.conftest  # noqa: F401

MISSING_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
MISSING = {
    os: (
        "fork",
        "sched_getaffinity",
        "sched_setaffinity",
        "setsid",
        "register_at_fork",
    ),
    select: ("epoll", "poll"),
    signal: ("SIGHUP",),
    socket: (
        "AF_UNIX",
        "MSG_DONTWAIT",
        "MSG_NOSIGNAL",
        "SO_INCOMING_CPU",
        "SO_REUSEPORT",
        "TCP_USER_TIMEOUT",
    ),
}


def _connected_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        return ours, listener.accept()[0]


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Remove what Windows lacks, before tests are imported."""
    for name in MISSING_MODULES:
        # Importing it raises ImportError from now on.
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in MISSING.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    for name in [each for each in sys.modules if each.startswith("gym_http_")]:
        del sys.modules[name]
    selectors.DefaultSelector = selectors.SelectSelector  # type: ignore
    socket.socketpair = lambda *_: _connected_pair()  # type: ignore
    sys.platform = "win32"
