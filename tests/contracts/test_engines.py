"""Files for the engines that run a fleet: Kubernetes, Slurm and Compose."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml

from gym_http_server.config.settings import TABLE, from_mapping
from gym_http_server.errors import StartError
from gym_http_server.fleet.joining import prepare
from tests.support.drivers import needs

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
VERSION = "1.37"
#: As docs/fleet.md makes the secret.
STORE = "redis://:secret@gym-store:6379/0"


def built(folder: Path) -> list[dict[str, Any]]:
    """Return the manifests that kubectl makes of a folder."""
    needs("kubectl")
    command = ["kubectl", "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=50)
    return list(yaml.safe_load_all(done.stdout))


def problems(manifests: list[dict[str, Any]]) -> list[str]:
    """Return what the schemas of Kubernetes do not allow."""
    found = []
    for each in manifests:
        try:
            kubernetes_validate.validate(each, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(error.message)
    return found


def containers(manifests: list[dict[str, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield each pod and container."""
    for each in manifests:
        if each["kind"] in ("StatefulSet", "Deployment"):
            pod = each["spec"]["template"]["spec"]
            yield from ((pod, container) for container in pod["containers"])


def test_kubernetes_takes_the_manifests() -> None:
    manifests = built(KUBERNETES)
    assert problems(manifests) == []
    kinds = {each["kind"] for each in manifests}
    assert {"StatefulSet", "PodDisruptionBudget", "NetworkPolicy"} < kinds
    for pod, container in containers(manifests):
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_kubernetes_has_what_a_fleet_needs() -> None:
    manifests = {(m["kind"], m["metadata"]["name"]): m for m in built(KUBERNETES)}
    spec = {key: each.get("spec", {}) for key, each in manifests.items()}
    servers = spec["StatefulSet", "gym"]
    assert servers["podManagementPolicy"] == "Parallel"
    assert servers["serviceName"] == "gym-nodes"
    assert spec["Service", "gym-nodes"]["clusterIP"] == "None"
    assert not [each for each in spec.values() if "sessionAffinity" in each]
    labels = servers["template"]["metadata"]["labels"]
    for kind, name in (
        *(("Service", "gym"), ("Service", "gym-nodes")),
        *(("PodDisruptionBudget", "gym"), ("NetworkPolicy", "gym")),
    ):
        chosen = spec[kind, name]
        selector = chosen.get("selector") or chosen.get("podSelector")
        assert selector.get("matchLabels", selector) == labels, (kind, name)
    (scaled,) = (each for each in spec if each[0] == "HorizontalPodAutoscaler")
    assert spec[scaled]["scaleTargetRef"]["name"] == "gym"
    (metric,) = spec[scaled]["metrics"]
    name = metric["pods"]["metric"]["name"]
    rule = (DEPLOY.parent / "docs" / "fleet.md").read_text().partition(name)[2]
    assert "gym_slots_taken" in rule
    # The store is for servers alone.
    (rule,) = spec["NetworkPolicy", "gym-store"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": labels}}]
    (server,) = servers["template"]["spec"]["containers"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= server.keys()


def variables_of(engine: str) -> dict[str, str]:
    """Return the variables with which an engine starts a server."""
    if engine == "kubernetes":
        (server,) = (
            c for _, c in containers(built(KUBERNETES)) if c["name"] == "server"
        )
        named = {each["name"]: each.get("value", STORE) for each in server["env"]}
    elif engine == "compose":
        compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
        named = compose["services"]["gym"]["environment"]
    else:
        text = (DEPLOY / "slurm" / "gym.sbatch").read_text()
        named = dict(re.findall(r"^export (GHS_\w+)=\$\{GHS_\w+:-(.+)\}$", text, re.M))
        # As the comment above the script has it.
        named |= dict(re.findall(r"(GHS_FLEET)=(\S+) sbatch", text))
    named = {
        # What the engine replaces: $(POD_NAME), ${STORE_PASSWORD:?…}.
        name: re.sub(r"\$\(\w+\)|\$\{\w+:\?[^}]*\}", "gym-0", text)
        for name, text in named.items()
        if name.startswith("GHS_")
    }
    return {**named, "GHS_LISTEN": "0.0.0.0", "GHS_NODE_URL": "http://10.0.0.7:5000"}


@pytest.mark.parametrize("engine", ["kubernetes", "slurm", "compose"])
def test_no_server_of_an_engine_starts_without_its_secrets(
    engine: str, tmp_path: Path
) -> None:
    variables = variables_of(engine)
    token = tmp_path / "fleet-token"
    token.write_text("a-token-of-sixteen-or-more-characters")

    def start(changed: dict[str, str]) -> None:
        prepare(from_mapping({**variables, **changed}, {}), "http://0.0.0.0:5000")

    assert variables["GHS_FLEET_TOKEN_FILE"]
    start({"GHS_FLEET_TOKEN_FILE": str(token)})
    host = variables["GHS_FLEET"].partition("@")[2]
    with pytest.raises(StartError, match="has no password"):
        start({"GHS_FLEET": f"redis://{host}"})
    with pytest.raises(StartError, match="name its file with --fleet-token-file"):
        start({"GHS_FLEET_TOKEN_FILE": ""})


def test_a_misspelt_field_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "kubernetes"
    shutil.copytree(KUBERNETES, folder)
    servers = folder / "servers.yaml"
    text = servers.read_text()
    servers.write_text(text.replace("readinessProbe", "readinesProbe"))
    assert ["readinesProbe" in each for each in problems(built(folder))] == [True]


def test_a_pod_lives_longer_than_its_drain() -> None:
    (pod,) = (
        pod
        for pod, container in containers(built(KUBERNETES))
        if container["name"] == "server"
    )
    variables = {
        each["name"]: each.get("value", "redis://store:6379")
        for each in pod["containers"][0]["env"]
        if each["name"].startswith("GHS_")
    }
    settings = from_mapping(variables, {})
    assert settings.drain_until_idle > 0
    assert pod["terminationGracePeriodSeconds"] > settings.drain_until_idle


def test_the_job_of_slurm_is_a_clean_script() -> None:
    script = DEPLOY / "slurm" / "gym.sbatch"
    shellcheck = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([shellcheck, script], capture_output=True, timeout=50)
    assert (done.returncode, done.stdout.decode()) == (0, "")
    text = script.read_text()
    named = re.findall(r"\bGHS_[A-Z_]*[A-Z]", text)
    assert {*named} < {setting.variable for setting in TABLE}
    (drain,) = re.findall(r"GHS_DRAIN_UNTIL_IDLE:-(\w+)", text)
    (signal_s,) = re.findall(r"--signal=B:TERM@(\d+)", text)
    settings = from_mapping({"GHS_DRAIN_UNTIL_IDLE": drain}, {})
    assert int(signal_s) > settings.drain_until_idle


def test_compose_takes_its_file() -> None:
    schemas = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text())
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    jsonschema_rs.validate(schema, compose)
    variables = {
        name: value.replace("${STORE_PASSWORD:?a password for the store}", "secret")
        for name, value in compose["services"]["gym"]["environment"].items()
    }
    assert from_mapping(variables, {}).drain_until_idle > 0
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {**compose, "service": {}})
