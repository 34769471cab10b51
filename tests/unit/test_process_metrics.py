"""The metrics of processes are those of Prometheus's own client."""

import os

import pytest
from prometheus_client import Metric
from prometheus_client.process_collector import ProcessCollector

from gym_http_server.web.api import process_metrics
from gym_http_server.web.api.process_metrics import ProcessMetrics


def values(metrics: dict[str, Metric]) -> dict[str, float]:
    return {
        sample.name: sample.value
        for each in metrics.values()
        for sample in each.samples
        # They grow between two looks.
        if sample.name not in ("process_cpu_seconds_total", "process_open_fds")
    }


def test_metrics_are_those_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getpid()
    monkeypatch.setattr(process_metrics, "_processes", lambda: [("this", own)])
    expected = {each.name: each for each in ProcessCollector(registry=None).collect()}
    found = {each.name: each for each in ProcessMetrics().collect()}
    assert values(found) == pytest.approx(values(expected), rel=1e-3)
    for name, metric in expected.items():
        assert found[name].documentation == metric.documentation
        assert found[name].type == metric.type
    opened = found["process_open_fds"].samples[0]
    assert opened.labels == {"process": "this", "pid": str(own)}
    # The listing counts the descriptor by which it lists.
    theirs = expected["process_open_fds"].samples[0].value
    # Before Linux 6.2, ours are listed, too.
    assert opened.value in (theirs - 1, theirs)
    used = found["process_cpu_seconds"].samples[0].value
    assert used >= expected["process_cpu_seconds"].samples[0].value > 0


def test_a_process_that_has_ended_has_no_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_metrics, "_processes", lambda: [("gone", 2**22)])
    assert not list(ProcessMetrics().collect())
