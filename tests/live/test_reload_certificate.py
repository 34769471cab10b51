"""A reload has new TLS handshakes use a new certificate, and ends no connection."""

import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.api import Api, ok
from tests.support.raw import SECURED, RawConnection
from tests.support.reloads import USER, Tokens, lines_about, reload, reloaded
from tests.support.server import Server
from tests.support.tls import certificate_and_key
from tests.support.token_file import api_of, token_of
from tests.support.wait import wait_until
from tests.support.websocket import TEXT, WebSocket

pytestmark = [pytest.mark.live, pytest.mark.toolchain]


class Secured:
    """A server with TLS and two web workers, and the files that it reads."""

    def __init__(self, folder: Path) -> None:
        (folder / "new").mkdir()
        self.tokens = Tokens(folder)
        self.tokens.write(root="admin", ada=USER)
        self.old = certificate_and_key(folder, days=2)
        self.new = certificate_and_key(folder / "new", days=5)
        self.files = folder / "cert.pem", folder / "key.pem"
        self.install(*self.old)
        flags = ["--certfile", str(self.files[0]), "--keyfile", str(self.files[1])]
        flags += ["--tokens", str(self.tokens.path), "--workers", "2"]
        self.server = Server(*flags, token=token_of("root"))

    def install(self, certificate: Path, key: Path) -> None:
        """Replace certificate and key, as programs that renew them do."""
        for source, target in zip((certificate, key), self.files, strict=True):
            copied = target.with_suffix(".new")
            shutil.copy(source, copied)
            copied.rename(target)

    def trust(self, certificate: Path) -> None:
        """Have further connections of the tests trust only this certificate."""
        context = ssl.create_default_context(cafile=str(certificate))
        SECURED[self.server.port] = context

    def shown(self) -> set[str]:
        """Return the certificates that eight connections get."""
        place = ("127.0.0.1", self.server.port)
        return {ssl.get_server_certificate(place) for _ in range(8)}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    """A server whose certificate the tests trust."""
    made = Secured(tmp_path)
    with made.server:
        made.trust(made.old[0])
        yield made
        del SECURED[made.server.port]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server that gets no new certificate."""
    made = Secured(tmp_path_factory.mktemp("old"))
    with made.server:
        made.trust(made.old[0])
        yield made
        del SECURED[made.server.port]


def get(connection: RawConnection) -> int:
    """Send a GET over an open connection, and return the status of the answer."""
    connection.send(
        b"GET /v1/envs/ HTTP/1.1\r\nHost: localhost\r\n"
        b"Authorization: Bearer %b\r\n\r\n" % token_of("root").encode()
    )
    return connection.read_response().status


def test_new_handshakes_get_the_new_certificate(secured: Secured) -> None:
    server = secured.server
    workers = set(processes.gunicorn(server.pid)[1])
    instance = Api(server).create()
    stream = WebSocket.to(instance, sec_websocket_protocol=TEXT)
    kept = RawConnection(server.port)
    slow = RawConnection(server.port)
    slow.send(b"GET /v1/envs/ HTTP/1.1\r\nHost: localhost\r\n")
    assert get(kept) == 200
    assert secured.shown() == {secured.old[0].read_text()}
    secured.install(*secured.new)
    said = reloaded(server)
    (end,) = (
        line.removeprefix("notAfter=") for line in ends(secured.new[0]).splitlines()
    )
    assert said == f"a certificate that ends at {end}\n"
    assert secured.shown() == {secured.new[0].read_text()}
    # What is open goes on.
    assert stream.call(op="reset", seed=1)["status"] == 200
    assert get(kept) == 200
    slow.send(f"Authorization: Bearer {token_of('root')}\r\n\r\n".encode())
    assert slow.read_response().status == 200
    for each in (stream, kept, slow):
        each.close()
    secured.trust(secured.new[0])
    ok(Api(server).get("/v1/envs/"))
    assert set(processes.gunicorn(server.pid)[1]) == workers


def ends(certificate: Path) -> str:
    """Return the end of a certificate, as openssl prints it."""
    import subprocess

    command = ["openssl", "x509", "-in", str(certificate), "-noout", "-enddate"]
    command += ["-dateopt", "iso_8601"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.replace(" ", "T").replace("Z", "+00:00")


@pytest.mark.parametrize("wrong", ["other key", "no key", "no certificate", "garbage"])
def test_a_pair_with_a_mistake_changes_nothing(unchanged: Secured, wrong: str) -> None:
    server = unchanged.server
    server.begin_log()
    certificate, key = unchanged.files
    unchanged.install(*unchanged.old)
    unchanged.tokens.write(root="admin", carol=USER)
    if wrong == "other key":
        unchanged.install(unchanged.new[0], unchanged.old[1])
        words = "expected the key of the certificate in --certfile"
    elif wrong == "no key":
        key.unlink()
        words = "--keyfile is"
    elif wrong == "no certificate":
        certificate.unlink()
        words = "--certfile is"
    else:
        certificate.write_text("-----BEGIN CERTIFICATE-----\n")
        words = "expected a certificate and its key in PEM"
    done = reload(server)
    assert (done.exit_code, done.stdout) == (1, "")
    assert words in done.stderr
    (line,) = lines_about(server, "cannot reload: ")
    assert words in line
    assert unchanged.shown() == {unchanged.old[0].read_text()}
    # Nor has the file of tokens changed anything, though it has no mistake.
    assert api_of(server, "carol").get("/v1/envs/").status == 401
    assert api_of(server, "ada").get("/v1/envs/").status == 200


def test_a_web_worker_that_starts_later_has_the_checked_certificate(
    secured: Secured,
) -> None:
    server = secured.server
    before = set(processes.gunicorn(server.pid)[1])
    secured.install(secured.new[0], secured.old[1])
    for worker in before:
        worker.kill()

    def replaced() -> bool:
        now = set(processes.gunicorn(server.pid)[1])
        return len(now) == 2 and not now & before

    wait_until(replaced, 20.0, "new web workers")
    assert secured.shown() == {secured.old[0].read_text()}
    secured.install(*secured.new)
    reloaded(server)
    assert secured.shown() == {secured.new[0].read_text()}
