"""What a web worker has of its fleet: nodes, placement, signatures, client, store."""

from __future__ import annotations

import contextlib
import functools

import gym_http_server
from gym_http_server.config.settings import Settings
from gym_http_server.errors import InstanceEnded, UnknownInstance
from gym_http_server.fleet.joining import may_be_called
from gym_http_server.fleet.numbers import number_of
from gym_http_server.fleet.page import Page
from gym_http_server.fleet.records import BadRecord, Record, read
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import FleetStore, StoreAway
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
        self._settings = settings
        self._signatures = Signatures(token)
        self.nodes = KnownNodes(Page(run.path))
        self.placement = Placement(self.nodes, lambda: self.store)
        self.callers = CallerSignatures(self._signatures, self.nodes)
        self.client = NodeClient(self.nodes, settings.fleet_ca)

    @functools.cached_property
    def store(self) -> FleetStore:
        """The store, for what only it can decide; imports redis-py."""
        url = self._settings.fleet
        return FleetStore(url, gym_http_server.__version__, self._signatures)

    def find(self, instance_id: str) -> Record:
        """Return the other node that issued an instance ID.

        The member learns of a node that has joined within a second. Until then, the
        store is asked.

        Raises:
            InstanceEnded: The node is gone.
            UnknownInstance: No node has had its number.
        """
        try:
            return self.nodes.find(instance_id)
        except (InstanceEnded, UnknownInstance):
            node = self._joined_just_now(number_of(instance_id))
            if node is None:
                raise
            return node

    def _joined_just_now(self, number: str) -> Record | None:
        """Return the node that has a number in the store, but for this one."""
        with contextlib.suppress(StoreAway, BadRecord):
            if number and (data := self.store.record(number)):
                node = read(number, data, self._signatures)
                own = node.boot == self.nodes.own.boot
                if not own and may_be_called(node.url, self._settings):
                    return node
        return None
