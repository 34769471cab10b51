"""The common parts of service processes: start, signals, reloads, end.

Services are the remover, the archiver, the broker, the gateway and the relay.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Any, Protocol

from gym_http_server.config.inherited_settings import Replaced
from gym_http_server.linux import prctl
from gym_http_server.processes import log_lines
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Form, answer

__all__ = ["Service", "apply_reload", "isolate", "limit_waits", "run_service"]

#: Longest wait in the kernel for a socket that an environment has sent.
WAKE_SECONDS = 1.0


class Service(Protocol):
    """The work of a service process."""

    def run(self) -> None:
        """Work until an exception ends it."""

    def close_all(self) -> None:
        """Close all connections, since the server is stopping."""


class _Ended(BaseException):
    """SIGTERM has arrived."""


def isolate(parent_pid: int, *, own_session: bool = False) -> None:
    """Undo the signal handling that this process inherited, and end with its parent.

    Args:
        parent_pid: Process ID of the supervisor.
        own_session: Whether it leaves the supervisor's session; it is then refused at
            internal sockets, as environments are.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    prctl.die_with_parent(parent_pid, signal.SIGKILL)
    if own_session:
        os.setsid()
    else:
        # The supervisor's session distinguishes it from environments.
        os.setpgid(0, 0)


def limit_waits() -> None:
    """Make a signal interrupt blocking system calls, once a second from now on.

    An environment can send a process of the server a TCP socket whose close waits for
    hours (SO_LINGER). The kernel itself closes it if there is no room for it.
    """
    signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, WAKE_SECONDS, WAKE_SECONDS)


def apply_reload(
    supervisor: FrameSocket, frame: Frame, revoke: Callable[[frozenset[str]], None]
) -> None:
    """Apply a reload, and confirm it to the supervisor.

    Without a descriptor, since too many are open here, it is neither.

    Args:
        supervisor: The connection to it.
        frame: Its request.
        revoke: Called with the names of tokens that are gone.
    """
    replaced = Replaced.receive(supervisor.take_descriptor())
    if replaced is not None:
        log_lines.set_level(replaced.log_level)
        revoke(replaced.gone)
        supervisor.send(answer(204, number=frame.number, form=Form.NONE))


def run_service(service: Service, name: str) -> int:
    """Run a service until SIGTERM or a failure; return the exit status.

    Args:
        service: The service.
        name: Its name in the log.
    """
    try:
        service.run()
    except _Ended:
        service.close_all()
    except Exception:
        logging.getLogger(f"gym_http_server.{name}").exception("the %s failed", name)
        return 1
    return 0


def _end(number: int, frame: Any) -> None:
    raise _Ended
