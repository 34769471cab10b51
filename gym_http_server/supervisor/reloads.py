"""Reloads: sends the names of removed tokens to hosts and services, which confirm."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence

from gym_http_server.config.inherited_settings import Replaced
from gym_http_server.host.host import REVOKE
from gym_http_server.processes import log_lines
from gym_http_server.processes.poller import Poller
from gym_http_server.supervisor.hosts import Hosts
from gym_http_server.supervisor.instance import Instance
from gym_http_server.supervisor.owners import Owners
from gym_http_server.supervisor.services import PeerService

__all__ = ["Reloads"]

#: Seconds after which a reload is answered, although some processes are busy.
CONFIRM_SECONDS = 2.0


class Reloads:
    """Sends the changes of a reload to the processes below the supervisor.

    A host in a long call reads them after it, and the reload is answered before.

    Args:
        hosts: The instances.
        owners: Has the quotas of tokens.
        services: The services with connections.
        poller: Polls for their confirmations.
    """

    def __init__(
        self,
        hosts: Hosts,
        owners: Owners,
        services: Sequence[PeerService],
        poller: Poller,
    ) -> None:
        self._hosts = hosts
        self._owners = owners
        self._services = services
        self._gone: frozenset[str] = frozenset()
        self._number = 0
        # Those that have not confirmed the last reload, and hosts without it so far.
        self._waiting: set[PeerService | Instance] = set()
        self._unsent: set[Instance] = set()
        self._replaced = Replaced({}, self._gone, "")
        self._answer: Callable[[list[str]], None] | None = None
        self._until = 0.0
        for service in services:
            self._watch(service, poller)

    def _watch(self, service: PeerService, poller: Poller) -> None:
        poller.add(service.control, lambda events: self._receive(service))

    def begin(self, replaced: Replaced, answer: Callable[[list[str]], None]) -> None:
        """Apply a reload here, and have all processes apply it.

        Args:
            replaced: What has changed.
            answer: Called with the names of the processes that have not confirmed in
                time.
        """
        log_lines.set_level(replaced.log_level)
        self._owners.quotas = replaced.quotas
        self._number += 1
        self._waiting = {
            each for each in self._services if each.send_reload(replaced, self._number)
        }
        if replaced.gone != self._gone:
            self._gone, self._replaced = replaced.gone, replaced
            self._unsent = set(self._hosts)
            self._waiting |= set(self._hosts.serving())
            self._send_to_hosts()
        self._answer, self._until = answer, time.monotonic() + CONFIRM_SECONDS
        self._finish()

    def tick(self) -> None:
        """Answer a reload in time; to be called a few times a second."""
        if self._unsent:
            self._send_to_hosts()
        if self._answer is not None:
            self._finish()

    def confirm(self, peer: PeerService | Instance) -> None:
        """Note that a process has applied the last reload, or has ended."""
        self._unsent = {each for each in self._unsent if each is not peer}
        self._waiting.discard(peer)
        if self._answer is not None:
            self._finish()

    def _receive(self, service: PeerService) -> None:
        for frame in service.control.receive() or ():
            if frame.number == self._number:
                self.confirm(service)

    def _send_to_hosts(self) -> None:
        for instance in list(self._unsent):
            # A host that has read nothing for minutes, or for which no memory can be
            # opened, gets it later. One whose channel is broken is about to end.
            with contextlib.suppress(OSError), self._replaced.memory() as memory:
                passed = [memory.fileno()]
                socket.send_fds(instance.channel.socket, [REVOKE], passed)
                self._unsent.discard(instance)

    def _finish(self) -> None:
        """Answer the reload if all have confirmed it, or if the time is over."""
        if self._answer is None or (self._waiting and time.monotonic() < self._until):
            return
        answer, self._answer = self._answer, None
        late = [each for each in self._waiting if not isinstance(each, Instance)]
        hosts = [each for each in self._waiting if isinstance(each, Instance)]
        names = [f"the {each.name}" for each in late]
        answer(sorted(names + [each.instance_id for each in hosts]))
