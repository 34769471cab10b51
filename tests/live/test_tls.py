"""The server's own TLS for clients, streams and external environments."""

import contextlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_client import Client, RemoteEnv, ServerUnreachable
from gym_http_server import healthcheck
from tests.live import test_show, test_streams
from tests.support.api import Api, Instance, error, ok
from tests.support.broker import wait_until_unlisted
from tests.support.peers.agent_calls import close_external, create_and_reset
from tests.support.peers.external_env import ExternalEnv
from tests.support.raw import SECURED, RawConnection
from tests.support.server import ROOT, Server
from tests.support.status_page import is_busy
from tests.support.tls import certificate_and_key
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain]

STREAMS = [
    test_streams.test_text_equals_rest,
    test_streams.test_a_hundred_steps_in_one_piece,
    test_streams.test_messages_sent_with_the_handshake_are_read,
    test_streams.test_leaving_does_not_end_the_instance,
    test_streams.test_pings_are_answered_between_requests,
    test_streams.test_a_close_is_answered,
    test_show.test_a_picture_is_that_of_the_local_environment,
]


@pytest.mark.parametrize("test", STREAMS)
def test_streams_over_tls(
    test: Callable[..., None], create_secured: Callable[..., Instance]
) -> None:
    test(create_secured)


def test_the_banner_names_https(secured_server: Server) -> None:
    assert secured_server.url.startswith("https://127.0.0.1:")
    assert f"{secured_server.url}/v1/envs/" in secured_server.stdout


def test_large_answers_and_bodies(create_secured: Callable[..., Instance]) -> None:
    instance = create_secured("toys/Big-v0", kwargs={"size": 4_000_000})
    assert len(instance.post("reset/", {}).body) > 4_000_000
    error(instance.post("step/", data=b"[" * 6_000_000), 400)


def test_a_client_that_reads_slowly_gets_a_whole_answer(
    create_secured: Callable[..., Instance], secured_server: Server
) -> None:
    instance = create_secured("toys/Big-v0", kwargs={"size": 1_000_000})
    instance.reset()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.socket() as plain:
        # The worker has written the whole answer, and closed, long before it is read.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", secured_server.port))
        with context.wrap_socket(plain) as sock:
            sock.sendall(
                f"GET {instance.path('observation_space/sample/')} HTTP/1.1\r\n"
                f"Host: localhost:{secured_server.port}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            answer = bytearray()
            while data := sock.recv(4096):
                answer += data
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head, re.IGNORECASE)
    assert length
    assert len(body) == int(length[1]) > 2_000_000


def test_requests_of_one_connection(secured_server: Server) -> None:
    host = f"Host: localhost:{secured_server.port}\r\n"
    with RawConnection(secured_server.port) as connection:
        for _ in range(3):
            connection.send(f"GET /v1/envs/ HTTP/1.1\r\n{host}\r\n".encode())
            assert connection.read_response().status == 200
        # A page of this server has https in its Origin.
        own = f"Origin: https://localhost:{secured_server.port}\r\n"
        connection.send(f"GET /v1/envs/ HTTP/1.1\r\n{host}{own}\r\n".encode())
        assert connection.read_response().status == 200
        connection.send(
            f"GET /v1/envs/ HTTP/1.1\r\n{host}Origin: http://x\r\n\r\n".encode()
        )
        assert connection.read_response().status == 403


def test_environments_connect_in(secured_server: Server) -> None:
    api = Api(secured_server)
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external)
        close_external(instance, external)
    wait_until_unlisted(api)


