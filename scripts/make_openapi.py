#!/usr/bin/env python3
"""Makes the OpenAPI document, which the server gives, from its two sources.

The rows of ``gym_http_server/operations`` have what an operation takes and which
errors answer it. ``docs/openapi.yaml`` has what is written by hand: descriptions,
examples, and the schemas of answers. An operation there names its row by
``operationId``.

    scripts/make_openapi.py           # print how the document would change
    scripts/make_openapi.py --write   # and write it

The exit status is 1 if the document would change, and 2 if the sources do not fit.
"""

import argparse
import difflib
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import OPERATIONS

ROOT = pathlib.Path(__file__).resolve().parents[1]
BY_HAND = ROOT / "docs" / "openapi.yaml"
DOCUMENT = ROOT / "gym_http_server" / "api" / "openapi.json"
KEY = {"$ref": "#/components/parameters/IdempotencyKey"}

Json = dict[str, Any]


class Mistake(Exception):
    """The two sources do not fit together."""


def make_document() -> Json:
    """Return the document.

    Raises:
        Mistake: A row or an operation by hand has no counterpart.
    """
    document: Json = yaml.safe_load(BY_HAND.read_text(encoding="utf-8"))
    missing = set(OPERATIONS)
    for path, method, by_hand in operations_of(document):
        name = by_hand["operationId"]
        if name not in missing:
            raise Mistake(f"{name} has no row, or stands twice in {BY_HAND.name}")
        row = OPERATIONS[name]
        if (method.upper(), shape_of(path)) != (row.method, shape_of(row.path)):
            raise Mistake(f"{name} is {row.method} {row.path}, and not {method} {path}")
        missing.remove(name)
        document["paths"][path][method] = merged(row, by_hand, document)
    if missing:
        raise Mistake(f"{', '.join(sorted(missing))}: not in {BY_HAND.name}")
    return document


def operations_of(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield path, method and definition of each operation."""
    for path, item in document["paths"].items():
        for method, definition in list(item.items()):
            if method != "parameters":
                yield path, method, definition


def shape_of(path: str) -> str:
    """Return a path without the names of its arguments and the slash at its end."""
    return re.sub(r"<[^>]*>|{[^}]*}", "{}", path).rstrip("/")


def merged(row: Operation, by_hand: Json, document: Json) -> Json:
    """Return the definition of an operation."""
    parameters = [KEY] * row.keyed + by_hand.get("parameters", [])
    made: Json = {"operationId": row.name, "tags": by_hand["tags"]}
    made["summary"] = row.words
    if "description" in by_hand:
        made["description"] = by_hand["description"]
    if parameters:
        made["parameters"] = parameters
    if "requestBody" in by_hand:
        made["requestBody"] = by_hand["requestBody"]
    problems = {status_of(name, document): name for name in row.problems}
    made["responses"] = by_hand.get("responses", {}) | {
        status: {"$ref": f"#/components/responses/{problems[status]}"}
        for status in sorted(problems)
    }
    return made | {key: value for key, value in by_hand.items() if key not in made}


def status_of(problem: str, document: Json) -> str:
    """Return the status of a response with a problem, which its schema has."""
    components = document["components"]
    content = components["responses"][problem]["content"]["application/problem+json"]
    schema = components["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    (status,) = schema["allOf"][1]["properties"]["status"]["enum"]
    return str(status)


def main() -> int:
    """Print how the document would change, or write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the document")
    write = parser.parse_args().write
    try:
        text = json.dumps(make_document(), indent=1, ensure_ascii=False) + "\n"
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 2
    old = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    names = (str(DOCUMENT.relative_to(ROOT)), "the same, made anew")
    lines = (old.splitlines(keepends=True), text.splitlines(keepends=True))
    sys.stdout.writelines(difflib.unified_diff(*lines, *names))
    if write:
        DOCUMENT.write_text(text, encoding="utf-8")
    return 0 if write else int(old != text)


if __name__ == "__main__":
    sys.exit(main())
