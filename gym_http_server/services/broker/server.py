"""The broker: the process that holds the free connections of external environments.

Web workers and the gateway pass connections to it, and it accepts those by plain TCP.
It answers the hello of environments, keeps the connections alive, and passes them to
the hosts that lease them. Steps do not go through it. One thread, one poll loop.
"""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable

import msgspec

from gym_http_server.access.authentication import Authenticator, WrongTokens
from gym_http_server.access.identities import Keys
from gym_http_server.config.inherited_settings import SettingsMemory
from gym_http_server.processes.acceptor import Acceptor
from gym_http_server.processes.frame_server import FrameServer
from gym_http_server.processes.frame_socket import FrameSocket, limit_sending
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.processes.poller import Poller
from gym_http_server.processes.service_process import (
    apply_reload,
    isolate,
    limit_waits,
    run_service,
)
from gym_http_server.services.broker.allocation import Allocator
from gym_http_server.services.broker.free_connections import FreeConnections
from gym_http_server.services.broker.long_polling import LongPolling
from gym_http_server.services.broker.messages import BrokerSettings, ConnectRequest
from gym_http_server.services.broker.registry import Registry
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Form, Op, answer, problem_answer, request_head
from gym_http_wire.problems import ExternalAway, Problem

__all__ = ["run"]

TICK_SECONDS = 0.25
#: Limit of unprocessed descriptors from a connection.
MAX_DESCRIPTORS = 16

#: The operations that a kind of client may request.
Operations = dict[int, Callable[[FrameSocket, Frame], None]]


