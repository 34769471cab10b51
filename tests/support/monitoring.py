"""The alerts and the dashboard in deploy, and the PromQL in them."""

import json
import os
import re
import shutil
from collections.abc import Iterator

import pytest
import yaml

from tests.support.server import ROOT

ALERTS = ROOT / "deploy" / "prometheus-alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# A name that no bracket follows, with its matchers.
_SELECTOR = re.compile(r"(?<![\w.])([a-zA-Z_:][\w:]*)\b(?!\s*\()(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_OPERATORS = {"and", "or", "unless", "bool", "offset"}


def find_promtool() -> str:
    """Return promtool's path; skip the test without it, and fail with CI."""
    path = os.pathsep.join([os.environ["PATH"], str(ROOT / "build" / "tools")])
    found = shutil.which("promtool", path=path)
    if found is None:
        words = "promtool is not installed: scripts/toolchain fetches it"
        assert not os.environ.get("CI"), words
        pytest.skip(words)
    return found


def expressions() -> list[str]:
    """Return the expressions of the dashboard, as Grafana would fill them in."""
    board = json.loads(DASHBOARD.read_text())
    return [
        target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]


def alert_expressions() -> list[str]:
    """Return the expressions of the alerts."""
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return [each["expr"] for each in group["rules"]]


def used(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the metrics of an expression, and the labels that it uses of each."""
    bare = _RANGE.sub("", _STRING.sub("", expression))
    grouped = {
        label.strip()
        for labels in _GROUPING.findall(bare)
        for label in labels.split(",")
    }
    for name, matchers in _SELECTOR.findall(_GROUPING.sub("", bare)):
        if name not in _OPERATORS:
            labels = re.findall(r"([a-zA-Z_]\w*)\s*[=!]", matchers)
            yield name, grouped | set(labels)
