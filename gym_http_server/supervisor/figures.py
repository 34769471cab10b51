"""Figures of instances, from their status pages: the list, and sums by env ID.

No host is asked for them.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gym_http_server.rundir.status import (
    LATENESS_BOUNDS_NS,
    NO_COUNTS,
    NUMBERS,
    RECORDING_FAILED,
    RECORDING_STEPS,
    RECORDING_VIDEO,
    STEP_BOUNDS_NS,
    Status,
    parse,
)
from gym_http_server.supervisor.instance import Instance, Tombstone
from gym_http_server.supervisor.states import state_of
from gym_http_server.supervisor.usage import UNREAD, read_usage

__all__ = [
    "MAX_ENV_IDS",
    "MAX_LISTED",
    "OTHER",
    "Figures",
    "Wanted",
    "add_up",
    "listed",
]

#: Env IDs that have figures of their own: clients choose the names.
MAX_ENV_IDS = 200
#: Stands for all further ones.
OTHER = "other"

_COUNTS = (
    "steps",
    "episodes",
    "timed_steps",
    "step_ns",
    "recorded_bytes",
    "lateness_ns",
    "lateness_all_ns",
)
_LISTS = ("step_counts", "lateness_counts", "lateness_all_counts")
_FRAMES = ("frames_dropped", "frames_shown")
#: Sums over the present instances only.
_PRESENT = ("streams", "watchers", "memory_bytes")
#: Instances in the list that have ended.
MAX_LISTED = 100
_ENCODER = msgspec.json.Encoder()


class _Row(msgspec.Struct):
    """An instance in the list, in the order of the names.

    What depends on the status page alone is kept with the instance, for the next list.
    """

    age_s: float
    arguments: dict[str, Any] | None
    busy_s: float | None
    cpu_s: float
    env_id: str
    episodes: int
    idle_s: float | None
    instance_id: str
    label: str | None
    last_length: int | None
    last_return: float | None
    memory_bytes: int
    num_envs: int | None
    owner: str | None
    program: str | None
    realtime: dict[str, Any] | None
    recording: dict[str, Any] | None
    render_mode: str | None
    state: str
    step_ms: dict[str, float] | None
    steps: int
    streams: int
    watchers: int


class Wanted(NamedTuple):
    """Which instances to list.

    Attributes:
        search: A text in one of the names, in lower case; "" for all instances.
        state: The state, or "ended"; "busy" for those in a call and "idle" for those
            between two; "" for all.
    """

    search: str = ""
    state: str = ""

    def has(self, names: Iterable[str | None], *states: str) -> bool:
        """Whether to list an instance with these names and one of these states."""
        if self.state not in ("", *states):
            return False
        return any(self.search in (name or "").lower() for name in names)


def listed(
    instances: Iterable[Instance],
    ended: Iterable[tuple[str, Tombstone]],
    wanted: Wanted,
    slots: tuple[int, int],
    logs: Iterable[Container[str]],
    deadline: float,
) -> bytes:
    """Return the list as JSON, in the form for clients.

    Args:
        instances: The present instances.
        ended: IDs and records of those that have ended, the newest first; the first
            `MAX_LISTED` are listed.
        wanted: Which of them to list.
        slots: Number of slots taken, and of all.
        logs: IDs of ended instances of whose logs at least the end is kept.
        deadline: Seconds that a call may take.
    """
    now = time.monotonic()
    answer = {
        "ended": [
            _of_ended(instance_id, each, now, logs)
            for instance_id, each in itertools.islice(
                _wanted_of(ended, wanted), MAX_LISTED
            )
        ],
        "instances": _rows(instances, wanted, deadline),
        "slots": {"of": slots[1], "taken": slots[0]},
    }
    # With the end of the line, but without a copy for it.
    return _ENCODER.encode_lines([answer])


def _rows(instances: Iterable[Instance], wanted: Wanted, deadline: float) -> list[_Row]:
    now, now_ns = time.monotonic(), time.monotonic_ns()
    rows = [_of_instance(each, now, now_ns, deadline) for each in instances]
    if wanted == Wanted():
        return rows
    return [
        row
        for row in rows
        if wanted.has(
            (row.env_id, row.instance_id, row.label, row.owner),
            row.state,
            *_by_calls(row),
        )
    ]


def _by_calls(row: _Row) -> tuple[str, ...]:
    """Return the state by which an instance that lives is listed, too."""
    if row.state in ("making", "ending"):
        return ()
    return ("idle",) if row.busy_s is None else ("busy",)


def _wanted_of(
    ended: Iterable[tuple[str, Tombstone]], wanted: Wanted
) -> Iterator[tuple[str, Tombstone]]:
    for instance_id, each in ended:
        names = each.env_id, instance_id, each.label, each.owner
        if wanted.has(names, "ended"):
            yield instance_id, each


def _of_instance(instance: Instance, now: float, now_ns: int, deadline: float) -> _Row:
    page = instance.page.read_page()
    if instance.listed is None or instance.listed[0] != page:
        status = parse(page)
        instance.listed = page, status, _of_page(instance, status)
    _, status, row = instance.listed
    # Not rounded to digits, which costs thousands of rows a millisecond.
    age_ms = int(1000 * (now - instance.started))
    row.age_s = age_ms / 1000
    if status.busy_since_ns:
        row.busy_s = _seconds(now_ns - status.busy_since_ns, age_ms)
    elif instance.live:
        row.idle_s = _seconds(now_ns - status.last_used_ns, age_ms)
    usage = instance.usage
    if usage is UNREAD:
        usage = instance.usage = read_usage(instance.pid, usage, now)
    row.memory_bytes = usage.resident
    row.cpu_s = usage.cpu_s
    instance.note_steps(status.steps, now)
    row.state = state_of(instance, status, now, now_ns, deadline)
    return row


def _of_page(instance: Instance, page: Status) -> _Row:
    """Return the row of an instance, without what changes with the time."""
    arguments = instance.arguments
    return _Row(
        age_s=0.0,
        arguments=None
        if arguments is None
        else {"bytes": arguments.size, "sha256": arguments.digest},
        busy_s=None,
        cpu_s=0.0,
        env_id=instance.env_id,
        episodes=page.episodes,
        idle_s=None,
        instance_id=instance.instance_id,
        label=instance.label,
        last_length=page.last_length or None,
        last_return=_last_return(page),
        memory_bytes=0,
        num_envs=page.num_envs or None,
        owner=instance.owner or None,
        program=instance.program or None,
        realtime=_realtime(page),
        recording=_recording(page),
        render_mode=instance.render_mode,
        state="",
        step_ms=_step_ms(page),
        steps=page.steps,
        streams=page.streams,
        watchers=page.watchers,
    )


def _last_return(page: Status) -> float | None:
    # An environment can write anything to its page.
    known = page.last_length and math.isfinite(page.last_return)
    return page.last_return if known else None


def _realtime(page: Status) -> dict[str, Any] | None:
    if not page.has_clock:
        return None
    # An environment can write anything to its page.
    hz = round(page.hz, 3) if math.isfinite(page.hz) else None
    return {
        "hz": hz,
        "lateness_all_ms": _lateness_ms(page.lateness_all_counts, page.lateness_all_ns),
        "lateness_ms": _lateness_ms(page.lateness_counts, page.lateness_ns),
        "stall_ms": round(page.stall_ns / 1e6, 3),
        "ticks": page.ticks,
    }


def _lateness_ms(counts: tuple[int, ...], sum_ns: int) -> dict[str, float] | None:
    ticks = sum(counts)
    if not ticks:
        return None
    return {
        "mean": round(sum_ns / ticks / 1e6, 3),
        "p50": _quantile_ms(counts, 0.5, LATENESS_BOUNDS_NS),
        "p99": _quantile_ms(counts, 0.99, LATENESS_BOUNDS_NS),
    }


def _recording(page: Status) -> dict[str, Any] | None:
    if not page.recording:
        return None
    return {
        "bytes": page.recorded_bytes,
        "failed": bool(page.recording & RECORDING_FAILED),
        "frames_dropped": page.frames_dropped,
        "frames_written": page.frames_written,
        "steps": bool(page.recording & RECORDING_STEPS),
        "video": bool(page.recording & RECORDING_VIDEO),
    }


def _step_ms(page: Status) -> dict[str, float] | None:
    if not page.timed_steps:
        return None
    return {
        "mean": round(page.step_ns / page.timed_steps / 1e6, 3),
        "p50": _quantile_ms(page.step_counts, 0.5, STEP_BOUNDS_NS),
        "p99": _quantile_ms(page.step_counts, 0.99, STEP_BOUNDS_NS),
    }


def _quantile_ms(
    counts: tuple[int, ...], share: float, bounds: tuple[int, ...]
) -> float:
    """Return the upper bound of the counts that have this share of all."""
    rank = share * sum(counts)
    reached = itertools.accumulate(counts)
    index = next((at for at, count in enumerate(reached) if count >= rank), 0)
    return bounds[min(index, len(bounds) - 1)] / 10**6


def _seconds(nanoseconds: int, age_ms: int) -> float:
    ms = nanoseconds // 1_000_000
    if not 0 <= ms <= age_ms:
        # An environment can write anything to its page.
        ms = 0 if ms < 0 else age_ms
    return ms / 1000


def _of_ended(
    instance_id: str, ended: Tombstone, now: float, logs: Iterable[Container[str]]
) -> dict[str, Any]:
    how = ended.as_json()
    return {
        "age_s": round(ended.age_s, 3),
        "detail": ended.detail or None,
        "ended_s_ago": round(now - ended.at, 3),
        "env_id": ended.env_id,
        "episodes": ended.episodes,
        "exit_status": how["exit_status"],
        "instance_id": instance_id,
        "label": ended.label,
        "log": f"/v1/envs/{instance_id}/log/"
        if any(instance_id in each for each in logs)
        else None,
        # Of earlier servers, only the archive has it.
        "log_tail": ended.log_tail
        if ended.reason == "crashed" and not ended.restored
        else None,
        "owner": ended.owner or None,
        "reason": ended.reason,
        "signal": how["signal"],
        "steps": ended.steps,
    }


class Figures:
    """Adds up what instances did. No sum falls when an instance ends."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        # By owner and env ID.
        self._sums: dict[tuple[str, str], dict[str, Any]] = {}

    def add_made(self, env_id: str, owner: str) -> None:
        """Count an instance that was made."""
        self._of(env_id, owner)["made"] += 1

    def add_ended(
        self, env_id: str, owner: str, reason: str, page: Status, cpu_s: float
    ) -> None:
        """Count the end of an instance that was made, and keep what it did."""
        figures = self._of(env_id, owner)
        figures["ended"][reason] = figures["ended"].get(reason, 0) + 1
        figures["cpu_s"] += cpu_s
        _add(figures, page)

    def all(
        self, instances: Iterable[Instance], caller: str = ""
    ) -> dict[str, dict[str, Any]]:
        """Return the figures by env ID, those of present instances included.

        Args:
            instances: The present instances.
            caller: Token whose env IDs to name; all of other owners count as `OTHER`.
                "": name all.
        """
        found: dict[str, dict[str, Any]] = {}
        for (owner, name), sums in self._sums.items():
            shown = name if caller in ("", owner) else OTHER
            _merge(found.setdefault(shown, _empty()), sums)
        shown_as: dict[str, list[Instance]] = {}
        for instance in instances:
            if instance.live:
                named = caller in ("", instance.owner)
                shown = self._name(instance.env_id) if named else OTHER
                shown_as.setdefault(shown, []).append(instance)
        for shown, present in shown_as.items():
            _add_present(found[shown], present)
        return found

    def _of(self, env_id: str, owner: str) -> dict[str, Any]:
        name = self._name(env_id)
        self._names.add(name)
        return self._sums.setdefault((owner, name), _empty())

    def _name(self, env_id: str) -> str:
        known = env_id in self._names or len(self._names) < MAX_ENV_IDS
        return env_id if known else OTHER


