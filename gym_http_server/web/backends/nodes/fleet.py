"""What a web worker has of its fleet: nodes, placement, signatures, client, store."""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import Callable
from typing import TypeVar

import gevent  # type: ignore[import-untyped]

import gym_http_server
from gym_http_server.config.settings import Settings
from gym_http_server.errors import InstanceEnded, NodeAway, UnknownInstance
from gym_http_server.fleet.callers import (
    CallerSignatures,
    ForwardedCaller,
    SignedParts,
)
from gym_http_server.fleet.joining import may_be_called
from gym_http_server.fleet.numbers import number_of
from gym_http_server.fleet.page import Page
from gym_http_server.fleet.records import BadRecord, Record, read
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import FleetStore, StoreAway
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.backends.handover import RelayedStreams
from gym_http_server.web.backends.nodes.answers import NodeAnswer
from gym_http_server.web.backends.nodes.client import NodeClient, NodeRequest
from gym_http_server.web.backends.nodes.known import KnownNodes
from gym_http_server.web.backends.nodes.placement import Placement

__all__ = ["Fleet", "ask_each"]

#: Seconds in which other nodes answer what is asked of all of them.
TOGETHER_SECONDS = 1.0

_Answer = TypeVar("_Answer")


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
        relayed: The streams that this web worker relays to other nodes.
    """

    def __init__(self, settings: Settings, token: str, run: RunDir) -> None:
        self._settings = settings
        self._signatures = Signatures(token)
        self.nodes = KnownNodes(Page(run.path))
        self.placement = Placement(self.nodes, lambda: self.store)
        self.callers = CallerSignatures(self._signatures, lambda: self.nodes.own)
        self.client = NodeClient(self.nodes, self.callers, settings.fleet_ca)
        self.relayed = RelayedStreams()

    @functools.cached_property
    def store(self) -> FleetStore:
        """The store, for what only it can decide; imports redis-py."""
        url = self._settings.fleet
        return FleetStore(url, gym_http_server.__version__, self._signatures)

    def ask(
        self,
        node: Record,
        method: str,
        path: str,
        caller: ForwardedCaller = ForwardedCaller(),  # noqa: B008
        body: bytes = b"",
        *,
        timeout_s: float,
    ) -> NodeAnswer:
        """Send a node a request that no client has sent, once.

        Args:
            node: The node.
            method: As ``POST``.
            path: The path.
            caller: The caller for whom this node acts.
            body: The body.
            timeout_s: Seconds to wait for the answer.

        Raises:
            NodeAway: The node does not answer.
        """
        parts = SignedParts(method, path, secrets.token_hex(8), "")
        signature = self.callers.sign(node, caller, parts)
        headers = f"Authorization: {signature}\r\nX-Request-Id: {parts.request_id}\r\n"
        asked = NodeRequest(method, path, headers, body)
        return self.client.send(node, asked, repeatable=False, timeout_s=timeout_s)

    def ask_others(
        self,
        path: str,
        caller: ForwardedCaller = ForwardedCaller(),  # noqa: B008
    ) -> list[tuple[Record, NodeAnswer | None]]:
        """Return the answers of all other nodes to a GET; ``None`` of silent ones."""

        def ask(node: Record) -> NodeAnswer | None:
            with contextlib.suppress(NodeAway):
                return self.ask(node, "GET", path, caller, timeout_s=TOGETHER_SECONDS)
            return None

        return ask_each([each.record for each in self.nodes.others], ask)

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


def ask_each(
    nodes: list[Record], ask: Callable[[Record], _Answer | None]
) -> list[tuple[Record, _Answer | None]]:
    """Return the answers of nodes that are asked at once, ``None`` of slow ones.

    Args:
        nodes: The nodes.
        ask: Asks one, within `TOGETHER_SECONDS`; returns ``None`` if it is silent.
    """
    tasks = [gevent.spawn(ask, each) for each in nodes]
    # A long answer that has begun may take longer.
    gevent.joinall(tasks, timeout=2 * TOGETHER_SECONDS)
    answers = [each.value for each in tasks]
    # One that sends a byte now and then would hold memory for its answer.
    gevent.killall(tasks, block=False)
    return list(zip(nodes, answers, strict=True))
