"""HTTP answers are parsed alike in any pieces, and malformed ones are refused."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_client.http import http1
from gym_http_client.http.http1 import BadAnswer, Reply, ReplyReader
from tests.support.raw import chunked


def head(*lines: str, version: str = "1.1", status: int = 200) -> bytes:
    return "\r\n".join([f"HTTP/{version} {status} OK", *lines, "", ""]).encode()


def sized(body: bytes, *lines: str, **options: object) -> bytes:
    return head(*lines, f"Content-Length: {len(body)}", **options) + body  # type: ignore[arg-type]


def read(
    data: bytes, cuts: list[int] | None = None, *, ended: bool = False, **options: int
) -> tuple[Reply | None, ReplyReader]:
    """Feed an answer in pieces, up to the one that makes it whole."""
    reader = ReplyReader(**options)  # type: ignore[arg-type]
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or ())})
    reply = None
    for begin, end in pairwise(places):
        assert reply is None, "it was whole before its end"
        reply = reader.feed(data[begin:end])
    if ended and reply is None:
        reply = reader.end()
    return reply, reader


BODY = b'{"observation":[0.5]}\n'
CHUNKS = head("Transfer-Encoding: Chunked") + chunked(BODY)
TRAILED = (
    head("Transfer-Encoding: chunked") + b"16;a=b\r\n" + BODY + b"\r\n0\r\nA: b\r\n\r\n"
)
CONTINUED = head(status=100) + head("A: b", status=103) + sized(BODY)


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (sized(BODY, "Content-Type: text/plain"), False),
        (sized(BODY), False),
        (CHUNKS, False),
        (TRAILED, False),
        (CONTINUED, False),
        (head() + BODY, True),
        (head(version="1.0") + BODY, True),
        (sized(BODY, version="1.0"), False),
    ],
)
@given(cuts=st.lists(st.integers(min_value=0), max_size=40))
def test_pieces_do_not_matter(answer: bytes, ended: bool, cuts: list[int]) -> None:
    once, _ = read(answer, ended=ended)
    assert once is not None
    assert (once.status, once.body) == (200, BODY)
    reply, reader = read(answer, cuts, ended=ended)
    assert reply == once
    assert reader.begun


@given(
    body=st.binary(max_size=300),
    size=st.integers(1, 50),
    cuts=st.lists(st.integers(min_value=0), max_size=20),
)
def test_any_body_comes_through(body: bytes, size: int, cuts: list[int]) -> None:
    for answer in (
        sized(body),
        head("transfer-encoding:chunked") + chunked(body, size),
    ):
        reply, reader = read(answer, cuts)
        assert reply is not None
        assert reply.body == body
        assert reader.keep_alive


@given(
    body=st.binary(min_size=20, max_size=300),
    rest=st.binary(max_size=5),
    steps=st.lists(st.integers(1, 50), max_size=9),
)
def test_a_large_body_is_received_into_its_memory(
    body: bytes, rest: bytes, steps: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http1, "LARGE_BYTES", 20)
        fed, reader = read(sized(body) + rest)
        assert fed is not None
        assert (fed.body, reader.keep_alive) == (body, not rest)
        reader = ReplyReader()
        assert reader.room is None
        assert reader.feed(sized(body)[: -len(body)]) is None
        reply, at = None, 0
        for step in [*steps, len(body)]:
            assert reply is None
            if at % 2:
                count = min(step, len(body) - at)
                reply = reader.feed(body[at : at + count])
            else:
                assert reader.room is not None
                count = min(step, len(reader.room))
                reader.room[:count] = body[at : at + count]
                reply = reader.fill(count)
            at += count
            if at == len(body):
                break
        assert reply is not None
        assert reply.body == body
        assert not memoryview(reply.content).readonly


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0), max_size=9))
def test_noise_is_refused_or_unfinished(data: bytes, cuts: list[int]) -> None:
    try:
        reply, _ = read(data, cuts, ended=True)
    except BadAnswer:
        return
    assert reply is None


@given(at=st.integers(0), byte=st.integers(0, 255), cuts=st.lists(st.integers(0)))
def test_a_flipped_byte_is_no_other_error(at: int, byte: int, cuts: list[int]) -> None:
    for answer in (CHUNKS, TRAILED, CONTINUED):
        damaged = bytearray(answer)
        damaged[at % len(damaged)] = byte
        reader = ReplyReader()
        places = sorted({0, len(damaged), *(cut % len(damaged) for cut in cuts)})
        try:
            for begin, end in pairwise(places):
                if reader.feed(bytes(damaged[begin:end])):
                    break
        except BadAnswer:
            pass


def _malformed() -> Iterator[tuple[str, bytes]]:
    yield "another protocol", b"SSH-2.0-OpenSSH_9.2\r\n"
    yield "HTTP/2", b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n"
    yield "HTTP/0.9", b"<html>"
    yield "no status", b"HTTP/1.1 OK\r\n\r\n"
    yield "a long status", b"HTTP/1.1 2000 OK\r\n\r\n"
    yield "a low status", b"HTTP/1.1 099 OK\r\n\r\n"
    yield "bare line feeds", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"
    yield "one bare line feed", head("A: b\nC: d")
    yield "a bare return", head("A: b\rContent-Length: 3")
    yield "a null", head("A: b\0")
    yield "no colon", head("Content-Length 5")
    yield "a space before the colon", head("Content-Length : 5")
    yield "a folded line", head("Content-Length:", " 5")
    yield "no name", head(": 5")
    yield "another protocol afterwards", head("Upgrade: h2c", status=101)
    yield "too many headers", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 12_000
    yield "too long a header", head("A: " + "b" * 70_000)
    yield "too many interim answers", head(status=100) * 4000
    for size in ("", "-1", "+1", "1_0", "0x5", "5, 5", "5 5", "²", "9" * 5000):
        yield f"a length of {size[:9]!r}", head(f"Content-Length: {size}")
    yield "two lengths", head("Content-Length: 5", "Content-Length: 6")
    yield "two ways", head("Content-Length: 5", "Transfer-Encoding: chunked")
    yield "another coding", head("Transfer-Encoding: gzip, chunked")
    for chunk in (b"x\r\n", b"\r\n", b"-1\r\n", b"5\n", b" 5\r\n", b"f" * 16 + b"\r\n"):
        yield f"a chunk {chunk!r}", head("Transfer-Encoding: chunked") + chunk
    begun = head("Transfer-Encoding: chunked") + b"1\r\na"
    yield "a chunk too long", begun + b"bc"
    yield "a chunk without an end", begun + b"\rb"
    yield "a long extension", begun + b"\r\n1;" + b"a" * 5000
    yield "endless trailers", begun + b"\r\n0\r\n" + b"A: b\r\n" * 12_000


@pytest.mark.parametrize(
    "answer", [pytest.param(data, id=name) for name, data in _malformed()]
)
@pytest.mark.parametrize("pieces", [1, 2, 1000])
def test_malformed_answers_are_refused(answer: bytes, pieces: int) -> None:
    step = -(-len(answer) // pieces)
    reader = ReplyReader()
    with pytest.raises(BadAnswer):  # noqa: PT012 - any of the pieces may do it
        for at in range(0, len(answer), step):
            assert reader.feed(answer[at : at + step]) is None


@pytest.mark.parametrize(
    "answer",
    [
        sized(b"x" * 101),
        head("Content-Length: 1000000000000"),
        head("Transfer-Encoding: chunked") + b"65\r\n",
        head("Transfer-Encoding: chunked") + chunked(b"x" * 101),
        head() + b"x" * 101,
    ],
)
def test_bodies_are_bounded(answer: bytes) -> None:
    with pytest.raises(BadAnswer, match="more than 100 bytes"):
        read(answer, max_body=100)


@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        (sized(b"x"), True),
        (sized(b"x", "Connection: Keep-Alive"), True),
        (sized(b"x", "Connection: x, Close"), False),
        (sized(b"x", "Connection: keep-alive", "Connection: close"), False),
        (sized(b"x", version="1.0"), False),
        (sized(b"x", "Connection: keep-alive", version="1.0"), True),
        (sized(b"x") + b"y", False),
        (CHUNKS, True),
        (CHUNKS + b"y", False),
        (head("Content-Length: 0"), True),
        (head("Content-Length: 0") + b"y", False),
        (head(status=204), True),
        (head("Content-Length: 0", status=204), True),
        (head("Content-Length: 5", status=204), False),
        (head("Transfer-Encoding: chunked", status=204), False),
        (head(status=204) + b"y", False),
        (head("Content-Length: 5", status=304), True),
        (head("Connection: close", status=204), False),
    ],
)
def test_when_a_connection_stays(answer: bytes, stays: bool) -> None:
    reply, reader = read(answer)
    assert reply is not None
    assert reader.keep_alive is stays


def test_answers_to_head_have_no_body() -> None:
    reply, reader = read(head("Content-Length: 5"), bodyless=True)
    assert reply is not None
    assert reply.body == b""
    assert reader.keep_alive


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 2", head(status=100), sized(BODY)[:-1], CHUNKS[:-1]]
)
def test_an_end_before_the_end_brings_nothing(answer: bytes) -> None:
    reply, reader = read(answer, ended=True)
    assert reply is None
    assert reader.begun is bool(answer)


def test_headers_are_a_mapping_by_lower_case_name() -> None:
    lines = ("Content-TYPE: a/B ", "X:1", "x: \t2", "Empty:", "L: \xe9")
    reply, _ = read(head(*lines, "Content-Length: 0").replace(b"\xc3\xa9", b"\xe9"))
    assert reply is not None
    assert dict(reply.headers) == {
        "content-type": "a/B",
        "x": "1, 2",
        "empty": "",
        "l": "\xe9",
        "content-length": "0",
    }
