"""The route of metrics, in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gevent  # type: ignore[import-untyped]
import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

import gym_http_server
from gym_http_server.rundir.requests import SECONDS_BOUNDS, RequestTimes, read_requests
from gym_http_server.rundir.status import LATENESS_BOUNDS_NS, STEP_BOUNDS_NS
from gym_http_server.services.relay.messages import RelayHead
from gym_http_server.web.api.exchange import Answer, Environ, caller_of, read_body
from gym_http_server.web.api.process_metrics import ProcessMetrics
from gym_http_server.web.api.web import View, Web
from gym_http_wire.messages import Op
from gym_http_wire.problems import Problem

__all__ = ["VIEWS"]

Figures = dict[str, Any]

OTHER = "other"
#: Seconds for all processes to send their figures; a scrape takes less than one.
ANSWER_SECONDS = 0.8
_ENV = ("env_id",)
# By the name of a sum: the metric and its words.
_SUMS = {
    "made": ("gym_instances_made", "Instances that were made."),
    "steps": ("gym_steps", "Steps of environments."),
    "episodes": ("gym_episodes", "Episodes that ended."),
    "recorded_bytes": ("gym_recorded_bytes", "Bytes that were recorded."),
    "frames_shown": ("gym_frames_shown", "Frames drawn for watchers."),
    "frames_dropped": ("gym_frames_dropped", "Frames that videos lack."),
    "cpu_s": (
        "gym_instance_cpu_seconds",
        "Processor time of instances, with the processes that they start.",
    ),
}
_OPEN = {
    "streams": ("gym_streams", "Open streams, without those that watch."),
    "watchers": ("gym_watchers", "Open streams that watch."),
    "memory_bytes": (
        "gym_instance_memory_bytes",
        "Resident memory of instances, with the processes that they start.",
    ),
}


def _metrics(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    encode, media_type = _chosen_encoder(environ.get("HTTP_ACCEPT", "").lower())
    owner = caller_of(environ).only
    answers = _answers_of(
        {
            "supervisor": lambda: web.supervisor.call(Op.FIGURES, owner=owner),
            "broker": web.broker.listed,
            "relay": functools.partial(_runs, web),
        }
    )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Server(answers))
    registry.register(ProcessMetrics())
    registry.register(_Requests(read_requests(web.run.requests)))
    if (figures := answers["supervisor"]) is not None:
        registry.register(_Instances(figures))
    registry.register(_Services(answers["broker"], answers["relay"]))
    headers = [("Content-Type", media_type), ("Cache-Control", "no-store")]
    return Answer(200, headers, encode(registry))


def _chosen_encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    try:
        return choose_encoder(accept)
    except TypeError:
        # It names a version that is no number, which the library cannot compare.
        return choose_encoder("")


def _answers_of(calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Call several processes at once; return their answers by name.

    The answer of a process that refuses, or does not answer in time, is ``None``.
    """
    waiting = {name: gevent.spawn(_answer_of, each) for name, each in calls.items()}
    gevent.joinall(waiting.values(), timeout=ANSWER_SECONDS)
    answers = {name: each.value for name, each in waiting.items()}
    # They close their connections.
    gevent.killall([each for each in waiting.values() if not each.dead], block=False)
    return answers


