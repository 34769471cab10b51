"""Allocates free connections to hosts, and takes released ones back."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable

import msgspec

from gym_http_server.external.connection import ConnectionDetails, Loss
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.services.broker.free_connection import FreeConnection
from gym_http_server.services.broker.free_connections import FreeConnections
from gym_http_server.services.broker.messages import LeaseRequest
from gym_http_server.services.broker.registry import Lease, Registry, Waiter
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    Op,
    RequestHead,
    answer,
    problem_answer,
    request,
)
from gym_http_wire.problems import ExternalAway

__all__ = ["Allocator"]

#: Names of connected environments that an error lists.
MAX_NAMES = 5

log = logging.getLogger("gym_http_server.broker")


class Allocator:
    """Allocates free connections to hosts: all that a host requests, or none.

    Args:
        registry: The connections, and the hosts that wait.
        connections: The free ones.
        disconnect: Called with the connection of a host that has ended.
    """

    def __init__(
        self,
        registry: Registry,
        connections: FreeConnections,
        disconnect: Callable[[FrameSocket], None],
    ) -> None:
        self._registry = registry
        self._connections = connections
        self._disconnect = disconnect

    def lease(self, host: FrameSocket, frame: Frame) -> None:
        """Lease connections to a host, now or as soon as enough are free."""
        request = msgspec.json.decode(frame.body, type=LeaseRequest)
        until = time.monotonic() + request.wait_s
        waiter = Waiter(host, request.name, request.count, until)
        self._registry.waiters.append(waiter)
        self.allocate()
        self.refuse_late(time.monotonic())

    def release(self, host: FrameSocket, frame: Frame) -> None:
        """Take a connection back from a host."""
        details = msgspec.json.decode(frame.body, type=ConnectionDetails)
        sock = host.take_socket()
        self._registry.end_lease(details.resume)
        if sock is not None:
            self._connections.add_released(sock, details)

    def adopt(self, host: FrameSocket, frame: Frame) -> None:
        """Record the leases of a host that an earlier broker had granted."""
        for each in msgspec.json.decode(frame.body, type=list[ConnectionDetails]):
            self._registry.leases[each.resume] = Lease(host, each)

    def lose(self, host: FrameSocket, frame: Frame) -> None:
        """Record that a host has lost a connection."""
        self._registry.lose(host, msgspec.json.decode(frame.body, type=Loss))

    def revoke(self, gone: frozenset[str]) -> None:
        """Have hosts end the connections of tokens that are gone.

        Args:
            gone: The names of these tokens.
        """
        for lease in list(self._registry.leases.values()):
            if lease.details.owner in gone:
                body = lease.details.resume.encode()
                try:
                    lease.host.send(Frame(Op.EXTERNAL_REVOKED, body=body))
                except OSError:
                    self._disconnect(lease.host)

    def allocate(self) -> None:
        """Allocate free connections to the waiting hosts, in FIFO order.

        Hosts that have lost theirs come first. A request for few does not overtake an
        earlier one for many.
        """
        self._replace_lost()
        registry = self._registry
        short: set[str] = set()
        for waiter in list(registry.waiters):
            found = registry.available(waiter.name)[: waiter.count]
            if waiter.name in short or len(found) < waiter.count:
                short.add(waiter.name)
                continue
            registry.waiters.remove(waiter)
            try:
                for connection in found:
                    self._pass(waiter.host, connection)
            except OSError:
                self._disconnect(waiter.host)

    def _pass(self, host: FrameSocket, connection: FreeConnection) -> None:
        details = connection.protocol.details
        body = msgspec.json.encode(details)
        host.send(answer(200, body), connection.fileno())
        self._connections.remove(connection)
        self._registry.leases[details.resume] = Lease(host, details)

    def _replace_lost(self) -> None:
        """Pass new connections to the hosts that have lost theirs."""
        registry = self._registry
        names = {lease.details.hello.name for lease in registry.lost.values()}
        for connection in itertools.chain(*map(registry.available, names)):
            lease = registry.replaced_by(connection, connection.protocol.details)
            if lease is None:
                self._explain(connection)
            elif lease.responsive:
                try:
                    self._replace(lease, connection)
                except OSError:
                    self._disconnect(lease.host)

    def _replace(self, lease: Lease, connection: FreeConnection) -> None:
        before, after = lease.details, connection.protocol.details
        head = RequestHead(value=before.resume)
        body = msgspec.json.encode(after)
        frame = request(Op.EXTERNAL_REPLACED, body, head)
        lease.host.send(frame, connection.fileno())
        self._connections.remove(connection)
        self._registry.end_lease(before.resume)
        self._registry.leases[after.resume] = Lease(lease.host, after)
        log.info(
            "%s, connection %s: in the place of %s",
            after.env_id,
            after.connection,
            before.connection,
        )

    def _explain(self, connection: FreeConnection) -> None:
        """Log once why a new connection waits, though another one was lost."""
        why = self._registry.why_not_replacing(connection)
        if why and not connection.explained:
            connection.explained = True
            details = connection.protocol.details
            log.info("%s, connection %s: %s", details.env_id, details.connection, why)

    def refuse_late(self, now: float) -> None:
        """Send an error to the hosts that have waited long enough."""
        for waiter in list(self._registry.waiters):
            if now >= waiter.until:
                self._registry.waiters.remove(waiter)
                words = self._shortage(waiter)
                try:
                    waiter.host.send(problem_answer(ExternalAway(words)))
                except OSError:
                    self._disconnect(waiter.host)

    def _shortage(self, waiter: Waiter) -> str:
        """Return why an instance cannot be created now, and a remedy."""
        name = f"external/{waiter.name}"
        names = self._registry.names()
        if waiter.name in names:
            free = len(self._registry.available(waiter.name))
            connections = "connection" if waiter.count == 1 else "connections"
            have = f"{free} {'is' if free == 1 else 'are'}" if free else "none is"
            return (
                f"{name} needs {waiter.count} free {connections}, and {have} free: "
                "try again later, or wait with wait_s; `gym-http-server "
                "ls` lists the instances that hold one"
            )
        connected = ", ".join(f"external/{each}" for each in names[:MAX_NAMES])
        if len(names) > MAX_NAMES:
            connected += f" and {len(names) - MAX_NAMES} more"
        others = f"connected: {connected}" if names else "no external environment is"
        return (
            f"{name} is not connected ({others}): start its program, or wait for it "
            "with wait_s"
        )
