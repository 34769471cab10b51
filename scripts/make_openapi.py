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
import importlib
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from gym_http_server.operations.members import Member, object_schema
from gym_http_server.operations.row import Operation
from gym_http_server.operations.table import NODES, OPERATIONS

ROOT = pathlib.Path(__file__).resolve().parents[1]
BY_HAND = ROOT / "docs" / "openapi.yaml"
DOCUMENT = ROOT / "gym_http_server" / "web" / "api" / "openapi.json"
KEY = {"$ref": "#/components/parameters/IdempotencyKey"}
LOSSLESS = (
    "application/vnd.gym-http.typed+json",
    "application/vnd.gym-http.binary",
)
PROBLEM_TYPES = ("application/json", "application/problem+json")
RETRY = {
    "Retry-After": {
        "description": "Seconds after which to try again.",
        "required": True,
        "schema": {"type": "integer"},
    }
}

Json = dict[str, Any]


class Mistake(Exception):
    """The two sources do not fit together."""


def make_document() -> Json:
    """Return the document.

    Raises:
        Mistake: A row or an operation by hand has no counterpart.
    """
    document: Json = yaml.safe_load(BY_HAND.read_text(encoding="utf-8"))
    del document["repeated"]
    problems = document.pop("problems")
    add_problems(problems, document["components"])
    add_tables(document["components"]["schemas"])
    missing = set(OPERATIONS) - {row.name for row in NODES}
    for path, method, by_hand in operations_of(document):
        name = by_hand["operationId"]
        if name not in missing:
            raise Mistake(f"{name} has no row, or stands twice in {BY_HAND.name}")
        row = OPERATIONS[name]
        if (method.upper(), shape_of(path)) != (row.method, shape_of(row.path)):
            raise Mistake(f"{name} is {row.method} {row.path}, and not {method} {path}")
        missing.remove(name)
        add_body(row, by_hand, document["components"]["schemas"])
        document["paths"][path][method] = merged(row, by_hand, problems)
    if missing:
        raise Mistake(f"{', '.join(sorted(missing))}: not in {BY_HAND.name}")
    put_lossless_last(document)
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


def merged(row: Operation, by_hand: Json, problems: Json) -> Json:
    """Return the definition of an operation."""
    examples = by_hand.pop("query", {})
    parameters = [KEY] * row.keyed + by_hand.get("parameters", [])
    parameters += [
        parameter(name, member, examples.get(name))
        for name, member in row.query.items()
    ]
    made: Json = {"operationId": row.name, "tags": by_hand["tags"]}
    made["summary"] = row.words
    if "description" in by_hand:
        made["description"] = by_hand["description"]
    if parameters:
        made["parameters"] = parameters
    if "requestBody" in by_hand:
        made["requestBody"] = by_hand["requestBody"]
    named = {str(problems[name]["status"]): name for name in row.problems}
    made["responses"] = by_hand.get("responses", {}) | {
        status: {"$ref": f"#/components/responses/{named[status]}"}
        for status in sorted(named)
    }
    return made | {key: value for key, value in by_hand.items() if key not in made}


def parameter(name: str, member: Member, example: Any) -> Json:
    """Return the definition of a parameter of a query."""
    schema = member.schema()
    made: Json = {"name": name, "in": "query", "description": schema.pop("description")}
    if member.required:
        made["required"] = True
    made["schema"] = schema
    return made if example is None else made | {"example": example}


def add_tables(schemas: Json) -> None:
    """Put schemas of members in the place of names of tables, as clocks.REALTIME."""
    for name, schema in schemas.items():
        if "members" in schema:
            module, _, table = schema.pop("members").rpartition(".")
            found = importlib.import_module(f"gym_http_server.operations.{module}")
            nulls, others = schema.pop("nulls"), schema.pop("others", False)
            made = object_schema(getattr(found, table), nulls=nulls, others=others)
            schemas[name] = made | schema


def add_body(row: Operation, by_hand: Json, schemas: Json) -> None:
    """Add the schema of an operation's body, unless it is written by hand.

    The part by hand has its name, which types in generated clients have, too.
    """
    content = by_hand.get("requestBody", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    name = reference.rpartition("/")[2]
    if name and name not in schemas:
        if row.body is None:
            raise Mistake(f"{row.name} has no members for the schema {name}")
        schemas[name] = object_schema(
            row.body, nulls=row.ignores_nulls, others=row.is_lenient
        )


def put_lossless_last(node: Any) -> None:
    """Put the lossless forms behind all others: generators of clients take the first.

    A merge key of YAML puts what it repeats before everything else.
    """
    if isinstance(node, dict):
        for media in LOSSLESS:
            if media in node:
                node[media] = node.pop(media)
    if isinstance(node, dict | list):
        for each in node.values() if isinstance(node, dict) else node:
            put_lossless_last(each)


def add_problems(problems: Json, components: Json) -> None:
    """Add response and schema of each error, and all codes to that of any error."""
    code = components["schemas"]["Problem"]["properties"]["code"]
    codes = dict.fromkeys(code["enum"])
    for name, problem in problems.items():
        codes |= dict.fromkeys(problem["codes"])
        properties = {
            "status": {"type": "integer", "enum": [problem["status"]]},
            "code": {"enum": problem["codes"]},
            **problem.get("properties", {}),
        }
        components["schemas"][name] = {
            "allOf": [
                {"$ref": "#/components/schemas/Problem"},
                {"properties": properties},
            ]
        }
        schema = {"schema": {"$ref": f"#/components/schemas/{name}"}}
        headers = RETRY if problem.get("retry") else problem.get("headers")
        components["responses"][name] = {
            "description": problem["description"],
            **({"headers": headers} if headers else {}),
            "content": dict.fromkeys(PROBLEM_TYPES, schema),
        }
    code["enum"] = list(codes)


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
