"""The other nodes of a fleet, as a web worker calls them.

Requests go over kept connections. A node's record says where it is; whether it is there
is decided by the connection.
"""

from __future__ import annotations

import contextlib
import functools
import random
import secrets
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from gym_http_server.config.settings import Settings
from gym_http_server.errors import (
    Draining,
    FleetAway,
    InstanceEnded,
    NodeAway,
    UnknownInstance,
    did_you_mean,
)
from gym_http_server.fleet.joining import tls_context
from gym_http_server.fleet.numbers import number_of
from gym_http_server.fleet.page import FENCED_SECONDS, Node, Nodes, Page
from gym_http_server.fleet.records import Record
from gym_http_server.fleet.signatures import Signatures
from gym_http_server.fleet.store import FleetStore, StoreAway
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.backends.budget import LARGE, Budget, LargeBody
from gym_http_wire.problems import BadParameter, OutcomeUnknown

__all__ = ["FRESH_SECONDS", "SCHEME", "TAKING", "PeerAnswer", "PeerCaller", "Peers"]

#: How a node authenticates itself, in the header Authorization: fast requests have it.
SCHEME = "Fleet "
CONNECT_SECONDS = 1.0
TICKET_SECONDS = 5.0
#: Seconds after which a record has what happened before.
FRESH_SECONDS = 2.2
LOOK_AGAIN_SECONDS = 0.05
#: In place of a key, in the request that uses up a ticket.
TAKING = "take"
#: Seconds without a byte after which the node's record is looked at.
LOOK_SECONDS = 1.0
#: Seconds in which a node takes a piece of an upload, though its disk may be busy.
UPLOAD_SECONDS = 30.0
MAX_IDLE = 64
#: Names of nodes in a message.
MOST_NAMES = 10
MAX_HEAD = 64 * 1024
_RECEIVE_BYTES = 64 * 1024
# No body follows the head of such an answer, whatever size it has.
_BODYLESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_PURPOSE = "call"
_NONE = "-"


class PeerCaller(NamedTuple):
    """The caller for whom another node acts.

    Attributes:
        name: Name of its token; "" if the fleet has a single token, or none.
        run_token: SHA-256 of its token in hex, if it is a run's.
    """

    name: str = ""
    run_token: str = ""


