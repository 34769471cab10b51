"""Measures thousands of instances: made, listed, idle, stepped once and closed.

``instances_10000`` needs a machine with 64 GiB, and says what another one lacks.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from benchmarks.fresh import BASELINE
from benchmarks.host_memory import fresh_mib
from benchmarks.measuring import Plan, median
from benchmarks.observing import milliseconds
from benchmarks.pinning import Mode, available
from benchmarks.processes import (
    find_hosts,
    processor_ns,
    pss_mib,
    with_descendants,
)
from benchmarks.report import Row, row
from benchmarks.servers import our_server
from gym_http_client.calls.client import Client
from gym_http_server.linux.machine import rooms

__all__ = ["cores_instances", "instances_10000"]

_MOST = 2000
_CLIENTS = 8
#: Instances by whose making and closing one client is measured.
_ALONE = 50
_IDLE_SECONDS = 5.0
_SETTLE_SECONDS = 3.0
#: Hosts whose proportional memory is read, which takes a millisecond for each.
_READ = 50
_T = TypeVar("_T")
_R = TypeVar("_R")


def cores_instances(plan: Plan) -> list[Row]:
    """Measure 2,000 instances, or as many as the machine has room for."""
    least = rooms(tempfile.gettempdir())[0]
    # Half: other programs need memory, too.
    count = min(_MOST, least.instances // 2)
    if count < 2 * _ALONE:
        plan.say(f"cores_instances: left out, for want of room: {least.limit}")
        return []
    return _measured(plan, "cores", count)


def instances_10000(plan: Plan) -> list[Row]:
    """Measure 10,000 instances."""
    count = 10_000
    least = rooms(tempfile.gettempdir())[0]
    if least.instances < count:
        plan.say(
            f"instances_10000: left out, since there is room for {least.instances}: "
            f"{least.limit}; {least.remedy}"
        )
        return []
    return _measured(plan, "instances_10000", count)


def _measured(plan: Plan, name: str, count: int) -> list[Row]:
    plan.say(f"{name}: making {count} instances")
    rows: list[Row] = []
    mode = f"{len(available())} cores"

    def add(what: str, value: float, unit: str, baseline: str, theirs: float) -> None:
        made = row(f"{name}_{what}", Mode.FREE, value, unit, baseline, theirs)
        rows.append(replace(made, mode=mode))
        plan.say(f"  {what:12} {value:10.1f} {unit}, {baseline}: {theirs:.1f}")

    flags = ("--max-instances", str(count), "--idle-timeout", "0")
    with our_server(available(), *flags) as server:
        clients = [Client(server.url) for _ in range(_CLIENTS)]
        server_alone = _processor_use(server.pid)
        _, alone_s = _spread(clients[:1], range(_ALONE), _make)
        made, took_s = _spread(clients, range(count - _ALONE), _make)
        add("creates", len(made) / took_s, "/s", "one client", _ALONE / alone_s)
        time.sleep(_SETTLE_SECONDS)
        use = _processor_use(server.pid)
        add("idle", use, "% of a core", "no instances", server_alone)
        add("pss", median(_pss_mib(server.pid)), "MiB", BASELINE, median(fresh_mib()))
        least_ms = milliseconds(server.url, "/v1/")
        for what, path in (("list", "/v1/instances/"), ("metrics", "/metrics")):
            add(what, milliseconds(server.url, path), "ms", "GET /v1/", least_ms)
        ids = list(clients[0].env_list_all())
        assert len(ids) == count, f"{len(ids)} of {count} instances are listed"
        _, took_s = _spread(clients, ids, _step)
        _, alone_s = _spread(clients[:1], ids[:_ALONE], _step)
        add("first_steps", count / took_s, "/s", "one client", _ALONE / alone_s)
        _, alone_s = _spread(clients[:1], ids[:_ALONE], Client.env_close)
        _, took_s = _spread(clients, ids[_ALONE:], Client.env_close)
        add("closes", (count - _ALONE) / took_s, "/s", "one client", _ALONE / alone_s)
        for client in clients:
            client.close()
    return rows


def _make(client: Client, number: int) -> str:
    return client.env_create("CartPole-v1")


def _step(client: Client, instance_id: str) -> None:
    client.reset(instance_id)
    client.step(instance_id, 1)


def _spread(
    clients: Sequence[Client], items: Sequence[_T], act: Callable[[Client, _T], _R]
) -> tuple[list[_R], float]:
    """Do something with each item, by several clients at once.

    Returns:
        The results, and how many seconds it took.
    """
    shares = [(each, items[at :: len(clients)]) for at, each in enumerate(clients)]
    began = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as pool:
        parts = pool.map(
            lambda share: [act(share[0], each) for each in share[1]], shares
        )
        results = list(itertools.chain.from_iterable(parts))
    return results, time.perf_counter() - began


def _processor_use(pid: int) -> float:
    """Return the percentage of a core that a server and all below it use."""
    before, began = processor_ns(with_descendants(pid)), time.monotonic()
    time.sleep(_IDLE_SECONDS)
    after, ended = processor_ns(with_descendants(pid)), time.monotonic()
    used = sum(now - before.get(each, 0) for each, now in after.items())
    return used / 1e7 / (ended - began)


def _pss_mib(pid: int) -> list[float]:
    """Return the proportional memory of some hosts."""
    hosts = find_hosts(pid)
    return [pss_mib(each) for each in hosts[:: max(1, len(hosts) // _READ)]]
