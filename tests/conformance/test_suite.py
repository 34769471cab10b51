"""The vectors themselves: that they are what they say, and leave nothing out."""

import json
import re
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import jsonschema
import numpy as np
import pytest

from tests.conformance.generate import KINDS, VECTORS, content_of, text_of
from tests.conformance.making import errors
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


def test_files_are_those_that_the_readme_tells_of() -> None:
    names = {path.name for path in VECTORS.iterdir()}
    assert names == {"schema.json", *(f"{kind}.json" for kind in KINDS)}
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


def test_generator_knows_none_of_the_code_that_is_held_by_it() -> None:
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


def words_of_table(heading: str) -> set[str]:
    """Give the words in the first column of the table that begins with a heading."""
    rows = API.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {
        word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])
    }


def models(model: Any) -> Iterator[tuple[str, Any]]:
    """Give each model inside a model, itself first."""
    if isinstance(model, dict):
        yield from model.items()
        for part in model.values():
            yield from models(part)
    elif isinstance(model, list):
        for part in model:
            yield from models(part)


def test_all_tags_are_there() -> None:
    tags = words_of_table("`$t`") - {"$t"}
    assert {"int", "float", "str", "nd", "space", "autoreset"} <= tags
    decoded = "".join(case["typed"] or "" for case in cases("values"))
    for tag in tags:
        assert f'{{"$t":"{tag}",' in decoded, tag
        assert f"typed-{tag}-" in "".join(c["id"] for c in cases("malformed")), tag


def test_all_words_of_signatures_are_there() -> None:
    shown = "".join(sorted(words_of_table("Signature")))
    words = set(re.findall(r'"(\w+)"', shown))
    assert {"none", "bigint", "nd", "graph", "oa"} <= words
    signatures = "".join(map(_signature, cases("values")))
    for word in words:
        assert f'"{word}"' in signatures, word


def _signature(case: dict[str, Any]) -> str:
    raw = bytes.fromhex(case["binary"] or "")
    size = struct.unpack_from("<I", raw)[0] if raw else 0
    return raw[8 : 8 + size].decode()


def test_all_types_of_spaces_are_there() -> None:
    types = set(re.findall(r'\{"type": "(\w+)"', API))
    assert {getattr(gymnasium.spaces, each) for each in types}
    for kind in ("spaces", "elements"):
        told = json.dumps([c["space"] for c in cases(kind) if not c.get("refused")])
        assert types == set(re.findall(r'"type": "(\w+)"', told))


def test_all_dtypes_are_there() -> None:
    numeric = [
        np.dtype(code) for code in np.typecodes["All"] if code not in "OVgGeSUMm"
    ]
    portable = {dtype.str for dtype in numeric} | {"<f2"}
    told = json.dumps([case["value"] for case in cases("values")])
    for name in portable:
        assert f'"dtype": "{name}", "shape"' in told, name
        if name not in ("<c8",):
            assert f'{{"ns": {{"dtype": "{name}"' in told, name
    kinds = {dtype[1] for dtype in re.findall(r'"dtype": "([<>|][^"]+)"', told)}
    assert kinds == set("biufcSUMm")
    assert '"dtype": ">' in told
    described = json.dumps([case["space"] for case in cases("spaces")])
    for name in ("bool", "float16", "float64", "int64", "uint64", "uint8", ">f4"):
        assert f'"dtype": "{name}"' in described


def test_all_codes_of_errors_are_there() -> None:
    codes = set(errors.codes())
    assert len(codes) > 40
    assert codes <= {
        (case["status"], case["expected"]["code"]) for case in cases("errors")
    }
    retried = {case["status"] for case in cases("errors") if case["retried"]}
    assert retried == {408, 429, 503}
    once = {case["status"] for case in cases("errors") if not case["retried"]}
    assert once >= {400, 409, 410, 422, 500, 502, 504}


def test_all_operations_of_streams_are_there() -> None:
    streams = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
    numbers = {
        int(each) for each in re.findall(r"^\| (\d+) \| `\w+` \|", streams, re.M)
    }
    told = {c["frame"]["operation"] for c in cases("frames") if "frame" in c}
    assert told == numbers | {0}
    forms = {c["frame"]["form"] for c in cases("frames") if "frame" in c}
    assert forms == {0, 1, 2, 3, 15}


def test_transcripts_are_of_many_kinds_and_long() -> None:
    env_ids = {case["create"]["env_id"] for case in cases("transcripts")}
    assert len(env_ids) >= 8
    long = [case for case in cases("transcripts") if len(case["steps"]) == 50]
    assert len(long) >= 8
    assert any(case["steps"][-1]["terminated"] for case in cases("transcripts"))
