"""What is no proper HTTP is refused, and what is goes on over one connection."""

from __future__ import annotations

import http.client
import socket

from gym_http_server.validation.calls import CallFailed, Response, answer_of
from gym_http_server.validation.checks import CheckGroup, Checks, equal
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.target import Target

__all__ = ["GROUP", "head_of", "raw", "read"]

checks = Checks()
GROUP = CheckGroup("http", lambda: checks)


def head_of(target: Target, *lines: str) -> bytes:
    """Write a head: the request line, Host and token, and further lines."""
    fields = {"Host": target.address.authority, **target.address.authorization}
    told = [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([lines[0], *told, *lines[1:], "", ""]).encode("latin-1")


def raw(target: Target, request: bytes) -> Response:
    """Send bytes and read an answer."""
    with target.address.connect(target.timeout_s) as sock:
        sock.sendall(request)
        return read(sock, "POST")


def read(sock: socket.socket, method: str) -> Response:
    """Read an answer, and leave the connection open.

    Raises:
        CallFailed: There is none.
    """
    response = http.client.HTTPResponse(sock, method=method)
    try:
        response.begin()
        return answer_of(response, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise CallFailed(f"no answer: {type(error).__name__}: {error}") from None
    finally:
        response.close()


@checks("kept-connection")
def _kept(target: Target) -> None:
    path = target.address.base + "/v1/envs/"
    request = head_of(target, f"GET {path} HTTP/1.1")
    with target.address.connect(target.timeout_s) as sock:
        for _ in range(3):
            sock.sendall(request)
            equal(read(sock, "GET").status, 200, "status")


@checks("malformed-request")
def _malformed(target: Target) -> None:
    problem(raw(target, b"no HTTP at all\r\n\r\n"), "malformed-request", 400)


@checks("transfer-coding")
def _coding(target: Target) -> None:
    path = target.address.base + "/v1/envs/"
    coding = "Transfer-Encoding: rot13"
    request = head_of(target, f"POST {path} HTTP/1.1", coding)
    problem(raw(target, request), "transfer-coding", 501)


@checks("expectation-failed")
def _expectation(target: Target) -> None:
    path = target.address.base + "/v1/envs/"
    lines = "Expect: a-miracle", "Content-Length: 2"
    request = head_of(target, f"POST {path} HTTP/1.1", *lines) + b"{}"
    problem(raw(target, request), "expectation-failed", 417)


@checks("chunked-body")
def _chunked(target: Target) -> None:
    with target.made() as instance:
        path = target.address.base + instance.path("reset/")
        head = head_of(target, f"POST {path} HTTP/1.1", "Transfer-Encoding: chunked")
        body = b'6\r\n{"seed\r\n5\r\n": 42\r\n1\r\n}\r\n0\r\n\r\n'
        chunked = raw(target, head + body).json()
        plain = instance.post("reset/", {"seed": 42}).json()
        equal(chunked, plain, "the answer to a body in chunks")
