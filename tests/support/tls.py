"""Servers that speak TLS, with a certificate that nobody vouches for."""

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.drivers import needs


def certify(folder: Path) -> Path:
    """Make a file with a certificate for localhost and its key."""
    needs("openssl")
    key, path = folder / "key.pem", folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    command += ["-keyout", str(key), "-out", str(path), "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, capture_output=True, check=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return path


@contextlib.contextmanager
def tls_server(
    certificate: Path, converse: Callable[[ssl.SSLSocket], None]
) -> Iterator[int]:
    """Serve one connection after the other, and give the port.

    Args:
        certificate: What `certify` made.
        converse: What to do with a connection, until it returns.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain = listener.accept()[0]
            except OSError:
                return
            with (
                contextlib.suppress(OSError),
                plain,
                context.wrap_socket(plain, server_side=True) as secured,
            ):
                converse(secured)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()