class PeerAnswer(NamedTuple):
    """A node's answer.

    Attributes:
        status: HTTP status.
        headers: Names and values.
        body: The body; a large one counts in the budget.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes | LargeBody


class PeerStream(NamedTuple):
    """A stream of another node's instance, after its handshake.

    Attributes:
        socket: The connection to the node.
        early: What the node has sent: the answer to the handshake, and more.
    """

    socket: socket.socket
    early: bytes


class _Lost(Exception):
    """The node does not answer."""


class Peers:
    """The nodes of a fleet.

    Args:
        settings: The settings.
        token: The fleet token.
        run: The run directory.
    """

    def __init__(self, settings: Settings, token: str, run: RunDir) -> None:
        self._settings = settings
        self._signatures = Signatures(token)
        self._page = Page(run.path)
        self._state = -1
        self._nodes: Nodes
        self._by_number: dict[str, Node] = {}
        self._boots: dict[str, Node] = {}
        self._own: frozenset[str] = frozenset()
        # Creates that this web worker has placed since the records were read.
        self._placed: Counter[str] = Counter()
        self._idle: dict[str, list[_Connection]] = {}
        self._tls = tls_context(settings.fleet_ca)
        self._stored: FleetStore | None = None

    @property
    def nodes(self) -> Nodes:
        """The nodes as the member last knew them."""
        if self._page.state != self._state:
            self._state = self._page.state
            self._nodes = nodes = self._page.read()
            self._placed.clear()
            self._own = frozenset(nodes.own.numbers)
            self._boots = {each.record.boot: each for each in nodes.others}
            self._by_number = {
                number: each for each in nodes.others for number in each.record.numbers
            }
        return self._nodes

    @property
    def store(self) -> FleetStore:
        """The store, for what only it can decide."""
        if self._stored is None:
            version = self.nodes.own.version
            self._stored = FleetStore(self._settings.fleet, version, self._signatures)
        return self._stored

    def is_own(self, instance_id: str) -> bool:
        """Whether an instance ID is of this node."""
        if self._page.state != self._state:
            self.nodes  # noqa: B018
        return number_of(instance_id) in self._own

    def find(self, instance_id: str) -> Record:
        """Return the node that issued an instance ID.

        Raises:
            InstanceEnded: The node is gone.
            UnknownInstance: No node has had its number.
        """
        number = number_of(instance_id)
        nodes = self.nodes
        if node := self._by_number.get(number):
            return node.record
        if reason := nodes.gone.get(number):
            why = "was stopped" if reason == "node-drained" else "was lost"
            raise InstanceEnded(
                f"instance {instance_id} has ended: its server {why}",
                extras={"reason": reason},
            )
        raise UnknownInstance(instance_id)

    def named(self, name: str) -> Record:
        """Return the node of a name, to create an instance on.

        Raises:
            BadParameter: No node has this name.
            Draining: It is stopping.
        """
        nodes = self.nodes
        known = {each.record.name: each.record for each in nodes.others}
        known[nodes.own.name] = nodes.own
        if name not in known:
            shown = ", ".join(sorted(known)[:MOST_NAMES])
            hint = did_you_mean(name, known)
            raise BadParameter(f"node is {name!r:.80}: expected one of {shown}{hint}")
        if known[name].draining:
            raise Draining(f"the server {name} is stopping and makes no new instances")
        return known[name]

    def bind(self, creator: str, key: str, node: Record | None) -> Record | None:
        """Bind a create key to a node, unless it is bound; return the one that has it.

        Args:
            creator: Name of the token, whose keys are its own.
            key: The key.
            node: The node; ``None`` to bind it to none.

        Raises:
            FleetAway: The store does not answer.
            NodeAway: This node does not know the other one yet.
            OutcomeUnknown: The node that has the key is gone.
        """
        try:
            if self._page.fenced:
                raise StoreAway(f"the store has not answered for {FENCED_SECONDS} s")
            named = "" if node is None else f"{node.numbers[-1]}:{node.boot}"
            bound = self.store.bind_key(creator, key, named)
        except StoreAway as away:
            raise FleetAway(f"creates with a key wait: {away}") from None
        if not bound:
            return None
        number, _, boot = bound.partition(":")
        nodes = self.nodes
        if boot == nodes.own.boot:
            return nodes.own
        if boot in self._boots:
            return self._boots[boot].record
        if number in nodes.gone or number in self._by_number or number in self._own:
            raise OutcomeUnknown(
                "the server that had this create request is gone, so whether it made "
                "an instance is unknown; create another one with a new key"
            )
        raise NodeAway(
            "the server that has this create request is not known here yet; send the "
            "request again"
        )

    def issuer(self, ticket: str) -> Record | None:
        """Return the other node that issued a ticket; ``None`` if none did."""
        self.nodes  # noqa: B018
        node = self._by_number.get(number_of(ticket))
        return None if node is None else node.record

    def take_ticket(self, node: Record, ticket: str) -> tuple[str, str] | None:
        """Use a ticket up on the node that issued it.

        Returns:
            Name of the token that it stands for, and the instance that it is for.
        """
        target, request_id, caller = "/v1/tickets/", secrets.token_hex(8), PeerCaller()
        body = msgspec.json.encode({"take": ticket})
        shown = self.authorization(node, caller, "POST", target, request_id, TAKING)
        headers = [("Authorization", shown), ("X-Request-Id", request_id)]
        headers.append(("Idempotency-Key", TAKING))
        # If its answer is lost, the ticket is.
        answer = self.request(
            *(node, "POST", target, headers, body),
            repeatable=False,
            timeout_s=TICKET_SECONDS,
        )
        if answer.status != 200:
            return None
        return msgspec.json.decode(answer.body, type=tuple[str, str])

    def open_stream(
        self, node: Record, target: str, headers: Iterable[tuple[str, str]]
    ) -> PeerAnswer | PeerStream:
        """Pass the handshake of a stream on to a node.

        Returns:
            The stream; or the node's answer, if it refuses the handshake.

        Raises:
            NodeAway: The node does not answer.
        """
        data = _request_head("GET", target, node, headers)
        try:
            connection = self._connect(node, fresh=True)
        except OSError:
            raise _away(node) from None
        try:
            return connection.open_stream(data, self)
        except (_Lost, OSError):
            connection.close()
            raise _away(node) from None
        except BaseException:
            connection.close()
            raise

    def numbered(self, number: str) -> Record | None:
        """Return the node with a number, or ``None``."""
        nodes = self.nodes
        if number in self._own:
            return nodes.own
        node = self._by_number.get(number)
        return None if node is None else node.record

    def owned_by(self, owner: str) -> int:
        """Return how many instances a token has on all nodes."""
        return sum(each.owners.get(owner, 0) for each in self.all())

    def candidates_for_external(self, env_id: str, wait_s: float) -> list[Record]:
        """Return nodes to create an external environment on, the likely ones first.

        Args:
            env_id: The environment.
            wait_s: Seconds to wait at most for the records to have one.
        """
        until = time.monotonic() + min(wait_s, FRESH_SECONDS)
        # It may have connected since the last records.
        while not any(each.external.get(env_id) for each in self.all()):
            if time.monotonic() >= until:
                break
            time.sleep(LOOK_AGAIN_SECONDS)
        own, *others = self._present()
        random.shuffle(others)
        ready = [each for each in (own, *others) if not each.draining]
        return sorted(ready, key=lambda each: not each.external.get(env_id))

    def all(self) -> list[Record]:
        """Return all nodes, this one first."""
        nodes = self.nodes
        return [nodes.own, *(each.record for each in nodes.others)]

    def _present(self) -> list[Record]:
        """Return the nodes that are not away, this one first."""
        nodes = self.nodes
        others = [each.record for each in nodes.others if not each.away_ns]
        return [nodes.own, *others]

    def candidates(self) -> list[Record]:
        """Return three nodes to create an instance on, the better of two first."""
        present = self._present()
        ready = [each for each in present if not each.draining]
        if not ready:
            return present[:1]
        chosen = random.sample(ready, min(3, len(ready)))
        first = max(chosen[:2], key=self._free_share)
        chosen.remove(first)
        self._placed[first.boot] += 1
        return [first, *chosen]

    def _free_share(self, record: Record) -> float:
        """Return the part of a node's slots that is free."""
        free = record.free - self._placed[record.boot]
        return free / record.slots if record.slots else 0.0

    def authorization(
        self,
        node: Record,
        call: PeerCaller,
        method: str,
        target: str,
        request_id: str,
        key: str,
    ) -> str:
        """Return the header by which this node acts for a caller."""
        name, run_token = call.name or _NONE, call.run_token or _NONE
        parts = node.boot, method, target, request_id, key, name, run_token
        signature = self._signatures.sign(_PURPOSE, *parts)
        return f"{SCHEME}{name} {run_token} {signature}"

    def read(
        self, shown: str, method: str, target: str, request_id: str, key: str
    ) -> PeerCaller | None:
        """Return the caller for whom a node acts; ``None`` if the header is forged."""
        fields = shown.removeprefix(SCHEME).split(" ")
        if len(fields) != 3:
            return None
        name, run_token, signature = fields
        boot = self.nodes.own.boot
        parts = boot, method, target, request_id, key, name, run_token
        if not self._signatures.check(signature, _PURPOSE, *parts):
            return None
        return PeerCaller(
            name if name != _NONE else "", run_token if run_token != _NONE else ""
        )

    def request(
        self,
        node: Record,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        *,
        repeatable: bool,
        budget: Budget | None = None,
        timeout_s: float | None = None,
    ) -> PeerAnswer:
        """Send a request to a node, and return its answer.

        Args:
            node: The node.
            method: As ``POST``.
            target: The path, with the query.
            headers: Without those of connection and body.
            body: The body.
            repeatable: Whether it may be sent again if its answer is lost.
            budget: Counts a large answer; ``None`` if none can be.
            timeout_s: Seconds to wait; ``None``: as long as the node is there.

        Raises:
            NodeAway: The node does not answer.
        """
        sized = (("Content-Length", str(len(body))), *headers)
        data = _request_head(method, target, node, sized) + body
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for last in (False, True) if repeatable else (True,):
            try:
                # The node may just have closed an idle one.
                connection = self._connect(node, fresh=last)
                try:
                    answer = connection.exchange(data, budget, self, deadline)
                except BaseException:
                    connection.close()
                    raise
            except (_Lost, OSError):
                if last or (deadline is not None and time.monotonic() > deadline):
                    break
                continue
            if connection.kept:
                self._keep(node, connection)
            return answer
        raise _away(node)

    def upload(
        self,
        node: Record,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        pieces: Iterable[bytes],
        size: int | None,
        budget: Budget,
    ) -> PeerAnswer:
        """Send a request with a body that is still arriving; return the answer.

        Args:
            node: The node.
            method: As ``PUT``.
            target: The path, with the query.
            headers: Without those of connection and body.
            pieces: The body.
            size: Its size; ``None`` if it is not known.
            budget: Counts a large answer.

        Raises:
            NodeAway: The node does not answer.
        """
        chunked = ("Transfer-Encoding", "chunked")
        framing = chunked if size is None else ("Content-Length", str(size))
        head = _request_head(method, target, node, (*headers, framing))
        try:
            connection = self._connect(node, fresh=True)
        except OSError:
            raise _away(node) from None
        try:
            connection.send_body(head, pieces, chunked=size is None)
            return connection.exchange(b"", budget, self, None)
        except (_Lost, OSError):
            raise _away(node) from None
        finally:
            connection.close()

    def is_away(self, boot: str) -> bool:
        """Whether the member finds a node neither in the store nor by connecting."""
        self.nodes  # noqa: B018
        node = self._boots.get(boot)
        return node is None or bool(node.away_ns and node.unreachable_ns)

    def _connect(self, node: Record, *, fresh: bool) -> _Connection:
        idle = self._idle.get(node.boot)
        while idle and not fresh:
            connection = idle.pop()
            if connection.usable:
                return connection
            connection.close()
        parts = urlsplit(node.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        sock = socket.create_connection((parts.hostname, port), CONNECT_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "https":
            sock = self._tls.wrap_socket(sock, server_hostname=parts.hostname)
        return _Connection(sock, node.boot)

    def _keep(self, node: Record, connection: _Connection) -> None:
        idle = self._idle.setdefault(node.boot, [])
        if len(idle) < MAX_IDLE:
            idle.append(connection)
        else:
            connection.close()

    def sweep(self) -> None:
        """Close the idle connections whose other end has closed."""
        for boot, idle in list(self._idle.items()):
            for each in [each for each in idle if not each.usable]:
                idle.remove(each)
                each.close()
            if not idle:
                del self._idle[boot]


def _request_head(
    method: str, target: str, node: Record, headers: Iterable[tuple[str, str]]
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {urlsplit(node.url).netloc}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def _away(node: Record) -> NodeAway:
    return NodeAway(
        f"the server {node.name} of this fleet does not answer; send the request again"
    )


class _Connection:
    """A connection to a node, with one request at a time.

    Args:
        sock: The socket.
        boot: The node's boot.

    Attributes:
        kept: Whether it may carry another request.
    """

    def __init__(self, sock: socket.socket, boot: str) -> None:
        self._socket = sock
        self._boot = boot
        self.kept = False

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    @property
    def usable(self) -> bool:
        """Whether the other end is open and has sent nothing."""
        self._socket.settimeout(0.0)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    def exchange(
        self, data: bytes, budget: Budget | None, peers: Peers, deadline: float | None
    ) -> PeerAnswer:
        """Send a request and receive its answer.

        Raises:
            _Lost: The node does not answer, or its answer is malformed.
            OSError: The connection failed.
            AnswerBudgetFull: There is no room for it.
        """
        head, rest = self._begin(data, peers, deadline)
        return self._finish(head, rest, budget, peers, deadline)

    def send_body(self, head: bytes, pieces: Iterable[bytes], *, chunked: bool) -> None:
        """Send a request whose body is still arriving.

        The node may answer before it has all of it, and close the connection.
        """
        self._socket.settimeout(UPLOAD_SECONDS)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(head)
            for piece in pieces:
                data = b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
                self._socket.sendall(data)
            if chunked:
                self._socket.sendall(b"0\r\n\r\n")

    def open_stream(self, data: bytes, peers: Peers) -> PeerAnswer | PeerStream:
        """Send a handshake; return the stream, or the answer that refuses it.

        Raises:
            _Lost: The node does not answer, or its answer is malformed.
            OSError: The connection failed.
        """
        head, rest = self._begin(data, peers, None)
        if head.startswith(b"HTTP/1.1 101 "):
            self._socket.settimeout(None)
            return PeerStream(self._socket, head + b"\r\n\r\n" + rest)
        answer = self._finish(head, rest, None, peers, None)
        self.close()
        return answer

    def _begin(
        self, data: bytes, peers: Peers, deadline: float | None
    ) -> tuple[bytes, bytes]:
        """Send a request; return the head of its answer, and what follows it."""
        self._socket.settimeout(LOOK_SECONDS)
        if data:
            self._socket.sendall(data)
        begun = b""
        while b"\r\n\r\n" not in begun:
            begun += self._receive(peers, deadline)
            if len(begun) > MAX_HEAD:
                raise _Lost
        head, _, rest = begun.partition(b"\r\n\r\n")
        return head, rest

    def _finish(
        self,
        head: bytes,
        rest: bytes,
        budget: Budget | None,
        peers: Peers,
        deadline: float | None,
    ) -> PeerAnswer:
        """Receive the rest of an answer."""
        status, fields, size, self.kept = _read_head(head)
        headers = list(fields)
        if budget is None or size <= LARGE:
            parts = [rest]
            left = size - len(rest)
            while left > 0:
                parts.append(self._receive(peers, deadline))
                left -= len(parts[-1])
            if left < 0:
                raise _Lost
            return PeerAnswer(status, headers, b"".join(parts))
        body = LargeBody(budget.take(size, self._boot))
        body[: len(rest)] = rest
        with memoryview(body) as view:
            ready = len(rest)
            while ready < size:
                piece = self._receive(peers, deadline)
                view[ready : ready + len(piece)] = piece
                ready += len(piece)
        return PeerAnswer(status, headers, body)

    def _receive(self, peers: Peers, deadline: float | None) -> bytes:
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError:
                over = deadline is not None and time.monotonic() > deadline
                if over or peers.is_away(self._boot):
                    raise _Lost from None
                continue
            if not data:
                raise _Lost
            return data


@functools.lru_cache(maxsize=64)
def _read_head(head: bytes) -> tuple[int, tuple[tuple[str, str], ...], int, bool]:
    """Return status, headers, size of the body, and whether the connection lasts.

    The heads of short answers repeat within a second.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    try:
        status, size, kept = int(first[9:12]), 0, True
        headers = []
        for line in lines:
            name, _, value = line.partition(":")
            lower, value = name.lower(), value.strip()
            if lower == "content-length":
                size = int(value)
            elif lower == "connection":
                kept = value.lower() != "close"
            elif lower == "transfer-encoding":
                raise _Lost
            elif lower not in ("date", "server"):
                headers.append((name, value))
    except ValueError:
        raise _Lost from None
    return status, tuple(headers), 0 if status in _BODYLESS else size, kept
