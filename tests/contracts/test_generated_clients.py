"""Clients that generators make from the server's OpenAPI document."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import npm
from tests.support.api import Api
from tests.support.openapi import DOCUMENT
from tests.support.server import Server

# All modules are imported, and those of an episode's beginning are used.
PROGRAM = """
import importlib, pkgutil, sys
import generated
for module in pkgutil.walk_packages(generated.__path__, "generated."):
    importlib.import_module(module.name)
from generated import Client
from generated.api.instances import env_close, env_create, env_reset, env_step
from generated.models import CreateRequest, ResetRequest, StepRequestType0
with Client(sys.argv[1], raise_on_unexpected_status=True) as client:
    made = env_create.sync(client=client, body=CreateRequest("CartPole-v1"))
    id = made.instance_id
    begun = env_reset.sync(id, client=client, body=ResetRequest(seed=42))
    print(begun.observation)
    stepped = env_step.sync(id, client=client, body=StepRequestType0(action=1))
    print(stepped.reward, stepped.terminated)
    refused = env_step.sync(id, client=client, body=StepRequestType0(action=7))
    print(type(refused).__name__, refused.code)
    env_close.sync_detailed(id, client=client)
"""
TYPED = """
import type { components, operations, paths } from "./generated";

type Created = components["schemas"]["CreateRequest"];
export const created: Created = { env_id: "CartPole-v1", autoreset_mode: "same_step" };
export type Stepped = operations["env_step"]["responses"][200]["content"];
export type Reset = paths["/v1/envs/{instance_id}/reset/"]["post"];
"""


@pytest.fixture
def document(api: Api, tmp_path: Path) -> Path:
    """The document, as it is served."""
    path = tmp_path / "openapi.json"
    path.write_text(api.get("/openapi.json").text, encoding="utf-8")
    return path


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command, check that it succeeds, and return all that it prints."""
    done = subprocess.run(
        words,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
        # It looks for ruff there, to format the generated code.
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


@pytest.mark.slow
def test_openapi_python_client(document: Path, server: Server, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "openapi_python_client", "generate")
    flags = ("--path", document, "--meta", "none", "--output-path", "generated")
    output = run(*command, *flags, cwd=tmp_path)
    # Its limits are known and documented.
    warned = re.findall(r"^(?:WARNING|Unable|ERROR).*\n+(.*)$", output, re.MULTILINE)
    media = [re.search(r"Unsupported content[ _]type ([^\s)]+)", w) for w in warned]
    assert {match and match[1] for match in media} == {
        "*/*",
        "application/vnd.gym-http.binary",
        "application/vnd.gym-http.bundle",
        "application/x-ndjson",
        "image/jpeg",
    }
    (tmp_path / "program.py").write_text(PROGRAM)
    printed = run(sys.executable, "program.py", server.url, cwd=tmp_path).splitlines()
    first = [0.027395604, -0.006112156, 0.035859793, 0.019736802]
    assert json.loads(printed[0]) == pytest.approx(first)
    assert printed[1:] == ["1.0 False", "BadRequest invalid-action"]


@pytest.mark.toolchain
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_openapi_typescript(document: Path, tmp_path: Path) -> None:
    tools = npm.tools() / "node_modules" / ".bin"
    run(tools / "openapi-typescript", document, "-o", "generated.ts", cwd=tmp_path)
    (tmp_path / "program.ts").write_text(TYPED)
    flags = ("--strict", "--noEmit", "--target", "es2022", "--skipDefaultLibCheck")
    module = ("--module", "es2022", "--moduleResolution", "bundler")
    run(tools / "tsc", *flags, *module, "program.ts", cwd=tmp_path)


def enums(node: Any) -> Iterator[list[Any]]:
    """Yield each list of members below a part of the document."""
    if isinstance(node, dict):
        if isinstance(node.get("enum"), list):
            yield node["enum"]
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from enums(each)


def test_members_become_names_that_differ() -> None:
    """Languages that have types write names in one case, and members of one type."""
    found = list(enums(DOCUMENT["components"])) + list(enums(DOCUMENT["paths"]))
    assert len(found) > 20
    for members in found:
        names = [each for each in members if isinstance(each, str)]
        assert len({each.lower() for each in names}) == len(names), members
