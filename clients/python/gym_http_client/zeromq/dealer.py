"""Dealers: connections to a server's ZeroMQ socket that detect their loss.

ZeroMQ reconnects by itself, without notice, and the server does not recognize the
new connection. So each dealer monitors its socket, and fails when its first
connection is lost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import time
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from gym_http_client.errors import Failure, FailureKind
from gym_http_client.http.addresses import Address
from gym_http_client.http.dialing import Dialer
from gym_http_client.http.ports import OtherPort, Port, port_of

__all__ = ["REFUSED", "Dealer", "address_of"]

HEARTBEAT_MS = 10_000
#: Seconds within which a ZeroMQ socket usually completes its handshake.
EARLY_SECONDS = 1.0
#: Seconds within which other kinds of ports answer a probe.
PROBE_SECONDS = 1.0
#: The beginning of the message with which the server ends the connection.
REFUSED = b'{"type":"refused",'
#: Milliseconds for sending the last message after `close`.
LINGER_MS = 200
_PORT = re.compile(r".+:[0-9]{1,5}/?").fullmatch
_LOOKS = "A server's ZeroMQ address looks like tcp://127.0.0.1:5556"
_EVENTS = (
    zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.CLOSED
    | zmq.Event.CONNECT_RETRIED
    | zmq.Event.DISCONNECTED
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)
# HTTP ports and ports for counted messages both answer these bytes at once, since they
# are neither a request line nor a hello.
_QUESTION = b"\4\0\0\0{}\r\n\r\n"
_RECEIVE_BYTES = 1024


def address_of(url: str, token: str | None = None) -> Address:
    """Parse the address of a server's ZeroMQ socket.

    Args:
        url: As ``tcp://127.0.0.1:5556`` or ``zmq+tcp://127.0.0.1:5556``; it may hold a
            token, as ``tcp://:TOKEN@host:5556``.
        token: As for `Address`.

    Raises:
        ValueError: The address is malformed.
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in ("tcp", "zmq+tcp") or not separator:
        raise ValueError(_LOOKS)
    try:
        address = Address.parse(f"http://{rest}", token)
    except ValueError as error:
        words = str(error)
        raise ValueError(words if "token" in words.lower() else _LOOKS) from None
    if address.prefix or not _PORT(rest.rpartition("@")[2]):
        raise ValueError(_LOOKS)
    host = f"[{address.host}]" if ":" in address.host else address.host
    place = f"tcp://{host}:{address.port}"
    return dataclasses.replace(address, url=place, scheme="tcp")


class Dealer:
    """One connection with its own ZeroMQ context; one thread at a time may use it.

    Args:
        address: The server's.
        max_message: Maximum size of a message in bytes.
        seconds: Time limit for connecting.

    Raises:
        ConnectionRefusedError: No ZeroMQ socket is at the address.
        Failure: The port is of another kind.
        TimeoutError: Connecting took too long.
        OSError: ZeroMQ cannot connect to the address.
    """

    def __init__(self, address: Address, max_message: int, seconds: float) -> None:
        self.place = address.url
        self._address = address
        self._pid = os.getpid()
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket: zmq.Socket[Any] = self._context.socket(zmq.DEALER)
        for option, value in (
            (zmq.LINGER, LINGER_MS),
            (zmq.MAXMSGSIZE, max_message),
            (zmq.HEARTBEAT_IVL, HEARTBEAT_MS),
            (zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_MS),
            (zmq.IPV6, 1),
        ):
            self._socket.set(option, value)
        self._monitor: Any = self._socket.get_monitor_socket(_EVENTS)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        try:
            self._connect(seconds)
        except BaseException:
            self.close()
            raise

    def _connect(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        try:
            self._socket.connect(self.place)
        except zmq.ZMQError as error:
            raise OSError(f"{self.place}: {error}") from error
        if not self._monitor.poll(min(EARLY_SECONDS, seconds) * 1000):
            self._check_port(end - time.monotonic())
            if not self._monitor.poll(_milliseconds(end)):
                raise TimeoutError(
                    f"no ZeroMQ server answered at {self.place} within {seconds:g} s"
                )
        event = recv_monitor_message(self._monitor)["event"]
        if event in (zmq.Event.CLOSED, zmq.Event.CONNECT_RETRIED):
            raise ConnectionRefusedError(f"no connection to {self.place} can be opened")
        if event != zmq.Event.HANDSHAKE_SUCCEEDED:
            raise ConnectionRefusedError(
                f"{self.place} does not use ZeroMQ: expected the --zmq of a server"
            )

    def _check_port(self, left: float) -> None:
        """Probe a silent port, and raise `Failure` if it is of another kind."""
        if left <= 0:
            return
        port = port_at(self._address, min(left, PROBE_SECONDS))
        if port is not None and port is not Port.ZEROMQ:
            raise Failure(FailureKind.MISTAKEN, OtherPort(port))

    def send(self, payload: bytes) -> None:
        """Send a message.

        Raises:
            OSError: The connection is lost, or its queue is full.
        """
        try:
            self._socket.send(payload, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            raise ConnectionResetError(f"{self.place}: {error}") from error

    def receive(self, seconds: float | None) -> bytes | None:
        """Wait for a message.

        Args:
            seconds: How long to wait; ``None`` for no limit.

        Returns:
            The message; ``None`` if none arrived in time.

        Raises:
            OSError: The connection is lost.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            ready = dict(self._poller.poll(_milliseconds(until)))
            if self._socket in ready:
                return self._socket.recv()
            if self._monitor in ready:
                raise ConnectionResetError(f"the server at {self.place} is gone")
            if until is not None and time.monotonic() >= until:
                return None

    def close(self) -> None:
        """Close the connection; the last message is still sent."""
        # A forked process has neither the threads nor the sockets.
        if self._pid == os.getpid() and not self._context.closed:
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close()
            self._context.term()


def _milliseconds(until: float | None) -> int | None:
    if until is None:
        return None
    return math.ceil(max(0.0, until - time.monotonic()) * 1000)


def port_at(address: Address, seconds: float) -> Port | None:
    """Probe a port, and return its kind; ``None`` if its answer does not show it.

    Args:
        address: Address of the port.
        seconds: Time limit for connection and answer together.
    """
    end = time.monotonic() + seconds

    def left() -> float:
        seconds = end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    with contextlib.suppress(OSError), Dialer(address).dial(left) as sock:
        sock.settimeout(left())
        sock.sendall(_QUESTION)
        return port_of(sock.recv(_RECEIVE_BYTES))
    return None
