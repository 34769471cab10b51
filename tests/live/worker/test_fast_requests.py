"""Whole requests are read and answered as gunicorn would."""

import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import pytest

from tests.support.gunicorn_server import (
    HOST,
    ODD,
    SLACK,
    Gunicorn,
    check_problem,
    get,
    post,
)
from tests.support.raw import chunked
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

# Requests in one piece, which the worker parses itself


WHOLE = [
    get("/environ"),
    get("/environ/a.b~c-d_e/%s/" % ("f" * 300)),
    get("/environ?after=7&wait_s=0.5&a.b~c-d_e=&=f&g"),
    get("/environ?"),
    post("/environ?a=b", b"hello"),
    post("/environ", b"hello"),
    post("/environ", b"", HOST + "Content-Type:application/json\r\n"),
    post("/environ", b"{}", HOST + "accept: \t */*;q=0.1, b  \r\nDNT:a\r\n"),
    post("/environ", b"{}", HOST + "Connection: Keep-Alive\r\nIDEMPOTENCY-KEY: 1\r\n"),
    get("/environ", "hOsT: a:1\r\nAuthorization: Basic eA==\r\nOrigin: http://a\r\n"),
    get("/environ", HOST).replace(b"GET", b"DELETE"),
    post("/environ", b"{}", HOST + "Idempotency-Key: a-1\r\n"),
    post("/environ", b"{}", HOST + "Idempotency-Key: a-2\r\nAccept: b\r\n"),
    post("/environ", b"{}", HOST + "Idempotency-Key: a-3 \r\n"),
    post("/environ", b"{}\r\n\r\nIdempotency-Key: a\r\n"),
    post("/environ", b"{}", HOST + f"Cookie: {'a' * 2000}\r\n"),
]


@pytest.mark.parametrize("request_", WHOLE)
def test_whole_requests_are_read_like_gunicorn(
    gunicorn: Gunicorn, request_: bytes
) -> None:
    with gunicorn.client() as client:
        # Twice, since the worker caches what it knows.
        found = [client.call(request_).json() for _ in range(2)]
        assert found[0] == found[1]
        # Of a key, trailing blanks are unusual.
        assert found[0].pop("gunicorn") is (b"a-3 " in request_)
        odd = request_.replace(b"\r\nHost:", f"\r\n{ODD}Host:".encode())
        odd = odd.replace(b"\r\nhOsT:", f"\r\n{ODD}Host:".encode())
        expected = client.call(odd).json()
    assert expected.pop("gunicorn") is True
    assert expected.pop("HTTP_X_ODD") == "1"
    assert found[0] == expected


@pytest.mark.parametrize(
    "request_",
    [
        get("/environ", HOST + ODD),
        get("/environ?a=%41"),
        get("/environ?a=b?c"),
        get("/environ?a=b#c"),
        get("/environ?a=b+c"),
        get("/environ/%41"),
        get("/environ//a"),
        get("http://t/environ"),
        get("/environ", HOST + "X-Forwarded-Proto: https\r\n"),
        get("/environ", HOST + "X-Forwarded-For: 1.2.3.4\r\n"),
        get("/environ", HOST + "Accept: a\r\nAccept: b\r\n"),
        get("/environ", HOST + "Accept:\r\n"),
        get("/environ", HOST + "Accept: \xe9\r\n").replace(b"\xc3", b""),
        get("/environ", HOST + "Upgrade: websocket\r\nConnection: upgrade\r\n"),
        get("/environ", HOST + "Connection: close\r\n"),
        get("/environ", HOST + "Connection: TE, keep-alive\r\n"),
        get("/environ", HOST + "TE: trailers\r\n"),
        get("/environ").replace(b"1.1", b"1.0"),
        get("/environ").replace(b"GET", b"PUT"),
        b"\r\n" + get("/environ"),
        get("/environ", HOST + f"Cookie: {'a' * 5000}\r\n"),
        post("/environ", b"a" * 9000),
        get("/environ", HOST + "Transfer-Encoding: chunked\r\n") + chunked(b"hello"),
    ],
)
def test_unusual_requests_are_left_to_gunicorn(
    gunicorn: Gunicorn, request_: bytes
) -> None:
    with gunicorn.client() as client:
        assert client.call(request_).json()["gunicorn"] is True


