"""Servers with TLS and self-signed certificates."""

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.drivers import needs
from tests.support.raw import SECURED
from tests.support.server import Server


def certify(folder: Path) -> Path:
    """Make a file with a certificate for localhost and its key."""
    certificate, key = certificate_and_key(folder)
    path = folder / "both.pem"
    path.write_bytes(certificate.read_bytes() + key.read_bytes())
    return path


def certificate_and_key(
    folder: Path, name: str = "localhost", *, days: int = 2
) -> tuple[Path, Path]:
    """Make a self-signed certificate, and its key.

    Args:
        folder: Where to write both.
        name: The host that the certificate is for.
        days: How long it is valid; -1 is until yesterday.
    """
    needs("openssl")
    key, request = folder / f"{name}{days}-key.pem", folder / "request.pem"
    path = folder / f"{name}{days}.pem"
    names = folder / "names.cnf"
    names.write_text(f"subjectAltName=DNS:{name}\n")
    command = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
    command += ["-keyout", str(key), "-out", str(request), "-subj", f"/CN={name}"]
    subprocess.run(command, capture_output=True, check=True)
    command = ["openssl", "x509", "-req", "-in", str(request), "-signkey", str(key)]
    command += ["-extfile", str(names), "-days", str(days), "-out", str(path)]
    subprocess.run(command, capture_output=True, check=True)
    return path, key


@contextlib.contextmanager
def secure_server(
    folder: Path, *flags: str, prefix: tuple[str, ...] = ()
) -> Iterator[Server]:
    """Run a server with TLS, and make `RawConnection` use TLS for it.

    Args:
        folder: Where to write its certificate.
        flags: Further flags.
        prefix: A command that executes the server's command.
    """
    certificate, key = certificate_and_key(folder)
    files = "--certfile", str(certificate), "--keyfile", str(key)
    with Server(*files, *flags, prefix=prefix) as made:
        SECURED[made.port] = ssl.create_default_context(cafile=str(certificate))
        try:
            yield made
        finally:
            del SECURED[made.port]


@contextlib.contextmanager
def tls_server(
    certificate: Path, converse: Callable[[ssl.SSLSocket], None]
) -> Iterator[int]:
    """Serve one connection after the other over TLS, and yield the port.

    Args:
        certificate: The file that `certify` made.
        converse: Handles a connection until it returns.
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
