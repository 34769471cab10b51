"""Asking the supervisor: one connection a question."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_server.access import Identity
from gym_http_server.errors import SupervisorUnavailable
from gym_http_server.instances.connections import Connection, ConnectionLost
from gym_http_server.rundir import RunDir
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, RequestHead, problem_of, request

__all__ = ["Abandoned", "Supervision"]

MAX_ANSWER = 64 * 1024 * 1024


class Abandoned(Exception):
    """Whoever asked is gone."""


class Supervision:
    """What web workers ask of the supervisor.

    Args:
        run: The run directory.
        patience: Seconds to wait for an answer; ``None`` waits for ever.
    """

    def __init__(self, run: RunDir, patience: float | None = None) -> None:
        self._path = run.supervisor_socket
        self._patience = patience

    def create(
        self,
        body: bytes,
        key: str,
        caller: Identity,
        client: socket.socket | None,
        gone: Callable[[], bool],
    ) -> Frame:
        """Ask for an instance, as long as the client waits for it.

        Args:
            body: The body of the create request, as it came.
            key: The request's key, or "".
            caller: The identity of the token that was shown.
            client: The client's socket, readable when it leaves; ``None`` if that
                does not matter.
            gone: Whether the client has left.

        Returns:
            The answer, a problem included.

        Raises:
            Abandoned: The client left; the supervisor ends what it began.
            SupervisorUnavailable: There is no answer.
        """
        connection = self._connect()
        head = RequestHead(key=key, owner=caller.only, creator=caller.name)
        asked = request(Op.CREATE, body, head)
        try:
            if client is not None:
                connection.send(asked)
                _await(connection.socket, client, gone)
                return connection.receive()
            return connection.call(asked)
        except ConnectionLost:
            raise _unavailable() from None
        finally:
            connection.close()

    def ask(
        self, op: Op, instance_id: str = "", key: str = "", *, owner: str = ""
    ) -> Any:
        """Ask something and give the decoded answer.

        Args:
            op: What is asked.
            instance_id: The instance, where one is meant.
            key: The request's key, or "".
            owner: Owner that instances must have; "" is any.

        Raises:
            Problem: What the supervisor told.
            SupervisorUnavailable: There is no answer.
        """
        connection = self._connect()
        head = RequestHead(instance_id=instance_id, key=key, owner=owner)
        try:
            answer = connection.call(request(op, head=head))
        except ConnectionLost:
            raise _unavailable() from None
        finally:
            connection.close()
        if answer.status != 200:
            raise problem_of(answer)
        return msgspec.json.decode(answer.body)

    def _connect(self) -> Connection:
        try:
            connection = Connection(self._path, MAX_ANSWER)
            connection.socket.settimeout(self._patience)
            return connection
        except OSError:
            raise _unavailable() from None


def _await(
    answer: socket.socket, client: socket.socket, gone: Callable[[], bool]
) -> None:
    # Not select(), which refuses descriptors from 1024 on.
    poll = select.poll()
    poll.register(answer, select.POLLIN)
    poll.register(client, select.POLLIN)
    while all(descriptor != answer.fileno() for descriptor, _ in poll.poll()):
        if gone():
            raise Abandoned
        # It has sent its next request already: not gone.
        poll.unregister(client)


def _unavailable() -> SupervisorUnavailable:
    return SupervisorUnavailable(
        "the supervisor does not answer; the server is starting, stopping or broken",
        headers={"Retry-After": "1"},
    )
