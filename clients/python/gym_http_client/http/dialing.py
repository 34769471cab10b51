"""Dialing: opens sockets and connects them to a server."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from gym_http_client.errors import Failure, FailureKind
from gym_http_client.http.addresses import Address

__all__ = ["Dialer", "check_unix_sockets"]


def check_unix_sockets() -> None:
    """Raise an error if Python has no Unix sockets here, as on Windows.

    Raises:
        OSError: This system has no Unix sockets.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise OSError(
            "Python has no Unix sockets on this system: connect by TCP, to an address "
            "like http://127.0.0.1:5000"
        )


class Dialer:
    """Opens connections to one server.

    Args:
        address: The server's.
        ca_file: A file with trusted certificates; ``None`` for the system's.
    """

    def __init__(self, address: Address, ca_file: str | None = None) -> None:
        self._address = address
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None

    def dial(self, left: Callable[[], float]) -> socket.socket:
        """Return a new connection.

        Args:
            left: Returns the remaining seconds, or raises if the time is over.
                The name resolver cannot be interrupted.

        Raises:
            OSError: No server accepts the connection.
            Failure: Its certificate is not trusted.
        """
        if self._address.socket_path:
            return self._dial_unix(left)
        connected = self._dial_tcp(left)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._address.scheme == "https":
                connected.settimeout(left())
                return self._secured(connected)
        except BaseException:
            connected.close()
            raise
        return connected

    def _dial_unix(self, left: Callable[[], float]) -> socket.socket:
        check_unix_sockets()
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(left())
            connected.connect(self._address.socket_path)
        except BaseException:
            connected.close()
            raise
        return connected

    def _dial_tcp(self, left: Callable[[], float]) -> socket.socket:
        host, port = self._address.host, self._address.port
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        failed: OSError | None = None
        for index, (family, kind, protocol, _, place) in enumerate(found):
            connected = socket.socket(family, kind, protocol)
            try:
                # Leave time for other addresses if one does not answer.
                connected.settimeout(left() / (len(found) - index))
                connected.connect(place)
            except OSError as error:
                connected.close()
                failed = error
            except BaseException:
                connected.close()
                raise
            else:
                return connected
        raise failed or OSError(f"{host} has no address")

    def _secured(self, connected: socket.socket) -> socket.socket:
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._ca_file)
        try:
            return self._tls.wrap_socket(connected, server_hostname=self._address.host)
        except (ssl.SSLEOFError, ssl.SSLSyscallError, ssl.SSLZeroReturnError):
            raise
        except ssl.SSLError as error:
            raise Failure(FailureKind.UNTRUSTED, error) from error
