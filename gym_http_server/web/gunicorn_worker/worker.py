"""gunicorn's gevent worker, with a deadline for every wait for a client."""

from __future__ import annotations

import contextlib
import heapq
import json
import resource
import socket
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gevent  # type: ignore[import-untyped]
from gevent import events
from gevent.pool import Pool  # type: ignore[import-untyped]
from gevent.server import StreamServer  # type: ignore[import-untyped]
from gunicorn.http.errors import NoMoreData  # type: ignore[import-untyped]
from gunicorn.sock import ssl_context  # type: ignore[import-untyped]
from gunicorn.workers.ggevent import GeventWorker  # type: ignore[import-untyped]

from gym_http_server.config.inherited_settings import SettingsMemory
from gym_http_server.linux import prctl
from gym_http_server.processes import log_lines
from gym_http_server.processes.log_lines import access
from gym_http_server.web.backends.transfers import BrokenOff
from gym_http_server.web.gunicorn_worker.balance import LEAVE_S, Balance
from gym_http_server.web.gunicorn_worker.client_socket import (
    CallAtEnd,
    ClientSocket,
    ConnectionLimits,
    CutOff,
    Wait,
)
from gym_http_server.web.gunicorn_worker.error_answers import describe, error_answer
from gym_http_server.web.gunicorn_worker.fast_request import (
    FastReader,
    FastReplies,
    FastRequest,
    KnownHeads,
    reads_fast,
)
from gym_http_server.web.gunicorn_worker.parser import ClientParser
from gym_http_server.web.gunicorn_worker.tls import TLSRelay, TLSRelays

_TICK_S = 0.1
_STOPPING_TICK_S = 0.02
# At the end of its grace the arbiter kills.
_KILL_MARGIN_S = 0.5
_NOTIFY_S = 1.0
# A connection may be accepted just before its first request arrives.
_NEW_S = 0.1
_FRESH_GRACE_S = 0.5
# Between requests and the threads that receive uploads, instead of Python's 5 ms: each
# would wait so long for the other's next call into the system.
_SWITCH_S = 0.0005


class Server(StreamServer):  # type: ignore[misc]
    """Accepts connections as `ClientSocket`."""

    limits: ConnectionLimits
    context: ssl.SSLContext | None = None
    relays: TLSRelays
    balance: Balance
    #: Whether connections wait for a free place.
    crowded = False

    def do_read(self) -> tuple[ClientSocket, Any] | None:
        """Accept a connection, if there is one."""
        accepted = super().do_read()
        if accepted is None:
            return None
        plain, address = accepted
        at_relay_end = None
        if self.context is not None:
            plain, at_relay_end = self._relayed(self.context, plain)
        client = ClientSocket(
            self.limits, plain.family, plain.type, plain.proto, fileno=plain.detach()
        )
        client.at_relay_end = at_relay_end
        return client, address

    def _do_read(self) -> None:
        if self.balance.leaves_next():
            self.stop_accepting()
            self._timer = self.loop.timer(LEAVE_S)
            self._timer.start(self._accept_what_was_left)
        else:
            self._accept()

    def _accept_what_was_left(self) -> None:
        self.start_accepting()
        self._accept()

    def _accept(self) -> None:
        # The base class accepts again as soon as its pool has places, which it may
        # have all the time.
        if self.lacks_relays() and self.full():
            self.stop_accepting()
        else:
            super()._do_read()

    def lacks_relays(self) -> bool:
        """Whether connections need relays, and no further relay is allowed."""
        return self.context is not None and self.relays.full()

    def _relayed(self, context: ssl.SSLContext, client: Any) -> tuple[Any, CallAtEnd]:
        """Start a relay for TLS.

        Returns:
            The worker's end of the pair of sockets, and what has functions called when
            the relay has ended.
        """
        worker_end, relay_end = gevent.socket.socketpair()
        relay = TLSRelay(context, client, relay_end, self.limits)
        at_end = self.relays.start(relay, self._start_accepting_if_started)
        return worker_end, at_end