class Broker:
    """Holds the free connections.

    Args:
        listener: The socket to which web workers and the gateway connect.
        control: The connection to the supervisor, which passes on those of hosts.
        settings: The broker's settings.
        peers: Distinguishes processes of the server from those of environments.
        tcp_listener: The socket for environments by plain TCP; ``None``: there is none.
        authenticator: Checks their tokens; ``None``: they do not connect here.
        memory: Has these tokens.
    """

    def __init__(
        self,
        listener: socket.socket,
        control: socket.socket,
        settings: BrokerSettings,
        peers: PeerCredentials,
        tcp_listener: socket.socket | None,
        authenticator: Authenticator | None,
        memory: SettingsMemory | None,
    ) -> None:
        self._authenticator = authenticator
        self._memory = memory
        self._poller = Poller()
        # Whether an environment waits to be accepted by plain TCP.
        self._tcp_waits = False
        self._registry = Registry()
        self._server = FrameServer[FrameSocket](
            self._poller, "broker", self._registry.forget_host
        )
        self._free = FreeConnections(
            self._poller, self._registry, settings, authenticator
        )
        self._allocator = Allocator(self._registry, self._free, self._server.disconnect)
        self._long_polling = LongPolling(self._poller, self._free.add_local, settings)
        self._of_supervisor: Operations = {
            Op.EXTERNAL_HOST: self._add_host,
            Op.RELOAD: self._reload,
        }
        self._of_hosts: Operations = {
            Op.EXTERNAL_LEASE: self._allocator.lease,
            Op.EXTERNAL_RELEASE: self._allocator.release,
            Op.EXTERNAL_ADOPT: self._allocator.adopt,
            Op.EXTERNAL_LOST: self._allocator.lose,
        }
        self._of_others: Operations = {
            Op.EXTERNAL_CONNECT: self._connect,
            Op.EXTERNAL_LIST: self._list,
            Op.EXTERNAL_HELLO: self._long_polling.connect,
            Op.EXTERNAL_POLL: self._long_polling.poll,
            Op.EXTERNAL_ANSWER: self._long_polling.answer,
            Op.EXTERNAL_STATUS: _answer_status,
        }
        accept = Acceptor(listener, self._poller, self._add_other, "broker", peers)
        self._poller.add(listener, accept.accept)
        self._acceptors = [accept]
        self._add(control, self._of_supervisor)
        if tcp_listener is not None:
            self._acceptors.append(
                Acceptor(tcp_listener, self._poller, self._free.add_tcp, "broker")
            )
            self._poller.add(tcp_listener, self._note_tcp)

    def run(self) -> None:
        """Serve until an exception ends this process."""
        due = 0.0
        while True:
            busy = (
                self._free
                or self._registry.waiters
                or self._long_polling
                or any(each.paused for each in self._acceptors)
            )
            self._poller.serve(TICK_SECONDS if busy else None)
            if self._tcp_waits:
                # Last, since connections that ended meanwhile have made room.
                self._tcp_waits = False
                self._acceptors[-1].accept()
            # A connection may be free now: a new one, or one that was within a message.
            self._allocator.allocate()
            now = time.monotonic()
            if now >= due:
                due = now + TICK_SECONDS
                self._free.check(now)
                self._allocator.refuse_late(now)
                self._long_polling.check(now)
                for each in self._acceptors:
                    each.resume()

    def close_all(self) -> None:
        """End all connections, since the server is stopping."""
        self._free.end_all()

    def _note_tcp(self, events: int) -> None:
        self._tcp_waits = True

    def _add_other(self, sock: socket.socket) -> None:
        """Add the connection of a web worker or of the gateway."""
        self._add(sock, self._of_others)

    def _reload(self, supervisor: FrameSocket, frame: Frame) -> None:
        apply_reload(supervisor, frame, self._revoke)

    def _revoke(self, gone: frozenset[str]) -> None:
        """End the connections of tokens that are gone, and accept new tokens."""
        if self._authenticator is not None and self._memory is not None:
            self._authenticator.keys = Keys.of(self._memory.read().settings)
        self._free.revoke(gone)
        self._allocator.revoke(gone)

    def _add_host(self, supervisor: FrameSocket, frame: Frame) -> None:
        """Add the connection of a host, which the supervisor has passed on."""
        sock = supervisor.take_socket()
        if sock is not None:
            self._add(sock, self._of_hosts)

    def _add(self, sock: socket.socket, operations: Operations) -> None:
        limit_sending(sock)
        client = FrameSocket(sock, max_descriptors=MAX_DESCRIPTORS)
        self._server.add(client, functools.partial(_dispatch, operations))

    def _connect(self, client: FrameSocket, frame: Frame) -> None:
        """Add a connection: the socket that the request brought, or this one."""
        value = request_head(frame).value or ""
        request = msgspec.json.decode(value, type=ConnectRequest)
        sock = None if request.own else client.take_socket()
        if sock is None and not request.own:
            raise ExternalAway("too many connections are open here; connect again")
        client.send(answer(204, number=frame.number, form=Form.NONE))
        if sock is None:
            self._server.forget(client)
            sock = client.socket
        self._free.connect(sock, request, frame.body)

    def _list(self, client: FrameSocket, frame: Frame) -> None:
        body = msgspec.json.encode(self._registry.listed())
        client.send(answer(200, body, number=frame.number))


def _dispatch(operations: Operations, client: FrameSocket, frame: Frame) -> None:
    try:
        operations[frame.kind](client, frame)
    except Problem as problem:
        client.send(problem_answer(problem, frame.number))


def _answer_status(client: FrameSocket, frame: Frame) -> None:
    """Answer a status request, which proves that the loop runs."""
    client.send(answer(204, number=frame.number, form=Form.NONE))


def run(
    listener: socket.socket,
    control: socket.socket,
    doors: tuple[int, int] | None,
    settings: BrokerSettings,
    parent_pid: int,
) -> int:
    """Run the broker until it ends; return the exit status.

    Args:
        listener: The socket to which web workers and the gateway connect.
        control: The connection to the supervisor.
        doors: Descriptors of the socket to which environments connect by plain TCP,
            and of the memory from which the tokens are read.
        settings: The broker's settings.
        parent_pid: The supervisor; the process ends with it.
    """
    isolate(parent_pid)
    limit_waits()
    tcp_listener, authenticator, memory = None, None, None
    if doors is not None:
        tcp_listener = socket.socket(fileno=doors[0])
        memory = SettingsMemory(doors[1])
        keys = Keys.of(memory.read().settings)
        advice = "show it as token in the hello"
        authenticator = Authenticator(keys, WrongTokens(), advice)
    broker = Broker(
        listener,
        control,
        settings,
        PeerCredentials(parent_pid),
        tcp_listener,
        authenticator,
        memory,
    )
    return run_service(broker, "broker")
