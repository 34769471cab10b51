"""Checks whether the server on this machine is healthy.

``python -m gym_http_server.healthcheck`` is the container's HEALTHCHECK. It prints one
line and exits with 0 (healthy) or 1. It needs only the standard library and the address
of the server: its Unix socket (``GHS_UNIX``), or else its port (``GHS_PORT``), with TLS
if ``GHS_CERTFILE`` is set.
"""

import contextlib
import http.client
import os
import socket
import ssl
import sys

DEFAULT_PORT = 5000
TIMEOUT_S = 3.0


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def check(
    place: int | str, *, secure: bool = False, timeout_s: float = TIMEOUT_S
) -> tuple[bool, str]:
    """Request the server's health once.

    Args:
        place: Port on the loopback address, or path of a Unix socket.
        secure: Whether the server uses TLS on the port.
        timeout_s: Seconds for connecting, and for each wait for bytes.

    Returns:
        Whether the server is healthy, and one line with the result or the reason.
    """
    connection: http.client.HTTPConnection
    if isinstance(place, str):
        shown = place
        connection = _UnixConnection(place, timeout_s)
    elif secure:
        shown = f"https://127.0.0.1:{place}"
        # The certificate has the public name, not this one; no secret is sent.
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(
            "127.0.0.1", place, timeout=timeout_s, context=context
        )
    else:
        shown = f"http://127.0.0.1:{place}"
        # No proxy is used for a server on this machine.
        connection = http.client.HTTPConnection("127.0.0.1", place, timeout=timeout_s)
    try:
        with contextlib.closing(connection):
            connection.request("GET", "/healthz")
            status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return False, f"unhealthy: {shown}: {error}"
    healthy = 200 <= status < 300
    word = "healthy" if healthy else "unhealthy"
    return healthy, f"{word}: {shown}/healthz answered {status}"


def main() -> int:
    """Checks the place that the environment names and prints the outcome."""
    port = int(os.environ.get("GHS_PORT") or DEFAULT_PORT)
    healthy, line = check(
        os.environ.get("GHS_UNIX") or port,
        secure=bool(os.environ.get("GHS_CERTFILE")),
    )
    print(line, flush=True)
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
