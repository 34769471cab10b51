"""The OpenAPI document of a server; checks answers against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import referencing
import referencing.exceptions
import referencing.jsonschema

from gym_http_server.validation.calls import Response
from gym_http_server.validation.expectations import Mismatch

__all__ = ["Document"]

METHODS = ("get", "post", "put", "delete", "patch", "head", "options")
# Answers of every route to malformed or forbidden requests.
GENERAL = frozenset({400, 403, 405, 414, 417, 431, 501})
_HERE = "urn:openapi"
# Errors that a document of an unexpected structure can raise.
_SENSELESS = (
    referencing.exceptions.Unresolvable,
    jsonschema.SchemaError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_ANY = "*/*"
# The lossless forms are JSON that no schema describes.
_JSON = ("application/json", "application/problem+json")


class Document:
    """An OpenAPI document.

    Args:
        data: The document, parsed.

    Raises:
        Mismatch: It is no OpenAPI document of 3.1.
    """

    def __init__(self, data: Any) -> None:
        if not isinstance(data, dict) or not str(data.get("openapi")).startswith("3.1"):
            raise Mismatch("an OpenAPI document of 3.1", str(data)[:100])
        self.data: dict[str, Any] = data
        resource = referencing.Resource.from_contents(
            data, default_specification=referencing.jsonschema.DRAFT202012
        )
        self._registry: Any = referencing.Registry().with_resource(_HERE, resource)
        self._routes = [
            (re.compile(_pattern(path)), path, method)
            for path, item in data.get("paths", {}).items()
            for method in METHODS
            if method in item
        ]
        # If two match, the one with fewer names in it is meant.
        self._routes.sort(key=lambda route: route[1].count("{"))

    def faults(self) -> Iterator[str]:
        """Return the faults of the document itself."""
        info = self.data.get("info")
        if not isinstance(info, dict) or not {"title", "version"} <= info.keys():
            yield "info has no title, or no version"
        seen: set[str] = set()
        for _, path, method in self._routes:
            operation = self.data["paths"][path][method]
            name = operation.get("operationId", f"{method} {path}")
            if name in seen:
                yield f"there are two operations {name}"
            seen.add(name)
            if not operation.get("responses"):
                yield f"{name} has no responses"
            yield from self._undeclared(path, operation)
        schemas = self.data.get("components", {}).get("schemas", {})
        for name, schema in schemas.items():
            try:
                jsonschema.Draft202012Validator.check_schema(schema)
            except jsonschema.SchemaError as error:
                yield f"the schema {name} is malformed: {error.message[:200]}"
        for reference in _references(self.data):
            try:
                self._registry.resolver(_HERE).lookup(reference)
            except referencing.exceptions.Unresolvable:
                yield f"there is no {reference}"

    def _undeclared(self, path: str, operation: dict[str, Any]) -> Iterator[str]:
        item = self.data["paths"][path]
        given = [*item.get("parameters", []), *operation.get("parameters", [])]
        named = {self.resolved(each).get("name") for each in given}
        for name in re.findall(r"{(\w+)}", path):
            if name not in named:
                yield f"{path} does not define {name}"

    def resolved(self, thing: Any) -> Any:
        """Follow a reference."""
        while isinstance(thing, dict) and "$ref" in thing:
            thing = self._registry.resolver(_HERE).lookup(thing["$ref"]).contents
        return thing

    def has(self, method: str, path: str) -> bool:
        """Return whether there is an operation for a request."""
        return self._find(method, path) is not None

    def name_of(self, method: str, path: str) -> str:
        """Return the operation of a request; "" if the document has none."""
        found = self._find(method, path)
        if found is None:
            return ""
        operation = self.data["paths"][found[0]][found[1]]
        return str(operation.get("operationId", f"{found[1]}-{found[0]}"))

    def check(self, method: str, path: str, answer: Response) -> None:
        """Check an answer against the document.

        Raises:
            Mismatch: They differ, or the document is malformed.
        """
        try:
            self._check(method, path, answer)
        except _SENSELESS as error:
            words = f"{type(error).__name__}: {error}"
            raise Mismatch("a document that can be followed", words[:300]) from None

    def _check(self, method: str, path: str, answer: Response) -> None:
        found = self._find(method, path)
        if found is None:
            return
        operation = self.data["paths"][found[0]][found[1]]
        responses = operation.get("responses", {})
        response = self.resolved(responses.get(str(answer.status)))
        if response is None:
            if answer.status not in GENERAL:
                known = ", ".join(sorted(responses))
                raise Mismatch(f"one of the statuses {known}", str(answer))
            return
        self._check_headers(response, answer)
        self._check_body(response, answer)

    def _check_headers(self, response: dict[str, Any], answer: Response) -> None:
        for name, actual in response.get("headers", {}).items():
            if self.resolved(actual).get("required") and (
                name.lower() not in answer.headers
            ):
                raise Mismatch(f"a header {name}", ", ".join(answer.headers))

    def _check_body(self, response: dict[str, Any], answer: Response) -> None:
        content = response.get("content")
        if not content:
            if answer.body and answer.status != 426:
                raise Mismatch("no body", str(answer))
            return
        if answer.media not in content and _ANY not in content:
            raise Mismatch(f"one of the types {', '.join(content)}", str(answer))
        schema = content.get(answer.media, {}).get("schema")
        documented_json = answer.media in _JSON
        if schema is None or not documented_json:
            return
        validator = jsonschema.Draft202012Validator(
            _anchored(schema), registry=self._registry
        )
        error = jsonschema.exceptions.best_match(validator.iter_errors(answer.json()))
        if error is not None:
            where = "".join(f"[{part!r}]" for part in error.absolute_path)
            raise Mismatch(
                f"a value as in the schema at {where or 'the top'}", error.message[:300]
            )

    def _find(self, method: str, path: str) -> tuple[str, str] | None:
        path = path.partition("?")[0].rstrip("/")
        for pattern, route, known in self._routes:
            if known == method.lower() and pattern.fullmatch(path):
                return route, known
        return None


def _pattern(path: str) -> str:
    parts = re.split(r"{\w+}", path.rstrip("/"))
    return "[^/]+".join(map(re.escape, parts))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _anchored(node: Any) -> Any:
    """Make references within the document absolute."""
    if isinstance(node, dict):
        return {
            key: f"{_HERE}{value}"
            if key == "$ref" and str(value).startswith("#")
            else _anchored(value)
            for key, value in node.items()
        }
    return [_anchored(each) for each in node] if isinstance(node, list) else node
