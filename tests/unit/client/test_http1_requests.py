"""Heads of requests have the required headers, and no values can be smuggled in."""

import pytest

from gym_http_client.http.addresses import Address
from gym_http_client.http.http1 import Request, RequestHeads


def lines(request: Request, url: str = "http://h:1", token: str = "") -> list[str]:
    head = RequestHeads(Address.parse(url, token)).head(request)
    *message, end, after = head.decode().split("\r\n")
    assert (end, after) == ("", "")
    return message


COMMON = ["Host: h:1", "User-Agent: gym_http_client"]


def test_a_get_has_few_headers() -> None:
    assert lines(Request("GET", "/v1/")) == ["GET /v1/ HTTP/1.1", *COMMON]


def test_a_post_has_all_headers() -> None:
    request = Request("POST", "/v1/", b"12345", "application/json", "a/b, c/d", "k-1")
    assert lines(request, "http://h:1/p/", "t\xf6ken") == [
        "POST /p/v1/ HTTP/1.1",
        *COMMON,
        "Authorization: Bearer t\xf6ken",
        "Content-Type: application/json",
        "Accept: a/b, c/d",
        "Idempotency-Key: k-1",
        "Content-Length: 5",
    ]


def test_an_empty_post_has_a_length() -> None:
    assert lines(Request("POST", "/"))[-1] == "Content-Length: 0"
    assert lines(Request("DELETE", "/")) == ["DELETE / HTTP/1.1", *COMMON]
    assert lines(Request("DELETE", "/", b"x"))[-1] == "Content-Length: 1"


def test_many_requests_that_differ_are_written_right() -> None:
    heads = RequestHeads(Address.parse("http://h:1", ""))
    for number in [*range(1000), *range(1000)]:
        head = heads.head(Request("GET", f"/{number}"))
        assert head.startswith(b"GET /%d HTTP/1.1\r\n" % number)


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "v1"),
        Request("GET", "/a b"),
        Request("GET", "/a\r\nX:y"),
        Request("GET", "/\xe9"),
        Request("get", "/"),
        Request("GET /", "/"),
        Request("", "/"),
        Request("GET", "/", b"", "a\r\nb"),
        Request("GET", "/", b"", None, "a\nb"),
        Request("GET", "/", b"", ""),
        Request("POST", "/", b"", None, None, "a\r\nX: y"),
        Request("POST", "/", b"", None, None, "\xe9"),
    ],
)
def test_invalid_header_values_are_refused(request_: Request) -> None:
    with pytest.raises(ValueError, match=r"is no |A key is"):
        lines(request_)
