"""The lobby as the supervisor sees it: forked when it is first asked for."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback

from gym_http_server.envhost.isolation import close_descriptors, reseed
from gym_http_server.lobby.said import LobbySettings
from gym_http_server.rundir import RunDir
from gym_http_server.settings import Settings
from gym_http_server.supervisor.modules import threads

__all__ = ["LobbyProcess"]

BACKLOG = 512


class LobbyProcess:
    """Starts the lobby, and starts another one where it ended.

    The socket stays open here: who connects while there is no lobby has the next one.

    Args:
        run_dir: The run directory.
        settings: The settings.
        doors: Descriptors of the socket by which external environments connect in by
            plain TCP, and of what was left for the lobby to read the token from.

    Attributes:
        pid: Of the lobby; 0 if there is none.
    """

    def __init__(
        self,
        run_dir: RunDir,
        settings: Settings,
        doors: tuple[int, int] | None = None,
    ) -> None:
        self.pid = 0
        self._doors = doors
        self._path = run_dir.lobby_socket
        self._settings = LobbySettings(
            heartbeat_s=settings.external_heartbeat,
            grace_s=settings.external_grace,
            max_message=settings.max_answer,
            max_external=settings.max_external,
        )
        self._listener: socket.socket | None = None

    @property
    def has_doors(self) -> bool:
        """Whether environments come in without a web worker."""
        return self._doors is not None

    def start(self) -> None:
        """See to it that there is a lobby.

        Raises:
            OSError: The system has no room for another process.
        """
        if self.pid:
            return
        if self._listener is None:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self._path)
            self._listener.listen(BACKLOG)
        self.pid = self._fork(self._listener)

    def stop(self) -> None:
        """Have it say goodbye and end."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def _fork(self, listener: socket.socket) -> int:
        if threads() != 1:
            # A fork would copy the locks that other threads hold.
            raise RuntimeError("the supervisor has started threads and must not fork")
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            # Not before: what is imported here, every host has to share.
            from gym_http_server.lobby.process import run

            close_descriptors([listener.fileno(), *(self._doors or ())])
            reseed()
            status = run(listener, self._doors, self._settings, parent)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
