"""The vector files are complete, consistent and reproducible."""

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.conformance.generate import KINDS, VECTORS, content_of, text_of
from tests.conformance.making.models import model_of, native_of
from tests.conformance.making.numbers import FLOATS, bits_of
from tests.support.server import ROOT

API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
SCHEMA = json.loads((VECTORS / "schema.json").read_text(encoding="utf-8"))
AT_LEAST = {
    "values": 60,
    "numbers": 40,
    "spaces": 40,
    "elements": 60,
    "frames": 20,
    "signatures": 15,
    "malformed": 60,
    "errors": 40,
    "websocket": 20,
    "transcripts": 8,
    "external": 200,
    "bundles": 50,
}


@cache
def committed(kind: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((VECTORS / f"{kind}.json").read_bytes())
    return content


def cases(kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = committed(kind)["cases"]
    return found


@pytest.fixture(autouse=True)
def _spaces_may_warn() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered.*")
        yield


def test_files_are_those_in_the_readme() -> None:
    names = {path.name for path in VECTORS.iterdir()}
    schemas = {"schema.json", "external.schema.json"}
    assert names == schemas | {f"{kind}.json" for kind in KINDS}
    readme = (VECTORS.parent / "README.md").read_text(encoding="utf-8")
    for name in names:
        assert f"`{name}`" in readme


@pytest.mark.parametrize("kind", KINDS)
def test_committed_vectors_are_those_that_the_generator_makes(kind: str) -> None:
    text = (VECTORS / f"{kind}.json").read_text(encoding="utf-8")
    made = text_of(content_of(kind))
    differing = set(made.splitlines()) ^ set(text.splitlines())
    shown = [line[:200] for line in differing]
    assert not shown, "look at what `make vectors` shows"
    assert text == made


def test_generator_shows_differences_and_overwrites_nothing(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in VECTORS.iterdir()}
    made = _run_generator(str(tmp_path / "new"))
    assert made.returncode == 0, made.stderr
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        f"{kind}.json" for kind in KINDS
    }
    refused = _run_generator(str(VECTORS))
    assert refused.returncode == 1
    assert "write somewhere else" in refused.stderr
    assert before == {path: path.read_bytes() for path in VECTORS.iterdir()}


def _run_generator(folder: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.conformance.generate", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def test_the_generator_imports_none_of_the_code_under_test() -> None:
    program = """if True:
        import importlib, sys
        from tests.conformance.generate import KINDS, content_of
        for kind in KINDS:
            content_of(kind)
        print([name for name in sys.modules if name.startswith("gym_http")])
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    assert done.stdout.strip() == "[]"
    for path in VECTORS.parent.glob("making/*.py"):
        imports = re.findall(r"^\s*(?:from|import) (\S+)", path.read_text(), re.M)
        assert not [name for name in imports if name.startswith("gym_http")]


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_of_the_schema(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    of_one = {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    validator = jsonschema.Draft202012Validator(of_one)
    content = committed(kind)
    assert content.keys() == {"description", "cases"}
    for case in content["cases"]:
        problems = [error.message[:200] for error in validator.iter_errors(case)]
        assert not problems, case["id"]
    # The schema is not just content with anything.
    assert list(validator.iter_errors({**content["cases"][0], "more": 1}))
    assert list(validator.iter_errors({**content["cases"][0], "id": "No ID"}))


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_unique_and_cases_are_many(kind: str) -> None:
    ids = [case["id"] for case in cases(kind)]
    assert len(set(ids)) == len(ids) >= AT_LEAST[kind]


def test_numbers_are_safe_in_any_json_parser() -> None:
    def exact(text: str) -> int:
        assert abs(int(text)) <= 2**53, f"{text} stands outside of a string"
        return int(text)

    for kind in KINDS:
        # Actions and bounds are floats of few digits; no model has any.
        text = (VECTORS / f"{kind}.json").read_text(encoding="utf-8")
        json.loads(text, parse_int=exact)
        assert text.isascii()


def test_models_are_read_back_as_they_were() -> None:
    for case in cases("values"):
        if "space" not in json.dumps(case["value"]):
            assert model_of(native_of(case["value"])) == case["value"], case["id"]


def test_bits_of_numbers_are_those_of_the_table() -> None:
    for text, bits in FLOATS.items():
        assert bits_of(text) == bits, text
