"""The documents name settings, flags, routes and errors that the code has."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gymnasium import spaces

import gym_http_server
from gym_http_server.access import tokens
from gym_http_server.commands import cli, launcher
from gym_http_server.config.settings import TABLE, Settings, from_mapping
from gym_http_server.errors import GatewayProblem
from gym_http_server.rundir.directory import RunDir
from gym_http_server.supervisor import output
from gym_http_server.web.app import create_app
from gym_http_wire.problems import Problem
from gym_http_wire.spaces import describe
from tests.support.documents import (
    API,
    CODE,
    FENCE,
    FOREIGN_FLAGS,
    METHODS,
    NAMES,
    TEXTS,
    blocks,
    commands,
    prose,
)
from tests.support.peers.legacy_clients import RECORDINGS
from tests.support.server import ROOT


def server_commands() -> list[str]:
    """Return the arguments of ``gym-http-server serve`` in documents."""
    found = []
    for name in NAMES:
        for block in blocks(name):
            if block.kind == "sh":
                for line in commands(block.text):
                    whole = line.replace("\\\n", " ")
                    found += re.findall(r"gym-http-server serve\b(.*)", whole)
    return found


@pytest.mark.parametrize("arguments", server_commands())
def test_command_lines_of_the_server_are_understood(arguments: str) -> None:
    words = shlex.split(arguments, comments=True)
    context = cli.serve.make_context("serve", words)
    from_mapping({}, context.params)


def test_flags_exist() -> None:
    known = {setting.flag for setting in TABLE}
    for name in NAMES:
        for code in CODE.findall(prose(name)):
            if code.startswith("--"):
                used = {word for word in code.split() if word.startswith("--")}
                assert used <= known | FOREIGN_FLAGS, f"{name}: {code}"


def test_variables_exist() -> None:
    known = {setting.variable for setting in TABLE}
    for name, text in TEXTS.items():
        assert set(re.findall(r"\bGHS_[A-Z_]*[A-Z]", text)) <= known, name


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9]+):", makefile, re.MULTILINE))
    for name in NAMES:
        shell = [block.text for block in blocks(name) if block.kind == "sh"]
        for code in [*CODE.findall(prose(name)), *shell]:
            used = set(
                re.findall(r"^(?:\w+=\S+ )*make ([a-z0-9]+)", code, re.MULTILINE)
            )
            assert used <= targets, f"{name}: {code}"


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    command = ["make", "--no-print-directory", "-C", str(ROOT), "help"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^(\w+):.* ## ", makefile, re.MULTILINE)
    assert re.findall(r"^make (\w+) ", listed, re.MULTILINE) == targets


def slugs(text: str) -> set[str]:
    """Return the anchors of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h).lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(name)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (ROOT / name).parent / path if path else ROOT / name
        assert there.exists(), target
        if anchor:
            assert anchor in slugs(there.read_text(encoding="utf-8")), target


def test_the_list_leads_to_every_document() -> None:
    linked = {
        os.path.normpath(f"docs/{target}")
        for target in re.findall(r"\]\(([^)#\s]+)", prose("docs/README.md"))
    }
    assert "docs/README.md" in prose("README.md")
    folders = ("docs", "docs/clients", "examples", "examples/*", "clients/*")
    found = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in ROOT.glob(f"{folder}/*.md")
        if "node_modules" not in path.parts
    }
    assert len(found) > 20
    assert found - {"docs/README.md"} <= linked


@pytest.mark.parametrize(
    ("name", "size", "timeout"),
    [
        ("Caddyfile", r"max_size (\d+)MiB\n", r"response_header_timeout (\d+)s\n"),
        ("nginx.conf", r"_max_body_size (\d+)m;", r"proxy_read_timeout (\d+)s;"),
    ],
)
def test_limits_of_proxies_fit_the_servers(name: str, size: str, timeout: str) -> None:
    text = (ROOT / "deploy" / name).read_text()
    mebibytes = [int(each) for each in re.findall(size, text)]
    assert [each << 20 for each in mebibytes] == [
        *(DEFAULTS.max_body, DEFAULTS.max_upload)
    ]
    seconds = [int(each) for each in re.findall(timeout, text)]
    longest = max(DEFAULTS.step_deadline, DEFAULTS.create_deadline, LONGEST_WAIT_S)
    assert seconds
    assert min(seconds) > longest


def test_variables_in_files_for_deployment_exist() -> None:
    known = {setting.variable for setting in TABLE}
    files = [path for path in (ROOT / "deploy").iterdir() if path.is_file()]
    used = [re.findall(r"\bGHS_[A-Z_]*[A-Z]", path.read_text()) for path in files]
    assert set().union(*used) == {"GHS_DATA_DIR", "GHS_SANDBOX", "GHS_TOKEN_FILE"}
    assert set().union(*used) <= known


def test_the_table_of_settings_is_the_servers() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "settings-table", "--check"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, f"run scripts/settings-table\n{done.stdout}"
    assert not done.stdout


def routes(text: str) -> set[tuple[str, str]]:
    """Return the routes that a text names."""
    named = re.findall(r"`(GET|POST|PUT|DELETE) (/[^`?\s]*)(?:\?[^`\s]*)?`", text)
    return {(method, without_names(path)) for method, path in named}


def without_names(path: str) -> str:
    """Remove argument names and a trailing slash from a path."""
    return re.sub(r"<[^>]*>", "<>", path).rstrip("/")


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """The routes of the application."""
    app = create_app(Settings(), RunDir(str(tmp_path_factory.mktemp("run"))))
    found = set()
    for rule in app.url_map.iter_rules():
        for method in METHODS & (rule.methods or set()):
            found.add((method, without_names(rule.rule)))
    return found


