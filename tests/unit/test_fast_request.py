"""What the fast parser reads of requests that other nodes of a fleet send."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from gunicorn.config import Config  # type: ignore[import-untyped]

from gym_http_server.web.gunicorn_worker.fast_request import FastReader, KnownHeads

HEAD = "POST /v1/envs/0a100000/step/ HTTP/1.1\r\nHost: 10.0.0.7:5000\r\n"
HEAD += "Content-Length: 2\r\nContent-Type: application/json"


@pytest.fixture
def known() -> KnownHeads:
    """The heads that a worker has parsed."""
    return {}


@pytest.fixture
def reader(known: KnownHeads) -> Iterator[FastReader]:
    """The reader of a connection."""
    ours, theirs = socket.socketpair()
    places = ("127.0.0.1", 1), ("127.0.0.1", 2)
    with ours, theirs:
        yield FastReader(Config(), ours, places, known)  # type: ignore[arg-type]


def read(reader: FastReader, *lines: str) -> dict[str, Any] | None:
    """Return the headers of a request; None if gunicorn has to read it."""
    data = "\r\n".join((HEAD, *lines, "", "{}")).encode()
    request, _ = reader.read(data)
    if request is None:
        return None
    found = {
        name: value
        for name, value in request.environ.items()
        if name.startswith(("HTTP_", "CONTENT_"))
    }
    assert request.environ["wsgi.input"].read() == b"{}"
    return found


def signed(number: int) -> tuple[str, str, str]:
    """Return the headers that differ in the requests of a node."""
    return (
        f"Authorization: Fleet ada - boot {number:040x}",
        f"X-Request-Id: r-{number}",
        f"Idempotency-Key: k-{number}",
    )


def test_the_heads_of_nodes_are_parsed_once(
    reader: FastReader, known: KnownHeads
) -> None:
    for number in range(20):
        assert read(reader, *signed(number)) == {
            "HTTP_HOST": "10.0.0.7:5000",
            "CONTENT_LENGTH": "2",
            "CONTENT_TYPE": "application/json",
            "HTTP_AUTHORIZATION": f"Fleet ada - boot {number:040x}",
            "HTTP_X_REQUEST_ID": f"r-{number}",
            "HTTP_IDEMPOTENCY_KEY": f"k-{number}",
        }
    found = read(reader, *signed(1)[:2])
    assert found is not None
    assert "HTTP_IDEMPOTENCY_KEY" not in found
    found = read(reader, *signed(1)[:2], "Idempotency-Key: node 7a")
    assert found is not None
    assert found["HTTP_IDEMPOTENCY_KEY"] == "node 7a"
    assert len(known) == 1


@pytest.mark.parametrize(
    "lines",
    [
        ("Authorization: Bearer x", *signed(1)),
        ("X-Request-Id: other", *signed(1)),
        ("idempotency-key: other", *signed(1)),
        (*signed(1), "Idempotency-Key: other"),
        (*signed(1), "Transfer-Encoding: chunked"),
        (signed(1)[0], "Content-Length: 9", *signed(1)[1:]),
        ("Authorization: Fleet ada", "X-Request-Id: 1"),
        ("Authorization: Fleet a - \x010", "X-Request-Id: 1"),
        (*signed(1)[:2], "Idempotency-Key: " + 201 * "k"),
        (*signed(1)[:2], "Idempotency-Key: nodes 7a"),
        ("Idempotency-Key: node 7a",),
    ],
)
def test_gunicorn_reads_what_no_node_sends(
    reader: FastReader, known: KnownHeads, lines: tuple[str, ...]
) -> None:
    # Also when the part before is known.
    assert read(reader, *signed(1)) is not None
    assert read(reader, *lines) is None
