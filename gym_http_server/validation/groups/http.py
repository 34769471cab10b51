"""What is no proper HTTP is refused, and what is goes on over one connection."""

from __future__ import annotations

import http.client
import socket

from gym_http_server.validation.calls import Answer, CallFailed, answer_of
from gym_http_server.validation.checks import Checks, Group, equal
from gym_http_server.validation.groups.errors import problem
from gym_http_server.validation.served import Served

__all__ = ["GROUP", "head_of", "raw", "read"]

checks = Checks()
GROUP = Group("http", lambda: checks)


def head_of(served: Served, *lines: str) -> bytes:
    """Write a head: the request line, Host and token, and further lines."""
    fields = {"Host": served.address.authority, **served.address.authorization}
    told = [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([lines[0], *told, *lines[1:], "", ""]).encode("latin-1")


def raw(served: Served, request: bytes) -> Answer:
    """Send bytes and read an answer."""
    with served.address.connect(served.timeout_s) as sock:
        sock.sendall(request)
        return read(sock, "POST")


def read(sock: socket.socket, method: str) -> Answer:
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
def _kept(served: Served) -> None:
    path = served.address.base + "/v1/envs/"
    request = head_of(served, f"GET {path} HTTP/1.1")
    with served.address.connect(served.timeout_s) as sock:
        for _ in range(3):
            sock.sendall(request)
            equal(read(sock, "GET").status, 200, "status")


@checks("malformed-request")
def _malformed(served: Served) -> None:
    problem(raw(served, b"no HTTP at all\r\n\r\n"), "malformed-request", 400)


@checks("transfer-coding")
def _coding(served: Served) -> None:
    path = served.address.base + "/v1/envs/"
    coding = "Transfer-Encoding: rot13"
    request = head_of(served, f"POST {path} HTTP/1.1", coding)
    problem(raw(served, request), "transfer-coding", 501)


@checks("expectation-failed")
def _expectation(served: Served) -> None:
    path = served.address.base + "/v1/envs/"
    lines = "Expect: a-miracle", "Content-Length: 2"
    request = head_of(served, f"POST {path} HTTP/1.1", *lines) + b"{}"
    problem(raw(served, request), "expectation-failed", 417)


@checks("chunked-body")
def _chunked(served: Served) -> None:
    with served.made() as instance:
        path = served.address.base + instance.path("reset/")
        head = head_of(served, f"POST {path} HTTP/1.1", "Transfer-Encoding: chunked")
        body = b'6\r\n{"seed\r\n5\r\n": 42\r\n1\r\n}\r\n0\r\n\r\n'
        chunked = raw(served, head + body).json()
        plain = instance.post("reset/", {"seed": 42}).json()
        equal(chunked, plain, "the answer to a body in chunks")
