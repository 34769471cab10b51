"""The files of deploy for systemd, Prometheus and Grafana."""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.drivers import needs
from tests.support.monitoring import ALERTS, DASHBOARD, expressions, find_promtool
from tests.support.server import ROOT

UNIT = ROOT / "deploy" / "gym-http-server.service"
# What hosts call to enter the sandbox, to leave the network and to set priorities.
SANDBOX_CALLS = {
    *("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"),
    *("seccomp", "prctl", "unshare", "memfd_create", "setpriority", "prlimit64"),
    *("sched_setscheduler", "sched_setaffinity"),
}


def run(*command: str | Path) -> str:
    """Run a command, and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def service() -> dict[str, list[str]]:
    """The values of the section [Service], by name."""
    values = defaultdict(list)
    section = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            values[name].append(value)
    return values


def test_systemd_rates_the_unit_below_3() -> None:
    needs("systemd-analyze")
    # A threshold of 29 is an exposure of 2.9; above it, the command fails.
    run("systemd-analyze", "security", "--offline=true", "--threshold=29", UNIT)


def test_the_unit_lets_the_sandbox_work(service: dict[str, list[str]]) -> None:
    assert "GHS_SANDBOX=on" in service["Environment"]
    assert service["RestrictNamespaces"] == ["user net"]
    assert {"AF_UNIX", "AF_INET", "AF_INET6"} <= {
        *service["RestrictAddressFamilies"][0].split()
    }
    # The supervisor finds the processes of environments in /proc, whatever they do.
    assert not {"ProtectProc", "ProcSubset"} & service.keys()


def test_the_unit_allows_the_system_calls_of_the_sandbox(
    service: dict[str, list[str]],
) -> None:
    needs("systemd-analyze")
    allowed: set[str] = set()
    for line in service["SystemCallFilter"]:
        calls = _calls(line.removeprefix("~").split())
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    assert allowed >= SANDBOX_CALLS
    assert not allowed & {"mount", "ptrace", "bpf", "setuid", "reboot", "kexec_load"}


def _calls(names: list[str]) -> set[str]:
    """Return the system calls of a filter, where @NAME is a set of them."""
    calls = set()
    for name in names:
        if name.startswith("@"):
            found = run("systemd-analyze", "syscall-filter", name).splitlines()[1:]
            lines = [line.strip() for line in found]
            calls |= _calls([line for line in lines if line and line[0] != "#"])
        else:
            calls.add(name)
    return calls


def test_alerts_fire_when_they_should() -> None:
    promtool = find_promtool()
    assert "4 rules found" in run(promtool, "check", "rules", ALERTS)
    run(promtool, "test", "rules", Path(__file__).with_name("alerts.yml"))


def test_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": each}
        for number, each in enumerate(expressions())
    ]
    # YAML includes JSON.
    (tmp_path / "rules.json").write_text(
        json.dumps({"groups": [{"name": "panels", "rules": rules}]})
    )
    checked = run(find_promtool(), "check", "rules", tmp_path / "rules.json")
    assert f"{len(rules)} rules found" in checked


def test_the_dashboard_is_as_grafana_exports_it() -> None:
    board = json.loads(DASHBOARD.read_text())
    # Grafana 10.4 and later read this schema; Grafana itself sets the ID.
    assert (board["schemaVersion"], board["id"]) == (39, None)
    source, server = board["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    chosen = {"type": "prometheus", "uid": f"${{{source['name']}}}"}
    assert server["datasource"] == chosen
    panels = [each for each in board["panels"] if each["type"] != "row"]
    for panel in panels:
        used = [panel["datasource"], *(each["datasource"] for each in panel["targets"])]
        assert used == [chosen] * len(used), panel["title"]
    numbers = [each["id"] for each in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    required = {each["id"] for each in board["__requires"]}
    assert required == {"grafana", "prometheus", *(each["type"] for each in panels)}
    _assert_apart([each["gridPos"] for each in board["panels"]])


def _assert_apart(places: list[dict[str, int]]) -> None:
    """Panels are within the 24 columns, and none covers another."""
    taken = set()
    for place in places:
        assert place["x"] + place["w"] <= 24
        columns = range(place["x"], place["x"] + place["w"])
        rows = range(place["y"], place["y"] + place["h"])
        cells = {(column, row) for column in columns for row in rows}
        assert not taken & cells
        taken |= cells
