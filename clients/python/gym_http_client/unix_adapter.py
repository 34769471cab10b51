"""The Unix adapter: how a session of ``requests`` reaches a server's Unix socket."""

from __future__ import annotations

import socket
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from gym_http_client.addresses import Address
from gym_http_client.dialing import check_unix_sockets

__all__ = ["UnixAdapter"]


class _Connection(HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, *args: Any, socket_path: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._socket_path = socket_path

    def _new_conn(self) -> socket.socket:
        check_unix_sockets()
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(self.timeout)
        try:
            connected.connect(self._socket_path)
        except TimeoutError as error:
            connected.close()
            raise ConnectTimeoutError(self, str(error)) from error
        except OSError as error:
            connected.close()
            raise NewConnectionError(self, str(error)) from error
        return connected


class _Pool(HTTPConnectionPool):
    """Connections to one Unix socket."""

    ConnectionCls = _Connection


class UnixAdapter(HTTPAdapter):
    """Sends all requests to the Unix socket of one server.

    Args:
        address: The server's.
    """

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address
        self._pool = self._new_pool()

    def get_connection_with_tls_context(
        self, *args: Any, **options: Any
    ) -> HTTPConnectionPool:
        """Give the connections, the same for all requests."""
        return self._pool

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Give what stands in the request's line: no proxy is in between."""
        return super().request_url(request, {})

    def close(self) -> None:
        """Close the connections; a later request opens others."""
        self._pool.close()
        self._pool = self._new_pool()
        super().close()

    def _new_pool(self) -> HTTPConnectionPool:
        # The host is what the requests' Host header says.
        path = self._address.socket_path
        return _Pool(self._address.host_header, socket_path=path)
