"""Links to servers that speak TLS."""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_client import ServerUnreachable
from gym_http_client.links import Link
from tests.support.scripted import page, read_request

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate for localhost and its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not there to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    key, path = folder / "key.pem", folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    command += ["-keyout", str(key), "-out", str(path), "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, capture_output=True, check=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return path


@contextlib.contextmanager
def tls_server(certificate: Path, each: int) -> Iterator[str]:
    """Answer requests with their bodies, and so many on each connection."""
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
                for _ in range(each):
                    request = read_request(secured)
                    if request is None:
                        break
                    secured.sendall(page(request[1]))

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield f"https://localhost:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_trusted_server(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    large = os.urandom(1_000_000)
    with tls_server(certificate, 3) as url, Link(url, token="") as link:
        for body in (b"small", large, b"", b"after the third it is stale"):
            assert link.request("POST", "/", body).body == body
        link.close()


def test_a_server_that_is_not_trusted_is_not_asked_again(certificate: Path) -> None:
    with tls_server(certificate, 1) as url, Link(url, token="") as link:
        with pytest.raises(ServerUnreachable, match="CERTIFICATE_VERIFY") as caught:
            link.request("POST", "/", b"secret")
        assert caught.value.attempts == 1


def test_a_certificate_for_another_name(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with tls_server(certificate, 1) as url:
        other = url.replace("localhost", "127.0.0.1")
        with Link(other, token="") as link:
            with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1") as caught:
                link.request("POST", "/")
            assert caught.value.attempts == 1


def test_a_server_without_tls() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        with listener.accept()[0] as plain, contextlib.suppress(ConnectionError):
            plain.sendall(page(b"say it in plain words", status=400))
            while plain.recv(1 << 16):
                pass

    thread = threading.Thread(target=refuse)
    thread.start()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    with listener, Link(url, token="") as link:
        with pytest.raises(ServerUnreachable, match="SSL") as caught:
            link.request("GET", "/")
        assert caught.value.attempts == 1
        thread.join()
