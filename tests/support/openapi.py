"""Reads the OpenAPI document: its operations, example requests and schemas."""

import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi import checks

import gym_http_server
from tests.support.api import Api, Instance, no_content
from tests.support.raw import Response

FILE = Path(gym_http_server.__file__).parent / "web" / "api" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(FILE.read_text())
# Lines of JSON are text to it.
schemathesis.serializer.alias("application/x-ndjson", "text/plain")
LOSSLESS = "application/vnd.gym-http."


def without_lossless(node: Any) -> Any:
    """Remove the lossless forms, whose valid values no schema can describe."""
    if isinstance(node, dict):
        items = node.items()
        return {k: without_lossless(v) for k, v in items if not k.startswith(LOSSLESS)}
    return [without_lossless(each) for each in node] if isinstance(node, list) else node


# Bytes as they are, in media types that schemathesis does not know.
schemathesis.serializer.alias(
    ["application/x-ndjson", "application/vnd.gym-http.bundle"],
    "application/octet-stream",
)
SCHEMA = schemathesis.openapi.from_dict(without_lossless(DOCUMENT))
ROUTES = [
    (path, method, definition["operationId"])
    for path, item in DOCUMENT["paths"].items()
    for method, definition in item.items()
    if method != "parameters"
]
OPERATIONS = {operation for _, _, operation in ROUTES}
ON_RUNS = {operation for path, _, operation in ROUTES if "{run}" in path}
ON_INSTANCES = {operation for path, _, operation in ROUTES if "{instance_id}" in path}
ON_RECORDINGS = {operation for path, _, operation in ROUTES if "{directory}" in path}
INSTANCE_ID = re.compile("[0-9a-f]{8}")
# Operations that end or may break their instance need a new one each time.
DESTRUCTIVE = {"env_close", "env_delete", "env_set_attribute", "env_call_attribute"}
# Operations that only an instance with a clock executes.
REAL_TIME = {"env_realtime", "env_set_realtime", "env_pause", "env_resume"}
REAL_TIME |= {"env_trace", "env_act", "env_updates"}
# Operations that succeed only while there are no weights, no state or no samples.
FIRST = {"weights_publish": "weights", "state_save": "state"}
FIRST |= {"samples_send": "samples"}
CLOCK = {"mode": "free_running", "hz": 50, "default_action": 0, "on_done": "reset"}
PROMISES: list[Any] = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.unsupported_method,
    checks.allow_header_conformance,
]


class Live:
    """Creates running instances for the operations that need one."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.shared = api.create(render_mode="rgb_array")
        self.own: Instance | None = None
        self.clocked: Instance | None = None
        self.names: dict[str, str] = {}

    def instance_id(self, operation: str) -> str:
        """Return the ID of an instance on which the operation can succeed."""
        self.close_own()
        if operation in DESTRUCTIVE:
            self.own = self.api.create()
            return self.own.id
        if operation in REAL_TIME:
            if self.clocked is None:
                self.clocked = self.api.create(realtime=CLOCK)
            self.clocked.reset()
            return self.clocked.id
        if operation == "env_monitor_start":
            no_content(self.shared.post("monitor/close/"))
        self.shared.reset()
        return self.shared.id

    def run(self, operation: str) -> dict[str, str]:
        """Return the names of a run, and of the things in it that an operation needs.

        The run is the same for all operations of this object.
        """
        if not self.names:
            self.names = _run(self.api, FIRST.get(operation))
        return self.names

    def record(self, directory: str) -> None:
        """Record an episode, unless there is such a recording."""
        if self.api.get(f"/v1/recordings/{directory}/").status != 200:
            no_content(self.shared.post("monitor/start/", {"directory": directory}))
            self.shared.reset()
            self.shared.step(0)
            no_content(self.shared.post("monitor/close/"))

    def close_own(self) -> None:
        if self.own is not None:
            self.own.close()
            self.own = None

    def close(self) -> None:
        self.close_own()
        if self.clocked is not None:
            self.clocked.close()
        self.shared.close()
        if self.names:
            self.api.request("DELETE", f"/v1/runs/{self.names['run']}/")


def _run(api: Api, without: str | None) -> dict[str, str]:
    """Create a run with a batch, a reader, weights, state and a further token."""
    run = f"openapi-{secrets.token_hex(4)}"
    path = f"/v1/runs/{run}/"

    def done(response: Response) -> Any:
        assert response.status in (200, 201), response.text
        return response.json()

    done(api.post("/v1/runs/", {"run": run}))
    token = done(api.post(f"{path}tokens/", {"role": "observer"}))
    session = done(api.post(f"{path}sessions/", {"worker": "w1"}))["session"]
    for name in {"weights", "state"} - {without}:
        first = {"If-None-Match": "*"}
        done(api.request("PUT", f"{path}{name}/", data=b"first", headers=first))
    done(api.request("PUT", f"{path}readers/trainer/", {"after": 0}))
    query = f"session={session}&number=1&policy=0&count=1"
    if without is None:
        done(api.post(f"{path}samples/?{query}", data=b"batch"))
    names = {"run": run, "session": session, "token_id": token["id"]}
    return {**names, "reader": "trainer", "version": "1"}


def name_of(case: schemathesis.Case[Any]) -> str:
    return str(case.operation.definition.raw["operationId"])


def generated(
    operation: str, test: Callable[[schemathesis.Case[Any]], None]
) -> Callable[[], None]:
    """Return a test of one operation with the cases that schemathesis generates."""
    path, method, _ = next(route for route in ROUTES if route[2] == operation)
    return build_operation_test(
        config=SCHEMA.config,
        operation=SCHEMA[path][method],
        test_func=test,
        given_kwargs={},
        feedback=FeedbackSources(),
    )


def examples(operation: str) -> list[schemathesis.Case[Any]]:
    """Return the example requests of the document."""
    path, method, _ = next(route for route in ROUTES if route[2] == operation)
    item = DOCUMENT["paths"][path]
    shown: dict[str, dict[str, str]] = {"path": {}, "query": {}}
    for each in item.get("parameters", []) + item[method].get("parameters", []):
        parameter = resolved(each)
        if parameter["in"] == "header":
            # Only ever optional, or one of two.
            continue
        shown[parameter["in"]][parameter["name"]] = parameter["example"]
    headers = {"If-None-Match": "*"} if operation in FIRST else {}
    return [
        SCHEMA[path][method].Case(
            path_parameters=dict(shown["path"]),
            query=dict(shown["query"]),
            headers=dict(headers),
            **body,
        )
        for body in bodies(item[method].get("requestBody", {}))
    ]


def bodies(request_body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of a case for each example body of the document."""
    found = []
    for media_type, content in resolved(request_body).get("content", {}).items():
        values = [each["value"] for each in content.get("examples", {}).values()]
        values += [content["example"]] if "example" in content else []
        if "json" not in media_type or "ndjson" in media_type:
            values = [value.encode() for value in values]
        found += [{"body": value, "media_type": media_type} for value in values]
    return found or [{}]


def resolved(thing: dict[str, Any]) -> dict[str, Any]:
    """Return the target of a reference within the document."""
    found = DOCUMENT if "$ref" in thing else thing
    for part in thing.get("$ref", "").split("/")[1:]:
        found = found[part]
    return found
