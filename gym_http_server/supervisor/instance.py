"""The supervisor's records of running instances, and tombstones of ended ones."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct, field

from gym_http_server.config.env_commands import command_of
from gym_http_server.config.settings import Settings
from gym_http_server.datadir.archive import Facts
from gym_http_server.datadir.retention import Retention
from gym_http_server.errors import (
    CreateDeadline,
    Draining,
    EnvCrashed,
    StepDeadline,
    TooManyInstances,
)
from gym_http_server.host.create_request import Arguments
from gym_http_server.processes.end_problems import signal_name
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.processes.log_lines import Allowance
from gym_http_server.rundir.status import Status, StatusReader
from gym_http_server.supervisor.heartbeats import Heartbeat
from gym_http_server.supervisor.output import Output
from gym_http_server.supervisor.usage import UNREAD, Usage
from gym_http_wire.problems import ExternalAway, Problem

__all__ = ["Idle", "Instance", "Tombstone", "Tombstones"]

MAX_TOMBSTONES = 10_000


class Instance(Struct, eq=False):
    """An instance, its host process and their state.

    Attributes:
        env_id: The env ID of the create request.
        label: The label that it was created with; ``None`` if it has none.
        render_mode: The render mode that it was created with.
        program: The versions of the program of an external environment, or "".
        arguments: The size and the digest of a large create request; ``None`` for
            others.
        channel: The connection to the host.
        output: The output of its environment.
        reported: Whether the host has reported how the making went, or sent malformed
            data.
        live: Whether the environment has been made.
        reason: Why it is ending; "" while it is not.
        detail: More about the reason, for callers to read; "" if there is no more.
        end_key: Key of the request that closes it, or "".
        end_request_id: ID of the request because of which it ends, or "".
        kill_at: When to use the next stronger means to end it, monotonic seconds.
        kills: Means used so far.
        create_key: Key of the request that it is made for, or "".
        recording: Directory of the last recording that its host requested, or "".
        openers: Processes that open files for its monitor, or have opened them.
        owner: Name of the token that owns it; "" if it has none.
        request_id: Of the request that it is made for.
        creators: The connections that wait for it to be made.
        claims: Create requests that wait for it, or have been answered with its ID.
        waiters: Connections that wait for the end.
        successors: Create requests that wait for its slot.
        heartbeat: Whether its loop runs.
        at_rest: Whether it was not used between the last two looks at its status page.
        rests_until: When the next limit of time could be passed without another mark on
            that page, monotonic seconds.
        listed: Its status page when it was last listed, and what followed from that.
        times: The marks at the last look, as they are stored.
        use: When it was used last, and its steps, at the last look.
        stepped: Its steps at the last look.
        stepped_at: When they were last seen to have grown, monotonic seconds.
        usage: Its memory and processor time, as they were last read.
        log_allowance: How much it may write to the server's log.
        stream_allowance: How many lines about its streams it may write there.
    """

    instance_id: str
    env_id: str
    pid: int
    channel: FrameSocket
    page: StatusReader
    output: Output
    started: float
    heartbeat: Heartbeat
    label: str | None = None
    render_mode: str | None = None
    program: str = ""
    arguments: Arguments | None = None
    reported: bool = False
    live: bool = False
    reason: str = ""
    detail: str = ""
    end_key: str = ""
    end_request_id: str = ""
    kill_at: float = float("inf")
    kills: int = 0
    create_key: str = ""
    recording: str = ""
    openers: set[int] = field(default_factory=set)
    owner: str = ""
    request_id: str = ""
    usage: Usage = UNREAD
    creators: list[Any] = field(default_factory=list)
    claims: int = 0
    waiters: list[Any] = field(default_factory=list)
    successors: list[Any] = field(default_factory=list)
    at_rest: bool = False
    rests_until: float = 0.0
    listed: tuple[bytes, Status, Any] | None = None
    times: bytes = b""
    use: tuple[int, int] = (0, 0)
    stepped: int = 0
    stepped_at: float = float("-inf")
    log_allowance: Allowance = field(default_factory=Allowance)
    stream_allowance: Allowance = field(
        default_factory=lambda: Allowance(burst=200, seconds_per_entry=0.1)
    )

    def note_steps(self, steps: int, now: float) -> None:
        """Note its steps so far.

        Args:
            steps: The steps.
            now: Monotonic seconds.
        """
        if steps != self.stepped:
            self.stepped, self.stepped_at = steps, now

    def release(self) -> None:
        """Close its descriptors and files in this process, except its log."""
        self.channel.close()
        self.page.close()
        self.output.close_pipe()


class Idle(NamedTuple):
    """The instance that was idle longest, for a create that finds no free slot.

    Attributes:
        instance_id: The instance.
        env_id: The env ID of the create request.
        idle_s: Seconds without use.
        ends_in_s: Seconds until it is ended, if it stays unused and its slot is needed;
            ``None`` if it never is.
    """

    instance_id: str
    env_id: str
    idle_s: float
    ends_in_s: float | None

    def added_to(self, problem: TooManyInstances) -> TooManyInstances:
        """Return the problem, with advice for the caller: close this one, or wait."""
        idle_s, ends_in_s = round(self.idle_s, 1), self.ends_in_s
        words = f"{self.instance_id} ({self.env_id}) has been idle longest, {idle_s} s"
        if ends_in_s is None:
            words += "; the server does not end idle instances"
        else:
            ends_in_s = round(ends_in_s, 1)
            words += f"; the server ends it in {ends_in_s} s, unless it is used"
        oldest = self._asdict() | {"idle_s": idle_s, "ends_in_s": ends_in_s}
        return TooManyInstances(
            f"{problem.message}. {words}",
            extras={**problem.extras, "oldest_idle": oldest},
        )


class Tombstone(Struct, frozen=True):
    """The record of an ended instance.

    Attributes:
        reason: ``closed``, ``crashed``, ``step-deadline``, ``unresponsive``,
            ``create-deadline``, ``idle``, ``orphaned``, ``memory``, ``external-gone``,
            ``agent-lost``, ``abandoned`` or ``shutdown``.
        wait_status: The status that ``os.waitpid`` returned.
        log_tail: The last output of the environment; "" if clients must not see it.
        at: Monotonic seconds.
        end_key: Key of the request that closed it, or "".
        owner: Name of the token that owned it; "" if it had no owner.
        detail: More about the reason, or "".
        label: The label that it was created with, or ``None``.
        age_s: Seconds from its start to its end.
        steps: Steps that it took, as its host last recorded them.
        episodes: Episodes that ended.
        last_words: Phrase with the failing frame or the last line printed; "" if
            there was no output.
        private: Whether only the server's log shows the last words.
        restored: Whether an earlier server has archived the instance.
    """

    env_id: str
    reason: str
    wait_status: int
    log_tail: str
    at: float
    end_key: str = ""
    owner: str = ""
    detail: str = ""
    label: str | None = None
    age_s: float = 0.0
    steps: int = 0
    episodes: int = 0
    last_words: str = ""
    private: bool = False
    restored: bool = False

    @classmethod
    def of(cls, facts: Facts) -> Tombstone:
        """Return the record of an instance that an earlier server has archived."""
        passed = max(0.0, time.time() - facts.ended_at)
        return cls(
            facts.env_id,
            facts.reason,
            facts.wait_status,
            "",
            time.monotonic() - passed,
            owner=facts.owner,
            detail=facts.detail,
            label=facts.label,
            age_s=facts.age_s,
            steps=facts.steps,
            episodes=facts.episodes,
            restored=True,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the record for a web worker."""
        signalled = os.WIFSIGNALED(self.wait_status)
        return {
            "alive": False,
            "env_id": self.env_id,
            "reason": self.reason,
            "detail": self.detail,
            "signal": signal_name(os.WTERMSIG(self.wait_status)) if signalled else None,
            "last_words": "" if self.private else self.last_words,
            "exit_status": None if signalled else os.WEXITSTATUS(self.wait_status),
            "log_tail": self.log_tail,
            "ended_s_ago": round(time.monotonic() - self.at, 3),
        }

    @property
    def wanted(self) -> bool:
        """Whether a caller, the idle timeout or the end of the server ended it."""
        return self.reason in ("closed", "idle", "shutdown", "abandoned")

    def summary(self, words: str) -> str:
        """Return the reason in one line, without control characters.

        Args:
            words: The last words of a crash, if readers of the line may see them.
        """
        if self.detail:
            return f"{self.reason} ({self.detail})"
        if self.reason != "crashed":
            return self.reason
        record = self.as_json()
        how = record["signal"] or f"exit status {record['exit_status']}"
        shown = "".join(c if c.isprintable() else "?" for c in words)
        return f"{self.reason} ({how}) {shown}".rstrip()

    def why_not_made(self, settings: Settings) -> Problem:
        """Return the problem of a create whose instance ended before it was made."""
        if command_of(settings.env_commands, self.env_id) is not None:
            away = self._why_no_command(settings)
            if away is not None:
                return away
        if self.reason == "create-deadline":
            return CreateDeadline(
                f"making {self.env_id} took longer than the "
                f"{settings.create_deadline:g} s allowed; raise --create-deadline"
            )
        if self.reason == "step-deadline":
            return StepDeadline(
                f"a call of {self.env_id} took longer than the "
                f"{settings.step_deadline:g} s allowed while its recording was "
                "repeated; raise --step-deadline"
            )
        if self.reason == "shutdown":
            return Draining("the server is stopping and makes no new instances")
        record = self.as_json()
        how = record["signal"] or f"exit status {record['exit_status']}"
        if self.detail:
            how = self.detail
        elif self.reason == "memory":
            how = f"it used more than {settings.host_memory} bytes of memory"
        elif record["last_words"]:
            how += f" {record['last_words']}"
        return EnvCrashed(
            f"the host ended while making {self.env_id}: {how}",
            extras={"signal": record["signal"], "log_tail": self.log_tail},
        )

    def _why_no_command(self, settings: Settings) -> Problem | None:
        """Return the problem of a command that ended too early, or was too late."""
        record = self.as_json()
        if self.reason == "create-deadline":
            seconds = f"{settings.create_deadline:g} s allowed (--create-deadline)"
            how = f"was not ready within the {seconds}"
        elif self.reason == "crashed" and not self.detail:
            how = record["signal"] or f"exit status {record['exit_status']}"
            how = f"ended before the environment was made: {how}"
        else:
            return None
        words = f"the command of {self.env_id} {how} {record['last_words']}".rstrip()
        if settings.sandbox == "on":
            words += "; if it starts a container, the server needs --sandbox off"
        return ExternalAway(words, extras={"log_tail": self.log_tail})


class Tombstones:
    """The records of the last instances that ended; each owner has a share."""

    def __init__(self) -> None:
        self._ended: dict[str, Tombstone] = {}
        self._retention = Retention[str](MAX_TOMBSTONES)

    def add(self, instance_id: str, ended: Tombstone) -> None:
        """Add a record, and forget an old one if there are too many."""
        self._ended[instance_id] = ended
        for forgotten in self._retention.add(instance_id, ended.owner):
            del self._ended[forgotten]

    def restore(self, archived: Iterable[Facts]) -> None:
        """Add the records of instances of earlier servers, the oldest first."""
        found = {facts.instance_id: Tombstone.of(facts) for facts in archived}
        found |= self._ended
        self._ended = {}
        for instance_id, ended in found.items():
            self.add(instance_id, ended)

    def get(self, instance_id: str) -> Tombstone | None:
        """Return the record of an instance; ``None`` if there is no record."""
        return self._ended.get(instance_id)

    def newest_first(self) -> Iterator[tuple[str, Tombstone]]:
        """Iterate over all records, the last ended first."""
        return reversed(self._ended.items())

    def __contains__(self, instance_id: object) -> bool:
        """Whether there is a record of an instance."""
        return instance_id in self._ended
