"""What a web worker has of its fleet: nodes, placement, signatures, client, store."""

from __future__ import annotations

import functools

import gym_http_server
from gym_http_server.config.settings import Settings
from gym_http_server.fleet.page import Page
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import FleetStore
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.backends.nodes.callers import CallerSignatures
from gym_http_server.web.backends.nodes.client import NodeClient
from gym_http_server.web.backends.nodes.known import KnownNodes
from gym_http_server.web.backends.nodes.placement import Placement

__all__ = ["Fleet"]


class Fleet:
    """The fleet of this server.

    Args:
        settings: The settings.
        token: The fleet token.
        run: The run directory.

    Attributes:
        nodes: The nodes.
        placement: Chooses nodes for creates.
        callers: Signs requests to other nodes.
        client: Sends requests to other nodes.
    """

    def __init__(self, settings: Settings, token: str, run: RunDir) -> None:
        self._url = settings.fleet
        self._signatures = Signatures(token)
        self.nodes = KnownNodes(Page(run.path))
        self.placement = Placement(self.nodes, lambda: self.store)
        self.callers = CallerSignatures(self._signatures, self.nodes)
        self.client = NodeClient(self.nodes, settings.fleet_ca)

    @functools.cached_property
    def store(self) -> FleetStore:
        """The store, for what only it can decide; imports redis-py."""
        return FleetStore(self._url, gym_http_server.__version__, self._signatures)
