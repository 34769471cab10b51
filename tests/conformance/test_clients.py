"""Every client passes all vectors, with a live server."""

from collections.abc import Callable

import pytest

from tests.support.drivers import DRIVERS, VECTORS, Program
from tests.support.server import Server

pytestmark = [
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]


@pytest.mark.live
@pytest.mark.parametrize("name", DRIVERS)
def test_all_vectors_pass(
    name: str, driver: Callable[[str], Program], server: Server
) -> None:
    done = driver(name).run("conformance", str(VECTORS), server.url)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
    assert "FAIL" not in done.stdout
    # Nothing was left out in silence: a check at least for each case.
    passed, words = done.stdout.splitlines()[-1].split(" ", 1)
    assert words == "passed, 0 failed"
    assert int(passed) > 1000
