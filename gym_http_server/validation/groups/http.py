"""HTTP itself: malformed requests are refused, and connections are kept.

Some requests are framed like those of gym-http-api's clients; few clients still do so.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
from typing import Any

from gym_http_server.validation.calls import CallFailed, Response, answer_of
from gym_http_server.validation.checks import CheckGroup, Checks
from gym_http_server.validation.expectations import Mismatch, equal, that
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import Target, TargetInstance

__all__ = ["HTTP", "head_of", "old_requests", "raw", "read"]

http_checks = Checks()
HTTP = CheckGroup("http", lambda: http_checks)


def head_of(target: Target, *lines: str) -> bytes:
    """Write a head: the request line, Host and token, and further lines."""
    fields = {"Host": target.address.authority, **target.address.authorization}
    actual = [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([lines[0], *actual, *lines[1:], "", ""]).encode("latin-1")


def raw(target: Target, request: bytes) -> Response:
    """Send bytes and read an answer."""
    with target.address.connect(target.timeout_s) as sock:
        sock.sendall(request)
        return read(sock, "POST")


def read(sock: socket.socket, method: str) -> Response:
    """Read an answer, and leave the connection open.

    Raises:
        CallFailed: There is no answer.
    """
    response = http.client.HTTPResponse(sock, method=method)
    try:
        response.begin()
        return answer_of(response, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise CallFailed(f"no answer: {type(error).__name__}: {error}") from None
    finally:
        response.close()


@http_checks("kept-connection")
def _kept(target: Target) -> None:
    path = target.address.base + "/v1/envs/"
    request = head_of(target, f"GET {path} HTTP/1.1")
    with target.address.connect(target.timeout_s) as sock:
        for _ in range(3):
            sock.sendall(request)
            equal(read(sock, "GET").status, 200, "status")


@http_checks("malformed-request")
def _malformed(target: Target) -> None:
    target.needs_no_proxy()
    problem(raw(target, b"no HTTP at all\r\n\r\n"), "malformed-request", 400)


@http_checks("transfer-coding")
def _coding(target: Target) -> None:
    target.needs_no_proxy()
    path = target.address.base + "/v1/envs/"
    coding = "Transfer-Encoding: rot13"
    request = head_of(target, f"POST {path} HTTP/1.1", coding)
    problem(raw(target, request), "transfer-coding", 501)


@http_checks("expectation-failed")
def _expectation(target: Target) -> None:
    target.needs_no_proxy()
    path = target.address.base + "/v1/envs/"
    lines = "Expect: a-miracle", "Content-Length: 2"
    request = head_of(target, f"POST {path} HTTP/1.1", *lines) + b"{}"
    problem(raw(target, request), "expectation-failed", 417)


@http_checks("chunked-body")
def _chunked(target: Target) -> None:
    with target.made() as instance:
        path = target.address.base + instance.path("reset/")
        head = head_of(target, f"POST {path} HTTP/1.1", "Transfer-Encoding: chunked")
        body = b'6\r\n{"seed\r\n5\r\n": 42\r\n1\r\n}\r\n0\r\n\r\n'
        chunked = raw(target, head + body).json()
        plain = instance.post("reset/", {"seed": 42}).json()
        equal(chunked, plain, "the answer to a body in chunks")


old_requests = Checks()
#: Clients wait so long for 100 Continue, and then send the body all the same.
CONTINUE_S = 1.0


def _info(answer: Response, what: str) -> Any:
    equal(answer.status, 200, f"status of {what}")
    equal(answer.media, "application/json", f"Content-Type of {what}")
    return answer.json()["info"]


def _target(target: Target, instance: TargetInstance, rest: str) -> str:
    return target.address.base + instance.path(rest)


@old_requests("get-with-body")
def _get_with_body(target: Target) -> None:
    """Python and Lua send a Content-Type, Julia and Scala a body."""
    instance = target.shared(target.env_id)
    expected = _info(instance.get("action_space/"), "a GET")
    start = f"GET {_target(target, instance, 'action_space/')} HTTP/1.1"
    json_type = "Content-Type: application/json"
    request = head_of(target, start, json_type, "Content-Length: 2") + b"{}"
    with target.address.connect(target.timeout_s) as sock:
        for which in ("first", "second"):
            try:
                sock.sendall(request)
                answer = read(sock, "GET")
            except (OSError, CallFailed) as error:
                words = f"an answer to the {which} GET with a body"
                raise Mismatch(words, str(error)) from None
            equal(_info(answer, f"the {which} GET with a body"), expected, "info")
            if answer.headers.get("connection", "").lower() == "close":
                break


@old_requests("http-1.0")
def _http_1_0(target: Target) -> None:
    """The C++ client continues in HTTP/1.0 after an answer of gym-http-api."""
    instance = target.shared(target.env_id)
    expected = _info(instance.get("action_space/"), "a GET")
    start = f"GET {_target(target, instance, 'action_space/')} HTTP/1.0"
    with target.address.connect(target.timeout_s) as sock:
        sock.sendall(head_of(target, start))
        data = bytearray()
        try:
            while piece := sock.recv(65536):
                data += piece
        except OSError:
            raise Mismatch(
                "a connection that the server closes", "an open one"
            ) from None
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").lower().split("\r\n")
    that(first.split(" ")[1:2] == ["200"], "status 200 for HTTP/1.0", first)
    chunked = any(line.startswith("transfer-encoding") for line in lines)
    that(not chunked, "no Transfer-Encoding in an answer to HTTP/1.0", head.decode())
    equal(json.loads(body)["info"], expected, "info over HTTP/1.0")


@old_requests("expect-continue")
def _expect(target: Target) -> None:
    """Clients by curl and .NET send Expect: 100-continue with some bodies."""
    with target.made(target.env_id) as instance:
        instance.post("reset/", {})
        action = instance.get("action_space/sample").json()["action"]
        body = json.dumps({"action": action}).encode()
        start = f"POST {_target(target, instance, 'step/')} HTTP/1.1"
        lines = "Content-Type: application/json", f"Content-Length: {len(body)}"
        with target.address.connect(target.timeout_s) as sock:
            sock.sendall(head_of(target, start, *lines, "Expect: 100-continue"))
            select.select([sock], [], [], CONTINUE_S)
            sock.sendall(body)
            # It reads over 100 Continue.
            answer = read(sock, "POST")
        equal(answer.status, 200, "status of a step with Expect: 100-continue")
        that("done" in answer.json(), "done", answer.json())


@old_requests("accept-html")
def _accept(target: Target) -> None:
    """Haskell and Java accept HTML, and read JSON."""
    instance, headers = target.shared(target.env_id), {"Accept": "text/html"}
    _info(instance.get("action_space/", headers=headers), "a GET that accepts HTML")
    answer = instance.post("monitor/close/", headers=headers)
    equal(answer.status, 204, "status of monitor/close that accepts HTML")
    equal(answer.media, "text/html", "Content-Type of monitor/close")
    answer = raw(target, head_of(target, f"GET {target.address.base}/v1/envs HTTP/1.1"))
    equal(answer.media, "application/json", "Content-Type without Accept")
