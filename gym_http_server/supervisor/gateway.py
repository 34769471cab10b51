"""The gateway as the supervisor sees it: forked at the start, if it is asked for."""

from __future__ import annotations

import logging

from gym_http_server.errors import StartError
from gym_http_server.gateway import check_installed
from gym_http_server.log_lines import SUPERVISOR
from gym_http_server.settings import Settings
from gym_http_server.supervisor.forks import ServiceProcess
from gym_http_wire.external.handshake import MAX_HELLO_BYTES

__all__ = ["GatewayProcess"]

#: Agents, beside the far sides.
MAX_AGENTS = 4096
#: Connections without an accepted first message, or --max-external if that is more.
MAX_STRANGERS = 64

log = logging.getLogger(SUPERVISOR)


class GatewayProcess(ServiceProcess):
    """Starts the gateway, and starts another one where it ended.

    The socket stays open here: who connects while there is no gateway has the next one.

    Args:
        settings: The settings.
        doors: Descriptors of the socket by which peers come in by ZeroMQ, and of what
            was left for the gateway to read the token from; ``None``: there is none.
    """

    name = "gateway"

    def __init__(self, settings: Settings, doors: tuple[int, int] | None) -> None:
        super().__init__()
        self._settings = settings
        self._doors = doors
        self.wanted = doors is not None

    def start(self) -> None:
        """Start it.

        Raises:
            ForkFailed: No process can be started.
        """
        doors = self._doors
        if doors is not None:
            self._fork(doors, lambda parent: self._run(*doors, parent))

    def _run(self, door: int, left: int, parent: int) -> int:
        try:
            check_installed()
        except StartError as error:
            # When the server started, it could still be loaded.
            log.error("the gateway cannot start: %s", error)
            return 1
        from gym_http_server.gateway.context import GatewaySettings
        from gym_http_server.gateway.process import run

        settings = self._settings
        told = GatewaySettings(
            place=settings.zmq,
            heartbeat_s=settings.external_heartbeat,
            max_message=max(settings.max_answer, settings.max_body),
            max_request=settings.max_body,
            max_first=max(settings.max_body, MAX_HELLO_BYTES),
            max_peers=settings.max_external + MAX_AGENTS,
            max_strangers=max(settings.max_external, MAX_STRANGERS),
            tango_name=settings.tango_name,
        )
        return run(door, left, told, parent)
