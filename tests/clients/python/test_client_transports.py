"""The transport of a `Client`: a socket, or ``requests`` where that is needed."""

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from gym_http_client import Client, Retries, Server, ServerUnreachable
from tests.support.peers.scripted_server import (
    ScriptedServer,
    http_answer,
    read_request,
)
from tests.support.tls import certify, tls_server

EMPTY = http_answer(b'{"all_envs": {}}')
ONCE = Retries(total=0.0)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[requests.Session]:
    """The sessions of ``requests`` that carried a request, in their order."""
    used: list[requests.Session] = []
    send = requests.Session.request

    def noted(self: requests.Session, *args: Any, **options: Any) -> Any:
        used.append(self)
        return send(self, *args, **options)

    monkeypatch.setattr(requests.Session, "request", noted)
    return used


def test_a_socket_carries_requests_until_the_session_is_read(
    sessions: list[requests.Session],
) -> None:
    with ScriptedServer.of(EMPTY) as scripted, Client(scripted.url) as client:
        client.env_list_all()
        assert sessions == []
        client.session.headers["X-Mine"] = "1"
        client.session.auth = ("me", "secret")
        for _ in range(2):
            client.env_list_all()
        assert sessions == [client.session] * 2
    assert [each.header("X-Mine") for each in scripted.seen] == [None, "1", "1"]
    assert scripted.seen[2].header("Authorization") == "Basic bWU6c2VjcmV0"


def test_the_accepted_type_is_the_same(sessions: list[requests.Session]) -> None:
    with ScriptedServer.of(EMPTY) as scripted, Client(scripted.url) as client:
        client.env_list_all()
        assert client.session.headers["Accept"] == "application/json"
        client.env_list_all()
    assert {each.header("Accept") for each in scripted.seen} == {"application/json"}
    assert {each.header("User-Agent") for each in scripted.seen} == {"gym_http_client"}


def test_a_proxy_is_used(
    sessions: list[requests.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with ScriptedServer.of(EMPTY) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        with Client("http://gym.invalid:5000") as client:
            assert client.env_list_all() == {}
    assert [each.line for each in proxy.seen] == [
        "GET http://gym.invalid:5000/v1/envs/"
    ]
    assert len(sessions) == 1


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_token_file_may_begin_with_a_byte_order_mark(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xef\xbb\xbfs3cret\r\n")
    argument = str(file) if by == "argument" else None
    if argument is None:
        monkeypatch.setenv("GHS_TOKEN_FILE", str(file))
    with (
        ScriptedServer.of(EMPTY) as scripted,
        Server(scripted.url, token_file=argument).link() as link,
    ):
        link.request("GET", "/v1/envs/")
    assert scripted.seen[0].header("Authorization") == "Bearer s3cret"


@pytest.mark.parametrize(
    ("token", "sent"), [("t", "Bearer t"), ("", "Basic bWU6c2VjcmV0")]
)
def test_netrc_is_for_those_without_a_token(
    token: str, sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with (
        ScriptedServer.of(EMPTY) as scripted,
        Client(scripted.url, token=token) as client,
    ):
        client.env_list_all()
    assert scripted.seen[0].header("Authorization") == sent


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate for localhost and its key."""
    return certify(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secured(certificate: Path) -> Iterator[str]:
    """The URL of a server that proves to be localhost."""

    def converse(sock: ssl.SSLSocket) -> None:
        while read_request(sock) is not None:
            sock.sendall(EMPTY)

    with tls_server(certificate, converse) as port:
        yield f"https://localhost:{port}"


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("variable", "by_requests"),
    [("SSL_CERT_FILE", 0), ("REQUESTS_CA_BUNDLE", 1), ("CURL_CA_BUNDLE", 1)],
)
def test_certificates_that_the_environment_names(
    variable: str,
    by_requests: int,
    secured: str,
    certificate: Path,
    sessions: list[requests.Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(certificate))
    with Client(secured) as client:
        assert client.env_list_all() == {}
        assert len(sessions) == by_requests
        assert client.session
        assert client.env_list_all() == {}


@pytest.mark.toolchain
@pytest.mark.usefixtures("transport")
def test_a_certificate_that_nobody_vouches_for(secured: str) -> None:
    expected = pytest.raises(ServerUnreachable, match="CERTIFICATE_VERIFY")
    with Client(secured) as client, expected as caught:
        client.env_list_all()
    assert caught.value.attempts == 1


@pytest.mark.usefixtures("transport")
def test_the_time_limit_is_for_each_part_of_an_answer() -> None:
    def slowly(sock: socket.socket) -> None:
        for at in range(0, len(EMPTY), 20):
            sock.sendall(EMPTY[at : at + 20])
            time.sleep(0.15)

    with (
        ScriptedServer.of(slowly) as scripted,
        Client(scripted.url, timeout=0.5, retries=ONCE) as client,
    ):
        assert client.env_list_all() == {}


@pytest.mark.usefixtures("transport")
def test_no_time_limit() -> None:
    with (
        ScriptedServer.of(EMPTY) as scripted,
        Client(scripted.url, timeout=None) as client,
    ):
        assert client.env_list_all() == {}


def in_child(act: Callable[[], object]) -> int:
    """Do something in a forked process; return the status with which it exits."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.usefixtures("transport")
def test_a_forked_process_has_a_connection_of_its_own() -> None:
    with ScriptedServer.of(EMPTY) as scripted, Client(scripted.url) as client:
        client.env_list_all()
        assert in_child(client.env_list_all) == 0
        client.env_list_all()
    assert len(scripted.seen) == 3


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize("status", [200, 500])
def test_answers_that_are_nested_deep(depth: int, status: int) -> None:
    nested = http_answer(b"[" * depth + b"]" * depth, status=status)
    with (
        ScriptedServer.of(nested) as scripted,
        Client(scripted.url, retries=ONCE) as client,
        pytest.raises(requests.HTTPError, match="is it a gym_http_server"),
    ):
        client.env_list_all()
