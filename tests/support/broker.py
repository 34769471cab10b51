"""A server with a broker, and the external environments that it lists."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from tests.support.api import Api, ok
from tests.support.peers.external_env import ExternalEnv
from tests.support.server import Server
from tests.support.wait import wait_until


@contextlib.contextmanager
def server_with_broker(*flags: str) -> Iterator[Api]:
    """Start a server, wait until its broker runs and is empty, and yield a client."""
    with Server(*flags) as server:
        api = Api(server)
        # The broker is forked for the first connection.
        ExternalEnv.to(api).drop()
        wait_until_unlisted(api)
        yield api


@contextlib.contextmanager
def impatient_server() -> Iterator[Api]:
    """Start a server with a broker that waits 0.3 s for lost environments."""
    flags = ["--external-grace", "0.3", "--external-deadline", "0.5"]
    with server_with_broker(*flags, "--external-heartbeat", "0.3") as api:
        yield api


def listed_env(api: Api, name: str = "game") -> Any:
    """Return the registry's entry of an external environment, or None."""
    body = ok(api.get(f"/v1/registry/?search=external/{name}"))["envs"]
    return body[0]["external"] if body else None


def wait_until_unlisted(api: Api, name: str = "game") -> None:
    """Wait until no environment of a name is connected."""
    wait_until(lambda: listed_env(api, name) is None, message="the broker to be empty")


def tcp_url(server: Server) -> str:
    """Return the URL at which a server accepts environments by plain TCP."""
    pattern = re.compile(r"connect at (tcp://[0-9.]+:\d+)")
    return wait_until(lambda: pattern.search(server.stdout))[1]
