"""No client retries a create when the external environment is not connected.

Each driver creates an instance of one; a proxy that changes nothing counts its tries.
"""

from collections.abc import Callable

import pytest

from tests.clients.test_bad_servers import NAMES, parsed_error
from tests.support.drivers import Program
from tests.support.faults.bad_server import BadServer
from tests.support.server import Server

pytestmark = [
    pytest.mark.live,
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]
ENV_ID = "external/nobody"


@pytest.fixture(params=NAMES)
def program(
    request: pytest.FixtureRequest, driver: Callable[[str], Program]
) -> Program:
    return driver(request.param)


@pytest.mark.parametrize("wait_s", ["0", "1"])
def test_a_missing_environment_is_final(
    program: Program, server: Server, wait_s: str
) -> None:
    """The drivers have a minute, enough for a dozen retries."""
    with BadServer(server.port, {}) as bad_server:
        error = parsed_error(
            program.output("create", bad_server.url, ENV_ID, wait_s).strip()
        )
    assert (error.kind, error.status, error.code) == ("api", "503", "external-away")
    assert f"{ENV_ID} is not connected" in error.message
    assert error.url == f"{bad_server.url}/v1/envs/"
    assert len(bad_server.at("create")) == 1


def test_the_wait_is_on_top_of_time_limits(program: Program, server: Server) -> None:
    with BadServer(server.port, {}) as bad_server:
        printed = program.output("create", bad_server.url, ENV_ID, "2", "1").strip()
    assert parsed_error(printed).code == "external-away", printed
    assert len(bad_server.at("create")) == 1
