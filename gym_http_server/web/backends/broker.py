"""The client of the broker in web workers: connections and requests for it."""

from __future__ import annotations

import contextlib
import os
import socket
from http import HTTPStatus
from typing import Any

import msgspec

from gym_http_server.access.identities import Identity
from gym_http_server.errors import NotFound, SupervisorUnavailable
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.backends.call_socket import CallSocket, ConnectionLost
from gym_http_server.web.backends.handover import detach, relay_both_ways
from gym_http_server.web.backends.supervisor_client import SupervisorClient
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, RequestHead, problem_of, request

__all__ = ["BrokerClient"]

MAX_ANSWER = 64 * 1024 * 1024
#: Seconds that the broker may take to answer, besides the requested wait.
TIMEOUT_SECONDS = 5.0


class BrokerClient:
    """The broker, as a web worker uses it.

    Args:
        run: The run directory.
        supervisor: Starts the broker, if none runs yet.
    """

    def __init__(self, run: RunDir, supervisor: SupervisorClient) -> None:
        self._path = run.broker_socket
        self._supervisor = supervisor

    def pass_on(
        self,
        greeting: str,
        client: socket.socket,
        early: bytes,
        caller: Identity,
        hello: str = "",
    ) -> None:
        """Pass the connection of an environment to the broker, which then owns it.

        Args:
            greeting: Bytes that the broker sends before all else.
            client: The environment's socket.
            early: Bytes that arrived after its handshake, and have been read.
            caller: The identity of its token.
            hello: Its hello, if it does not send one itself.

        Raises:
            Problem: The broker does not accept it; the client can get an answer.
        """
        self._connect(greeting, early, client, caller, hello).close()
        detach(client)

    def relay(
        self,
        greeting: str,
        client: socket.socket,
        early: bytes,
        caller: Identity,
        hello: str = "",
    ) -> None:
        """Copy between broker and environment, until one of them closes.

        The arguments and the exception are those of `pass_on`.
        """
        relay_both_ways(client, self._connect(greeting, early, None, caller, hello))

    def hello(self, hello: bytes, caller: Identity) -> Frame:
        """Pass on the hello that an environment has posted; return the answer.

        Raises:
            Problem: It is refused.
        """
        self._supervisor.call(Op.BROKER)
        head = RequestHead(value=msgspec.json.encode(caller).decode())
        return self._call(request(Op.EXTERNAL_HELLO, hello, head))

    def next_request(self, connection: str, wait_s: float, owner: str) -> Frame:
        """Wait for the next request to an environment that polls by HTTP.

        Args:
            connection: ID of its connection.
            wait_s: Seconds to wait.
            owner: Token that the connection must have been opened with; "" is any.

        Raises:
            Problem: There is no such connection.
        """
        value = msgspec.json.encode({"connection": connection, "wait_s": wait_s})
        head = RequestHead(value=value.decode(), owner=owner)
        return self._call(request(Op.EXTERNAL_POLL, head=head), wait_s)

    def answer(self, connection: str, body: bytes, owner: str) -> Frame:
        """Pass on an answer that an environment has posted.

        Args:
            connection: ID of its connection.
            body: The answer.
            owner: Token that the connection must have been opened with; "" is any.

        Raises:
            Problem: There is no such connection.
        """
        head = RequestHead(value=connection, owner=owner)
        return self._call(request(Op.EXTERNAL_ANSWER, body, head))

    def check(self, timeout_s: float) -> None:
        """Check that the broker responds, if it runs.

        Raises:
            SupervisorUnavailable: It does not answer in time.
        """
        try:
            connection = CallSocket(self._path, MAX_ANSWER, timeout_s=timeout_s)
        except FileNotFoundError:
            # It has not been started yet.
            return
        except OSError:
            raise _unavailable() from None
        with contextlib.closing(connection):
            try:
                connection.call(request(Op.EXTERNAL_STATUS))
            except ConnectionLost:
                raise _unavailable() from None

    def _call(self, frame: Frame, wait_s: float = 0.0) -> Frame:
        timeout_s = wait_s + TIMEOUT_SECONDS
        try:
            connection = CallSocket(self._path, MAX_ANSWER, timeout_s=timeout_s)
        except OSError:
            if frame.kind == Op.EXTERNAL_HELLO or os.path.exists(self._path):
                raise _unavailable() from None
            # Without a broker there are no connections.
            raise NotFound("there is no such connection: send a hello first") from None
        with contextlib.closing(connection):
            try:
                return connection.call(frame)
            except ConnectionLost:
                raise _unavailable() from None

    def listed(self) -> list[dict[str, Any]]:
        """Return the environments that are connected, and how many are free.

        Without a broker, the list is empty.

        Raises:
            SupervisorUnavailable: It does not answer in time.
        """
        if not os.path.exists(self._path):
            return []
        return list(msgspec.json.decode(self._call(request(Op.EXTERNAL_LIST)).body))

    def _connect(
        self,
        greeting: str,
        early: bytes,
        client: socket.socket | None,
        caller: Identity,
        hello: str,
    ) -> CallSocket:
        connect = {"greeting": greeting, "hello": hello, "own": client is None}
        connect |= {"identity": caller}
        value = msgspec.json.encode(connect).decode()
        frame = request(Op.EXTERNAL_CONNECT, early, RequestHead(value=value))
        self._supervisor.call(Op.BROKER)
        try:
            connection = CallSocket(self._path, MAX_ANSWER, timeout_s=TIMEOUT_SECONDS)
        except OSError:
            raise _unavailable() from None
        try:
            answer = self._answered(connection, frame, client)
            # Copying has no time limit.
            connection.socket.settimeout(None)
        except BaseException:
            connection.close()
            raise
        if answer.status != HTTPStatus.NO_CONTENT:
            connection.close()
            raise problem_of(answer)
        return connection

    @staticmethod
    def _answered(
        connection: CallSocket, frame: Frame, client: socket.socket | None
    ) -> Frame:
        try:
            connection.send(frame, None if client is None else client.fileno())
            return connection.receive_first()
        except ConnectionLost:
            raise _unavailable() from None


def _unavailable() -> SupervisorUnavailable:
    return SupervisorUnavailable(
        "the broker does not answer; the server is starting, stopping or broken",
        headers={"Retry-After": "1"},
    )
