"""A small HTTP client that returns the whole answer of each call, errors included."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.raw import Response, exchange
from tests.support.server import Server
from tests.support.strict_json import assert_canonical

_NO_BODY: Any = object()
EMPTY_TYPE = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Api:
    """Sends requests to one server, each on a new connection.

    Attributes:
        source: The address on this machine that the connections come from.
    """

    server: Server
    headers: Mapping[str, str] = field(default_factory=dict)
    source: str = "127.0.0.1"

    def request(
        self,
        method: str,
        path: str,
        json_body: Any = _NO_BODY,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request and return the answer.

        Args:
            method: The method.
            path: The path as it is sent, query included.
            json_body: A value to send as JSON.
            data: Bytes to send instead.
            headers: More headers; they win over the usual ones.
        """
        fields = {"Host": f"127.0.0.1:{self.server.port}", "Connection": "close"}
        if self.server.token:
            fields["Authorization"] = f"Bearer {self.server.token}"
        if json_body is not _NO_BODY:
            data = json.dumps(json_body).encode()
            fields["Content-Type"] = "application/json"
        if data is not None or method == "POST":
            fields["Content-Length"] = str(len(data or b""))
        fields |= {**self.headers, **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        start = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1")
        whole = start + (data or b"")
        return exchange(self.server.port, whole, source=self.source)

    def get(self, path: str, **more: Any) -> Response:
        """Send a GET."""
        return self.request("GET", path, **more)

    def post(self, path: str, json_body: Any = _NO_BODY, **more: Any) -> Response:
        """Send a POST, without a body unless one is given."""
        return self.request("POST", path, json_body, **more)

    def create(self, env_id: str = "CartPole-v1", **options: Any) -> "Instance":
        """Create an instance and return it."""
        answer = ok(self.post("/v1/envs/", {"env_id": env_id, **options}))
        return Instance(self, answer["instance_id"])

    def instances(self) -> dict[str, str]:
        """Return the IDs of the running instances with their environment IDs."""
        listed: dict[str, str] = ok(self.get("/v1/envs/"))["all_envs"]
        return listed


@dataclass(frozen=True)
class Instance:
    """One instance on a server."""

    api: Api
    id: str

    def path(self, rest: str = "") -> str:
        """Return the path of one of the instance's routes."""
        return f"/v1/envs/{self.id}/{rest}"

    def get(self, rest: str, **more: Any) -> Response:
        """Send a GET to one of the instance's routes."""
        return self.api.get(self.path(rest), **more)

    def post(self, rest: str, json_body: Any = _NO_BODY, **more: Any) -> Response:
        """Send a POST to one of the instance's routes."""
        return self.api.post(self.path(rest), json_body, **more)

    def reset(self, **options: Any) -> Any:
        """Reset and return the answer's value."""
        return ok(self.post("reset/", options))

    def step(self, action: Any, **options: Any) -> Any:
        """Step and return the answer's value."""
        return ok(self.post("step/", {"action": action, **options}))

    def close(self) -> Response:
        """Close the instance."""
        return self.post("close/")


def ok(response: Response) -> Any:
    """Check the form of a JSON answer with status 200, and return its value."""
    assert response.status == 200, _shown(response)
    assert response.content_type == "application/json", _shown(response)
    assert_canonical(response.text)
    value = response.json()
    assert "message" not in value, f"Go takes this for an error: {value}"
    return value


def no_content(response: Response) -> None:
    """Check a 204 as the old clients need it: empty, and text/html."""
    assert response.status == 204, _shown(response)
    assert response.body == b""
    assert response.content_type == EMPTY_TYPE
    assert response.header("Transfer-Encoding") is None
    assert response.header("Content-Length") in (None, "0")


def error(
    response: Response, status: int | tuple[int, ...], code: str | None = None
) -> dict[str, Any]:
    """Check the form of an error's answer, and return its object."""
    wanted = (status,) if isinstance(status, int) else status
    assert response.status in wanted, _shown(response)
    kind = response.content_type
    assert kind in ("application/json", "application/problem+json"), _shown(response)
    assert_canonical(response.text)
    value: dict[str, Any] = response.json()
    assert isinstance(value["message"], str), value
    assert value["message"].strip(), value
    assert value["detail"] == value["message"]
    assert value["status"] == response.status
    assert value["type"] == f"urn:gym-http:{value['code']}"
    for name in ("title", "request_id"):
        assert isinstance(value[name], str), (name, value)
        assert value[name], (name, value)
    assert isinstance(value["instance"], str), value
    if code is not None:
        assert value["code"] == code, value
    return value


def _shown(response: Response) -> str:
    return f"{response.request!r} was answered with {response}"