def _answer_of(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Problem:
        return None


class _Server(Collector):
    """The server itself, and which of its processes have sent their figures.

    Args:
        answers: Their answers by name.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        words = "Versions of the server and of what it runs on."
        yield InfoMetricFamily("gym_build", words, _versions())
        words = "Whether the metrics of a process are here."
        up = GaugeMetricFamily("gym_up", words, labels=("process",))
        for name, answer in self._answers.items():
            up.add_metric([name], answer is not None)
        yield up


@functools.cache
def _versions() -> dict[str, str]:
    return {
        "gymnasium": importlib.metadata.version("gymnasium"),
        "python": platform.python_version(),
        "version": gym_http_server.__version__,
    }


class _Instances(Collector):
    """The metrics of instances.

    Args:
        figures: What the supervisor has added up.
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics."""
        envs, slots = self._figures["envs"], self._figures["slots"]
        yield GaugeMetricFamily("gym_slots", "Instances at a time.", slots["of"])
        words = "Slots that instances take."
        yield GaugeMetricFamily("gym_slots_taken", words, slots["taken"])
        words = "Slots that instances of a token take."
        owned = GaugeMetricFamily("gym_owned_slots", words, labels=("owner",))
        for owner, count in slots["owners"].items():
            owned.add_metric([owner], count)
        yield owned
        for name, (metric, words) in _SUMS.items():
            counter = CounterMetricFamily(metric, words, labels=_ENV)
            for env_id, figures in envs.items():
                counter.add_metric([env_id], figures[name])
            yield counter
        for name, (metric, words) in _OPEN.items():
            gauge = GaugeMetricFamily(metric, words, labels=_ENV)
            for env_id, figures in envs.items():
                gauge.add_metric([env_id], figures[name])
            yield gauge
        yield from _states(envs)
        words = "Seconds of steps in their hosts; a vector's step is one."
        names = "step_counts", "step_ns"
        yield _histogram("gym_step_seconds", words, envs, names, STEP_BOUNDS_NS)
        words = "Seconds by which ticks of clocks were late."
        names = "lateness_counts", "lateness_ns"
        yield _histogram(
            "gym_tick_lateness_seconds", words, envs, names, LATENESS_BOUNDS_NS
        )
        words = "The same, with ticks that were left out."
        names = "lateness_all_counts", "lateness_all_ns"
        yield _histogram(
            "gym_tick_lateness_all_seconds", words, envs, names, LATENESS_BOUNDS_NS
        )


class _Requests(Collector):
    """The requests that web workers answered.

    Args:
        requests: Their sums by route, method and status.
    """

    def __init__(self, requests: dict[tuple[str, str, int], RequestTimes]) -> None:
        self._requests = requests

    def collect(self) -> Iterable[Metric]:
        """Yield the histogram."""
        words = "Seconds until the answers to HTTP requests were made."
        names = ("route", "method", "status")
        metric = HistogramMetricFamily("gym_http_request_seconds", words, labels=names)
        bounds = [*map(str, SECONDS_BOUNDS), "+Inf"]
        for (route, method, status), found in sorted(self._requests.items()):
            counts = map(float, itertools.accumulate(found.counts))
            buckets = list(zip(bounds, counts, strict=True))
            labels = [route or OTHER, method, str(status)]
            metric.add_metric(labels, buckets, found.seconds)
        yield metric


class _Services(Collector):
    """External environments and training runs.

    Args:
        external: The external environments that are connected; ``None`` if the broker
            did not answer.
        runs: The training runs; ``None`` if the relay did not answer.
    """

    def __init__(
        self, external: list[Figures] | None, runs: list[Figures] | None
    ) -> None:
        self._external = external
        self._runs = runs

    def collect(self) -> Iterable[Metric]:
        """Yield gauges."""
        if self._external is not None:
            free = sum(each["free"] for each in self._external)
            words = "External environments that wait for an instance."
            yield GaugeMetricFamily("gym_external_free", words, free)
        if self._runs is None:
            return
        yield GaugeMetricFamily("gym_relay_runs", "Training runs.", len(self._runs))
        for name, words in (
            ("workers", "Rollout workers that sent something in the last minute."),
            ("queue_batches", "Batches that wait for a trainer."),
            ("queue_bytes", "Bytes of the batches that wait for a trainer."),
        ):
            total = sum(each[name] for each in self._runs)
            yield GaugeMetricFamily(f"gym_relay_{name}", words, total)


def _runs(web: Web) -> list[Figures]:
    """Return the training runs; none while there is no relay, which starts late."""
    if not os.path.exists(web.run.relay_socket):
        return []
    frame, _ = web.relay.call(Op.RUN_LIST, RelayHead())
    return list(msgspec.json.decode(frame.body)["runs"])


def _states(envs: dict[str, Figures]) -> Iterator[Metric]:
    words = "Instances by state."
    gauge = GaugeMetricFamily("gym_instances", words, labels=("env_id", "state"))
    words = "Instances that ended, by reason."
    names = ("env_id", "reason")
    ended = CounterMetricFamily("gym_instances_ended", words, labels=names)
    for env_id, figures in envs.items():
        for state, count in figures["states"].items():
            gauge.add_metric([env_id, state], count)
        for reason, count in sorted(figures["ended"].items()):
            ended.add_metric([env_id, reason], count)
    yield gauge
    yield ended


def _histogram(
    name: str,
    words: str,
    envs: dict[str, Figures],
    names: tuple[str, str],
    bounds_ns: tuple[int, ...],
) -> Metric:
    """Return a histogram by environment.

    Args:
        name: Its name.
        words: What it counts.
        envs: Figures by env ID.
        names: Names of the counts, and of the sum in nanoseconds.
        bounds_ns: Upper bounds of the counts.
    """
    metric = HistogramMetricFamily(name, words, labels=_ENV)
    bounds = [*(str(bound / 1e9) for bound in bounds_ns), "+Inf"]
    for env_id, figures in envs.items():
        counts = map(float, itertools.accumulate(figures[names[0]]))
        buckets = list(zip(bounds, counts, strict=True))
        metric.add_metric([env_id], buckets, figures[names[1]] / 1e9)
    return metric


VIEWS: dict[str, View] = {"metrics": _metrics}
