"""Metrics of the server's processes, under the names of all Prometheus clients."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gym_http_server.config import inherited_settings

__all__ = ["ProcessMetrics"]

_NAMED = ("supervisor", "web worker")
_MAX_FILES = re.compile(rb"Max open files +(\d+)")


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


def _metrics_of(pid: int) -> Iterator[Metric]:
    """Yield the metrics of a process, as far as it still runs.

    As `prometheus_client.process_collector` does, which lists all open files to count
    them: 10 ms for a supervisor of 2,000 instances.
    """
    folder = f"/proc/{pid}"
    with contextlib.suppress(OSError):
        # After the name, which may contain anything.
        numbers = _read(f"{folder}/stat").rpartition(b")")[2].split()
        yield from _of_stat([*map(int, numbers[11:22])])
        # Without a limit there is no number.
        found = _MAX_FILES.search(_read(f"{folder}/limits"))
        count = os.stat(f"{folder}/fd").st_size or len(os.listdir(f"{folder}/fd"))
        words = "Number of open file descriptors."
        yield GaugeMetricFamily("process_open_fds", words, count)
        if found:
            words = "Maximum number of open file descriptors."
            yield GaugeMetricFamily("process_max_fds", words, int(found[1]))


def _of_stat(numbers: list[int]) -> Iterator[Metric]:
    """Yield what the numbers of proc(5) say, from the user time on."""
    user, system, *_, start, virtual, resident = numbers
    words = "Virtual memory size in bytes."
    yield GaugeMetricFamily("process_virtual_memory_bytes", words, virtual)
    words = "Resident memory size in bytes."
    resident *= os.sysconf("SC_PAGE_SIZE")
    yield GaugeMetricFamily("process_resident_memory_bytes", words, resident)
    ticks = os.sysconf("SC_CLK_TCK")
    words = "Start time of the process since unix epoch in seconds."
    started = start / ticks + _boot_time()
    yield GaugeMetricFamily("process_start_time_seconds", words, started)
    words = "Total user and system CPU time spent in seconds."
    used = user / ticks + system / ticks
    yield CounterMetricFamily("process_cpu_seconds_total", words, used)


@functools.cache
def _boot_time() -> int:
    return int(_read("/proc/stat").partition(b"btime ")[2].split()[0])


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
