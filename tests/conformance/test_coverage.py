"""The vectors cover everything that the documents define."""

import json
import re
import struct
from typing import Any

import gymnasium
import numpy as np

from tests.conformance.generate import VECTORS
from tests.conformance.making import errors
from tests.support.server import ROOT

API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def cases(kind: str) -> list[dict[str, Any]]:
    content = json.loads((VECTORS / f"{kind}.json").read_bytes())
    found: list[dict[str, Any]] = content["cases"]
    return found


def words_of_table(heading: str) -> set[str]:
    """Return the words in the first column of the table that begins with a heading."""
    rows = API.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {
        word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])
    }


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
    opaque = {"Opaque"}
    assert {getattr(gymnasium.spaces, each) for each in types - opaque}
    # No client knows elements of opaque spaces.
    for kind, known in (("spaces", types), ("elements", types - opaque)):
        body = json.dumps([c["space"] for c in cases(kind) if not c.get("refused")])
        assert known == set(re.findall(r'"type": "(\w+)"', body))


def test_all_dtypes_are_there() -> None:
    numeric = [
        np.dtype(code) for code in np.typecodes["All"] if code not in "OVgGeSUMm"
    ]
    portable = {dtype.str for dtype in numeric} | {"<f2"}
    answer = json.dumps([case["value"] for case in cases("values")])
    for name in portable:
        assert f'"dtype": "{name}", "shape"' in answer, name
        if name not in ("<c8",):
            assert f'{{"ns": {{"dtype": "{name}"' in answer, name
    kinds = {dtype[1] for dtype in re.findall(r'"dtype": "([<>|][^"]+)"', answer)}
    assert kinds == set("biufcSUMm")
    assert '"dtype": ">' in answer
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
    found = {c["frame"]["operation"] for c in cases("frames") if "frame" in c}
    assert found == numbers | {0}
    forms = {c["frame"]["form"] for c in cases("frames") if "frame" in c}
    assert forms == {0, 1, 2, 3, 15}


def test_transcripts_are_of_many_kinds_and_long() -> None:
    env_ids = {case["create"]["env_id"] for case in cases("transcripts")}
    assert len(env_ids) >= 8
    long = [case for case in cases("transcripts") if len(case["steps"]) == 50]
    assert len(long) >= 8
    assert any(case["steps"][-1]["terminated"] for case in cases("transcripts"))
