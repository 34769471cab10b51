"""Metrics of the server's processes, under the names of all Prometheus clients."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from gym_http_server.config import inherited_settings

__all__ = ["ProcessMetrics"]

_NAMED = ("supervisor", "web worker")


class ProcessMetrics(Collector):
    """The launcher, the supervisor and the web workers, read from /proc."""

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics, with a sample for each process."""
        found: dict[str, Metric] = {}
        for name, pid in _processes():
            labels = {"process": name, "pid": str(pid)}
            for metric in _metrics_of(pid):
                all_of_it = found.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                for sample in metric.samples:
                    all_of_it.add_sample(sample.name, labels, sample.value)
        return found.values()


def _processes() -> Iterator[tuple[str, int]]:
    """Yield names and IDs of the processes, which are above and beside this one."""
    launcher = int(os.environ.get(inherited_settings.LAUNCHER_PID, "0"))
    if launcher:
        yield "launcher", launcher
        for pid in (*_children(launcher), *_children(os.getppid())):
            name = _title(pid)
            if name in _NAMED:
                yield name, pid


def _children(pid: int) -> list[int]:
    """Return the children of the main thread of a process."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(each) for each in file.read().split()]
    return []


def _title(pid: int) -> str:
    """Return the title of a process, as `gym_http_server.processes.titles` sets it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().decode(errors="replace").rstrip(" \0").removeprefix("gym: ")
    return ""


def _metrics_of(pid: int) -> Iterable[Metric]:
    # A process that has ended, and one without a limit of open files, have none.
    with contextlib.suppress(OSError, ValueError):
        return ProcessCollector(pid=lambda: pid, registry=None).collect()
    return ()
