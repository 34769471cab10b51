"""Connections to servers that use TLS."""

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_client import ServerUnreachable
from gym_http_client.http.requester import Requester
from tests.support.peers.scripted_server import http_answer, read_request
from tests.support.tls import certify, tls_server

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate for localhost and its key."""
    return certify(tmp_path_factory.mktemp("tls"))


@contextlib.contextmanager
def echoing(certificate: Path, each: int) -> Iterator[str]:
    """Answer requests with their bodies, and so many on each connection."""

    def converse(sock: ssl.SSLSocket) -> None:
        for _ in range(each):
            request = read_request(sock)
            if request is None:
                break
            sock.sendall(http_answer(request[1]))

    with tls_server(certificate, converse) as port:
        yield f"https://localhost:{port}"


def test_a_trusted_server(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    large = os.urandom(1_000_000)
    with echoing(certificate, 3) as url, Requester(url, token="") as link:
        for body in (b"small", large, b"", b"after the third it is stale"):
            assert link.request("POST", "/", body).body == body
        link.close()


def test_an_untrusted_server_is_not_retried(certificate: Path) -> None:
    with echoing(certificate, 1) as url, Requester(url, token="") as link:
        with pytest.raises(ServerUnreachable, match="CERTIFICATE_VERIFY") as caught:
            link.request("POST", "/", b"secret")
        assert caught.value.attempts == 1


def test_a_certificate_for_another_name(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with echoing(certificate, 1) as url:
        other = url.replace("localhost", "127.0.0.1")
        with Requester(other, token="") as link:
            with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1") as caught:
                link.request("POST", "/")
            assert caught.value.attempts == 1


def test_a_server_without_tls() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        with listener.accept()[0] as plain, contextlib.suppress(ConnectionError):
            plain.sendall(http_answer(b"say it in plain words", status=400))
            while plain.recv(1 << 16):
                pass

    thread = threading.Thread(target=refuse)
    thread.start()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    with listener, Requester(url, token="") as link:
        with pytest.raises(ServerUnreachable, match="SSL") as caught:
            link.request("GET", "/")
        assert caught.value.attempts == 1
        thread.join()
