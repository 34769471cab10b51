"""Streams at the node of a fleet that has an instance, instead of through another one.

A ticket opens them: the token is sent only to the address that the user named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from gym_http_client.errors import ServerError
from gym_http_client.http.addresses import Address
from gym_http_client.http.error_mapping import json_object
from gym_http_client.http.requester import Requester
from gym_http_client.http.requests_transport import proxy_for

__all__ = ["NODE_SECONDS", "NodeStream", "NodeStreams"]

#: Seconds in which a node must answer; then the stream goes through the first address.
NODE_SECONDS = 1.0
# The header by which the servers of a fleet name the node of an instance.
_NODE = "gym-node"
_HTTP = {"ws": "http", "wss": "https"}
_URL = re.compile(r"(wss?)://([\w.:/%\[\]~-]+?)(/v1/envs/\w+/stream)/?", re.ASCII)


class NodeStream(NamedTuple):
    """Where a stream may be opened, once.

    Attributes:
        address: The node's, without a token.
        path: The stream's, below the address.
        ticket: The ticket that opens it.
    """

    address: Address
    path: str
    ticket: str


class NodeStreams:
    """Finds out where the streams of one instance are opened without another node.

    Args:
        link: Sends requests to the first address.
        address: The first address.
        instance_id: The instance.

    Attributes:
        node: Name of the instance's node; "" if the server is in no fleet, or no answer
            has named it.
    """

    def __init__(self, link: Requester, address: Address, instance_id: str) -> None:
        self._link = link
        self._address = address
        self._instance_id = instance_id
        self._wanted = True
        self.node = ""

    def learn(self, headers: Mapping[str, str]) -> None:
        """Read the headers of an answer about the instance, by names in lower case."""
        self.node = headers.get(_NODE, self.node)

    def find(self) -> NodeStream | None:
        """Request a ticket for a stream at the instance's node.

        Returns ``None`` if the request fails, or the node has no URL that is safe to
        use. On a server without a fleet, this sends nothing.
        """
        if not self.node or not self._wanted:
            return None
        body = msgspec.json.encode({"instance_id": self._instance_id})
        try:
            reply = self._link.request(
                "POST",
                "/v1/tickets/",
                body=body,
                content_type="application/json",
                within=NODE_SECONDS,
            )
        except ServerError:
            return None
        if reply.status != 200:
            return None
        answer = json_object(reply)
        found = self._checked(answer.get("stream_url"), answer.get("ticket"))
        # Other answers would have the same URL.
        self._wanted = found is not None
        return found

    def _checked(self, url: object, ticket: object) -> NodeStream | None:
        """Return a stream if its URL is good; never one without TLS instead of with."""
        if not isinstance(url, str) or not isinstance(ticket, str):
            return None
        parts = _URL.fullmatch(url)
        if parts is None:
            return None
        scheme, place, path = parts.groups()
        if path != f"/v1/envs/{self._instance_id}/stream":
            return None
        if scheme == "ws" and self._address.scheme != "http":
            return None
        try:
            address = Address.parse(f"{_HTTP[scheme]}://{place}", token="")
        except ValueError:
            return None
        # Streams do not support proxies.
        return None if proxy_for(address) else NodeStream(address, path, ticket)
