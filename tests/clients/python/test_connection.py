"""The Python client against servers that are absent, broken or something else."""

import contextlib
import gc
import pickle
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
import requests

from gym_http_client import (
    Client,
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    UnexpectedAnswer,
)


class Stranger(BaseHTTPRequestHandler):
    """Gives to each request the same answer, whatever it is."""

    url: ClassVar[str]
    answer: ClassVar[bytes]
    requests: ClassVar[list[str]]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append(self.path)
        self.wfile.write(self.answer)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(autouse=True)
def errors_are_collected(nothing_left_behind: None) -> Iterator[None]:
    """Free the errors: they hold their answers, which hold their connections."""
    yield
    gc.collect()


@pytest.fixture
def stranger() -> Iterator[type[Stranger]]:
    """A server that is none of ours; its ``answer`` is what it says."""

    class Handler(Stranger):
        requests: ClassVar[list[str]] = []

    with HTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        Handler.url = f"http://127.0.0.1:{httpd.server_port}"
        yield Handler
        httpd.shutdown()
        thread.join()


def _failure(url: str, timeout: float = 10.0) -> ServerError:
    with Client(url, timeout=timeout) as client, pytest.raises(ServerError) as caught:
        client.env_step("3c657dbc", 0)
    return caught.value


def _page(status: str, body: bytes = b"", *headers: bytes) -> bytes:
    head = b"\r\n".join([b"HTTP/1.1 " + status.encode(), *headers])
    return head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@contextlib.contextmanager
def _listening() -> Iterator[str]:
    """Listen without ever answering."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_no_server_is_unreachable() -> None:
    with _listening() as url:
        pass
    error = _failure(url)
    assert type(error) is ServerUnreachable
    assert isinstance(error, requests.ConnectionError)
    assert error.status_code is None
    assert error.url == f"{url}/v1/envs/3c657dbc/step/"
    assert "Connection refused" in error.message
    with Client(url) as client:
        assert client.healthy() is False


def test_a_silent_server_times_out() -> None:
    with _listening() as url:
        error = _failure(url, timeout=0.05)
    assert type(error) is ServerTimeout
    assert isinstance(error, ServerUnreachable)
    assert isinstance(error, requests.Timeout)
    assert "0.05 s" in error.message


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 2"]
)
def test_a_request_that_is_cut_off_is_not_sent_again(
    answer: bytes, stranger: type[Stranger]
) -> None:
    stranger.answer = answer
    error = _failure(stranger.url)
    assert isinstance(error, ServerUnreachable)
    assert stranger.requests == ["/v1/envs/3c657dbc/step/"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (_page("502 Bad Gateway", b"<h1>Bad Gateway</h1>"), 502, "has no message"),
        (_page("500 Oh", b'["message"]'), 500, "has no message"),
        (_page("200 OK", b"<h1>Welcome</h1>"), 200, "is not JSON"),
        (_page("301 Moved", b"", b"Location: /elsewhere"), 301, "leads to /elsewhere"),
    ],
)
def test_a_stranger_is_told_apart(
    answer: bytes, status: int, words: str, stranger: type[Stranger]
) -> None:
    stranger.answer = answer
    error = _failure(stranger.url)
    assert type(error) is UnexpectedAnswer
    assert isinstance(error, requests.HTTPError)
    assert error.status_code == status
    assert error.response is not None
    assert error.response.status_code == status
    assert words in error.message
    assert stranger.requests == ["/v1/envs/3c657dbc/step/"]


def test_an_old_server_has_no_code(stranger: type[Stranger]) -> None:
    stranger.answer = _page("400 BAD REQUEST", b'{"message": "Instance_id X unknown"}')
    error = _failure(stranger.url)
    assert type(error) is ServerError
    assert (error.status_code, error.code) == (400, None)
    assert str(error) == "Instance_id X unknown (400)"


@pytest.mark.parametrize("kind", [ServerError, ServerTimeout, UnexpectedAnswer])
def test_errors_survive_pickling(kind: type[ServerError]) -> None:
    error = kind("what", 400, code="bad-json", url="http://x/", body={"a": 1})
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error) == "what (400, bad-json)"
    assert (copy.url, copy.body) == (error.url, error.body)


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:5000", "localhost:5000", ":secret@host:5000", "ftp://h"]
)
def test_an_address_without_a_scheme_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="looks like http://") as caught:
        Client(address)
    assert "secret" not in str(caught.value)


def test_an_address_may_have_a_path() -> None:
    with Client("http://:secret@example.org:8443/gym/") as client:
        assert client.remote_base == "http://example.org:8443/gym"
