"""The broker of a server: who is there, and when nobody is any more."""

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
    """Give a client of a server of its own, whose broker is there and empty."""
    with Server(*flags) as server:
        api = Api(server)
        # It is there from the first connection on.
        ExternalEnv.to(api).drop()
        settled(api)
        yield api


def listed(api: Api, name: str = "game") -> Any:
    """Return what the registry tells of an environment; None if it is not there."""
    told = ok(api.get(f"/v1/registry/?search=external/{name}"))["envs"]
    return told[0]["external"] if told else None


def settled(api: Api, name: str = "game") -> None:
    """Wait until nobody is connected any more."""
    wait_until(lambda: listed(api, name) is None, message="the broker to be empty")


def tcp_place(server: Server) -> str:
    """Tell where a server lets those in who speak plain TCP, as a URL."""
    pattern = re.compile(r"connect in at (tcp://[0-9.]+:\d+)")
    return wait_until(lambda: pattern.search(server.stdout))[1]
