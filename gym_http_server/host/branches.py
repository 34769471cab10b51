"""Plays lists of actions from the present state, each in a copy of this process.

A fork has the environment with all that belongs to it, at no cost for what it does not
change. It plays its actions, sends the results through a pipe, and ends. The host
waits, so nothing of its instance changes: not the environment, its counters, its
recording, its random generators nor its last frame.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import select
import signal
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import orjson
from gymnasium.vector import VectorEnv

from gym_http_core.env_errors import env_exceptions, text_of
from gym_http_core.episode_log import EpisodeLog
from gym_http_core.episodes import Column
from gym_http_core.operations import Operations
from gym_http_server.errors import CannotBranch, EnvCrashed, ForkFailed, StepDeadline
from gym_http_server.host import fork_guard, plain_json
from gym_http_server.host.branch_limits import BranchLimits, Recordings
from gym_http_server.host.codec import encode
from gym_http_server.host.failures import note_cause, problem_of_error
from gym_http_server.linux import prctl
from gym_http_server.linux.machine import cores, free_memory
from gym_http_server.operations.instances import MAX_BRANCHES, MAX_STEPS
from gym_http_server.processes.end_problems import signal_name
from gym_http_wire.messages import Form
from gym_http_wire.problems import (
    AnswerTooLarge,
    BadParameter,
    EnvError,
    MissingParameter,
    Problem,
    ResetNeeded,
)
from gym_http_wire.values import BadValue, binary

__all__ = ["BranchPlan", "Branches", "read_plan"]

Json = dict[str, Any]
ReadActions = Callable[[Any, str], list[Any]]

_OF_EPISODES = frozenset({"actions", "episodes", "max_steps", "options"})
_OF_DRAWN = frozenset({"count", "policy", "steps"})
_SIZE = struct.Struct("<Q")
_READ_BYTES = 1 << 16
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Bytes that a branch may add to what the host has, at least.
_LEAST_BYTES = 64 << 20
#: Of what the host may use, or the machine or container has left, the part for all
#: branches.
_MEMORY_SHARE = 0.5
#: Time after which a branch that sends nothing may have ended.
_LOOK_SECONDS = 0.1
#: Time to end what a branch has left. If it forks faster, it goes on in the instance.
_ORPHANS_SECONDS = 1.0
#: A thread of SDL, of which a fork needs no copy: it only keeps time.
_HARMLESS = "SDLTimer"


class BranchPlan(NamedTuple):
    """What to play.

    Attributes:
        actions: Those of each branch; ``None`` where they are drawn.
        number: Number of branches.
        steps: Of each branch whose actions are drawn.
        seed: Of the drawn actions, and of the generators with ``reseed``.
        reseed: Whether the environment's generator differs in each branch.
        whole: Whether to return all observations, and not just the last one.
    """

    actions: list[list[Any]] | None
    number: int
    steps: int
    seed: int | None
    reseed: bool
    whole: bool


def read_plan(given: Json, read: ReadActions) -> BranchPlan:
    """Read a request for branches.

    Args:
        given: Its members, each of its kind.
        read: Checks and converts a list of actions, with its name for refusals.

    Raises:
        BadParameter: Members do not go together, or there are too many actions.
        MissingParameter: There are no actions, also in one of the lists.
        InvalidAction: An action is none; ``branch`` and ``index`` say which.
    """
    number, steps = given.get("count"), given.get("steps")
    way, others = ("count", _OF_EPISODES)
    if "branches" in given:
        way, others = "branches", _OF_EPISODES | _OF_DRAWN
    wrong = others.intersection(given)
    if wrong:
        raise BadParameter(
            f"expected either {way} or {min(wrong)}, and both were given"
        )
    actions = None
    if "branches" in given:
        actions = _lists_of(given["branches"], read)
        number = len(actions)
    elif number is None or steps is None:
        missing = "steps" if steps is None else "count"
        raise MissingParameter(missing if number or steps else "branches")
    elif number * steps > MAX_STEPS:
        raise BadParameter(
            f"{number} branches of {steps} steps have {number * steps}: expected "
            f"{MAX_STEPS} at most"
        )
    flags = given.get("reseed", False), given.get("observations", False)
    return BranchPlan(actions, number, steps or 0, given.get("seed"), *flags)


def _lists_of(lists: Any, read: ReadActions) -> list[list[Any]]:
    if isinstance(lists, np.ndarray) and lists.ndim:
        lists = list(lists)
    if not isinstance(lists, list | tuple) or not 0 < len(lists) <= MAX_BRANCHES:
        raise BadParameter(
            f"branches is {lists!r:.80}: expected a list of 1 to {MAX_BRANCHES} lists "
            "of actions"
        )
    ready = []
    for branch, each in enumerate(lists):
        try:
            ready.append(read(each, f"branches[{branch}]"))
        except Problem as problem:
            problem.extras["branch"] = branch
            raise
    total = sum(map(len, ready))
    if total > MAX_STEPS:
        raise BadParameter(
            f"the branches have {total} actions: expected {MAX_STEPS} at most"
        )
    return ready


class _Branch(NamedTuple):
    """A branch that runs: its number, its process, and what it has sent."""

    number: int
    pid: int
    received: bytearray


class Branches:
    """Plays branches of one environment.

    Args:
        operations: The environment.
        limits: What the branches of a request may take.
        max_answer: Bytes that all results may have.
        recordings: What recordings use.
    """

    def __init__(
        self,
        operations: Operations,
        limits: BranchLimits,
        max_answer: int,
        recordings: Recordings,
    ) -> None:
        self._operations = operations
        self._limits = limits
        self._max_answer = max_answer
        self._recordings = recordings

    def play(self, plan: BranchPlan, *, exact: bool) -> list[Any]:
        """Play all branches, after `check`, and return what answers have of each.

        Args:
            plan: What to play; the actions are checked.
            exact: Whether values keep their types; else they are plain JSON.

        Raises:
            ForkFailed: The machine has no room for another process.
            ResetNeeded: There is no episode to act in.
            AnswerTooLarge: The results are too large.
        """
        files, recording = self._recordings()
        play = _Play(self._operations, plan, exact=exact, files=files)
        # What a branch leaves behind comes to this process, which has no other child.
        prctl.become_subreaper()
        try:
            results = self._results(play, plan.number, recording)
        finally:
            prctl.become_subreaper(wanted=False)
        problems = [each.get("error", {}) for each in results]
        if all(each.get("code") == ResetNeeded.default_code for each in problems):
            raise ResetNeeded(problems[0]["message"])
        plain = [each.get("plain") for each in results]
        return [
            orjson.Fragment(text) if isinstance(text, bytes) else each
            for text, each in zip(plain, results, strict=True)
        ]

    def check(self) -> None:
        """Refuse environments that are not in this process as a whole.

        Raises:
            CannotBranch: A fork of the host would not have all of this one.
            ForkFailed: The host has no descriptor left.
        """
        if isinstance(self._operations.env, VectorEnv):
            raise CannotBranch(
                "the instance is a vector: expected a single environment, since "
                "branches are of one"
            )
        own, (_, recording) = os.getpid(), self._recordings()
        try:
            others = set(map(int, os.listdir("/proc/self/task"))) - recording
        except OSError as error:
            raise _no_room(error) from None
        names = (_text(f"/proc/self/task/{each}/comm") for each in others - {own})
        threads = [name for name in names if name not in ("", _HARMLESS)]
        if threads:
            raise CannotBranch(
                f"the environment has {len(threads)} threads ({threads[0]}), which a "
                "copy of its process would not have; record it, and resume the "
                "recording instead"
            )
        started = sorted(_children() - recording)
        if started:
            name = _text(f"/proc/{started[0]}/comm")
            raise CannotBranch(
                f"the environment has processes of its own ({name}), which all copies "
                "would share"
            )

    def _results(self, play: _Play, count: int, recording: set[int]) -> list[Json]:
        at_once = min(cores(), count)
        room = max(self._room() // at_once, _LEAST_BYTES)
        waiting = iter(range(count))
        running: dict[int, _Branch] = {}
        results: list[Json] = [{} for _ in range(count)]
        left = self._max_answer
        ends = time.monotonic() + self._limits.seconds
        poll = select.poll()
        try:
            while True:
                for index in itertools.islice(waiting, at_once - len(running)):
                    pipe, pid = play.start(index, room)
                    running[pipe] = _Branch(index, pid, bytearray())
                    poll.register(pipe, select.POLLIN)
                if not running:
                    return results
                left_s = ends - time.monotonic()
                if left_s <= 0:
                    late = _late(self._limits.seconds)
                    numbers = [each.number for each in running.values()]
                    for number in (*numbers, *waiting):
                        results[number] = late
                    return results
                ready = poll.poll(min(left_s, _LOOK_SECONDS) * 1000)
                ended = []
                for pipe, _ in ready:
                    branch = running[pipe]
                    data = os.read(pipe, _READ_BYTES)
                    branch.received.extend(data)
                    left -= len(data)
                    if left < 0:
                        raise AnswerTooLarge(
                            f"the branches have more than {self._max_answer} bytes of "
                            "results: request fewer, or without their observations"
                        )
                    if not data or _is_whole(branch.received):
                        ended.append(pipe)
                if not ready:
                    # A process that it has left may hold its pipe.
                    ended = [each for each in running if _has_ended(running[each].pid)]
                    # It may have sent its results meanwhile.
                    ended = [] if poll.poll(0) else ended
                for pipe in ended:
                    poll.unregister(pipe)
                    branch = running.pop(pipe)
                    status = _end(pipe, branch.pid)
                    _end_orphans({each.pid for each in running.values()} | recording)
                    results[branch.number] = _result(branch, status)
        finally:
            for pipe, branch in running.items():
                _end(pipe, branch.pid)
            _end_orphans(recording)

    def _room(self) -> int:
        """Return the bytes that all branches together may add to what the host has."""
        free = free_memory() or 0
        if self._limits.memory:
            resident = int(_text("/proc/self/statm").split()[1]) * _PAGE
            free = min(free, self._limits.memory - resident)
        return int(free * _MEMORY_SHARE)


class _Play:
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
            raise _no_room(error) from None
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
            problem = {"error": _described(problem_of_error(error))}
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
            value["error"] = _described(problem_of_error(error))
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


def _no_room(error: OSError) -> ForkFailed:
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
    size, *_, data, _ = map(int, _text("/proc/self/statm").split())
    for kind, most in (
        (resource.RLIMIT_DATA, data * _PAGE + room),
        (resource.RLIMIT_AS, size * _PAGE + 2 * room),
    ):
        _, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(kind, (most, hard))


def _is_whole(received: bytearray) -> bool:
    return len(received) >= _SIZE.size and (
        len(received) - _SIZE.size >= _SIZE.unpack_from(received)[0]
    )


def _children() -> set[int]:
    """Return the IDs of the processes that this thread has started or inherited."""
    return set(map(int, _text(f"/proc/self/task/{os.getpid()}/children").split()))


def _end_orphans(others: set[int]) -> None:
    """End what ended branches have left: all children of this process but some."""
    ends = time.monotonic() + _ORPHANS_SECONDS
    # Their own children come to this process only when they have ended.
    while (left := _children() - others) and time.monotonic() < ends:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _has_ended(pid: int) -> bool:
    """Whether a child has ended, which is still to be waited for."""
    try:
        kept = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, pid, kept) is not None
    except ChildProcessError:
        # As in `_end`.
        return True


def _end(pipe: int, pid: int) -> int | None:
    """End a branch and its process group; return how it ended, if that is known."""
    os.close(pipe)
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # The environment ignores SIGCHLD, or waits for all children when it comes.
        return None


def _result(branch: _Branch, status: int | None) -> Json:
    if _is_whole(branch.received):
        with contextlib.suppress(BadValue):
            value: Any = binary.decode(bytes(branch.received[_SIZE.size :]))
            # Whatever has the pipe can write to it.
            if isinstance(value, dict) and isinstance(value.get("error", {}), dict):
                return value
    words = f"the process of this branch ended{_how(status)}; the instance is as it was"
    return {"error": _described(EnvCrashed(words))}


def _how(status: int | None) -> str:
    if status is None:
        return ""
    if status >= 0:
        return f" with exit status {status}"
    return f" by {signal_name(-status)}"


def _late(seconds: float) -> Json:
    late = StepDeadline(
        f"the branches took longer than {seconds:g} s, and this one had not ended; the "
        "instance is as it was"
    )
    return {"error": _described(late)}


def _described(problem: Problem) -> Json:
    return {
        "code": problem.code,
        "message": problem.message,
        "status": problem.status,
    }


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        # It has ended, or the kernel does not tell.
        return ""
