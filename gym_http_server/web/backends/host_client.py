"""Calls hosts of instances, and gets the tombstones of ended ones."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
import time
from collections.abc import Callable
from http import HTTPStatus

import msgspec

from gym_http_server.errors import EnvCrashed, QueueFull, UnknownInstance
from gym_http_server.processes.end_problems import end_problem, was_in_flight
from gym_http_server.rundir.directory import RunDir
from gym_http_server.web.backends.budget import Budget, Room
from gym_http_server.web.backends.call_socket import (
    CallSocket,
    ConnectionLost,
    NothingSent,
    Pool,
    Wait,
)
from gym_http_server.web.backends.log_polls import LogPolls, state_of
from gym_http_server.web.backends.queues import Queues
from gym_http_server.web.backends.supervisor_client import SupervisorClient
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, RequestHead, answer_head, problem_of
from gym_http_wire.problems import Problem

__all__ = ["HostClient"]

END_SECONDS = 2.0
MAX_EXPECTED = 1024
MAX_GREETING = 64 * 1024
#: Instances whose owner a web worker caches.
MAX_OWNERS = 100_000
_HEADER = re.compile(r"(Gym|Idempotent)-[A-Za-z-]+: [ -~]*").fullmatch
_INSTANCE_ID = re.compile(r"[0-9a-f]{8}").fullmatch


class HostClient:
    """The hosts of all instances, as a web worker calls them.

    Args:
        run: The run directory.
        max_answer: Bytes that an answer's body may have.
        max_waiting: Requests that may wait for an instance, besides the one being
            executed.
        answer_budget: Bytes of large answers that clients have not read.

    Attributes:
        budget: Counts those bytes.
        queues: Counts the requests that wait.
        log_queues: Counts the requests that wait for output.
    """

    def __init__(
        self, run: RunDir, max_answer: int, max_waiting: int, answer_budget: int
    ) -> None:
        self._run = run
        self._supervisor = SupervisorClient(run)
        self.budget = Budget(answer_budget, self._owner_of)
        # The host refuses an answer beyond the limit; this limit is only a guard.
        self.pool = Pool(max_answer + 1024 * 1024, self.budget)
        # Owner by instance ID, so that not each call needs the supervisor.
        self._owners: dict[str, str] = {}
        self.queues = Queues(max_waiting)
        # Separate from `queues`, so that clients that read logs do not prevent steps.
        self.log_queues = Queues(max_waiting, what="wait for the log of")
        self._log_polls = LogPolls()
        # Size of the last large answer, by instance and operation.
        self._large: dict[tuple[str, int], int] = {}

    def call(
        self, instance_id: str, frame: Frame, owner: str, wait: Wait | None = None
    ) -> Frame:
        """Send a request to the host of an instance and return its answer.

        Args:
            instance_id: The instance.
            frame: The request.
            owner: Owner that it must have; "" is any.
            wait: Waits until the answer arrives on a socket, for requests that wait in
                the host; it may raise to abandon the request.

        Raises:
            UnknownInstance: There is no such instance.
            InstanceEnded: The instance has ended.
            EnvCrashed: The instance ended during this call.
            StepDeadline: This call took too long, and ended the instance.
            QueueFull: Too many requests wait for the instance.
            AnswerBudgetFull: There is no room for an answer as large as the last one;
                this call was not made. If only the host knew that its answer is large,
                that problem is the answer.
        """
        self._check(instance_id, owner)
        try:
            place = self.queues.enter(instance_id)
        except QueueFull as full:
            place = self._enter_clocked(instance_id, full)
        try:
            expected = self._expected(instance_id, frame) if self._large else None
            return self._call(instance_id, frame, expected, wait)
        finally:
            self.queues.leave(place)

    def _enter_clocked(self, instance_id: str, full: QueueFull) -> int:
        """Count a request beyond the limit, if its instance has a clock.

        Requests for a clock wait for their time, which is no sign of too many.
        """
        if not os.path.exists(self._run.clock(instance_id)):
            raise full
        return self.queues.enter(instance_id, limited=False)

    def _expected(self, instance_id: str, frame: Frame) -> Room | None:
        """Reserve room for an answer, if the last one to such a call was large."""
        size = self._large.get((instance_id, frame.kind))
        if not size:
            return None
        return self.budget.expect(size, self._run.host_socket(instance_id))

    def _owner_of(self, path: str) -> str:
        """Return the owner of the instance at a path, if a call has needed it."""
        return self._owners.get(os.path.basename(os.path.dirname(path)), "")

    def _note_size(self, instance_id: str, frame: Frame, size: int) -> None:
        if size:
            if len(self._large) >= MAX_EXPECTED:
                self._large.clear()
            self._large[instance_id, frame.kind] = size
        else:
            self._large.pop((instance_id, frame.kind), None)

    def _call(
        self,
        instance_id: str,
        frame: Frame,
        expected: Room | None,
        wait: Wait | None = None,
    ) -> Frame:
        path = self._run.host_socket(instance_id)
        while True:
            try:
                connection, used = self.pool.take(path)
            except OSError:
                raise self._gone(instance_id, in_flight=False) from None
            try:
                answer = connection.call(frame, expected, wait)
                _check_answer(answer)
            except ConnectionLost as lost:
                connection.close()
                self.pool.drop(path)
                if used and isinstance(lost, NothingSent):
                    # The host has gone since; it was not this request.
                    continue
                raise self._gone(instance_id, in_flight=True) from None
            except BaseException:
                # A greenlet that is killed leaves an incomplete exchange.
                connection.close()
                raise
            if connection.large or expected is not None:
                self._note_size(instance_id, frame, connection.large)
            self.pool.release(connection)
            return answer

    def open_stream(
        self,
        instance_id: str,
        frame: Frame,
        owner: str,
        sock: socket.socket | None,
        lost_s: float | None = None,
    ) -> CallSocket:
        """Pass a client's connection to the host of an instance.

        Args:
            instance_id: The instance.
            frame: The request, with the handshake of the stream.
            owner: Owner that the instance must have; "" is any.
            sock: The client's socket; ``None`` makes the connection that is returned
                the stream.
            lost_s: Seconds since the client lost an answer along with a stream.

        Returns:
            The connection to the host.

        Raises:
            UnknownInstance: There is no such instance.
            InstanceEnded: The instance has ended.
            EnvCrashed: The instance ended in the call whose answer was lost.
            StepDeadline: That call took too long, and ended the instance; or the host
                did not respond.
            TooManyStreams: The host allows no further stream.
            QueueFull: Too many requests wait for the instance.
        """
        self._check(instance_id, owner)
        try:
            place = self.queues.enter(instance_id)
        except QueueFull as full:
            place = self._enter_clocked(instance_id, full)
        try:
            return self._open_stream(instance_id, frame, sock, lost_s)
        finally:
            self.queues.leave(place)

    def _open_stream(
        self,
        instance_id: str,
        frame: Frame,
        sock: socket.socket | None,
        lost_s: float | None,
    ) -> CallSocket:
        try:
            connection = CallSocket(self._run.host_socket(instance_id), MAX_GREETING)
        except OSError:
            raise self._gone(instance_id, in_flight=False, lost_s=lost_s) from None
        try:
            connection.send(frame, None if sock is None else sock.fileno())
            answer = connection.receive_first()
            if answer.status != HTTPStatus.NO_CONTENT:
                raise problem_of(answer)
        except ConnectionLost:
            connection.close()
            raise self._gone(
                instance_id, in_flight=False, lost_s=lost_s, waited=True
            ) from None
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self, instance_id: str, owner: str) -> None:
        """Check that an instance exists, without a call of it.

        Args:
            instance_id: The instance.
            owner: Owner that it must have; "" is any.

        Raises:
            UnknownInstance: There is no such instance.
            InstanceEnded: There was, and it has ended.
        """
        self._check(instance_id, owner)
        if not os.path.exists(self._run.host_socket(instance_id)):
            raise self._gone(instance_id, in_flight=False)

    def end(
        self, instance_id: str, owner: str, key: str = "", request_id: str = ""
    ) -> bool:
        """Close an instance; return when its process has ended.

        Args:
            instance_id: The instance.
            owner: Owner that it must have; "" is any.
            key: The request's key, or "".
            request_id: The request's ID, for the log.

        Returns:
            Whether a request of this key has closed it before.

        Raises:
            UnknownInstance: There is no such instance.
            InstanceEnded: It ended by itself before.
        """
        self._check(instance_id, owner)
        self.pool.drop(self._run.host_socket(instance_id))
        try:
            ended = self._supervisor.call(
                Op.END, instance_id, key, request_id=request_id
            )
        except Problem as problem:
            if problem.code != UnknownInstance.default_code:
                raise
            raise self._gone(instance_id, in_flight=False) from None
        self._owners.pop(instance_id, None)
        return bool(ended["replayed"])

    def await_archiver(self, instance_id: str) -> None:
        """Wait until an instance that has just ended is in the archive, if it will be.

        Args:
            instance_id: The instance.
        """
        deadline = time.monotonic() + END_SECONDS
        with contextlib.suppress(Problem):
            while self._supervisor.call(Op.TOMBSTONE, instance_id).get("archiving"):
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)

    def name_call(self, instance_id: str, request_id: str) -> None:
        """Name the request during which an instance ended, for the server's log."""
        with contextlib.suppress(Problem):
            self._supervisor.call(Op.TOMBSTONE, instance_id, request_id=request_id)

    def read_log(
        self,
        instance_id: str,
        owner: str,
        offset: int,
        wait_s: float,
        gone: Callable[[], bool],
    ) -> Frame:
        """Return the output of an instance, from an offset on.

        Args:
            instance_id: The instance; it may have ended.
            owner: Owner that it must have; "" is any.
            offset: The offset, in bytes.
            wait_s: Seconds to wait for output at the offset, unless the instance ends.
            gone: Returns whether the client has left, to end the wait.

        Raises:
            UnknownInstance: There is no such instance.
            InstanceEnded: It has ended, and its log is not kept any more.
            QueueFull: Too many requests wait for its output.
        """
        if not _INSTANCE_ID(instance_id):
            raise UnknownInstance(f"{instance_id:.80}")
        path = self._run.log(instance_id)
        head = RequestHead(instance_id=instance_id, owner=owner)
        deadline = time.monotonic() + wait_s
        while True:
            before = state_of(path)
            try:
                answer = self._supervisor.forward(Op.LOG, head, b"%d" % offset)
            except Problem as problem:
                if problem.code != UnknownInstance.default_code:
                    raise
                self._check(instance_id, owner)
                raise self._gone(instance_id, in_flight=False) from None
            headers = answer_head(answer).headers
            ended = headers["Gym-Log-Ended"] == "true"
            if answer.body or ended or time.monotonic() >= deadline:
                return answer
            # If it is beyond the end, each output would wake this up, and bring none.
            offset = min(offset, int(headers["Gym-Log-Next"]))
            # The file shows new output, so no request to the supervisor is needed.
            place = self.log_queues.enter(instance_id)
            try:
                if not self._log_polls.wait(path, before, deadline, gone):
                    return answer
            finally:
                self.log_queues.leave(place)

    def _check(self, instance_id: str, owner: str) -> None:
        """Check that an instance ID is well-formed, and that the owner is right.

        Raises:
            UnknownInstance: There is no such instance, or another token owns it.
        """
        if not _INSTANCE_ID(instance_id):
            raise UnknownInstance(f"{instance_id:.80}")
        if not owner or self._owners.get(instance_id) == owner:
            return
        try:
            end = self._supervisor.call(Op.TOMBSTONE, instance_id, owner=owner)
        except Problem as problem:
            if problem.code == UnknownInstance.default_code:
                raise UnknownInstance(instance_id) from None
            raise
        if end["alive"]:
            if len(self._owners) >= MAX_OWNERS:
                self._owners.clear()
            self._owners[instance_id] = owner

    def _gone(
        self,
        instance_id: str,
        *,
        in_flight: bool,
        lost_s: float | None = None,
        waited: bool = False,
    ) -> Problem:
        self._owners.pop(instance_id, None)
        deadline = time.monotonic() + END_SECONDS
        while True:
            try:
                end = self._supervisor.call(Op.TOMBSTONE, instance_id)
            except Problem as problem:
                if problem.code == UnknownInstance.default_code:
                    return UnknownInstance(instance_id)
                return problem
            if not end["alive"]:
                in_flight = in_flight or was_in_flight(end, lost_s)
                # Requests that wait for a stuck host were sent before it ended.
                in_flight = in_flight or (waited and end["reason"] == "unresponsive")
                return end_problem(instance_id, end, in_flight=in_flight)
            if time.monotonic() > deadline:
                return EnvCrashed(
                    f"the host of instance {instance_id} dropped the call, and lives"
                )
            time.sleep(0.01)


def _check_answer(answer: Frame) -> None:
    """Check an answer of a host, which its environment may have forged.

    Raises:
        ConnectionLost: The answer is malformed.
    """
    try:
        if answer.status not in (200, 204):
            HTTPStatus(problem_of(answer).status)
        if not answer.head:
            return
        headers = answer_head(answer).headers
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConnectionLost from error
    if not all(map(_HEADER, itertools.starmap("{}: {}".format, headers.items()))):
        raise ConnectionLost
