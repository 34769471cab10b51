"""Relay calls send what the API documents, and read its answers."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gym_http_client import ServerError
from gym_http_client.relay import Blob, RelayCalls
from gym_http_wire.bundles import BUNDLE, BatchHead, encode_batch
from tests.support.fake_clock import FakeClock
from tests.support.peers.scripted_server import ScriptedServer, http_answer

# SHA-256 of "abc", as in RFC 9530 and FIPS 180-2.
ABC = "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:"
RUN = "/v1/runs/a.b/"
BATCH = encode_batch(BatchHead("s-1", 1, 0, 1), b"abc")

Call = Callable[[RelayCalls], Any]
CALLS: list[tuple[Call, str, Any]] = [
    (lambda c: c.create(limits={"lease_s": 5}), "POST /v1/runs/", None),
    (lambda c: c.runs(), "GET /v1/runs/", None),
    (lambda c: c.status(), f"GET {RUN}", None),
    (lambda c: c.delete(), f"DELETE {RUN}", None),
    (lambda c: c.create_token("worker"), f"POST {RUN}tokens/", {"role": "worker"}),
    (lambda c: c.tokens(), f"GET {RUN}tokens/", None),
    (lambda c: c.revoke_token("t/1"), f"DELETE {RUN}tokens/t%2F1/", None),
    (lambda c: c.create_session("w1"), f"POST {RUN}sessions/", {"worker": "w1"}),
    (lambda c: c.session("s"), f"GET {RUN}sessions/s/", None),
    (lambda c: c.end_session("s"), f"DELETE {RUN}sessions/s/", None),
    (
        lambda c: c.put_batch(b"abc", session="s", number=7, policy=2, count=5),
        f"POST {RUN}samples/?session=s&number=7&policy=2&count=5",
        b"abc",
    ),
    (lambda c: c.put_bundle(b"abc"), f"POST {RUN}samples/", b"abc"),
    (lambda c: c.put_bundle(BATCH), f"POST {RUN}samples/?session=s-1", BATCH),
    (lambda c: c.samples(0), f"GET {RUN}samples/?after=0", None),
    (
        lambda c: c.samples(4, max_bytes=9, wait_s=1.5, reader="r"),
        f"GET {RUN}samples/?after=4&max_bytes=9&wait_s=1.5&reader=r",
        None,
    ),
    (lambda c: c.commit("r", 9), f"PUT {RUN}readers/r/", {"after": 9}),
    (lambda c: c.commit("r", 9, 5), f"PUT {RUN}readers/r/", {"after": 9, "draws": 5}),
    (lambda c: c.reader("r"), f"GET {RUN}readers/r/", None),
    (lambda c: c.delete_reader("r"), f"DELETE {RUN}readers/r/", None),
    (lambda c: c.lease(max_batches=3), f"POST {RUN}samples/lease/", {"max_batches": 3}),
    (lambda c: c.ack(["l"]), f"POST {RUN}samples/ack/", {"leases": ["l"]}),
    (lambda c: c.nack(["l"]), f"POST {RUN}samples/nack/", {"leases": ["l"]}),
    (lambda c: c.aside(3), f"GET {RUN}samples/aside/?after=3", None),
    (lambda c: c.weights(), f"GET {RUN}weights/", None),
    (lambda c: c.weights(3), f"GET {RUN}weights/3/", None),
    (lambda c: c.weights("best"), f"GET {RUN}weights/best/", None),
    (lambda c: c.weights(wait_s=2.0), f"GET {RUN}weights/?wait_s=2.0", None),
    (
        lambda c: c.put_weights(b"abc", reader="r", after=4, draws=0),
        f"PUT {RUN}weights/?reader=r&after=4&draws=0",
        b"abc",
    ),
    (lambda c: c.state(), f"GET {RUN}state/", None),
    (lambda c: c.put_state(b"abc"), f"PUT {RUN}state/", b"abc"),
    (
        lambda c: c.put_records([{"type": "x"}, {"type": "y"}], session="s", number=2),
        f"POST {RUN}records/?session=s&number=2",
        b'{"type": "x"}\n{"type": "y"}\n',
    ),
    (
        lambda c: c.records(2, kind="episode"),
        f"GET {RUN}records/?after=2&type=episode",
        None,
    ),
]


@pytest.mark.parametrize(("call", "line", "body"), CALLS)
def test_calls_are_the_documented_requests(call: Call, line: str, body: Any) -> None:
    answer = http_answer(b'{"runs": [], "tokens": []}')
    with ScriptedServer.of(answer) as scripted, calls(scripted) as relay:
        call(relay)
        (seen,) = scripted.seen
    assert seen.line == line
    if isinstance(body, bytes):
        assert seen.body == body
    elif body is not None:
        assert json.loads(seen.body) == body
    digest = seen.header("Content-Digest")
    # The heads of a bundle have the digests of its batches.
    whole = isinstance(body, bytes) and seen.header("Content-Type") != BUNDLE
    assert (digest is None) == (not whole)
    if whole and seen.body == b"abc":
        assert digest == ABC


def calls(scripted: ScriptedServer) -> RelayCalls:
    return RelayCalls(scripted.url, "a.b", token="", retries=FakeClock().retries())


def test_weights_are_put_on_condition() -> None:
    answer = http_answer(b'{"version": 1, "etag": "\\"1-ab\\""}', status=201)
    with ScriptedServer.of(answer) as scripted, calls(scripted) as relay:
        assert relay.put_weights(b"abc")["version"] == 1
        relay.put_state(b"abc", etag='"1-ab"', content_type="application/x-npz")
        first, second = scripted.seen
    assert first.header("If-None-Match") == "*"
    assert first.header("If-Match") is None
    assert second.header("If-Match") == '"1-ab"'
    assert second.header("If-None-Match") is None
    assert second.header("Content-Type") == "application/x-npz"


def test_weights_come_with_version_and_type() -> None:
    answer = http_answer(
        b"abc", 'ETag: "7-ba7816bf8f01"', "Gym-Version: 7", "Content-Type: a/b"
    )
    same = b"HTTP/1.1 304 X\r\n\r\n"
    with ScriptedServer.of(answer, same) as scripted, calls(scripted) as relay:
        found = relay.weights()
        assert found == Blob(b"abc", '"7-ba7816bf8f01"', 7, "a/b")
        assert relay.weights(known=found.etag) is None
        assert scripted.seen[1].header("If-None-Match") == '"7-ba7816bf8f01"'


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda c: c.weights(), "no-weights"),
        (lambda c: c.state(), "no-state"),
        (lambda c: c.reader("r"), "unknown-reader"),
    ],
)
def test_what_does_not_exist_yet_is_none(call: Call, code: str) -> None:
    def problem(code: str) -> bytes:
        body = json.dumps({"message": "m", "code": code}).encode()
        return http_answer(body, status=404)

    unknown = problem("unknown-run")
    with (
        ScriptedServer.of(problem(code), unknown) as scripted,
        calls(scripted) as relay,
    ):
        assert call(relay) is None
        with pytest.raises(ServerError) as caught:
            call(relay)
    assert caught.value.code == "unknown-run"


def test_no_samples_are_none() -> None:
    none = b"HTTP/1.1 204 X\r\n\r\n"
    with ScriptedServer.of(none) as scripted, calls(scripted) as relay:
        assert relay.samples(3) is None
        assert relay.lease() is None


def test_records_are_lines_of_json() -> None:
    lines = http_answer(b'{"position": 1}\n{"position": 2}\n')
    with ScriptedServer.of(lines) as scripted, calls(scripted) as relay:
        assert relay.records() == [{"position": 1}, {"position": 2}]


def test_uploads_and_commits_are_retried() -> None:
    busy, done = http_answer(b"", status=503), http_answer(b'{"after": 3}')
    with ScriptedServer.of(busy, done) as scripted, calls(scripted) as relay:
        assert relay.commit("r", 3)["after"] == 3
        assert len(scripted.seen) == 2
