"""Environments that Lua programs provide over TLS, whose data comes in small pieces."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_client import RemoteEnv
from tests.clients.local_toy import LocalToy, assert_same
from tests.clients.lua.test_lua_answers import certificate as certificate
from tests.clients.lua.test_lua_serve import ProviderProcess
from tests.support.api import Api
from tests.support.drivers import needs
from tests.support.peers.external_env import ExternalEnv
from tests.support.server import Server

PIECE = 50

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose broker runs from the beginning."""
    with Server() as server:
        ExternalEnv.to(Api(server)).drop()
        yield server


@contextlib.contextmanager
def secured(port: int, certificate: Path) -> Iterator[int]:
    """Run a TLS proxy that forwards a few bytes at a time; yield its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    ports: list[int] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def pass_on(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def attend(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        further = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, further[1]), pass_on(further[0], writer))

    async def serve() -> None:
        listening = await asyncio.start_server(attend, "127.0.0.1", 0, ssl=context)
        async with listening:
            ports.append(listening.sockets[0].getsockname()[1])
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


@pytest.mark.parametrize("interpreter", ["lua5.1", "lua5.4", "luajit"])
@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_steps_over_tls(
    server: Server,
    certificate: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    interpreter: str,
) -> None:
    needs(interpreter)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    reference = LocalToy("box")
    with (
        secured(server.port, certificate) as port,
        ProviderProcess(
            f"{scheme}://localhost:{port}", tmp_path, "box", "binary", interpreter
        ),
        RemoteEnv(server.url, "external/toy", wait_s=20) as env,
    ):
        assert_same(env.reset(seed=3)[0], reference.reset(seed=3)[0])
        for _ in range(20):
            action = env.action_space.sample()
            assert_same(env.step(action)[0], reference.step(action)[0])


def test_an_untrusted_server_is_refused(
    server: Server, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured(server.port, certificate) as port:
        with ProviderProcess(f"https://localhost:{port}", tmp_path) as provider:
            provider.wait_for("could not prove its identity")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with ProviderProcess(f"https://127.0.0.1:{port}", tmp_path) as provider:
            provider.wait_for("its certificate is not for 127.0.0.1")