@pytest.mark.parametrize("second", ["Idempotency-Key: 2", "idempotency-key: 2"])
@pytest.mark.parametrize("first", ["Idempotency-Key: 1", "idempotency-key: 1"])
def test_two_keys_are_left_to_gunicorn(
    gunicorn: Gunicorn, first: str, second: str
) -> None:
    with gunicorn.client() as client:
        for lines in (first, second):
            # Known from now on.
            client.call(get("/environ", f"{HOST}{lines}\r\n"))
        body = client.call(get("/environ", f"{HOST}{first}\r\n{first}\r\n")).json()
        assert body["gunicorn"]
        assert body["HTTP_IDEMPOTENCY_KEY"] == "1"
        refused = client.call(get("/environ", f"{HOST}{first}\r\n{second}\r\n"))
        check_problem(refused, 400, "malformed-request")


@pytest.mark.parametrize(
    "request_",
    [
        get("/health", HOST * 2),
        get("/health", HOST + "Content-Length: 1\r\nContent-Length: 1\r\n"),
        get("/health", HOST + "Content-Length: +1\r\n"),
        get("/health", HOST + "Content-Length: 1_0\r\n"),
        get("/health", HOST + "Content-Length: 1, 1\r\n"),
        get("/health", HOST + "Accept : a\r\n"),
        get("/health", HOST + "Accept: a\r\n b\r\n"),
        get("/health", HOST + "Accept: a\x7f\r\n"),
        get("/health", HOST + "Accept: a\nHost: b\r\n"),
        get("/health", HOST + "a\r\n"),
        get("/health").replace(b"GET ", b"GET  "),
        get("/health").replace(b"GET", b"get"),
        get("/health").replace(b"HTTP/1.1", b"HTTP/1.1 "),
    ],
)
def test_malformed_requests_are_refused(gunicorn: Gunicorn, request_: bytes) -> None:
    with gunicorn.client() as client:
        check_problem(client.call(request_), 400, "malformed-request")


@pytest.mark.parametrize(
    "path",
    [
        *("/health", "/echo", "/big/70000", "/limit", "/early", "/pieces/a/bc/def"),
        *("/wrong", "/empty", "/short", "/twice", "/again"),
        *("/raise/ValueError", "/raise/SystemExit", "/raise/StopIteration"),
    ],
)
def test_whole_requests_are_answered_like_gunicorn(
    gunicorn: Gunicorn, path: str
) -> None:
    answers = []
    for extra in (HOST, HOST, HOST + ODD):
        with gunicorn.client() as client:
            client.send(post(path, b"a" * 2000, extra) + get("/health"))
            client.finish_sending()
            answer = client.read_to_end()
        answer = re.sub(rb"\r\nDate: [^\r]*|[0-9a-f]{32}", b"", answer)
        head, blank, body = answer.partition(b"\r\n\r\n")
        answers.append((sorted(head.split(b"\r\n")), blank + body))
    assert answers[0] == answers[1] == answers[2]


def test_answers_are_dated(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for _ in range(2):
            date = client.call(get("/health")).header("Date")
            age = time.time() - parsedate_to_datetime(date or "").timestamp()
            assert -1 < age < SLACK
            client.call(get("/sleep/1.1"))


def test_other_bytes_of_a_known_shape_are_not_taken_for_it(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for size in (5, 4, 11, 3):
            body = client.call(post("/echo", b"x" * size))
            assert body.body == b"x" * size
        body = client.call(post("/limit", b"x" * 2000))
        assert body.status == 413


def test_more_heads_than_are_remembered(gunicorn: Gunicorn) -> None:
    with gunicorn.client() as client:
        for number in range(600):
            body = client.call(get("/environ", f"Host: {number}\r\n")).json()
            assert body["HTTP_HOST"] == str(number)
            assert not body["gunicorn"]


def test_an_access_log_is_written_by_gunicorn(
    start: Callable[..., Gunicorn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--access-logfile=access")
    gunicorn = start()
    assert gunicorn.call(get("/environ")).json()["gunicorn"]
    log = gunicorn.folder / "access"
    wait_until(lambda: "GET /environ" in log.read_text(), message="an access log")
