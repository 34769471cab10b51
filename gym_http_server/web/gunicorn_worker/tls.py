"""TLS termination: a relay between clients and a pair of sockets in the web worker.

The web worker, or the process that gets the connection, has one end of the pair and
does not need TLS. The relay decrypts and encrypts between the other end and the client.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import gevent  # type: ignore[import-untyped]
from gevent import monkey
from gevent.lock import BoundedSemaphore  # type: ignore[import-untyped]
from gevent.pool import Pool  # type: ignore[import-untyped]
from gevent.socket import wait_write  # type: ignore[import-untyped]
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]

from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.web.gunicorn_worker.client_socket import (
    SLOWEST_CLIENT,
    CallAtEnd,
    ConnectionLimits,
)
from gym_http_server.web.gunicorn_worker.error_answers import describe, error_answer

__all__ = ["TLSRelay", "TLSRelays"]

RECEIVE_BYTES = 64 * 1024
_HANDSHAKE = 0x16
# gevent's poll() reports nothing with a timeout of 0.
_Poll = monkey.get_original("select", "poll")
_refusals = LimitedLog(logging.getLogger("gym_http_server.tls"))
_TICK_S = 0.1
_SEND_TICK_S = 1.0
#: Seconds after which a client that reads nothing may lose its place to another one.
_STALLED_S = 5.0


class _NotTLS(ParseException):  # type: ignore[misc]
    def __str__(self) -> str:
        return "this port speaks TLS: connect to it with https://"


class TLSRelay:
    """Relays one connection between a client and a local socket.

    Args:
        context: The server's certificate and key.
        client: The client's connection, a socket of gevent's.
        local: One end of a pair of sockets, of gevent's.
        limits: Deadlines: of a request for the handshake, and for sending.
    """

    def __init__(
        self, context: ssl.SSLContext, client: Any, local: Any, limits: ConnectionLimits
    ) -> None:
        self._client = client
        self._local = local
        self._limits = limits
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sending = BoundedSemaphore()
        self._established = False
        self._received_all = False
        self._blocked_since: float | None = None

    def run(self) -> None:
        """Relay both ways until both are over."""
        back = gevent.spawn(self._send, gevent.getcurrent())
        try:
            with contextlib.suppress(OSError, gevent.Timeout):
                with gevent.Timeout(self._limits.request_deadline_s):
                    self._shake_hands()
                if self._established:
                    self._receive()
        finally:
            self._received_all = True
            with contextlib.suppress(OSError):
                self._local.shutdown(socket.SHUT_WR)
            back.join()
            self._client.close()
            self._local.close()

    def _shake_hands(self) -> None:
        data = self._client.recv(RECEIVE_BYTES)
        if data and data[0] != _HANDSHAKE:
            peer = self._client.getpeername()[0]
            _refusals.warning(f"refused {peer}, which did not speak TLS")
            self._client.sendall(error_answer(None, describe(None, _NotTLS())))
            self._client.shutdown(socket.SHUT_WR)
            while self._client.recv(RECEIVE_BYTES):
                pass
            return
        while data:
            self._incoming.write(data)
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._client.recv(RECEIVE_BYTES)
            except ssl.SSLError as error:
                # The client gets the alert with the reason.
                self._flush()
                peer = self._client.getpeername()[0]
                _refusals.warning(f"the TLS handshake with {peer} failed: {error}")
                raise
            else:
                self._flush()
                self._established = True
                return

    def _receive(self) -> None:
        """Decrypt the client's bytes, until it ends its side."""
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                while plain := self._tls.read(RECEIVE_BYTES):
                    self._local.sendall(plain)
                return
            self._flush()
            data = self._client.recv(RECEIVE_BYTES)
            if not data:
                return
            self._incoming.write(data)

    def _send(self, receiving: Any) -> None:
        """Encrypt bytes for the client, until the other end of the local socket closes.

        Args:
            receiving: The greenlet that receives; it ends when the local socket closes.
        """
        with contextlib.suppress(OSError):
            while data := self._local.recv(RECEIVE_BYTES):
                if not self._established:
                    break
                view = memoryview(data)
                while view:
                    view = view[self._tls.write(view) :]
                self._flush()
            if self._established:
                with contextlib.suppress(ssl.SSLError):
                    self._tls.unwrap()
                self._flush()
                self._client.shutdown(socket.SHUT_WR)
        # If only sending is over, the answer arrives while the client still sends.
        while not (self._received_all or self._is_closed()):
            gevent.sleep(_TICK_S)
        if not self._received_all:
            receiving.kill(block=False)

    def _flush(self) -> None:
        """Send the encrypted bytes.

        Raises:
            OSError: The client does not read in time, or the local socket has closed.
        """
        with self._sending:
            data = memoryview(self._outgoing.read())
            timeout_s = self._limits.send_timeout_s + len(data) / SLOWEST_CLIENT
            end = time.monotonic() + timeout_s
            while data:
                try:
                    data = data[self._client.send(data, timeout=0.0) :]
                    self._blocked_since = None
                    continue
                except BlockingIOError:
                    self._blocked_since = self._blocked_since or time.monotonic()
                    # Also if the local socket is closed: the bytes written before
                    # that are the end of an answer.
                    if time.monotonic() > end:
                        raise
                with contextlib.suppress(TimeoutError):
                    wait_write(self._client.fileno(), _SEND_TICK_S, TimeoutError())

    def _is_closed(self) -> bool:
        """Whether the local socket's other end is closed, not only for sending."""
        poll = _Poll()
        poll.register(self._local, 0)
        return bool(poll.poll(0))

    def stalled(self, now: float) -> bool:
        """Whether the web worker is done, and the client does not read the rest."""
        since = self._blocked_since
        return since is not None and now - since > _STALLED_S and self._is_closed()

    def abort(self) -> None:
        """End the connection, without sending the rest."""
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)


class TLSRelays:
    """The relays of a web worker.

    Args:
        most: How many there may be.
    """

    def __init__(self, most: int) -> None:
        self._pool = Pool(most)
        # In the order of their start.
        self._running: dict[TLSRelay, None] = {}

    def full(self) -> bool:
        """Whether there is no place for another one."""
        return bool(self._pool.full())

    def start(self, relay: TLSRelay, on_end: Callable[[Any], None]) -> CallAtEnd:
        """Run a relay.

        Args:
            relay: The relay; there is a place for it.
            on_end: Called with anything when it has ended, and its place is free.

        Returns:
            Has a further function called then.
        """
        self._running[relay] = None
        greenlet = self._pool.spawn(relay.run)
        greenlet.rawlink(lambda ended: self._running.pop(relay))
        greenlet.rawlink(on_end)
        return greenlet.rawlink  # type: ignore[no-any-return]

    def end_stalled(self) -> bool:
        """End the oldest stalled relay; return whether there was one."""
        now = time.monotonic()
        for relay in self._running:
            if relay.stalled(now):
                relay.abort()
                return True
        return False

    def join(self, timeout: float) -> None:
        """Wait until all have ended."""
        self._pool.join(timeout=timeout)
