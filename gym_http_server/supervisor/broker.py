"""The broker as the supervisor sees it: forked when it is first asked for."""

from __future__ import annotations

import socket

from gym_http_server.broker.messages import BrokerSettings
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.sockets import listen
from gym_http_server.sandbox import Sandbox
from gym_http_server.settings import Settings
from gym_http_server.supervisor.forks import ServiceProcess

__all__ = ["BrokerProcess"]

BACKLOG = 512


class BrokerProcess(ServiceProcess):
    """Starts the broker, and starts another one where it ended.

    The socket stays open here: who connects while there is no broker has the next one.

    Args:
        run_dir: The run directory.
        settings: The settings.
        sandbox: The sandbox that hosts, which connect here, enter.
        doors: Descriptors of the socket by which external environments connect in by
            plain TCP, and of the memory from which the broker reads the tokens.
    """

    name = "broker"

    def __init__(
        self,
        run_dir: RunDir,
        settings: Settings,
        sandbox: Sandbox,
        doors: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        # Environments that come in without a web worker need it from the beginning.
        self.wanted = doors is not None
        self._doors = doors
        self._sandbox = sandbox
        self._path = run_dir.broker_socket
        self._settings = BrokerSettings(
            heartbeat_s=settings.external_heartbeat,
            grace_s=settings.external_grace,
            max_message=settings.max_answer,
            max_external=settings.max_external,
            max_observation=settings.max_observation,
        )
        self._listener: socket.socket | None = None

    def start(self) -> None:
        """Start the broker unless there is one; from now on there is to be one.

        Raises:
            OSError: Its socket cannot be made.
            ForkFailed: No process can be started.
        """
        self.wanted = True
        if self.pid:
            return
        if self._listener is None:
            self._listener = listen(self._path, BACKLOG)
            self._sandbox.own(self._path)
        listener = self._listener
        keep = [listener.fileno(), *(self._doors or ())]
        self._fork(keep, lambda parent: self._run(listener, parent))

    def _run(self, listener: socket.socket, parent: int) -> int:
        from gym_http_server.broker.process import run

        return run(listener, self._doors, self._settings, parent)
