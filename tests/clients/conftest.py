"""The drivers of all clients, each built once for all tests."""

from collections.abc import Callable

import pytest

from tests.support.drivers import Program, prepare


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Program]:
    """Give a function from a driver's name to the driver, built if need be."""
    built: dict[str, Program] = {}

    def get(name: str) -> Program:
        if name not in built:
            built[name] = prepare(name, tmp_path_factory.mktemp(name))
        return built[name]

    return get
