"""The driver of the Python client."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.drivers import VECTORS, Program
from tests.support.server import Server

Driver = Callable[[str], Program]


@pytest.fixture
def python(driver: Driver) -> Program:
    return driver("python")


def test_all_vectors_pass_without_a_server(python: Program) -> None:
    printed = python.output("conformance", str(VECTORS))
    assert re.fullmatch(r"\d{4} passed, 0 failed\n", printed)


def test_one_file_can_be_run_alone(python: Program) -> None:
    printed = python.output("conformance", str(VECTORS), "--only", "numbers.json")
    cases = json.loads((VECTORS / "numbers.json").read_bytes())["cases"]
    checks = sum(1 if case.get("refused") else 2 for case in cases)
    assert printed == f"{checks} passed, 0 failed\n"


def test_transcripts_are_played_over_both(python: Program, server: Server) -> None:
    args = [str(VECTORS), server.url, "--only", "transcripts.json"]
    cases = json.loads((VECTORS / "transcripts.json").read_bytes())["cases"]
    printed = python.output("conformance", *args)
    assert printed == f"{2 * len(cases)} passed, 0 failed\n"


def test_failures_are_named_and_counted(python: Program, tmp_path: Path) -> None:
    case = {"id": "wrong", "text": "1", "value": {"int": "2"}}
    fields = {"description": "wrong", "cases": [case]}
    (tmp_path / "numbers.json").write_text(json.dumps(fields))
    done = python.run("conformance", str(tmp_path), "--only", "numbers.json")
    assert done.returncode == 1
    first, *_, last = done.stdout.splitlines()
    expected, actual = "{'int': '2'}", "{'int': '1'}"
    wanted = f"FAIL numbers.json wrong: expected {expected}, actual {actual}"
    assert first == wanted
    assert last == "1 passed, 1 failed"


def test_a_missing_file_is_an_error(python: Program, tmp_path: Path) -> None:
    shutil.copytree(VECTORS, tmp_path, dirs_exist_ok=True)
    (tmp_path / "frames.json").unlink()
    done = python.run("conformance", str(tmp_path))
    assert done.returncode == 2
    assert "frames.json" in done.stderr


def test_types_are_shown(python: Program) -> None:
    lines = python.output("show", str(VECTORS)).splitlines()
    shown = dict(line.split("\t") for line in lines)
    ids = [
        case["id"]
        for case in json.loads((VECTORS / "values.json").read_bytes())["cases"]
    ]
    assert list(shown) == ids
    assert shown["none"] == "NoneType"
    assert shown["ns-f4"] == "numpy.float32"
    assert shown["graph"] == "gymnasium.GraphInstance"


@pytest.mark.parametrize("transport", ["rest", "stream"])
def test_steps_are_counted(transport: str, python: Program, server: Server) -> None:
    printed = python.output("bench", server.url, transport, "0.2")
    assert float(printed) > 1


@pytest.mark.parametrize("transport", ["rest", "stream"])
def test_probes_print_results(
    transport: str, python: Program, server: Server, make_server: Callable[..., Server]
) -> None:
    assert python.output("probe", server.url, transport) == "ok\n"
    guarded = make_server("--token", "a-token-of-this-test")
    assert python.run("probe", guarded.url, transport).stdout.startswith(
        "error kind=api status=401 code=unauthorized url=http://127.0.0.1:"
    )
    output = python.run("probe", guarded.url, transport, token="a-token-of-this-test")
    assert output.stdout == "ok\n"


def test_bad_usage_is_reported(python: Program) -> None:
    done = python.run("sing")
    assert done.returncode == 1
    assert "conformance VECTORS_DIR" in done.stderr
