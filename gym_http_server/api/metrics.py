"""The route of metrics, in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import flask
import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gym_http_server.access import READ
from gym_http_server.api.exchange import Answer, Environ, caller_of, read_body
from gym_http_server.api.web import Web, add_route
from gym_http_server.relay.messages import RelayHead
from gym_http_server.rundir.requests import SECONDS_BOUNDS, RequestTimes, read_requests
from gym_http_server.rundir.status import LATENESS_BOUNDS_NS, STEP_BOUNDS_NS
from gym_http_wire.messages import Op

__all__ = ["add_routes"]

Figures = dict[str, Any]

OTHER = "other"
_ENV = ("env_id",)
# By the name of a sum: the metric, its words, and the factor to its unit.
_SUMS = {
    "made": ("gym_instances_made", "Instances that were made.", 1.0),
    "steps": ("gym_steps", "Steps of environments.", 1.0),
    "episodes": ("gym_episodes", "Episodes that ended.", 1.0),
    "recorded_bytes": ("gym_recorded_bytes", "Bytes that were recorded.", 1.0),
    "frames_shown": ("gym_frames_shown", "Frames drawn for watchers.", 1.0),
    "frames_dropped": ("gym_frames_dropped", "Frames that videos lack.", 1.0),
}
_OPEN = {
    "streams": ("gym_streams", "Open streams, without those that watch."),
    "watchers": ("gym_watchers", "Open streams that watch."),
}


def add_routes(app: flask.Flask, web: Web) -> None:
    """Add the route."""
    view = functools.partial(_metrics, web)
    add_route(app, web, "GET", "/metrics/", view, scopes=frozenset({READ}))


def _metrics(web: Web, environ: Environ) -> Answer:
    read_body(environ, web.settings.max_body)
    encode, media_type = choose_encoder(environ.get("HTTP_ACCEPT", ""))
    registry = CollectorRegistry(auto_describe=False)
    figures = web.supervisor.call(Op.FIGURES, owner=caller_of(environ).only)
    registry.register(_Collected(figures))
    registry.register(_Requests(read_requests(web.run.requests)))
    registry.register(_Services(web.broker.listed(), _runs(web)))
    headers = [("Content-Type", media_type), ("Cache-Control", "no-store")]
    return Answer(200, headers, encode(registry))


class _Collected(Collector):
    """The metrics of one moment.

    Args:
        figures: What the supervisor has added up.
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics."""
        envs, slots = self._figures["envs"], self._figures["slots"]
        yield GaugeMetricFamily("gym_slots", "Instances at a time.", slots["of"])
        taken = "Slots that instances take."
        yield GaugeMetricFamily("gym_slots_taken", taken, slots["taken"])
        for name, (metric, words, factor) in _SUMS.items():
            counter = CounterMetricFamily(metric, words, labels=_ENV)
            for env_id, figures in envs.items():
                counter.add_metric([env_id], figures[name] * factor)
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
        external: The external environments that are connected.
        runs: The training runs.
    """

    def __init__(self, external: list[Figures], runs: list[Figures]) -> None:
        self._external = external
        self._runs = runs

    def collect(self) -> Iterable[Metric]:
        """Yield gauges."""
        free = sum(each["free"] for each in self._external)
        words = "External environments that wait for an instance."
        yield GaugeMetricFamily("gym_external_free", words, free)
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
