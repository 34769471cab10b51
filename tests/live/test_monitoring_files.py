"""The metrics that dashboard and alerts use are those that a server exports."""

from collections import defaultdict
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.support.api import Api
from tests.support.monitoring import alert_expressions, expressions, used
from tests.support.runs import Run
from tests.support.server import Server
from tests.support.token_file import token_of, write_file
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

# Prometheus itself adds them to what it reads, and the metric "up".
OF_PROMETHEUS = {"instance", "job"}


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, set[str]]]:
    """The labels of each metric of a server that was used, by its name."""
    tokens = write_file(tmp_path_factory.mktemp("tokens"))
    with Server("--tokens", tokens, token=token_of("root")) as server:
        api = Api(server)
        api.create()
        made = api.create()
        made.reset(seed=1)
        made.step(1)
        server.host(made.id).kill()
        wait_until(lambda: made.get("").status == 410, message="its end")
        Run.create(api, "measured")
        labels: dict[str, set[str]] = defaultdict(set)
        for family in parse(api.get("/metrics").text):
            for sample in family.samples:
                labels[sample.name] |= sample.labels.keys()
        yield {**labels, "up": set()}


@pytest.mark.parametrize("expression", [*expressions(), *alert_expressions()])
def test_metrics_and_labels_are_exported(
    expression: str, exported: dict[str, set[str]]
) -> None:
    found = list(used(expression))
    assert found
    for name, labels in found:
        assert name in exported
        assert labels <= exported[name] | OF_PROMETHEUS, name
