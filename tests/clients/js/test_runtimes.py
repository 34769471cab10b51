"""The JavaScript client in runtimes with and without a WebSocket and `crypto`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.drivers import CLIENTS, Program, needs
from tests.support.faults import no_upgrade_proxy
from tests.support.faults.no_upgrade_proxy import NoUpgradeProxy, UpgradeHandler
from tests.support.reference_runs import ReferenceRun
from tests.support.server import Server

DRIVER = str(CLIENTS / "js/tests/driver.mjs")
TOKEN = "a-token-that-goes-into-no-address"
# As Node 18, and Node before 22.
NO_CRYPTO = (
    "data:text/javascript,"
    "Object.defineProperty(globalThis,'crypto',{value:undefined,configurable:true})"
)
NO_WEBSOCKET = "data:text/javascript,delete globalThis.WebSocket"

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]
MakeServer = Callable[..., Server]


def played(url: str, folder: Path, *flags: str, token: str | None = None) -> str:
    """Play over a stream, check the output, and return the rest of it."""
    needs("node")
    walk = ReferenceRun("CartPole-v1", 3, 60)
    program = Program(("node", *flags, DRIVER), {})
    done = program.run(*walk.args(url, "stream", folder), token=token)
    assert done.returncode == 0, done.stdout + done.stderr
    walk.compare(done.stdout)
    return done.stderr


def test_without_crypto(server: Server, tmp_path: Path) -> None:
    assert played(server.url, tmp_path, "--import", NO_CRYPTO) == ""


@pytest.mark.parametrize(
    "flags",
    [("--import", NO_WEBSOCKET), ("--experimental-websocket",)],
    ids=["client's-own", "runtime's-own"],
)
def test_streams_with_a_token(
    make_server: MakeServer, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """By a header where there can be one, else by a ticket."""
    server = make_server("--token", TOKEN, token=TOKEN)
    message = played(server.url, tmp_path, *flags, token=TOKEN)
    # It would be by REST that a stream that cannot be opened is made up for.
    assert "steps went over" not in message
    assert TOKEN not in server.log()


@pytest.mark.parametrize(
    "way", [no_upgrade_proxy.strip_upgrade, no_upgrade_proxy.refuse_upgrade]
)
@pytest.mark.parametrize(
    "flags",
    [("--import", NO_WEBSOCKET), ("--experimental-websocket",)],
    ids=["client's-own", "runtime's-own"],
)
def test_without_streams_steps_go_by_rest(
    server: Server, tmp_path: Path, way: UpgradeHandler, flags: tuple[str, ...]
) -> None:
    with NoUpgradeProxy(server.port, way) as proxy:
        message = played(proxy.url, tmp_path, *flags)
    assert "steps went over rest" in message
    # Three in a row, and rarer ones on a machine on which the steps take seconds.
    assert 1 <= proxy.upgrades <= 3 + 6


def test_the_token_may_be_in_the_address(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server("--token", TOKEN, token=TOKEN)
    played(server.url.replace("//", f"//:{TOKEN}@"), tmp_path)
