"""Registry: connections that are free or leased, and hosts that wait for them."""

from __future__ import annotations

import select
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from gym_http_server.broker.idle_connection import IdleConnection
from gym_http_server.frame_socket import FrameSocket
from gym_http_wire.external.handshake import Hello

__all__ = ["Lease", "Registry", "Waiter"]


@dataclass(eq=False)
class Lease:
    """A connection that a host has.

    Attributes:
        line: The host's.
        connection: Its ID.
    """

    line: FrameSocket
    connection: str
    resume: str
    hello: Hello

    @property
    def attentive(self) -> bool:
        """Whether the host takes at once what it is told."""
        poll = select.poll()
        poll.register(self.line, select.POLLOUT)
        return bool(poll.poll(0))


@dataclass(eq=False)
class Waiter:
    """A host that wants connections, all or none.

    Attributes:
        until: Monotonic seconds.
    """

    line: FrameSocket
    name: str
    count: int
    until: float


@dataclass
class Registry:
    """All of them.

    Attributes:
        free: By name and then by ID, the one that came first at first.
        taken: By resume token.
        waiting: In the order in which they came.
    """

    free: dict[str, dict[str, IdleConnection]] = field(default_factory=dict)
    taken: dict[str, Lease] = field(default_factory=dict)
    waiting: deque[Waiter] = field(default_factory=deque)

    @property
    def count(self) -> int:
        """How many there are, free and taken."""
        return len(self.taken) + sum(map(len, self.free.values()))

    def add(self, arrival: IdleConnection) -> None:
        """Note that one is free."""
        assert arrival.hello is not None  # noqa: S101 - it was greeted
        self.free.setdefault(arrival.hello.name, {})[arrival.connection] = arrival

    def remove(self, arrival: IdleConnection) -> None:
        """Note that one is free no longer."""
        if arrival.hello is None:
            return
        free = self.free.get(arrival.hello.name, {})
        if free.get(arrival.connection) is arrival:
            del free[arrival.connection]
            if not free:
                del self.free[arrival.hello.name]

    def names(self) -> list[str]:
        """List the names of all, sorted."""
        return sorted({*self.free, *(each.hello.name for each in self.taken.values())})

    def takeable(self, name: str) -> list[IdleConnection]:
        """List who can be taken."""
        return [each for each in self.free.get(name, {}).values() if each.takeable]

    def free_with(self, resume: str) -> IdleConnection | None:
        """Find the free one that goes by a resume token."""
        for arrivals in self.free.values():
            for arrival in arrivals.values():
                if arrival.resume == resume:
                    return arrival
        return None

    def forget_line(self, line: FrameSocket) -> None:
        """Forget what a host had and wanted: it is gone."""
        self.taken = {k: v for k, v in self.taken.items() if v.line is not line}
        self.waiting = deque(each for each in self.waiting if each.line is not line)

    def listed(self) -> list[dict[str, Any]]:
        """Tell what environments there are, sorted by name."""
        hellos: dict[str, Hello] = {}
        free: dict[str, int] = {}
        taken: dict[str, int] = {}
        for name, arrivals in self.free.items():
            free[name] = len(arrivals)
            for arrival in arrivals.values():
                if arrival.hello is not None:
                    hellos.setdefault(name, arrival.hello)
        for each in self.taken.values():
            name = each.hello.name
            taken[name] = taken.get(name, 0) + 1
            hellos.setdefault(name, each.hello)
        return [
            {
                "action_space": hello.action_space,
                "capabilities": sorted(hello.capabilities),
                "env_id": f"external/{name}",
                "free": free.get(name, 0),
                "observation_space": hello.observation_space,
                "render_modes": hello.render_modes,
                "reward_channels": hello.reward_channels,
                "taken": taken.get(name, 0),
            }
            for name, hello in sorted(hellos.items())
        ]