class Worker(GeventWorker):  # type: ignore[misc]
    """A worker that no slow client can block, and that stops when its work is done.

    Set the class attributes before gunicorn forks, in its configuration file.

    Attributes:
        access_log: Whether to log requests that no application receives.
        request_deadline_s: From a request's first byte to its last; also for the
            first byte on a new connection. gunicorn's `keepalive` bounds the wait
            for the next request.
        send_timeout_s: For a client to read an answer, in addition to a second for
            each 64 KiB.
        balance: The load of each worker; set it before the fork.
        place: Number of this worker there; ``None``: there are too many.
        memory: Where the launcher replaces settings; ``None``: no process does.
        after_reload: Called when a reload has replaced settings, before this worker
            confirms that it has them.
    """

    access_log: bool = False
    request_deadline_s: float = 10.0
    send_timeout_s: float = 60.0
    balance = Balance(1)
    place: int | None = None
    memory: SettingsMemory | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = ConnectionLimits(
            self.request_deadline_s, self.cfg.keepalive, self.send_timeout_s
        )
        self._clients: set[ClientSocket] = set()
        self._known_heads: KnownHeads = {}
        self._reads_fast = reads_fast(self.cfg)
        self._servers: list[Server] = []
        self.after_reload: Callable[[], None] = lambda: None
        # Of the memory, when this worker read its settings.
        self._state = 0

    def patch(self) -> None:
        """Make the standard library's waits gevent's, without plugins of gevent.

        For each module it would search all installed packages for some, which took as
        long as all else that a worker does at its start.
        """
        search = events.notify_and_call_entry_points
        events.notify_and_call_entry_points = events.notify
        try:
            super().patch()
        finally:
            events.notify_and_call_entry_points = search

    def init_signals(self) -> None:
        """Set the signal handlers, and die with the arbiter."""
        super().init_signals()
        # Not earlier: the change of user before this would undo it.
        prctl.die_with_parent(self.ppid)

    @property
    def most_connections(self) -> int:
        """How many connections may be open at a time."""
        return int(min(self.worker_connections, self.most_files))

    @property
    def most_files(self) -> int:
        """How many files connections may have, or pairs of files with TLS."""
        # The other half is for connections to hosts and for gunicorn's files.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        # A pair for each connection, also for those that hosts have.
        return files // 4 if self.cfg.is_ssl else files

    def run(self) -> None:
        """Serve until the arbiter stops this worker; then end requests in flight."""
        sys.setswitchinterval(_SWITCH_S)
        if self.cfg.is_ssl:
            if self.memory is None:
                self._context = ssl_context(self.cfg)
            self._relays = TLSRelays(self.most_files)
        self._pool = Pool(self.most_connections)
        self._replies = FastReplies(self.cfg, self.wsgi)
        if self.memory is not None:
            self._read_settings(self.memory)
        for listener in self.sockets:
            self._servers.append(self._start(listener))
        notified = 0.0
        while self.alive:
            if time.monotonic() >= notified + _NOTIFY_S:
                notified = time.monotonic()
                self.notify()
            if self.memory is not None and self.memory.state != self._state:
                self._read_settings(self.memory)
            self.balance.measure()
            self._cut_overdue()
            if any(each.crowded and self._is_full(each) for each in self._servers):
                self._evict()
            gevent.sleep(_TICK_S)
        for server in self._servers:
            server.close()
        self.balance.withdraw()
        if self.memory is not None and self.place is not None:
            self.memory.forget(self.place)
        self._drain()

    def _read_settings(self, memory: SettingsMemory) -> None:
        # Before the settings, so that a later change is noticed.
        self._state = memory.state
        inherited = memory.read()
        log_lines.set_level(inherited.settings.log_level)
        if inherited.certificate is not None:
            # For further connections; the others have the earlier one.
            self._context = inherited.certificate.context()
            for server in self._servers:
                if server.context is not None:
                    server.context = self._context
        self.after_reload()
        if self.place is not None:
            memory.confirm(self.place, self._state)

    def _start(self, listener: Any) -> Server:
        listener.setblocking(True)
        handle = partial(self.handle, listener.getsockname())
        server = Server(listener, handle, spawn=self._pool)
        server.limits, server.balance = self._limits, self.balance
        if self.cfg.is_ssl and listener.family != socket.AF_UNIX:
            server.context, server.relays = self._context, self._relays
        server.full = partial(self._full, server)
        if self.cfg.workers > 1:
            server.max_accept = 1
        server.start()
        return server

    def _full(self, server: Server) -> bool:
        """Return whether there is no place for a new connection."""
        server.crowded = self._is_full(server)
        if server.crowded:
            # After the connections just accepted, which do not wait yet.
            gevent.get_hub().loop.run_callback(self._evict)
        return server.crowded

    def _is_full(self, server: Server) -> bool:
        return bool(self._pool.full()) or server.lacks_relays()

    def _evict(self) -> None:
        """End several waits at once, since a search examines all of them.

        If the first ones in order are new, or all are being served, none can be
        evicted yet, and the main loop tries again.
        """
        if not any(map(self._is_full, self._servers)):
            # A connection has ended since the caller looked.
            return
        old = time.monotonic() - _NEW_S
        # If the pool has places, only relays are missing.
        any_kind = self._pool.full()
        candidates = (
            client
            for client in self._clients
            if client.waiting and (any_kind or client.at_relay_end is not None)
        )
        count = max(1, self._pool.size // 100)
        first = heapq.nsmallest(count, candidates, key=_eviction_order)
        strangers = bool(first) and not first[0].served
        if not any_kind and not strangers and self._relays.end_stalled():
            return
        for client in first:
            if client.since < old:
                client.cut_off(evicted=True)

    def _cut_overdue(self) -> None:
        now = time.monotonic()
        for client in self._clients:
            if client.waiting and client.deadline <= now:
                client.cut_off()

    def _drain(self) -> None:
        """Wait for the answers in flight, no longer than gunicorn's grace."""
        self._limits.last_answers = True
        began = time.monotonic()
        end = began + self.cfg.graceful_timeout - _KILL_MARGIN_S
        while len(self._pool) and time.monotonic() < end:
            self.notify()
            for client in self._clients:
                if client.waiting is Wait.FIRST_BYTE:
                    grace = 0.0 if client.served else _FRESH_GRACE_S
                    client.deadline = min(client.deadline, began + grace)
            self._cut_overdue()
            gevent.sleep(_STOPPING_TICK_S)
        if len(self._pool):
            self.log.warning("%s requests did not end in time", len(self._pool))
            self._pool.kill(timeout=_TICK_S)
        if self.cfg.is_ssl:
            # For the last answers; streams do not end by themselves.
            self._relays.join(timeout=_KILL_MARGIN_S)

    def handle(self, address: Any, client: ClientSocket, addr: Any) -> None:
        """Serve a connection to its end.

        Args:
            address: The server's address.
            client: The connection.
            addr: The client's address.
        """
        parser = self._parser(address, client, addr)
        close = client.close
        self._clients.add(client)
        self.balance.count(len(self._clients))
        try:
            with contextlib.suppress(StopIteration, NoMoreData):
                self._serve(address, parser, client, addr)
            if client.answered and parser.unread():
                close = client.close_lingering
        except CutOff as cut:
            if cut.waited_for is Wait.SENT:
                close = client.close_at_once
            elif cut.waited_for is Wait.REST and not client.answered:
                self.handle_error(parser.mesg, client, addr, cut)
                close = client.close if cut.evicted else client.close_lingering
        except BrokenOff as broken:
            # The client must not take what it has for the whole answer.
            path = json.dumps(getattr(parser.mesg, "path", ""))
            self.log.warning("the answer to %s is broken off: %s", path, broken)
            close = client.close_at_once
        except (Exception, SystemExit) as error:
            if not client.lost:
                self.handle_error(parser.mesg, client, addr, error)
                close = client.close_lingering
        finally:
            try:
                close()
            finally:
                self._clients.discard(client)
                self.balance.count(len(self._clients))

    def _parser(self, address: Any, client: ClientSocket, addr: Any) -> ClientParser:
        whole = None
        if self._reads_fast and isinstance(address, tuple):
            places = addr, address
            whole = partial(FastReader, self.cfg, client, places, self._known_heads)
        return ClientParser(self.cfg, client, addr, whole)

    def _serve(
        self, address: Any, parser: ClientParser, client: ClientSocket, addr: Any
    ) -> None:
        proxy: Any = {}
        for request in parser:
            if isinstance(request, FastRequest):
                if self._replies.reply(request, client):
                    continue
                return
            proxy = request.proxy_protocol_info = request.proxy_protocol_info or proxy
            # Of the class above the gevent worker, which would swallow SystemExit
            # and leave the client without an answer.
            if not super(GeventWorker, self).handle_request(
                address, request, client, addr
            ):
                return

    def handle_error(
        self, req: Any, client: ClientSocket, addr: Any, exc: BaseException
    ) -> None:
        """Answer a request that ends in an error, if it has no answer yet."""
        problem = describe(req, exc)
        words = f"{problem['code']}, request from %s: %s"
        extra = {"request_id": problem["request_id"]}
        peer = addr[0] if addr else "a local socket"
        if problem["status"] == 500:
            # Without the query, in which there may be a ticket.
            target = getattr(req, "path", "")
            self.log.error(words, peer, json.dumps(target), exc_info=exc, extra=extra)
        else:
            detail = json.dumps(problem["detail"])
            self.log.info(words, peer, detail, extra=extra)
        if self.access_log:
            access(
                peer=peer,
                method=getattr(req, "method", None) or "-",
                path=getattr(req, "path", None) or "-",
                status=problem["status"],
                request_id=problem["request_id"],
            )
        if not client.answered:
            with contextlib.suppress(OSError):
                client.setblocking(False)
                client.sendall(error_answer(req, problem))


def _eviction_order(client: ClientSocket) -> tuple[bool, bool, float]:
    """Return a sort key: connections without a whole request first, answers last."""
    return client.waiting is Wait.SENT, client.served, client.deadline
