"""The list of instances: the present ones, and the last ones that ended.

It is made from the state of the supervisor and the status pages. No host is called,
so a host that is busy or stuck holds nothing up.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from gym_http_server.rundir.status import Status
from gym_http_server.supervisor.instance import Ended, Instance
from gym_http_server.supervisor.memory import resident_bytes

__all__ = ["MAX_ENDED", "listed", "memory_of"]

#: Instances in the list that have ended.
MAX_ENDED = 100
#: Seconds for which a figure of an instance's memory is listed.
MEMORY_SECONDS = 2.0


def listed(instances: Iterable[Instance], ended: Iterable[tuple[str, Ended]]) -> bytes:
    """Return the list as JSON, as clients get it.

    Args:
        instances: The present instances.
        ended: IDs and records of those that have ended, the newest first; the first
            `MAX_ENDED` are listed.
    """
    now, now_ns = time.monotonic(), time.monotonic_ns()
    answer = {
        "ended": [
            _of_ended(instance_id, each, now)
            for instance_id, each in itertools.islice(ended, MAX_ENDED)
        ],
        "instances": [_of_instance(each, now, now_ns) for each in instances],
    }
    return msgspec.json.encode(answer, order="sorted") + b"\n"


def _of_instance(instance: Instance, now: float, now_ns: int) -> dict[str, Any]:
    page = instance.page.read()
    state = _state(instance, page)
    age_s = now - instance.started
    busy_s = idle_s = None
    if page.busy_since_ns:
        busy_s = _seconds(now_ns - page.busy_since_ns, age_s)
    elif instance.live:
        idle_s = _seconds(now_ns - page.last_used_ns, age_s)
    return {
        "age_s": round(age_s, 3),
        "busy_s": busy_s,
        "env_id": instance.env_id,
        "episodes": page.episodes,
        "idle_s": idle_s,
        "instance_id": instance.instance_id,
        "label": instance.label,
        "memory_bytes": memory_of(instance, now),
        "owner": instance.owner or None,
        "state": state,
        "steps": page.steps,
        "streams": page.streams,
        "watchers": page.watchers,
    }


def memory_of(instance: Instance, now: float) -> int:
    """Return the resident memory of an instance, as it was up to two seconds ago."""
    # Reading it takes up to 0.1 ms for each process, which others wait for.
    if now - instance.memory[1] > MEMORY_SECONDS:
        instance.memory = (resident_bytes(instance.pid), now)
    return instance.memory[0]


def _state(instance: Instance, page: Status) -> str:
    if instance.reason:
        return "ending"
    if not instance.live:
        return "making"
    return "busy" if page.busy_since_ns else "idle"


def _seconds(nanoseconds: int, age_s: float) -> float:
    # An environment can write anything to its page.
    return round(min(max(0.0, nanoseconds / 1e9), age_s), 3)


def _of_ended(instance_id: str, ended: Ended, now: float) -> dict[str, Any]:
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
        "owner": ended.owner or None,
        "reason": ended.reason,
        "signal": how["signal"],
        "steps": ended.steps,
    }