def test_clients_without_tls_get_a_hint(secured_server: Server) -> None:
    with socket.create_connection(("127.0.0.1", secured_server.port), 10) as sock:
        sock.sendall(b"GET /v1/envs/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while more := sock.recv(65536):
            answer += more
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"connect to it with https://" in answer


def test_old_versions_of_tls_are_refused(secured_server: Server) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", secured_server.port), 10) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain)


def test_slow_handshakes_are_cut_off(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    certificate, key = certificate_and_key(tmp_path)
    flags = ["--certfile", str(certificate), "--keyfile", str(key)]
    server = make_server(*flags, "--request-deadline", "0.5")
    with secured(server, certificate), contextlib.ExitStack() as stack:
        sockets = []
        for sent in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
            sock = socket.create_connection(("127.0.0.1", server.port), 10)
            sockets.append(stack.enter_context(sock))
            sock.sendall(sent)
        ok(Api(server).get("/v1/envs/"))
        for sock in sockets:
            with contextlib.suppress(ConnectionResetError):
                while sock.recv(1024):
                    pass
        assert server.stop() == 0


#: Of which a web worker has an eighth for TLS.
DESCRIPTORS = 256


@pytest.mark.parametrize("stage", ["connected", "half a handshake", "half a head"])
def test_idle_connections_do_not_lock_clients_out(
    stage: str, make_server: Callable[..., Server], tmp_path: Path
) -> None:
    certificate, key = certificate_and_key(tmp_path)
    flags = ["--certfile", str(certificate), "--keyfile", str(key), "--workers", "1"]
    prefix = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
    server = make_server(*flags, "--request-deadline", "60", prefix=prefix)
    with secured(server, certificate), contextlib.ExitStack() as stack:
        instance = Api(server).create()
        for _ in range(DESCRIPTORS // 2):
            plain = socket.create_connection(("127.0.0.1", server.port), 10)
            stack.enter_context(plain)
            if stage == "half a handshake":
                plain.sendall(b"\x16\x03\x01\x02\x00\x01")
            elif stage == "half a head":
                # Only those that have a place at the moment get so far.
                plain.settimeout(1)
                with contextlib.suppress(OSError):
                    context = SECURED[server.port]
                    sock = context.wrap_socket(plain, server_hostname="localhost")
                    stack.enter_context(sock).sendall(b"GET /v1/ HTTP/1.1\r\nHost: ")
        for _ in range(5):
            instance.reset()
        ok(instance.post("step/", {"action": 1}))
        instance.close()


def test_a_call_in_flight_is_answered_when_the_server_stops(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    certificate, key = certificate_and_key(tmp_path)
    flags = ["--certfile", str(certificate), "--keyfile", str(key)]
    server = make_server(*flags, "--import", "tests.support.envs.hostile")
    with secured(server, certificate):
        instance = Api(server).create("hostile/Slow-v0", kwargs={"seconds": 1.0})
        instance.reset()
        with RawConnection(server.port) as connection:
            body = '{"action": 1}'
            connection.send(
                f"POST {instance.path('step/')} HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            wait_until(lambda: is_busy(instance))
            server.stop(signal.SIGTERM)
            assert connection.read_response().status == 200


@contextlib.contextmanager
def secured(server: Server, certificate: Path) -> Iterator[None]:
    """Have the tests' client speak TLS to a server."""
    SECURED[server.port] = ssl.create_default_context(cafile=str(certificate))
    try:
        yield
    finally:
        del SECURED[server.port]


def test_the_python_client_steps(
    secured_server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(ssl.get_server_certificate(("127.0.0.1", secured_server.port)))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    url = secured_server.url.replace("127.0.0.1", "localhost")
    env: Any = RemoteEnv(url, "CartPole-v1")
    try:
        env.reset(seed=1)
        assert env.step(1)[1] == 1.0
    finally:
        env.close()


PROBLEMS = [
    # name of the certificate, days, trusted, words of the error
    ("localhost", 2, False, "self[- ]signed certificate"),
    ("localhost", -1, True, "certificate has expired"),
    ("other.example", 2, True, "not valid for 'localhost'"),
]


@pytest.mark.parametrize(("name", "days", "trusted", "words"), PROBLEMS)
def test_the_python_client_names_the_problem(
    name: str,
    days: int,
    trusted: bool,
    words: str,
    launch_server: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    certificate, key = certificate_and_key(tmp_path, name, days=days)
    server = launch_server("--certfile", str(certificate), "--keyfile", str(key))
    server.wait_listening()
    with serving_file(server):
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        url = f"https://localhost:{server.port}"
        with pytest.raises(ServerUnreachable, match=words):
            RemoteEnv(url, "CartPole-v1")


@contextlib.contextmanager
def serving_file(server: Server) -> Iterator[None]:
    """Have the tests' own requests to a server trust any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    SECURED[server.port] = context
    try:
        yield
        server.stop()
    finally:
        del SECURED[server.port]


def test_the_healthcheck(secured_server: Server) -> None:
    healthy, line = healthcheck.check(secured_server.port, secure=True)
    assert healthy
    assert line == f"healthy: {secured_server.url}/healthz answered 200"
    env = {"GHS_PORT": str(secured_server.port), "GHS_CERTFILE": "/some/where"}
    env |= {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-m", "gym_http_server.healthcheck"]
    assert subprocess.run(command, env=env, check=True, capture_output=True).stdout


def misconfigured(folder: Path) -> list[tuple[list[str], str]]:
    """List unworkable flags, and the error for each."""
    certificate, key = map(str, certificate_and_key(folder))
    other = str(certificate_and_key(folder, "other.example")[1])
    locked = str(folder / "locked.pem")
    command = ["openssl", "rsa", "-aes128", "-in", key, "-passout", "pass:secret"]
    subprocess.run([*command, "-out", locked], check=True, capture_output=True)
    (folder / "text").write_text("no certificate")
    text, absent = str(folder / "text"), str(folder / "absent")
    pair = ["--certfile", certificate, "--keyfile"]
    return [
        (["--certfile", certificate], "without --keyfile: set both"),
        (["--keyfile", key], "without --certfile: set both"),
        ([*pair, absent], f"--keyfile is '{absent}', which cannot be read: No such"),
        ([*pair, other], "expected the key of the certificate in --certfile"),
        ([*pair, locked], "which has a password: expected a key without"),
        ([*pair, text], "expected a certificate and its key in PEM"),
        (["--certfile", text, "--keyfile", key], "a certificate and its key in PEM"),
        (["--certfile", str(folder), "--keyfile", key], "cannot be read: Is a dir"),
    ]


def test_misuse_is_reported_in_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "gym_http_server", "serve", "--port", "0"]
    running = [
        (
            subprocess.Popen(
                [*command, *flags], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
            ),
            words,
        )
        for flags, words in misconfigured(tmp_path)
    ]
    for process, words in running:
        output = process.communicate(timeout=60)[1].decode()
        assert process.returncode == 1, output
        assert words in output
        assert output.count("\n") == 1, output


def test_https_of_a_server_without_tls(server: Server) -> None:
    url = server.url.replace("http://", "https://")
    for use in (lambda: RemoteEnv(url, "CartPole-v1"), Client(url).env_list_all):
        with pytest.raises(ServerUnreachable, match="its address begins with http://"):
            use()
