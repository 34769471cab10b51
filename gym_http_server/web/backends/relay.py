"""The client of the relay in web workers: connections to it, and requests."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from gym_http_server.errors import RelayUnavailable, Unauthorized
from gym_http_server.rundir.directory import RunDir
from gym_http_server.services.relay.messages import (
    MOST_FILES,
    RelayHead,
    pieces_of,
    relay_request,
)
from gym_http_server.web.backends.call_socket import CallSocket, ConnectionLost
from gym_http_server.web.backends.downloads import Download
from gym_http_server.web.backends.supervisor_client import Abandoned, SupervisorClient
from gym_http_server.web.backends.uploads import StoredBody
from gym_http_wire.frames import Frame, FrameError
from gym_http_wire.messages import Form, Op, answer_head, problem_of

__all__ = ["LongPoll", "RelayAnswer", "RelayClient", "UploadRoom"]

MAX_ANSWER = 64 * 1024 * 1024
#: Seconds that the relay may take to answer, besides the requested wait. A disk may
#: stall it for a while.
TIMEOUT_SECONDS = 20.0
#: Seconds for which a token that the relay has admitted need not be checked before a
#: small body is read. The relay checks it again with the body.
KNOWN_SECONDS = 60.0
#: Seconds without an answer after which the relay counts as broken: until then its disk
#: may stall it, or the machine.
SILENT_SECONDS = 10.0
#: Connections that are kept for later requests.
MAX_IDLE = 16
MAX_KNOWN = 4096
#: Seconds in which the relay ends a wait when the server is about to stop.
STOPPING_SECONDS = 2.0
#: Seconds between two looks at a wait's reasons to end.
_LOOK_SECONDS = 0.5


class RelayAnswer(NamedTuple):
    """An answer of the relay that is no problem.

    Attributes:
        frame: The answer.
        download: Its body, if that lies in files.
    """

    frame: Frame
    download: Download | None


class UploadRoom:
    """The relay's answer to the announcement of a body.

    The relay keeps the room until the body is sent to it, or this is closed.

    Args:
        connection: The connection of the announcement.
        answer: The answer, as JSON.

    Attributes:
        folder: Where to write a large body.
        room: Bytes that it may have.
    """

    def __init__(self, connection: CallSocket, answer: bytes) -> None:
        given = msgspec.json.decode(answer)
        self.folder = str(given["folder"])
        self.room = int(given["room"])
        self._connection: CallSocket | None = connection

    def take_connection(self) -> CallSocket | None:
        """Return the connection, which the caller must close, unless it was taken."""
        connection, self._connection = self._connection, None
        return connection

    def close(self) -> None:
        """Give the room back, unless the connection was taken."""
        connection = self.take_connection()
        if connection is not None:
            connection.close()


class LongPoll(NamedTuple):
    """A wait for something to happen in a run.

    Attributes:
        seconds: The longest wait.
        client: The client's socket, readable when it disconnects; ``None`` to wait in
            any case.
        stopping: Returns whether the server is about to stop.
    """

    seconds: float
    client: Any
    stopping: Callable[[], bool]


class RelayClient:
    """The relay, as a web worker uses it.

    Args:
        run: The run directory.
        supervisor: Starts the relay, if none runs yet.
        clock: Returns the seconds for which the relay is silent.
    """

    def __init__(
        self,
        run: RunDir,
        supervisor: SupervisorClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._path = run.relay_socket
        self._supervisor = supervisor
        # Tokens by digest, and until when they are known.
        self._known: dict[str, float] = {}
        # When a check first found the relay silent, if it did not answer since.
        self._silent_since: float | None = None
        # Connections on which every request was answered, the last used at the end.
        self._idle: list[CallSocket] = []

    def call(
        self,
        op: Op,
        head: RelayHead,
        body: bytes = b"",
        *,
        stored: StoredBody | None = None,
        room: UploadRoom | None = None,
        waiting: LongPoll | None = None,
    ) -> RelayAnswer:
        """Send a request and return its answer.

        Args:
            op: The operation.
            head: Its head.
            body: A small body.
            stored: A large body, which is the relay's once the request is sent. If it
                cannot be sent, the file is removed. In any case it is closed.
            room: The room for it, which is closed, too.
            waiting: How long the relay may wait before it answers.

        Raises:
            Problem: The answer is a problem.
            RelayUnavailable: There is no answer.
            Abandoned: The client has left.
        """
        try:
            connection = self._send(relay_request(op, head, body), room=room)
        except BaseException:
            if stored is not None:
                stored.remove()
            raise
        try:
            if waiting is not None:
                _wait(connection.socket, waiting)
            frame = _receive(connection)
        except BaseException:
            connection.close()
            raise
        finally:
            if stored is not None:
                stored.close()
        descriptors = _descriptors(connection)
        self._keep(connection)
        return _read(frame, descriptors)

    def admit(self, op: Op, head: RelayHead) -> UploadRoom:
        """Check whether a request would be refused, before its body is read.

        Returns:
            The room for its body, which the caller must close, or give to `call`.

        Raises:
            Problem: It would be.
        """
        asked = msgspec.structs.replace(head, args={**head.args, "op": int(op)})
        connection = self._send(relay_request(Op.RELAY_ADMIT, asked))
        try:
            frame = _read(_receive(connection), []).frame
            room = UploadRoom(connection, frame.body)
        except BaseException:
            connection.close()
            raise
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[head.token] = time.monotonic() + KNOWN_SECONDS
        return room

    def knows(self, token: str) -> bool:
        """Return whether the relay has just admitted an upload with a run's token."""
        return self._known.get(token, 0.0) > time.monotonic()

    def check_token(self, digest: str) -> None:
        """Check that a token is one of a run.

        Args:
            digest: SHA-256 in hex of the token.

        Raises:
            Unauthorized: It is not.
        """
        if not os.path.exists(self._path):
            # Without a relay there are no runs.
            raise Unauthorized("the token is of no run")
        self.call(Op.RELAY_ADMIT, RelayHead(token=digest))

    def check(self, timeout_s: float) -> None:
        """Check that the relay responds, if it runs; one that is busy passes.

        Args:
            timeout_s: Seconds to wait for an answer.

        Raises:
            RelayUnavailable: It has not answered for 10 seconds.
        """
        if not os.path.exists(self._path):
            return
        try:
            connection = self._connect(timeout_s)
            try:
                _send(connection, relay_request(Op.RELAY_STATUS, RelayHead()))
                _receive(connection)
            finally:
                connection.close()
        except RelayUnavailable:
            now = self._clock()
            if self._silent_since is None:
                self._silent_since = now
            if now - self._silent_since >= SILENT_SECONDS:
                raise
        else:
            self._silent_since = None

    def _send(self, frame: Frame, *, room: UploadRoom | None = None) -> CallSocket:
        """Send a request; return the connection, which the caller closes or keeps."""
        used = None if room is None else room.take_connection()
        if used is None and self._idle:
            used = self._idle.pop()
        if used is not None:
            try:
                used.send(frame)
                return used
            except ConnectionLost:
                # The relay was restarted; the next one does not know of the upload.
                used.close()
                self.close_idle()
            except BaseException:
                used.close()
                raise
        if not os.path.exists(self._path):
            self._supervisor.call(Op.RELAY)
        connection = self._connect(TIMEOUT_SECONDS)
        try:
            _send(connection, frame)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, timeout_s: float) -> CallSocket:
        try:
            return CallSocket(
                self._path,
                max_body=MAX_ANSWER,
                timeout_s=timeout_s,
                max_descriptors=MOST_FILES,
            )
        except OSError:
            raise _unavailable() from None

    def _keep(self, connection: CallSocket) -> None:
        self._silent_since = None
        if len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close_idle(self) -> None:
        """Close the connections that no request uses."""
        while self._idle:
            self._idle.pop().close()


