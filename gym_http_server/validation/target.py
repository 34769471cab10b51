"""The server that is checked: its calls, its instances, its capabilities."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from gym_http_server.validation.binary import BINARY
from gym_http_server.validation.calls import Address, CallFailed, Response, call
from gym_http_server.validation.document import Document
from gym_http_server.validation.expectations import Absent, Mismatch
from gym_http_server.validation.typed import TYPED

__all__ = ["CART_POLE", "Target", "TargetInstance"]

CART_POLE = "CartPole-v1"
CLOSING_S = 10.0
TRIES = 3
MAX_WAIT_S = 5
_NO_JSON: Any = object()
# Codes of a server that does not have an environment.
_NOT_HERE = {"unknown-env", "dependency-missing", "env-refused"}


class Target:
    """The server that is checked.

    Args:
        address: Its address.
        timeout_s: For each call.
        env_id: The environment for all checks that do not need a certain one.
        behind_proxy: Whether its address is that of a proxy.

    Attributes:
        about: Its description of itself, or ``None``.
        document: Its OpenAPI document; ``None`` if it is missing or malformed.
        against_document: By operation and status, the fault of an answer, or "".
        interrupted_by: The number of the signal that ends the checks; 0 so far.
    """

    def __init__(
        self,
        address: Address,
        timeout_s: float,
        env_id: str = CART_POLE,
        *,
        behind_proxy: bool = False,
    ) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self.env_id = env_id
        self._behind_proxy = behind_proxy
        self.about: dict[str, Any] | None = None
        self.document: Document | None = None
        self.against_document: dict[str, Mismatch | None] = {}
        self.interrupted_by = 0
        self._open: dict[str, None] = {}
        # Creates without an answer: their instances may exist all the same.
        self._making: dict[str, bytes] = {}
        self._shared: dict[str, TargetInstance] = {}
        self._recorded: dict[str, None] = {}

    def go_on(self) -> None:
        """Raise if a signal has arrived.

        Raises:
            SystemExit: It did.
        """
        if self.interrupted_by:
            sys.exit(128 + self.interrupted_by)

    def get(self, path: str, **more: Any) -> Response:
        """Send a GET; see `call`."""
        return self.call("GET", path, **more)

    def post(self, path: str, value: Any = _NO_JSON, **more: Any) -> Response:
        """Send a POST; see `call`."""
        return self.call("POST", path, value, **more)

    def call(
        self,
        method: str,
        path: str,
        value: Any = _NO_JSON,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        token: bool = True,
    ) -> Response:
        """Send a request, and compare its answer with the document.

        Args:
            method: The method.
            path: The path, with the query.
            value: The value to send as JSON.
            body: The bytes to send instead.
            headers: Headers in addition to the usual ones.
            token: Whether to send the token.

        Raises:
            CallFailed: There is no answer.
        """
        self.go_on()
        fields = dict(self.address.authorization) if token else {}
        if value is not _NO_JSON:
            body = json.dumps(value).encode()
            fields["Content-Type"] = "application/json"
        fields |= headers or {}
        answer = call(self.address, method, path, body, fields, self.timeout_s)
        self._hold(method, path, answer)
        return answer

    def _hold(self, method: str, path: str, answer: Response) -> None:
        if self.document is None:
            return
        name = self.document.name_of(method, path)
        if not name:
            return
        key = f"{name}-{answer.status}"
        if self.against_document.get(key) is None:
            try:
                self.document.check(method, path, answer)
                self.against_document[key] = None
            except Mismatch as mismatch:
                self.against_document[key] = mismatch

    def claims(self, capability: str) -> bool:
        """Return whether the server claims a capability."""
        actual = (self.about or {}).get("capabilities")
        return isinstance(actual, list) and capability in actual

    def needs(self, capability: str, probe: Response | None = None) -> None:
        """Skip a check if the server lacks the feature and does not claim it.

        Args:
            capability: The name, as in ``GET /v1/``.
            probe: The answer of a route that belongs to it.

        Raises:
            Absent: The server does not have it.
        """
        if self.claims(capability):
            return
        if probe is None:
            raise Absent(f"it does not claim to have {capability!r}")
        if probe.status in (404, 405, 501):
            actual = f"it answers {probe.status} and does not claim {capability!r}"
            raise Absent(actual)

    def needs_no_proxy(self) -> None:
        """Skip a check whose request a proxy refuses itself.

        Raises:
            Absent: The server is behind one.
        """
        if self._behind_proxy:
            raise Absent("the proxy answers such a request itself")

    def create(self, env_id: str = CART_POLE, **options: Any) -> TargetInstance:
        """Make an instance, which the caller closes.

        Raises:
            Absent: There is no such environment here.
            Mismatch: It cannot be made.
        """
        return self.create_from({"env_id": env_id, **options})

    def create_from(self, request: dict[str, Any]) -> TargetInstance:
        """Make an instance from a whole create request; see `create`."""
        key, body = secrets.token_hex(12), json.dumps(request).encode()
        self._making[key] = body
        answer = self._create(key, body)
        actual = answer.json() if answer.status == 200 else {}
        instance_id = actual.get("instance_id") if isinstance(actual, dict) else None
        if isinstance(instance_id, str) and instance_id:
            self._open[instance_id] = None
            del self._making[key]
            return TargetInstance(self, instance_id)
        if answer.status < 500 or answer.status == 501:
            del self._making[key]
        if code_of(answer) in _NOT_HERE or _is_unknown(answer):
            why = code_of(answer) or answer.status
            raise Absent(f"there is no {request['env_id']} here: {why}")
        raise Mismatch(f"an instance of {request['env_id']}", str(answer))

    def post_create(self, key: str, request: dict[str, Any]) -> Response:
        """Send a create under a key; the instance is closed even if the answer is lost.

        Raises:
            CallFailed: There was no answer.
        """
        self._making[key] = json.dumps(request).encode()
        answer = self._post_create(key, self._making[key])
        del self._making[key]
        return answer

    def _post_create(self, key: str, body: bytes) -> Response:
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        return self.call("POST", "/v1/envs/", body=body, headers=headers)

    def _create(self, key: str, body: bytes) -> Response:
        for tries_left in reversed(range(TRIES)):
            answer = self._post_create(key, body)
            if answer.status not in (429, 503) or not tries_left:
                break
            # Other clients may use the server, too.
            after = answer.headers.get("retry-after", "")
            time.sleep(min(int(after), MAX_WAIT_S) if after.isdigit() else 1)
        return answer

    @contextlib.contextmanager
    def made(self, env_id: str = CART_POLE, **options: Any) -> Iterator[TargetInstance]:
        """Make an instance, and close it at the end; see `create`."""
        instance = self.create(env_id, **options)
        try:
            yield instance
        finally:
            instance.close()

    def shared(self, env_id: str = CART_POLE) -> TargetInstance:
        """Return an instance that several checks use, one after the other."""
        known = self._shared.get(env_id)
        if known is None or known.id not in self._open:
            known = self._shared[env_id] = self.create(env_id)
        return known

    def adopt(self, instance_id: str) -> TargetInstance:
        """Add an instance that was made in another way, to close it at the end."""
        self._open[instance_id] = None
        return TargetInstance(self, instance_id)

    def forget(self, instance_id: str) -> None:
        """Remove an instance that no longer exists."""
        self._open.pop(instance_id, None)

    def new_recording(self) -> str:
        """Return the directory for a recording, which is deleted in the end."""
        directory = f"gym-http-validate-{secrets.token_hex(4)}"
        self._recorded[directory] = None
        return directory

    def delete_recording(self, directory: str) -> Response:
        """Delete a recording."""
        answer = self.call("DELETE", f"/v1/recordings/{directory}/")
        self._recorded.pop(directory)
        return answer

    def close_all(self) -> list[str]:
        """Close every instance that was made; return those that could not be closed.

        Recordings are deleted.
        """
        self.timeout_s = min(self.timeout_s, CLOSING_S)
        left = []
        for key, body in list(self._making.items()):
            with contextlib.suppress(CallFailed, Mismatch):
                # Repeated under its key, a create returns the same instance.
                actual = self._create(key, body).json()
                if isinstance(actual, dict) and "instance_id" in actual:
                    self._open[actual["instance_id"]] = None
        for instance_id in list(self._open):
            try:
                TargetInstance(self, instance_id).close()
            except CallFailed as error:
                left.append(f"{instance_id}: {error}")
        for directory in list(self._recorded):
            try:
                self.delete_recording(directory)
            except CallFailed as error:
                left.append(f"the recording {directory}: {error}")
        return left


class TargetInstance:
    """An instance on the server."""

    def __init__(self, target: Target, instance_id: str) -> None:
        self.target = target
        self.id = instance_id

    def path(self, rest: str = "") -> str:
        """Return the path of one of its routes."""
        return f"/v1/envs/{self.id}/{rest}"

    def get(self, rest: str = "", **more: Any) -> Response:
        """Send a GET to one of its routes."""
        return self.target.get(self.path(rest), **more)

    def post(self, rest: str, value: Any = _NO_JSON, **more: Any) -> Response:
        """Send a POST to one of its routes."""
        return self.target.post(self.path(rest), value, **more)

    def typed(self, rest: str, value: Any) -> Response:
        """Send a POST in typed JSON, and request the answer in it."""
        headers = {"Content-Type": TYPED, "Accept": TYPED}
        return self.post(rest, body=json.dumps(value).encode(), headers=headers)

    def binary(self, rest: str, body: bytes) -> Response:
        """Send a POST in the binary form, and request the answer in it."""
        return self.post(
            rest, body=body, headers={"Content-Type": BINARY, "Accept": BINARY}
        )

    def close(self) -> Response:
        """Close the instance."""
        answer = self.post("close/")
        self.target.forget(self.id)
        return answer


def _is_unknown(answer: Response) -> bool:
    """Return whether an answer reports an unknown environment as gym-http-api did."""
    return answer.status == 400 and b"malformed environment ID" in answer.body


def code_of(answer: Response) -> str:
    """Return the code of an error; "" if it has no code."""
    try:
        actual = answer.json()
    except Mismatch:
        return ""
    return str(actual.get("code", "")) if isinstance(actual, dict) else ""
