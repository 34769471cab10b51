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
import select
import signal
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson
from gymnasium.vector import VectorEnv

from gym_http_core.operations import Operations
from gym_http_server.errors import CannotBranch, EnvCrashed, StepDeadline
from gym_http_server.host.branch_limits import BranchLimits, Recordings
from gym_http_server.host.branch_plan import BranchPlan
from gym_http_server.host.branch_play import (
    PAGE,
    Play,
    described,
    is_whole,
    no_room,
    read_text,
    received_in,
)
from gym_http_server.linux import prctl
from gym_http_server.linux.machine import cores, free_memory
from gym_http_server.processes.end_problems import signal_name
from gym_http_wire.problems import AnswerTooLarge, ResetNeeded

__all__ = ["Branches"]

Json = dict[str, Any]
_READ_BYTES = 1 << 16
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
        play = Play(self._operations, plan, exact=exact, files=files)
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
            raise no_room(error) from None
        names = (read_text(f"/proc/self/task/{each}/comm") for each in others - {own})
        threads = [name for name in names if name not in ("", _HARMLESS)]
        if threads:
            raise CannotBranch(
                f"the environment has {len(threads)} threads ({threads[0]}), which a "
                "copy of its process would not have; record it, and resume the "
                "recording instead"
            )
        started = sorted(_children() - recording)
        if started:
            name = read_text(f"/proc/{started[0]}/comm")
            raise CannotBranch(
                f"the environment has processes of its own ({name}), which all copies "
                "would share"
            )

    def _results(self, play: Play, count: int, recording: set[int]) -> list[Json]:
        at_once = min(cores(), count)
        room = max(self._room() // at_once, _LEAST_BYTES)
        running = _Running(play, room, self._max_answer, recording)
        waiting = iter(range(count))
        results: list[Json] = [{} for _ in range(count)]
        ends = time.monotonic() + self._limits.seconds
        try:
            while True:
                for number in itertools.islice(waiting, at_once - len(running)):
                    running.start(number)
                if not running:
                    return results
                left_s = ends - time.monotonic()
                if left_s <= 0:
                    for number in (*running.numbers(), *waiting):
                        results[number] = _late(self._limits.seconds)
                    return results
                for number, result in running.wait(min(left_s, _LOOK_SECONDS)):
                    results[number] = result
        finally:
            running.end()

    def _room(self) -> int:
        """Return the bytes that all branches together may add to what the host has."""
        free = free_memory() or 0
        if self._limits.memory:
            resident = int(read_text("/proc/self/statm").split()[1]) * PAGE
            free = min(free, self._limits.memory - resident)
        return int(free * _MEMORY_SHARE)


class _Branch(NamedTuple):
    """A branch that runs: its number, its process, and what it has sent."""

    number: int
    pid: int
    received: bytearray


class _Running:
    """The branches of a request that run.

    Args:
        play: Starts them.
        room: Bytes that each may add to what the host has.
        max_answer: Bytes that all results may have.
        recording: Processes that write recordings.
    """

    def __init__(
        self, play: Play, room: int, max_answer: int, recording: set[int]
    ) -> None:
        self._play = play
        self._room = room
        self._max_answer = self._left = max_answer
        self._recording = recording
        # By the pipes of their results.
        self._branches: dict[int, _Branch] = {}
        self._poll = select.poll()

    def __len__(self) -> int:
        return len(self._branches)

    def numbers(self) -> list[int]:
        """Return their numbers."""
        return [each.number for each in self._branches.values()]

    def start(self, number: int) -> None:
        """Start a branch.

        Raises:
            ForkFailed: The machine has no room for another process.
        """
        pipe, pid = self._play.start(number, self._room)
        self._branches[pipe] = _Branch(number, pid, bytearray())
        self._poll.register(pipe, select.POLLIN)

    def wait(self, seconds: float) -> Iterator[tuple[int, Json]]:
        """Wait for results; yield those of branches that have ended, by their numbers.

        Raises:
            AnswerTooLarge: The results are too large.
        """
        ready = self._poll.poll(seconds * 1000)
        ended = [pipe for pipe, _ in ready if self._receive(pipe)]
        if not ready:
            # A process that it has left may hold its pipe.
            found = [pipe for pipe, e in self._branches.items() if _has_ended(e.pid)]
            # It may have sent its results meanwhile.
            ended = [] if self._poll.poll(0) else found
        for pipe in ended:
            self._poll.unregister(pipe)
            branch = self._branches.pop(pipe)
            status = _end(pipe, branch.pid)
            others = {each.pid for each in self._branches.values()}
            _end_orphans(others | self._recording)
            yield branch.number, _result(branch, status)

    def end(self) -> None:
        """End all of them, and what they have left."""
        for pipe, branch in self._branches.items():
            _end(pipe, branch.pid)
        _end_orphans(self._recording)

    def _receive(self, pipe: int) -> bool:
        """Read from a branch; return whether no more will come."""
        received = self._branches[pipe].received
        data = os.read(pipe, _READ_BYTES)
        received.extend(data)
        self._left -= len(data)
        if self._left < 0:
            raise AnswerTooLarge(
                f"the branches have more than {self._max_answer} bytes of results: "
                "request fewer, or without their observations"
            )
        return not data or is_whole(received)


def _children() -> set[int]:
    """Return the IDs of the processes that this thread has started or inherited."""
    return set(map(int, read_text(f"/proc/self/task/{os.getpid()}/children").split()))


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
    if (value := received_in(branch.received)) is not None:
        return value
    words = f"the process of this branch ended{_how(status)}; the instance is as it was"
    return {"error": described(EnvCrashed(words))}


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
    return {"error": described(late)}
