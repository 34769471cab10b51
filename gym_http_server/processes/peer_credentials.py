"""Checks which processes may use the sockets of the run directory.

File modes cannot distinguish an environment from the server if both run as the same
user, and Landlock does not restrict connecting. But every process that an environment
starts stays below the supervisor and outside its session: a host leaves that session
before it makes its environment, and no process can return to a session.
"""

from __future__ import annotations

import os
import socket
import struct

__all__ = ["PeerCredentials"]

_CREDENTIALS = struct.Struct("=iII")


class PeerCredentials:
    """Distinguishes processes of the server and its user from those of environments.

    Args:
        supervisor: Process ID of the supervisor.
    """

    def __init__(self, supervisor: int) -> None:
        self._supervisor = supervisor
        # Both are read at the first connection, since many hosts get none.
        self._session = self._launcher = 0
        # Process ID of gunicorn once it is known; it lasts as long as the server.
        self._web = 0

    def permits(self, sock: socket.socket) -> bool:
        """Whether a connection comes from a process that no environment started."""
        credentials = sock.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        pid = _CREDENTIALS.unpack(credentials)[0]
        try:
            if not self._launcher:
                self._session = os.getsid(self._supervisor)
                self._launcher = _parent(self._supervisor)
            session = os.getsid(pid)
            if session in (self._session, self._web):
                return True
            if self._is_web(session):
                self._web = session
                return True
            while pid > 1 and pid != self._launcher:
                if pid == self._supervisor:
                    return False
                pid = _parent(pid)
        except OSError:
            # It has ended, so its kind is unknown.
            return False
        return True

    def _is_web(self, session: int) -> bool:
        """Whether a session is gunicorn's, which the launcher has started."""
        try:
            return session > 0 and _parent(session) == self._launcher
        except OSError:
            # Its leader has ended, as a shell that started the server may have.
            return False


def _parent(pid: int) -> int:
    """Return the parent of a process.

    Raises:
        OSError: It has ended.
    """
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # The name, in parentheses, may contain anything; state and parent follow it.
        return int(os.read(file, 512).rpartition(b")")[2].split()[1])
    finally:
        os.close(file)
