"""The route of metrics, in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import flask
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gym_http_server.access import READ
from gym_http_server.api.exchange import Answer, Environ, read_body
from gym_http_server.api.web import Web, add_route
from gym_http_server.rundir.status import STEP_BOUNDS_NS
from gym_http_wire.messages import Op

__all__ = ["add_routes"]

Figures = dict[str, Any]

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
    registry.register(_Collected(web.supervisor.call(Op.FIGURES)))
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
        yield _step_seconds(envs)


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


def _step_seconds(envs: dict[str, Figures]) -> Metric:
    words = "Seconds of steps in their hosts; a vector's step is one."
    metric = HistogramMetricFamily("gym_step_seconds", words, labels=_ENV)
    bounds = [*(str(bound / 1e9) for bound in STEP_BOUNDS_NS), "+Inf"]
    for env_id, figures in envs.items():
        counts = list(itertools.accumulate(figures["step_counts"]))
        buckets = list(zip(bounds, map(float, counts), strict=True))
        metric.add_metric([env_id], buckets, figures["step_ns"] / 1e9)
    return metric