def _empty() -> dict[str, Any]:
    return {
        **dict.fromkeys(("made", *_PRESENT, *_COUNTS, *_FRAMES), 0),
        "cpu_s": 0.0,
        "ended": {},
        "states": dict.fromkeys(("idle", "busy", "ending"), 0),
        "lateness_all_counts": [0] * (len(LATENESS_BOUNDS_NS) + 1),
        "lateness_counts": [0] * (len(LATENESS_BOUNDS_NS) + 1),
        "step_counts": [0] * (len(STEP_BOUNDS_NS) + 1),
    }


def _merge(figures: dict[str, Any], more: dict[str, Any]) -> None:
    """Add figures to others, of the same form."""
    for name, value in more.items():
        if isinstance(value, dict):
            counts = figures[name]
            for key, count in value.items():
                counts[key] = counts.get(key, 0) + count
        elif isinstance(value, list):
            figures[name] = [
                sum(each) for each in zip(figures[name], value, strict=True)
            ]
        else:
            figures[name] += value


def _add_present(figures: dict[str, Any], instances: list[Instance]) -> None:
    """Add the figures of present instances."""
    total, busy = add_up([each.page.numbers for each in instances])
    _add(figures, total)
    figures["streams"] += total.streams
    figures["watchers"] += total.watchers
    figures["memory_bytes"] += sum(each.usage.resident for each in instances)
    figures["cpu_s"] += sum(each.usage.cpu_s for each in instances)
    states = figures["states"]
    for each, calls in zip(instances, busy, strict=True):
        states["busy" if calls else "ending" if each.reason else "idle"] += 1


def add_up(pages: Sequence[bytes | memoryview]) -> tuple[Status, list[bool]]:
    """Return the sums of the counts of several status pages, and which are in a call.

    Numbers that are no counts are 0. A sum of 2**64 or more begins again at 0: no
    environment counts so far, but one can write anything to its page.
    """
    numbers = np.frombuffer(b"".join(pages), np.uint64).reshape(-1, NUMBERS)
    sums = numbers.sum(axis=0, dtype=np.uint64)
    sums[list(NO_COUNTS)] = 0
    return parse(sums.tobytes()), (numbers[:, 0] != 0).tolist()


def _add(figures: dict[str, Any], page: Status) -> None:
    for name in (*_COUNTS, *_FRAMES):
        figures[name] += getattr(page, name)
    for name in _LISTS:
        for index, count in enumerate(getattr(page, name)):
            figures[name][index] += count
