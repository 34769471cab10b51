"""A shard in a separate process, and the messages between it and the host.

The host forks the process before it makes an environment, while it has one thread. The
two communicate over a pair of sockets. If one of them dies, the other dies, too.
"""

from __future__ import annotations

import os
import signal
import socket
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NoReturn

import msgspec

from gym_http_core.vectors import call_some, vector_call
from gym_http_server.host import env_warnings, fork_guard
from gym_http_server.host.dead_workers import end_alike, flush
from gym_http_server.host.failures import (
    note,
    note_cause,
    problem_frame,
    problem_of_error,
)
from gym_http_server.host.info_merge import Each, sendable
from gym_http_server.host.isolation import close_descriptors, reseed
from gym_http_server.host.shard import MakeVector, Shard, SharedBatch
from gym_http_server.linux import prctl
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.titles import extend_title
from gym_http_wire.frames import Frame
from gym_http_wire.messages import answer, problem_of
from gym_http_wire.problems import Problem, UnrepresentableValue
from gym_http_wire.values import UnsupportedValue, binary

__all__ = ["RemoteShard", "ShardOp"]

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


_WITH_INFOS = (ShardOp.RESET, ShardOp.STEP, ShardOp.INFOS)


class RemoteShard:
    """A shard in another process, which ends with this one.

    If that process dies, or sends a message that cannot be decoded, this one dies the
    same way.

    Args:
        make: Makes a vector with a given number of environments.
        start: Index of the first environment of the shard.
        stop: Index of the environment after the last one of the shard.
        num_envs: Number of environments in the whole vector.
    """

    def __init__(self, make: MakeVector, start: int, stop: int, num_envs: int) -> None:
        ours, theirs = socket.socketpair()
        leader = os.getpid()
        self._pid = os.fork()
        if self._pid:
            theirs.close()
            self._channel = _channel(ours)
            return
        status = 1
        try:
            fork_guard.claim()
            env_warnings.take()
            prctl.die_with_parent(leader, signal.SIGKILL)
            close_descriptors([theirs.fileno()])
            reseed()
            extend_title(f"[{start}-{stop - 1}]")
            _serve(_channel(theirs), make, start, stop, num_envs)
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
        os.waitpid(self._pid, 0)

    def _follow(self) -> NoReturn:
        """End this process in the same way as the other one ended."""
        try:
            _, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            # The environment has waited for it.
            os._exit(1)
        end_alike(os.waitstatus_to_exitcode(status))


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
    channel: FrameSocket, make: MakeVector, start: int, stop: int, num_envs: int
) -> None:
    """Make a shard, and serve it until the host closes it or ends."""
    made = _outcome(lambda: vector_call("making it", lambda: Shard(make(stop - start))))
    if isinstance(made, Problem):
        channel.send(_frame_of(made))
        return
    vector = made.vector
    space = vector.single_observation_space
    channel.send(_frame_of([space, vector.single_action_space]))
    descriptor = _receive_descriptor(channel)
    made.share(SharedBatch.mapped(descriptor, space, num_envs).part(start, stop))
    channel.send(_frame_of(None))
    calls: dict[int, tuple[str, Callable[[Any], Any]]] = {
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
    while (frame := channel.receive_one()) is not None:
        name, call = calls[frame.kind]
        given = binary.decode(frame.body)
        outcome = _outcome(lambda: vector_call(name, call, given))  # noqa: B023
        channel.send(_frame_of(outcome, frame.kind, made.infos))
        if frame.kind == ShardOp.CLOSE:
            return


def _receive_descriptor(channel: FrameSocket) -> int:
    """Wait for the descriptor of the shared memory.

    Raises:
        EOFError: The host has ended.
    """
    channel.receive_one()
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
