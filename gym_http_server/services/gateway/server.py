"""The gateway's loop: one process, one thread.

External environments and agents connect to one ROUTER socket. The gateway reads the
first message of each, and copies the later ones. For environments, it copies between
ZeroMQ and the broker or hosts; for agents, between ZeroMQ and streams. The broker and
hosts do not use ZeroMQ.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gym_http_server.access.authentication import Authenticator, WrongTokens
from gym_http_server.access.identities import CREATE, STEP, Identity, Keys
from gym_http_server.access.shares import share_used_up
from gym_http_server.config.inherited_settings import SettingsMemory
from gym_http_server.errors import (
    REVOKED,
    BodyTooLarge,
    Draining,
    TangoTaken,
    TooManyPeers,
    TooManyWrongTokens,
    Unauthorized,
)
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.processes.service_process import apply_reload, isolate, run_service
from gym_http_server.services.gateway.admission import LOOK_SECONDS, Admission
from gym_http_server.services.gateway.agents import AgentPeer
from gym_http_server.services.gateway.context import Context, GatewaySettings
from gym_http_server.services.gateway.external_peers import ExternalPeer
from gym_http_server.services.gateway.messages import First, agent_of, first_of, refusal
from gym_http_server.services.gateway.router import (
    NONE,
    Message,
    Outbox,
    Router,
    address_of,
)
from gym_http_server.services.gateway.tango import (
    KINDS,
    TangoAgent,
    end_orphaned,
    problem_answer,
)
from gym_http_wire.problems import BadParameter, Problem

__all__ = ["run"]

TICK_SECONDS = 1.0
#: Seconds between two attempts to send to a peer that does not read.
BLOCKED_TICK_SECONDS = 0.01
#: Seconds after which a peer that does not read is dropped.
GONE_SECONDS = 5.0
#: Messages to process before other sockets get a turn.
TURN = 64
#: Limit of unprocessed descriptors from the supervisor.
MAX_DESCRIPTORS = 16

log = logging.getLogger("gym_http_server.gateway")


class Peer(Protocol):
    """An external environment or an agent."""

    def receive(self, payload: bytes) -> None:
        """Process a message."""

    def resume(self) -> None:
        """Continue, since the peer reads messages again."""

    def leave(self) -> None:
        """Clean up after the peer has disconnected."""


@dataclass(eq=False)
class _Entry:
    outbox: Outbox
    peer: Peer
    owner: str


class Gateway:
    """All peers that are connected by ZeroMQ.

    Args:
        context: The state that all peers share.
        router: The socket that they connect to.
        control: The connection to the supervisor.
        memory: Has the tokens of peers.
    """

    def __init__(
        self,
        context: Context,
        router: Router,
        control: socket.socket,
        memory: SettingsMemory,
    ) -> None:
        self._context = context
        self._memory = memory
        self._control = FrameSocket(control, max_descriptors=MAX_DESCRIPTORS)
        self._router = router
        self._entries: dict[bytes, _Entry] = {}
        self._by_descriptor: dict[int, bytes] = {}
        self._admission = Admission(
            context.settings.max_unaccepted, 2 * context.settings.max_first
        )
        # Identity of Tango's agent; at most one can be connected.
        self._tango = b""
        self._refusals = LimitedLog(log)
        for descriptor in router.descriptors:
            # Events and messages are processed after each poll.
            context.poller.add(descriptor, lambda events: None)
        context.poller.add(self._control, self._reload)
        end_orphaned(context)

    def run(self) -> None:
        """Run the loop until the server stops."""
        context = self._context
        while True:
            if context.blocked:
                self._flush_blocked()
            self._take_changes()
            more = self._take_messages()
            if not more:
                # Not earlier: an unread message may be a peer's first.
                self._admission.close_oldest()
                self._admission.close_oversized()
            tick = BLOCKED_TICK_SECONDS if context.blocked else TICK_SECONDS
            if self._admission:
                tick = min(tick, LOOK_SECONDS)
            context.poller.serve(0.0 if more else context.timers.settings_fd(tick))
            context.timers.serve()

    def close_all(self) -> None:
        """Send all peers that the server is stopping, and close the socket."""
        stopping = Draining("the server is stopping")
        for entry in list(self._entries.values()):
            entry.peer.leave()
            entry.outbox.send(_refusal(entry.outbox.by_req, stopping))
        self._router.close()

    def _reload(self, events: int) -> None:
        for frame in self._control.receive() or ():
            apply_reload(self._control, frame, self._revoke)

    def _revoke(self, gone: frozenset[str]) -> None:
        """End the conversations of tokens that are gone, and accept new tokens."""
        keys = Keys.of(self._memory.read().settings)
        self._context.authenticator.keys = keys
        for entry in list(self._entries.values()):
            if entry.owner in gone:
                entry.outbox.send(_refusal(entry.outbox.by_req, Unauthorized(REVOKED)))
                self._drop(entry.outbox)

    def _take_messages(self) -> bool:
        """Process messages; return whether there may be more."""
        for _ in range(TURN):
            message = self._router.receive()
            if message is None:
                return False
            self._process(message)
        return True

    def _take_changes(self) -> None:
        """Count new connections, and drop peers whose connections have ended."""
        while (change := self._router.change()) is not None:
            if change.opened:
                self._admission.add(change.descriptor)
                continue
            self._admission.remove(change.descriptor)
            identity = self._by_descriptor.get(change.descriptor)
            if identity is not None:
                self._drop(self._entries[identity].outbox)

    def _flush_blocked(self) -> None:
        """Send to peers that did not read, and drop those that disconnected."""
        now = time.monotonic()
        for outbox in list(self._context.blocked):
            entry = self._entries.get(outbox.identity)
            if entry is None or entry.outbox is not outbox:
                self._context.blocked.discard(outbox)
                continue
            outbox.flush()
            if outbox.lost or (
                outbox.full_since and now - outbox.full_since > GONE_SECONDS
            ):
                self._drop(outbox)
            elif not outbox.full_since:
                entry.peer.resume()

    def _process(self, message: Message) -> None:
        entry = self._entries.get(message.identity)
        if entry is not None and entry.outbox.descriptor != message.descriptor:
            # Another connection has the identity of one that has ended.
            self._drop(entry.outbox)
            entry = None
        if entry is None:
            self._greet(message)
        elif message.payload is None:
            entry.outbox.send(_refusal(entry.outbox.by_req, _in_pieces()))
            self._drop(entry.outbox)
        else:
            entry.peer.receive(message.payload)

    def _greet(self, message: Message) -> None:
        """Process the first message of a peer."""
        self._take_changes()
        self._admission.note_refused(message.descriptor)
        outbox = Outbox(self._router, message, self._context.blocked)
        try:
            peer, owner = self._peer(message, outbox)
        except Problem as problem:
            if not isinstance(problem, Unauthorized | TooManyWrongTokens):
                peer_name = address_of(message) or "a local socket"
                words = f"refused the first message from {peer_name}: "
                self._refusals.warning(words + problem.message)
            outbox.send(_refusal(message.by_req, problem))
            return
        self._entries[outbox.identity] = _Entry(outbox, peer, owner)
        self._by_descriptor[outbox.descriptor] = outbox.identity
        self._admission.remove(outbox.descriptor)
        if not isinstance(peer, AgentPeer) and message.payload is not None:
            peer.receive(message.payload)

    def _peer(self, message: Message, outbox: Outbox) -> tuple[Peer, str]:
        """Return the peer that sends a first message, and the name of its token."""
        context, payload = self._context, message.payload
        if message.descriptor == NONE:
            # ZeroMQ would not report the end of such a connection.
            raise BadParameter("this is no ZMTP 3: expected that, as of libzmq 4")
        if payload is None:
            raise _in_pieces()
        if len(payload) > context.settings.max_first:
            raise BodyTooLarge(
                f"the first message has {len(payload)} bytes: expected at most "
                f"{context.settings.max_first}"
            )
        first = first_of(payload)
        shown = first.token.encode()
        identity = context.authenticator.identify(shown, address_of(message))
        self._check_room(identity.name)
        on_close = functools.partial(self._forget, outbox)
        if message.by_req:
            return self._tango_agent(first, identity, outbox, on_close), identity.name
        if first.type == "hello":
            try:
                peer = ExternalPeer(context, outbox, identity, on_close)
                return peer, identity.name
            except OSError as error:
                # Silent peers have used up this process's descriptors.
                raise TooManyPeers(f"there is no room for another: {error}") from None
        if first.type == "agent":
            agent = agent_of(payload)
            return AgentPeer(context, outbox, identity, agent, on_close), identity.name
        raise BadParameter(
            f"type is {first.type!r:.80}: expected hello, of an environment, or agent; "
            "if there was one, its conversation is over"
        )

    def _check_room(self, token: str) -> None:
        """Check that a token may have one more peer.

        Raises:
            TooManyPeers: There are too many, or too many of this token.
        """
        most, taken = self._context.settings.max_peers, len(self._entries)
        if taken >= most:
            raise TooManyPeers(f"there are {most} others already, and no more can be")
        held = 0
        # Until then, no token can hold as many as are left.
        if token and taken >= most // 2:
            held = sum(each.owner == token for each in self._entries.values())
        why = share_used_up(token, "ZeroMQ peers", held=held, taken=taken, most=most)
        if why:
            raise TooManyPeers(why)

    def _tango_agent(
        self,
        first: First,
        identity: Identity,
        outbox: Outbox,
        on_close: Callable[[], None],
    ) -> TangoAgent:
        if first.type not in KINDS:
            raise BadParameter(
                f"type is {first.type!r:.80}: expected reset, action or close"
            )
        identity.require(CREATE, STEP)
        if self._tango:
            raise TangoTaken("another agent has the environment: it has to close first")
        self._tango = outbox.identity
        return TangoAgent(self._context, outbox, identity, on_close)

    def _drop(self, outbox: Outbox) -> None:
        """Drop a peer that has disconnected."""
        entry = self._entries.get(outbox.identity)
        self._forget(outbox)
        if entry is not None and entry.outbox is outbox:
            entry.peer.leave()

    def _forget(self, outbox: Outbox) -> None:
        """Forget a peer whose conversation is over."""
        entry = self._entries.get(outbox.identity)
        if entry is None or entry.outbox is not outbox:
            return
        del self._entries[outbox.identity]
        self._by_descriptor.pop(outbox.descriptor, None)
        if self._tango == outbox.identity:
            self._tango = b""


def _refusal(by_req: bool, problem: Problem) -> bytes:
    return problem_answer(problem) if by_req else refusal(problem)


def _in_pieces() -> Problem:
    return BadParameter("a message has several frames: expected one")


def run(
    listener: int,
    settings_fd: int,
    control: socket.socket,
    settings: GatewaySettings,
    parent_pid: int,
) -> int:
    """Run the gateway until it ends; return the exit status.

    Args:
        listener: Descriptor of the listening socket.
        settings_fd: Descriptor of the memory from which the tokens are read.
        control: The connection to the supervisor.
        settings: The gateway's settings.
        parent_pid: The supervisor; the process ends with it.
    """
    isolate(parent_pid)
    memory = SettingsMemory(settings_fd)
    inherited = memory.read()
    most = settings.max_message
    router = Router(os.dup(listener), settings.place, most, settings.heartbeat_s)
    authenticator = Authenticator(
        Keys.of(inherited.settings), WrongTokens(), "show it as token"
    )
    context = Context(inherited.run, settings, authenticator)
    gateway = Gateway(context, router, control, memory)
    return run_service(gateway, "gateway")
