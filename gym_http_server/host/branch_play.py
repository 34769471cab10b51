"""Plays one branch, in a fork of the host, and sends the results through a pipe."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import stat
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from gym_http_core.env_errors import env_exceptions, text_of
from gym_http_core.episode_log import EpisodeLog
from gym_http_core.episodes import Column
from gym_http_core.operations import Operations
from gym_http_server.errors import ForkFailed
from gym_http_server.host import fork_guard, plain_json
from gym_http_server.host.branch_plan import BranchPlan
from gym_http_server.host.codec import encode
from gym_http_server.host.failures import note_cause, problem_of_error
from gym_http_server.linux import prctl
from gym_http_wire.messages import Form
from gym_http_wire.problems import EnvError, Problem
from gym_http_wire.values import BadValue, binary

__all__ = [
    "PAGE",
    "Play",
    "described",
    "is_whole",
    "no_room",
    "read_text",
    "received_in",
]

Json = dict[str, Any]
#: Bytes of a page of memory.
PAGE = os.sysconf("SC_PAGE_SIZE")
_SIZE = struct.Struct("<Q")


class Play:
    """What a branch does, in its process.

    Args:
        operations: The environment.
        plan: What to play.
        exact: Whether values keep their types; else they become plain JSON.
        files: Descriptors of recordings.
    """

    def __init__(
        self, operations: Operations, plan: BranchPlan, *, exact: bool, files: list[int]
    ) -> None:
        self._operations = operations
        self._plan = plan
        self._exact = exact
        self._files = files
        self._seed = int.from_bytes(os.urandom(8)) if plan.seed is None else plan.seed

    def start(self, index: int, room: int) -> tuple[int, int]:
        """Start a branch; return the end of the pipe with its results, and its process.

        Args:
            index: Number of the branch.
            room: Bytes that it may add to what this process has.

        Raises:
            ForkFailed: The machine has no room for another process.
        """
        parent = os.getpid()
        try:
            reader, writer = os.pipe()
            try:
                pid = os.fork()
            except OSError:
                os.close(reader)
                raise
            finally:
                if os.getpid() == parent:
                    os.close(writer)
        except OSError as error:
            raise no_room(error) from None
        if pid:
            return reader, pid
        self._run(parent, index, room, writer)

    def _run(self, parent: int, index: int, room: int, writer: int) -> NoReturn:
        try:
            prctl.die_with_parent(parent, signal.SIGKILL)
            # What it starts can be ended together with it, but for daemons, which stay
            # below it while it lives.
            os.setpgid(0, 0)
            prctl.become_subreaper()
            fork_guard.claim()
            # A recording's thread may have closed its pipe meanwhile.
            _close_sockets(set(self._files) - {writer})
            _limit(room)
            # The status page is that of the instance.
            self._operations.episode_log = EpisodeLog()
            body = self._encoded(self._value(index))
            with open(writer, "wb") as pipe:
                pipe.write(_SIZE.pack(len(body)) + body)
        finally:
            os._exit(0)

    def _encoded(self, value: Json) -> bytes:
        try:
            if self._exact:
                return encode(Form.BINARY, value)
            # What only plain JSON has a form for is written here, as a step writes it.
            errors = {name: value[name] for name in ("error",) if name in value}
            return encode(
                Form.BINARY, errors | {"plain": plain_json.dumps(value).rstrip()}
            )
        except env_exceptions() as error:
            problem = {"error": described(problem_of_error(error))}
            return encode(Form.BINARY, problem | {"steps": value["steps"]})

    def _value(self, index: int) -> Json:
        operations, plan = self._operations, self._plan
        rewards: list[Any] = []
        seen, taken = Column(), Column()
        value: Json = {"steps": 0, "stopped": None}
        try:
            actions = self._actions(index)
            for action in actions:
                taken.append(action)
                row = operations.step(action)
                fork_guard.check()
                observation, reward, terminated, truncated, info = row
                last = {
                    "reward": reward,
                    "terminated": terminated,
                    "truncated": truncated,
                }
                if not self._exact:
                    operations.make_plain(last)
                    del last["done"]
                rewards.append(last.pop("reward"))
                value["steps"] += 1
                if plan.whole:
                    seen.append(observation)
                value |= {"info": info, "observation": observation, **last}
                if terminated is False and truncated is False:
                    continue
                if any(operations.episode_end(terminated, truncated)):
                    value["stopped"] = "episode"
                    break
        except env_exceptions() as error:
            note_cause(error)
            value["error"] = described(problem_of_error(error))
        value["rewards"] = rewards
        if plan.whole:
            value["observations"] = seen.value()
        if plan.actions is None:
            value["actions"] = taken.value()
        return value

    def _actions(self, index: int) -> Iterable[Any]:
        plan = self._plan
        sequence = np.random.SeedSequence(self._seed, spawn_key=(index,))
        if plan.reseed:
            self._reseed(sequence)
        if plan.actions is not None:
            return plan.actions[index]
        return self._drawn(int(sequence.generate_state(1)[0]))

    def _drawn(self, seed: int) -> Iterator[Any]:
        self._operations.sample("action", seed, None)
        for _ in range(self._plan.steps):
            yield self._operations.sample("action", None, None)

    def _reseed(self, sequence: np.random.SeedSequence) -> None:
        """Give the environment's generator, and the global ones, another state."""
        try:
            bits = self._operations.env.np_random.bit_generator
            bits.state = type(bits)(sequence).state
        except env_exceptions() as error:
            raise EnvError(
                f"the environment has no generator that can be seeded: {text_of(error)}"
            ) from error
        words = sequence.generate_state(4)
        random.seed(words.tobytes())
        np.random.seed(words)


def no_room(error: OSError) -> ForkFailed:
    """Return the problem of a host that cannot start a branch, or open a file."""
    return ForkFailed(
        f"there is no room for a branch ({error.strerror}): close instances, or raise "
        "the machine's limits of processes and of open files in a process"
    )


def _close_sockets(files: Iterable[int]) -> None:
    """Close the host's sockets, which clients use, and the files of its recordings."""
    for name in os.listdir("/proc/self/fd"):
        # One of them was that of the folder.
        with contextlib.suppress(OSError):
            descriptor = int(name)
            if descriptor > 2 and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.close(descriptor)
    for descriptor in files:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _limit(room: int) -> None:
    """Let this process have so many bytes of private memory more than now.

    Shared memory counts as address space only, of which much is never used.
    """
    size, *_, data, _ = map(int, read_text("/proc/self/statm").split())
    for kind, most in (
        (resource.RLIMIT_DATA, data * PAGE + room),
        (resource.RLIMIT_AS, size * PAGE + 2 * room),
    ):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(kind, (most, hard))


def is_whole(received: bytearray) -> bool:
    """Whether a branch has sent all of its results."""
    return len(received) >= _SIZE.size and (
        len(received) - _SIZE.size >= _SIZE.unpack_from(received)[0]
    )


def received_in(received: bytearray) -> Json | None:
    """Return the results that a branch has sent; ``None`` if they are none."""
    if is_whole(received):
        with contextlib.suppress(BadValue):
            value: Any = binary.decode(bytes(received[_SIZE.size :]))
            # Whatever has the pipe can write to it.
            if isinstance(value, dict) and isinstance(value.get("error", {}), dict):
                return value
    return None


def described(problem: Problem) -> Json:
    """Return a problem as the results of a branch have it."""
    return {
        "code": problem.code,
        "message": problem.message,
        "status": problem.status,
    }


def read_text(path: str) -> str:
    """Return the text of a file in /proc; "" if its process has ended."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        # It has ended, or the kernel does not tell.
        return ""