def _send(connection: CallSocket, frame: Frame) -> None:
    try:
        connection.send(frame)
    except ConnectionLost:
        raise _unavailable() from None


def _receive(connection: CallSocket) -> Frame:
    try:
        frame = connection.receive_one()
    except FrameError:
        frame = None
    if frame is None:
        raise _unavailable()
    return frame


def _descriptors(connection: CallSocket) -> list[int]:
    """Return the descriptors that came with an answer."""
    found = []
    while (descriptor := connection.take_descriptor()) is not None:
        found.append(descriptor)
    return found


def _read(frame: Frame, descriptors: list[int]) -> RelayAnswer:
    """Return an answer, or raise the problem that it is."""
    if frame.status >= 400:
        problem = problem_of(frame)
        problem.headers |= answer_head(frame).headers
        raise problem
    if frame.form != Form.OTHER:
        return RelayAnswer(frame, None)
    return RelayAnswer(frame, Download(pieces_of(frame), descriptors))


def _wait(answer: socket.socket, waiting: LongPoll) -> None:
    """Wait for an answer.

    Raises:
        Abandoned: The client has left.
        RelayUnavailable: There is no answer in time.
    """
    # Not select(), which refuses descriptors from 1024 on.
    poll = select.poll()
    poll.register(answer, select.POLLIN)
    client = waiting.client
    if client is not None:
        poll.register(client, select.POLLIN)
    end = time.monotonic() + waiting.seconds + TIMEOUT_SECONDS
    stopping = False
    while time.monotonic() < end:
        ready = [descriptor for descriptor, _ in poll.poll(_LOOK_SECONDS * 1000)]
        if answer.fileno() in ready:
            return
        if waiting.stopping() and not stopping:
            # The relay ends the wait, as if the time were over.
            stopping = True
            end = min(end, time.monotonic() + STOPPING_SECONDS)
        if ready:
            if client.has_left():
                raise Abandoned
            # It has sent its next request already.
            poll.unregister(client)
    raise _unavailable()


def _unavailable() -> RelayUnavailable:
    return RelayUnavailable(
        "the relay does not answer; the server is starting, stopping or broken; send "
        "the request again",
        headers={"Retry-After": "1"},
    )
