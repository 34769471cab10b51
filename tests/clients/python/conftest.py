"""Fixtures for tests of the Python client."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest
import requests

from gym_http_client import Client, RemoteVectorEnv
from tests.support.server import Server


@pytest.fixture(params=["socket", "requests"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with clients over sockets, and with clients over ``requests``."""
    if request.param == "requests":
        made = Client.__init__

        def with_session(self: Client, *args: Any, **options: Any) -> None:
            made(self, *args, **options)
            assert isinstance(self.session, requests.Session)

        monkeypatch.setattr(Client, "__init__", with_session)
    return str(request.param)


@pytest.fixture
def remote_vector(server: Server) -> Iterator[Callable[..., Any]]:
    """Return a factory of remote vectors."""
    made: list[Any] = []

    def make(
        env_id: str, url: str = server.url, *places: int, **options: Any
    ) -> RemoteVectorEnv:
        made.append(RemoteVectorEnv(url, env_id, *places, **options))
        return made[-1]  # type: ignore[no-any-return]

    yield make
    for vector in made:
        vector.close()


@pytest.fixture
def local_vector() -> Iterator[Callable[..., Any]]:
    """Return a factory of local vectors."""
    made: list[Any] = []

    def make(env_id: str, **options: Any) -> Any:
        mode = options.pop("autoreset_mode", None)
        if mode is not None:
            options["vector_kwargs"] = {"autoreset_mode": mode}
        made.append(gymnasium.make_vec(env_id, **options))
        return made[-1]

    yield make
    for vector in made:
        vector.close()
    # A closed AsyncVectorEnv has descriptors until it is forgotten.
    made.clear()
    gc.collect()
