"""Requests to the supervisor, each over a new connection.

A request may take long, as a create does. So the wait for an answer has no deadline, as
long as the supervisor works: it counts what it does in a file of the run directory.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable
from typing import IO, Any, NamedTuple

import msgspec

from gym_http_server.access.identities import Identity
from gym_http_server.errors import SupervisorUnavailable
from gym_http_server.operations.create_bodies import Divided, divide, is_large
from gym_http_server.rundir.directory import RunDir
from gym_http_server.rundir.progress import read_progress
from gym_http_server.web.backends.call_socket import CallSocket, ConnectionLost
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    PLAIN_BOTH_WAYS,
    Op,
    RequestHead,
    problem_of,
    request,
)

__all__ = ["Abandoned", "Held", "SupervisorClient"]

MAX_ANSWER = 64 * 1024 * 1024
#: Seconds without an answer after which the supervisor must have done something.
QUIET_SECONDS = 2.0
#: Seconds that the supervisor may take for requests that it answers at once.
TIMEOUT_SECONDS = 2.0


class Abandoned(Exception):
    """The client that sent the request has left."""


class Held(NamedTuple):
    """The answer to a create, and the connection with which its instance ends."""

    answer: Frame
    connection: CallSocket

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.answer.status


class SupervisorClient:
    """Sends requests to the supervisor.

    Args:
        run: The run directory.
    """

    def __init__(self, run: RunDir) -> None:
        self._path = run.supervisor_socket
        self._progress = run.progress

    def status(self, timeout_s: float = TIMEOUT_SECONDS) -> dict[str, Any]:
        """Return the supervisor's counts.

        Raises:
            SupervisorUnavailable: It does not answer in time.
        """
        connection = self._connect(timeout_s)
        try:
            answer = connection.call(request(Op.STATUS))
        except ConnectionLost:
            raise _unavailable() from None
        finally:
            connection.close()
        return dict(msgspec.json.decode(answer.body))

    def check(self, timeout_s: float = TIMEOUT_SECONDS) -> None:
        """Check that the supervisor works: that it answers, or does something else.

        Args:
            timeout_s: Seconds that it may do nothing.

        Raises:
            SupervisorUnavailable: It does nothing.
        """
        before = read_progress(self._progress)
        try:
            self.status(timeout_s)
        except SupervisorUnavailable:
            if read_progress(self._progress) == before:
                raise

    def create(
        self,
        body: bytes | Divided,
        *,
        caller: Identity,
        client: socket.socket | None = None,
        gone: Callable[[], bool] = bool,
        key: str = "",
        request_id: str = "",
        form: int = PLAIN_BOTH_WAYS,
        resumed: bool = False,
    ) -> Frame:
        """Create an instance; stop waiting if the client disconnects.

        Args:
            body: The unchanged body of the create request, or the request in two parts.
            caller: The identity of the client's token.
            client: The client's socket, readable when it disconnects; ``None`` to wait
                in any case.
            gone: Returns whether the client has disconnected.
            key: The request's key, or "".
            request_id: ID of the client's request, for the log.
            form: Form of the body, and in the high half the one for the answer.
            resumed: Whether the body was made from a recording that it resumes.

        Returns:
            The answer, which may be a problem.

        Raises:
            Abandoned: The client disconnected; the supervisor ends the instance.
            SupervisorUnavailable: There is no answer.
            BadJSON: The body is large, and cannot be divided.
            BadParameter: The same.
        """
        head = RequestHead(
            key=key,
            owner=caller.only,
            creator=caller.name,
            request_id=request_id,
            resumed=resumed,
        )
        made = self._create(body, head, form, client, gone)
        made.connection.close()
        return made.answer

    def create_held(
        self,
        body: bytes,
        *,
        caller: Identity,
        client: socket.socket | None = None,
        gone: Callable[[], bool] = bool,
        request_id: str = "",
        replaces: str = "",
    ) -> Held:
        """Create an instance that ends with a connection, also if this process dies.

        Args:
            body: As for `create`, and so are those that are not listed here.
            caller: The same.
            client: The same.
            gone: The same.
            request_id: The same.
            replaces: An instance that ends first, and whose slot this one gets; "" for
                any free slot. If it has ended, the answer is `UnknownInstance`.

        Raises:
            Problem: As by `create`.
            Abandoned: The same.
        """
        head = RequestHead(
            instance_id=replaces,
            owner=caller.only,
            creator=caller.name,
            request_id=request_id,
            held=True,
        )
        return self._create(body, head, PLAIN_BOTH_WAYS, client, gone)

    def _create(
        self,
        body: bytes | Divided,
        head: RequestHead,
        form: int,
        client: socket.socket | None,
        gone: Callable[[], bool],
    ) -> Held:
        if isinstance(body, bytes):
            if not is_large(body, form):
                frame = request(Op.CREATE, body, head, form=form)
                return self._exchange(frame, client, gone)
            # The launcher has a client, too, and does not need gevent.
            from gym_http_server.web.backends.transfers import in_thread

            body = in_thread(divide, body, form)
        head = msgspec.structs.replace(head, digest=body.digest)
        frame = request(Op.CREATE, body.members, head, form=form)
        with body.memory as memory:
            return self._exchange(frame, client, gone, memory)

    def call(
        self,
        op: Op,
        instance_id: str = "",
        key: str = "",
        *,
        owner: str = "",
        request_id: str = "",
    ) -> Any:
        """Send a request and return its decoded answer.

        Args:
            op: The operation.
            instance_id: The instance, if the operation is about one.
            key: The request's key, or "".
            owner: Owner that instances must have; "" is any.
            request_id: The request's ID, for the log.

        Raises:
            Problem: The answer is a problem.
            SupervisorUnavailable: There is no answer.
        """
        head = RequestHead(
            instance_id=instance_id, key=key, owner=owner, request_id=request_id
        )
        return msgspec.json.decode(self.forward(op, head).body)

    def forward(self, op: Op, head: RequestHead, body: bytes = b"") -> Frame:
        """Send a request and return its answer unchanged.

        Raises:
            Problem: The answer is a problem.
            SupervisorUnavailable: There is no answer.
        """
        answer = self._call(request(op, body, head))
        if answer.status != 200:
            raise problem_of(answer)
        return answer

    def _call(self, frame: Frame) -> Frame:
        made = self._exchange(frame)
        made.connection.close()
        return made.answer

    def _exchange(
        self,
        frame: Frame,
        client: socket.socket | None = None,
        gone: Callable[[], bool] = bool,
        memory: IO[bytes] | None = None,
    ) -> Held:
        """Send a request over a new connection; leave that open, unless this raises."""
        with contextlib.ExitStack() as failing:
            connection = self._connect_patiently()
            failing.callback(connection.close)
            try:
                if memory is None:
                    connection.send(frame)
                else:
                    connection.send(frame, memory.fileno())
                    # It is as large as the body, and the wait may be long.
                    memory.close()
                answer = self._answer(connection, client, gone)
            except ConnectionLost:
                raise _unavailable() from None
            failing.pop_all()
            return Held(answer, connection)

    def _answer(
        self,
        connection: CallSocket,
        client: socket.socket | None,
        gone: Callable[[], bool],
    ) -> Frame:
        self._await(connection.socket, client, gone)
        if gone():
            # The supervisor learns from the end of the connection that its answer was
            # not read.
            raise Abandoned
        return connection.receive_answer()

    def _connect_patiently(self) -> CallSocket:
        """Connect, however many connections wait, while the supervisor works."""
        before = read_progress(self._progress)
        while True:
            try:
                return self._connect(TIMEOUT_SECONDS)
            except SupervisorUnavailable:
                now = read_progress(self._progress)
                if now == before:
                    raise
                before = now

    def _connect(self, timeout_s: float) -> CallSocket:
        try:
            return CallSocket(self._path, MAX_ANSWER, timeout_s=timeout_s)
        except OSError:
            raise _unavailable() from None

    def _await(
        self,
        answer: socket.socket,
        client: socket.socket | None,
        gone: Callable[[], bool],
    ) -> None:
        """Wait until there is an answer, while the supervisor works."""
        # Not select(), which refuses descriptors from 1024 on.
        poll = select.poll()
        poll.register(answer, select.POLLIN)
        if client is not None:
            poll.register(client, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(QUIET_SECONDS * 1000)]
            if answer.fileno() in ready:
                return
            if not ready:
                self.check()
            elif gone():
                raise Abandoned
            elif client is not None:
                # It has sent its next request already: not gone.
                poll.unregister(client)


def _unavailable() -> SupervisorUnavailable:
    return SupervisorUnavailable(
        "the supervisor does not answer; the server is starting, stopping or broken",
        headers={"Retry-After": "1"},
    )