def test_every_route_is_in_the_document(rules: set[tuple[str, str]]) -> None:
    assert routes(API) == rules


@pytest.mark.parametrize("name", NAMES)
def test_routes_exist(name: str, rules: set[tuple[str, str]]) -> None:
    assert routes(prose(name)) <= rules


def problems(kind: type[Problem] = Problem) -> Iterator[tuple[int, str]]:
    """Yield status and code of a class of problems and its subclasses on HTTP."""
    yield kind.default_status, kind.default_code
    for below in kind.__subclasses__():
        if below is not GatewayProblem:
            yield from problems(below)


def test_every_error_is_in_the_document_and_no_other() -> None:
    rows = re.findall(r"^\| (\d{3}) \| `([a-z-]+)` \|", API, re.MULTILINE)
    found = {(int(status), code) for status, code in rows}
    folder = Path(gym_http_server.errors.__file__).parent
    schema = json.loads((folder / "web" / "api" / "openapi.json").read_text())
    codes = schema["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert len(rows) == len(found)
    assert set(problems()) <= found
    assert {code for _, code in found} == set(codes)


SPACES = re.findall(r"^\| `([A-Z]\w+\(.*?\))` \| `(\{.*\})` \|$", API, re.MULTILINE)


@pytest.mark.parametrize(("code", "data"), SPACES)
def test_spaces_are_described_so(code: str, data: str) -> None:
    assert describe(eval(code, dict(vars(spaces)))) == json.loads(data)


def test_every_kind_of_space_is_described() -> None:
    every = [kind for kind in vars(spaces).values() if isinstance(kind, type)]
    kinds = {kind for kind in every if issubclass(kind, spaces.Space)} - {spaces.Space}
    found = {code.partition("(")[0] for code, _ in SPACES}
    assert found == {kind.__name__ for kind in kinds}


def dependencies(path: str) -> set[str]:
    """Return the names of a package's dependencies, extras included."""
    project: dict[str, Any] = tomllib.loads((ROOT / path).read_text())["project"]
    extras = project.get("optional-dependencies", {})
    request = sum(extras.values(), project["dependencies"])
    return {re.split(r"[\[<>=]", one)[0].lower() for one in request}


def test_every_dependency_has_a_reason() -> None:
    table = TEXTS["ARCHITECTURE.md"].partition("| Dependency |")[2].partition("\n\n")[0]
    found = re.findall(r"^\| ([\w-]+) \|", table, re.MULTILINE)
    needed = dependencies("pyproject.toml")
    needed |= dependencies("clients/python/pyproject.toml")
    assert {name.lower() for name in found} == needed


def floors_drawn() -> dict[str, list[list[str]]]:
    """Return the floors in the picture, by package."""
    (picture,) = [
        block.text
        for block in blocks("ARCHITECTURE.md")
        if block.text.startswith("gym_http_server\n")
    ]
    fields: dict[str, list[list[str]]] = {}
    for line in picture.splitlines():
        modules = re.split(r"\s{3,}", line.strip())[0].split()
        if line.startswith("      "):
            # A floor that goes on from the line before.
            fields[list(fields)[-1]][-1] += modules
        elif line.startswith(" "):
            fields[list(fields)[-1]].append(modules)
        else:
            fields[modules[0]] = []
    return fields


def test_the_floors_are_those_of_the_linter() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    held: dict[str, list[list[str]]] = {}
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        (package,) = contract["containers"]
        name, *rooms = package.split(".")
        parent = "." if name == "gym_http_server" else "clients/python"
        there = {
            path.stem for path in (ROOT / parent / name).joinpath(*rooms).iterdir()
        }
        layers = [re.findall(r"\w+", layer) for layer in contract["layers"]]
        floors = [[name for name in layer if name in there] for layer in layers]
        held[package] = [sorted(floor) for floor in floors if floor]
    drawn = floors_drawn()
    assert held == {name: list(map(sorted, drawn[name])) for name in drawn}


def test_the_languages_are_those_that_are_replayed() -> None:
    table = TEXTS["docs/migration.md"].partition("| Client |")[2]
    found = re.findall(r"^\| (\S+) \|", table, re.MULTILINE)
    assert set(found) == {one.name.partition(",")[0] for one in RECORDINGS}


def test_yaml_is_yaml() -> None:
    compose, probes = (
        yaml.safe_load(block.text)
        for block in blocks("docs/deployment.md")
        if block.kind == "yaml"
    )
    service = compose["services"]["gym"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert service["volumes"] == ["gym-data:/data"]
    assert "GHS_DATA_DIR=/data" in dockerfile
    assert "USER 10001" in dockerfile
    assert probes["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert probes["readinessProbe"]["httpGet"]["path"] == "/readyz"


DEFAULTS = Settings()
# Of long polls.
LONGEST_WAIT_S = 50
STOPPING_S = (
    DEFAULTS.drain_delay
    + DEFAULTS.drain_timeout
    + launcher.GUNICORN_SECONDS
    + launcher.HOSTS_SECONDS
    + launcher.STRAYS_SECONDS
)
NUMBERS = {
    "serves on http://127.0.0.1:5000": (DEFAULTS.listen, DEFAULTS.port)
    == ("127.0.0.1", 5000),
    "16 characters or more": tokens.SHORTEST == 16,
    "less than 15 seconds": 10 < STOPPING_S < 15,
    "beyond 1 MiB": output.MAX_LOG_BYTES == 1024 * 1024,
}


@pytest.mark.parametrize("words", NUMBERS)
def test_numbers_in_words_are_right(words: str) -> None:
    assert any(words in " ".join(text.split()) for text in TEXTS.values())
    assert NUMBERS[words]
