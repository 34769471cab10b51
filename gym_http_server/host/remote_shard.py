"""A shard in a separate process, and the messages between it and the host.

The host forks the process before it makes an environment, while it has one thread. A
step whose actions and results fit into shared memory needs no message: the two ring
each other's doorbell. All other requests are messages over a pair of sockets. If one of
the two dies, the other dies, too.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NoReturn

import msgspec

from gym_http_core.vectors import call_some, vector_call
from gym_http_server.host import env_warnings, fork_guard
from gym_http_server.host.dead_workers import end_alike, flush
from gym_http_server.host.doorbell import LINE, Doorbell
from gym_http_server.host.failures import (
    note,
    note_cause,
    problem_frame,
    problem_of_error,
)
from gym_http_server.host.info_merge import Each, sendable
from gym_http_server.host.isolation import close_descriptors, reseed
from gym_http_server.host.shard import MakeVector, Shard, SharedBatch
from gym_http_server.host.shared_columns import Bounds, InfoColumn, SharedColumns
from gym_http_server.linux import prctl
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.titles import extend_title
from gym_http_wire.frames import Frame
from gym_http_wire.messages import answer, problem_of
from gym_http_wire.problems import Problem, UnrepresentableValue
from gym_http_wire.values import UnsupportedValue, binary

__all__ = ["RemoteShard", "ShardOp", "numbers_for"]

MAX_MESSAGE_BYTES = 2**31


class ShardOp(IntEnum):
    """An operation of a shard."""

    SHARE = 1
    RESET = 2
    STEP = 3
    RENDER = 4
    CALL = 5
    SET_ATTR = 6
    GENERATORS = 7
    SET_GENERATORS = 8
    INFOS = 9
    CLOSE = 10
    CALL_SOME = 11
    COLUMNS = 12


# Notes of the answer to a step: its results are in shared memory, or in a message.
_SHARED, _SENT = 0, 1
# By shard, a line that the leading process writes and one that the shard writes.
_LINES = 2
_WITH_INFOS = (ShardOp.RESET, ShardOp.STEP, ShardOp.INFOS)


class RemoteShard:
    """A shard in another process, which ends with this one.

    If that process dies, or sends a message that cannot be decoded, this one dies the
    same way.

    Args:
        make: Makes a vector with a given number of environments.
        number: The position of the shard among those of the vector.
        bounds: By shard, its first environment, and the first one of the next shard.
        numbers: Memory of `numbers_for` all shards.
    """

    def __init__(
        self, make: MakeVector, number: int, bounds: Bounds, numbers: memoryview
    ) -> None:
        ours, theirs = socket.socketpair()
        leader = os.getpid()
        first = number * _LINES * LINE
        # All shards run while one waits for a step, and the client.
        self._step = Doorbell(numbers, first, len(bounds) + 1)
        self._answer = Doorbell(numbers, first + LINE, len(bounds))
        self._pid = os.fork()
        if self._pid:
            theirs.close()
            self._channel = _channel(ours)
            self._answer.watch(ours.fileno())
            return
        status = 1
        try:
            fork_guard.claim()
            env_warnings.take()
            prctl.die_with_parent(leader, signal.SIGKILL)
            doorbells = [self._step.descriptor, self._answer.descriptor]
            close_descriptors([theirs.fileno(), *doorbells])
            self._step.watch(theirs.fileno())
            reseed()
            start, stop = bounds[number]
            extend_title(f"[{start}-{stop - 1}]")
            bells = self._step, self._answer
            _serve(_channel(theirs), bells, make, number, bounds)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            flush()
            os._exit(status)

    def send(self, op: ShardOp, value: Any) -> None:
        """Send a request."""
        self._send(Frame(op, body=binary.encode(value)))

    def share(self, descriptor: int) -> None:
        """Send the descriptor of the shared memory."""
        self._send(Frame(ShardOp.SHARE), descriptor)

    def share_columns(self, columns: Sequence[InfoColumn], descriptor: int) -> None:
        """Send the descriptor of memory for columns of infos."""
        body = msgspec.json.encode(columns)
        self._send(Frame(ShardOp.COLUMNS, body=body), descriptor)

    def step(self, number: int) -> None:
        """Request a step with the actions in shared memory.

        Args:
            number: The number of such steps so far, this one included.
        """
        self._step.ring(number)

    def stepped(self, number: int) -> Any:
        """Wait for the end of a step, and return results that are not in shared memory.

        Returns:
            The results; ``None`` if all of them are in shared memory.

        Raises:
            Problem: The problem that is answered instead.
        """
        if self._answer.wait(number) and self._answer.note == _SHARED:
            return None
        return self.answer()

    def _send(self, frame: Frame, descriptor: int | None = None) -> None:
        try:
            self._channel.send(frame, descriptor)
        except OSError:
            self._follow()

    def answer(self) -> Any:
        """Wait for the answer to a request, and return its value.

        Raises:
            Problem: The problem that is answered instead.
        """
        try:
            frame = self._channel.receive_one()
            if frame is not None:
                return _value_of(frame)
        except OSError:
            pass
        except Problem:
            raise
        except Exception as error:
            note(error)
            os.kill(self._pid, signal.SIGKILL)
        self._follow()

    def end(self) -> None:
        """Close the channel, and wait until the process has ended."""
        self._channel.close()
        self._step.close()
        self._answer.close()
        os.waitpid(self._pid, 0)

    def _follow(self) -> NoReturn:
        """End this process in the same way as the other one ended."""
        try:
            _, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            # The environment has waited for it.
            os._exit(1)
        end_alike(os.waitstatus_to_exitcode(status))


def numbers_for(shards: int) -> memoryview:
    """Make memory for the doorbells of shards, which forks will share."""
    size = shards * _LINES * LINE * 8
    return memoryview(mmap.mmap(-1, size)).cast("Q")


def _channel(end: socket.socket) -> FrameSocket:
    return FrameSocket(end, MAX_MESSAGE_BYTES, max_descriptors=1)


def _value_of(frame: Frame) -> Any:
    """Return the value of an answer, and forward the warnings that it has."""
    if frame.head:
        for each in msgspec.json.decode(frame.head):
            env_warnings.add(**each)
    if frame.status != 200:
        raise problem_of(frame)
    return binary.decode(frame.body)


def _serve(
    channel: FrameSocket,
    bells: tuple[Doorbell, Doorbell],
    make: MakeVector,
    number: int,
    bounds: Bounds,
) -> None:
    """Make a shard, and serve it until the host closes it or ends."""
    start, stop = bounds[number]
    made = _outcome(
        lambda: vector_call("making it", lambda: Shard(make(stop - start), number))
    )
    if isinstance(made, Problem):
        channel.send(_frame_of(made))
        return
    vector = made.vector
    spaces = vector.single_observation_space, vector.single_action_space
    channel.send(_frame_of(list(spaces)))
    channel.receive_one()
    batch = SharedBatch.mapped(_received_descriptor(channel), spaces, bounds[-1][1])
    made.share(batch.part(start, stop))
    channel.send(_frame_of(None))
    calls, steps = _calls_of(made), 0
    while True:
        if bells[0].wait(steps + 1):
            steps += 1
            _take_step(channel, bells[1], made, steps)
            continue
        frame = channel.receive_one()
        if frame is None:
            return
        if frame.kind == ShardOp.COLUMNS:
            columns = msgspec.json.decode(frame.body, type=list[InfoColumn])
            descriptor = _received_descriptor(channel)
            made.columns = SharedColumns(columns, bounds, descriptor)
            channel.send(_frame_of(None))
            continue
        name, call = calls[frame.kind]
        given = binary.decode(frame.body)
        outcome = _outcome(lambda: vector_call(name, call, given))  # noqa: B023
        channel.send(_frame_of(outcome, frame.kind, made.infos))
        if frame.kind == ShardOp.CLOSE:
            return


def _take_step(channel: FrameSocket, bell: Doorbell, shard: Shard, number: int) -> None:
    """Take a step with the actions in shared memory, and answer it."""
    outcome = _outcome(lambda: vector_call("step", shard.step_shared))
    if outcome is None and not env_warnings.pending:
        bell.ring(number, _SHARED)
        return
    frame = _frame_of(outcome, ShardOp.STEP, shard.infos)
    # The message comes second, so that it is no news to one who waits for the bell.
    bell.ring(number, _SENT)
    channel.send(frame)


def _calls_of(made: Shard) -> dict[int, tuple[str, Callable[[Any], Any]]]:
    """Return name and function of each operation that is requested by messages."""
    vector = made.vector
    return {
        ShardOp.RESET: ("reset", made.reset),
        ShardOp.STEP: ("step", made.step),
        ShardOp.RENDER: ("render", lambda given: vector.render()),
        ShardOp.CALL: ("call", lambda given: vector.call(*given[0], **given[1])),
        ShardOp.CALL_SOME: ("call", lambda given: call_some(vector, *given)),
        ShardOp.SET_ATTR: ("set_attr", lambda given: vector.set_attr(*given)),
        ShardOp.GENERATORS: ("np_random", lambda given: made.generators()),
        ShardOp.SET_GENERATORS: ("np_random", made.set_generators),
        ShardOp.INFOS: ("step", lambda given: made.infos),
        ShardOp.CLOSE: ("close", lambda given: vector.close()),
    }


def _received_descriptor(channel: FrameSocket) -> int:
    """Return the descriptor that came with the last message.

    Raises:
        EOFError: The host has ended.
    """
    descriptor = channel.take_descriptor()
    if descriptor is None:
        raise EOFError("the leading process is gone")
    return descriptor


def _outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the problem that it raised."""
    try:
        outcome = call()
    except Exception as error:
        fork_guard.check()
        note_cause(error)
        return problem_of_error(error)
    fork_guard.check()
    return outcome


def _frame_of(outcome: Any, op: int = ShardOp.SHARE, infos: Each = ()) -> Frame:
    """Return the answer with a value or problem, and with the pending warnings."""
    try:
        if isinstance(outcome, Problem):
            frame = problem_frame(outcome)
        else:
            frame = answer(200, _encoded(outcome, op, infos))
    except UnsupportedValue as error:
        frame = problem_frame(
            UnrepresentableValue(f"the answer has no exact representation: {error}")
        )
    if not env_warnings.pending:
        return frame
    return frame._replace(head=msgspec.json.encode(env_warnings.take()))


def _encoded(outcome: Any, op: int, infos: Each) -> bytes:
    """Encode an outcome; `Unsent` stands for values of infos that cannot be sent."""
    try:
        return binary.encode(outcome)
    except UnsupportedValue as error:
        if op not in _WITH_INFOS:
            raise
        infos, replaced = sendable(infos)
        if not replaced:
            raise error from None
    env_warnings.add_unsent(replaced)
    if op == ShardOp.INFOS:
        return binary.encode(infos)
    # In columns, a value would stand for those of all environments.
    return binary.encode({**outcome, "columns": None, "infos": infos})
