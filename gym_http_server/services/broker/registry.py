"""The registry: connections that are free or leased, and hosts that wait for them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gym_http_server.external.connection import ConnectionDetails, Loss
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.poller import wait_writable
from gym_http_server.services.broker.free_connection import FreeConnection
from gym_http_wire.external.handshake import Hello

__all__ = ["Lease", "Registry", "Waiter"]

#: How late a host may read the last bytes of a connection.
LATE_SECONDS = 1.0


@dataclass(eq=False)
class Lease:
    """A connection that a host has leased.

    Attributes:
        host: The connection to the host.
        details: The record of the leased connection.
        heard_at: When the environment was last heard, if the connection is lost.
    """

    host: FrameSocket
    details: ConnectionDetails
    heard_at: float = 0.0

    @property
    def responsive(self) -> bool:
        """Whether the host reads its messages at once."""
        return wait_writable(self.host, 0.0)


@dataclass(eq=False)
class Waiter:
    """A host that waits for several connections, and gets all of them or none.

    Attributes:
        host: The connection to the host.
        name: Name of the environment.
        count: Number of connections.
        until: When it gets an error instead; monotonic seconds.
    """

    host: FrameSocket
    name: str
    count: int
    until: float


@dataclass
class Registry:
    """All connections whose hello was accepted.

    Attributes:
        free: By name and then by ID, the oldest first.
        leases: By resume secret.
        lost: Those whose connection is lost, and may be replaced by a new one.
        waiters: In the order in which they came.
    """

    free: dict[str, dict[str, FreeConnection]] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    lost: dict[str, Lease] = field(default_factory=dict)
    waiters: deque[Waiter] = field(default_factory=deque)

    @property
    def count(self) -> int:
        """Number of connections, free and leased."""
        return len(self.leases) + sum(map(len, self.free.values()))

    def held_by(self, owner: str) -> int:
        """Count the connections that a token has opened, free and leased."""
        free = (
            x.protocol.details for each in self.free.values() for x in each.values()
        )
        leased = (each.details for each in self.leases.values())
        return sum(each.owner == owner for each in itertools.chain(free, leased))

    def add(self, connection: FreeConnection) -> None:
        """Add a free connection."""
        details = connection.protocol.details
        self.free.setdefault(details.hello.name, {})[details.connection] = connection

    def remove(self, connection: FreeConnection) -> None:
        """Remove a free connection, if it is registered."""
        if not connection.protocol.hello_accepted:
            return
        details = connection.protocol.details
        free = self.free.get(details.hello.name, {})
        if free.get(details.connection) is connection:
            del free[details.connection]
            if not free:
                del self.free[details.hello.name]

    def names(self) -> list[str]:
        """List the names of all environments, sorted."""
        leased = (lease.details.hello.name for lease in self.leases.values())
        return sorted({*self.free, *leased})

    def available(self, name: str) -> list[FreeConnection]:
        """List the free connections that can be leased now."""
        free = self.free.get(name, {}).values()
        return [each for each in free if each.protocol.transferable]

    def leased_before(self, hello: Hello, owner: str) -> Lease | None:
        """Return the leased connection that a hello of this owner resumes."""
        lease = self.leases.get(hello.resume)
        return lease if lease and lease.details.resumed_by(hello, owner) else None

    def lose(self, host: FrameSocket, loss: Loss) -> None:
        """Record that a host has lost a connection, unless that was resumed since."""
        lease = self.leases.get(loss.resume)
        if lease is None or lease.host is not host:
            return
        if lease.details.resumptions == loss.resumptions:
            lease.heard_at = loss.heard_at
            self.lost[loss.resume] = lease

    def end_lease(self, resume: str) -> None:
        """Remove the lease of a connection."""
        self.leases.pop(resume, None)
        self.lost.pop(resume, None)

    def replaced_by(
        self, connection: FreeConnection, details: ConnectionDetails
    ) -> Lease | None:
        """Return the lost connection in whose place a new one may be leased.

        Args:
            connection: The new one.
            details: Its record.
        """
        found = (
            lease
            for lease in self._lost_before(connection, details)
            if not lease.details.not_replaced_by(details)
        )
        return next(found, None)

    def why_not_replacing(self, connection: FreeConnection) -> str:
        """Return why a new connection replaces none that is lost; "" if none is."""
        details = connection.protocol.details
        lost = next(self._lost_before(connection, details), None)
        if lost is None:
            return ""
        why = lost.details.not_replaced_by(details)
        return f"not in the place of {lost.details.connection}, as {why}"

    def _lost_before(
        self, connection: FreeConnection, details: ConnectionDetails
    ) -> Iterator[Lease]:
        """List the lost connections of the same name, for a new one."""
        if connection.may_replace:
            for lease in self.lost.values():
                # If it was heard later, both programs ran at the same time.
                later = lease.heard_at - connection.opened_at > LATE_SECONDS
                if lease.details.hello.name == details.hello.name and not later:
                    yield lease

    def free_before(self, hello: Hello, owner: str) -> FreeConnection | None:
        """Return the free connection that a hello of this owner resumes."""
        free = self.free.get(hello.name, {}).values()
        found = (x for x in free if x.protocol.details.resumed_by(hello, owner))
        return next(found, None)

    def forget_host(self, host: FrameSocket) -> None:
        """Remove the leases and the waiter of a host that has ended."""
        self.leases = {k: v for k, v in self.leases.items() if v.host is not host}
        self.lost = {k: v for k, v in self.lost.items() if v.host is not host}
        self.waiters = deque(each for each in self.waiters if each.host is not host)

    def listed(self) -> list[dict[str, Any]]:
        """Describe all environments, sorted by name."""
        hellos: dict[str, Hello] = {}
        leased: dict[str, int] = {}
        for name, connections in self.free.items():
            for connection in connections.values():
                hellos.setdefault(name, connection.protocol.details.hello)
        for lease in self.leases.values():
            name = lease.details.hello.name
            leased[name] = leased.get(name, 0) + 1
            hellos.setdefault(name, lease.details.hello)
        return [
            {
                "action_space": hello.action_space,
                "capabilities": sorted(hello.capabilities),
                "env_id": f"external/{name}",
                "free": len(self.free.get(name, {})),
                "observation_space": hello.observation_space,
                "render_modes": hello.render_modes,
                "reward_channels": hello.reward_channels,
                "taken": leased.get(name, 0),
            }
            for name, hello in sorted(hellos.items())
        ]
