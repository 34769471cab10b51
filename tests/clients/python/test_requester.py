"""Requesters over both transports send a request again with the same bytes."""

import gc
import json
import logging
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import requests

from gym_http_client import (
    Client,
    RemoteEnv,
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    UnexpectedAnswer,
)
from gym_http_client.errors import Failure
from gym_http_client.http.addresses import Address
from gym_http_client.http.requester import Requester, Transport
from gym_http_client.http.requests_transport import RequestsTransport, new_session
from tests.support.fake_clock import FakeClock
from tests.support.peers.scripted_server import (
    Act,
    ScriptedServer,
    http_answer,
    silence,
    then_close,
    then_reset,
)
from tests.support.server import Server

STEP = ("POST", "/v1/envs/3c657dbc/step/", b'{"action":1}')
OK = http_answer(b"done")
BUSY = http_answer(b"busy", "Retry-After: 3", status=503)


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


Connect = Callable[..., Requester]


def over_requests(address: Address) -> Transport:
    """Make the transport on ``requests``."""
    return RequestsTransport(address, new_session(address))


@pytest.fixture(autouse=True)
def errors_are_collected(nothing_left_behind: None) -> Iterator[None]:
    """Free the errors: they hold their answers, which hold their connections."""
    yield
    gc.collect()


@pytest.fixture(params=[None, over_requests], ids=["socket", "requests"])
def connect(time: FakeClock, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Return a factory of requesters without pauses, closed after the test."""
    made: list[Requester] = []

    def make(url: str, **options: Any) -> Requester:
        options = {"token": "", "retries": time.retries(), **options}
        made.append(Requester(url, **{"transport": request.param, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    "trouble",
    [
        then_close(),
        then_reset(),
        then_close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
        http_answer(b"", status=408),
        http_answer(b"", status=429),
        http_answer(b"", status=503),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_a_request_is_sent_again_as_it_was(
    method: str, trouble: bytes | Act, time: FakeClock, connect: Connect
) -> None:
    with ScriptedServer.of(trouble, trouble, OK) as scripted:
        reply = connect(scripted.url).request(method, "/x", b"bytes", accept="a/b")
    assert (reply.status, reply.body) == (200, b"done")
    assert len(scripted.seen) == 3
    assert len({(seen.head, seen.body) for seen in scripted.seen}) == 1
    assert (scripted.seen[0].header("Idempotency-Key") is None) == (method != "POST")
    assert time.pauses == pytest.approx([0.05, 0.1])


def test_a_time_out_is_followed_by_another_try(connect: Connect) -> None:
    with ScriptedServer.of(silence, OK) as scripted:
        link = connect(scripted.url, time_limit=0.05)
        assert link.request(*STEP).body == b"done"
    assert scripted.seen[0].head == scripted.seen[1].head


@pytest.mark.parametrize(
    "status", [200, 204, 301, 400, 401, 403, 404, 409, 410, 422, 500, 501, 502, 504]
)
def test_other_answers_count(status: int, connect: Connect) -> None:
    with ScriptedServer.of(http_answer(status=status)) as scripted:
        link = connect(scripted.url)
        assert link.request(*STEP).status == status
        assert link.request("GET", "/").status == status
    assert len(scripted.seen) == 2


def test_settings_may_retry_further_statuses(time: FakeClock, connect: Connect) -> None:
    full = http_answer(b"", "Retry-After: 2", status=507)
    retries = replace(
        time.retries(), repeated=frozenset({507}), total=math.inf, longest=0.5
    )
    with ScriptedServer.of(*[full] * 10, OK) as scripted:
        reply = connect(scripted.url, retries=retries).request("PUT", "/", b"bytes")
    assert reply.body == b"done"
    assert len(scripted.seen) == 11
    assert len(time.pauses) == 10
    assert all(2.0 <= pause <= 2.5 for pause in time.pauses)


def test_further_headers_are_sent(connect: Connect) -> None:
    headers = (("If-None-Match", "*"), ("Content-Digest", "sha-256=:AA==:"))
    with ScriptedServer.of(OK) as scripted:
        connect(scripted.url).request("PUT", "/", headers=headers)
        (seen,) = scripted.seen
    assert [seen.header(name) for name, _ in headers] == ["*", "sha-256=:AA==:"]
    assert seen.header("Content-Length") == "0"


@pytest.mark.parametrize("header", [("If Match", "*"), ("If-Match", "a\r\nb: c")])
def test_malformed_headers_are_not_sent(
    header: tuple[str, str], connect: Connect
) -> None:
    with pytest.raises(ValueError, match="is no header"):
        connect("http://127.0.0.1:1").request("PUT", "/", headers=(header,))


@pytest.mark.parametrize("method", ["DELETE", "HEAD"])
@pytest.mark.parametrize("trouble", [then_close(), BUSY])
def test_other_methods_are_sent_once(
    method: str, trouble: bytes | Act, connect: Connect
) -> None:
    with ScriptedServer.of(then_close(OK), trouble, OK) as scripted:
        link = connect(scripted.url)
        assert link.request("GET", "/").status == 200
        if trouble is BUSY:
            assert link.request(method, "/").status == 503
        else:
            with pytest.raises(ServerUnreachable) as caught:
                link.request(method, "/")
            assert (caught.value.key, caught.value.attempts) == (None, 1)
    assert [seen.line for seen in scripted.seen] == ["GET /", f"{method} /"]


def test_a_stale_connection_costs_no_pause(time: FakeClock, connect: Connect) -> None:
    turns = threading.Barrier(2)
    answers = then_close(OK, turns), then_reset(OK, turns), OK
    with ScriptedServer.of(*answers) as scripted:
        link = connect(scripted.url)
        for _ in range(2):
            assert link.request(*STEP).body == b"done"
            turns.wait(20)
            turns.wait(20)
        assert link.request(*STEP).body == b"done"
    assert time.pauses == []
    assert len(scripted.seen) == 3


def test_retry_after_is_honoured(time: FakeClock, connect: Connect) -> None:
    with ScriptedServer.of(BUSY, OK) as scripted:
        assert connect(scripted.url).request(*STEP).body == b"done"
    assert time.pauses == pytest.approx([3.05])


def test_the_last_answer_counts_when_the_time_is_over(
    time: FakeClock, connect: Connect
) -> None:
    with ScriptedServer.of(BUSY) as scripted:
        reply = connect(scripted.url).request(*STEP)
    assert (reply.status, reply.body) == (503, b"busy")
    assert time.now < 120.0
    assert len({seen.header("Idempotency-Key") for seen in scripted.seen}) == 1


def test_no_server_is_unreachable_in_the_end(
    time: FakeClock, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with ScriptedServer.of(OK) as scripted:
        link = connect(scripted.url)
        link.request("GET", "/")
    link.close()
    with pytest.raises(ServerUnreachable) as caught:
        link.request(*STEP, key="k-1")
    error = caught.value
    assert type(error) is ServerUnreachable
    assert isinstance(error, requests.ConnectionError)
    assert (error.key, error.attempts) == ("k-1", len(time.pauses) + 1)
    assert error.attempts > 20
    assert error.url == scripted.url + STEP[1]
    for words in ("refused", error.url, "k-1", f"after {error.attempts} attempts"):
        assert words in str(error)
    assert str(error).endswith(": is a gym_http_server running there?")
    assert 110.0 < time.now < 120.0
    # A client that waits for minutes warns of the reason, once.
    assert len(caplog.records) == 1
    assert "refused; trying again for 120 s" in caplog.text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message": "none is free"}', "none is free (503); trying again for 120 s"),
        (b"busy", "status 503; trying again for 120 s"),
        (b"[1]", "status 503; trying again for 120 s"),
    ],
)
def test_the_message_of_a_busy_server_is_shown(
    body: bytes, words: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    busy = http_answer(body, status=503)
    with ScriptedServer.of(*[busy] * 8, OK) as scripted:
        assert connect(scripted.url).request(*STEP, key="k-1").status == 200
    assert len(caplog.records) == 1
    assert words in caplog.text


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}", "http+unix:///none/such"])
def test_a_server_never_reached_is_soon_given_up(
    url: str, time: FakeClock, connect: Connect
) -> None:
    with ScriptedServer.of(OK) as scripted:
        pass
    link = connect(url.format(scripted.port))
    for _ in range(2):
        began = time.now
        with pytest.raises(ServerUnreachable, match="after 7 attempts"):
            link.request("GET", "/")
        assert 3.0 < time.now - began < 5.0


def test_an_unknown_host_name_is_soon_given_up(
    monkeypatch: pytest.MonkeyPatch, time: FakeClock, connect: Connect
) -> None:
    def unknown(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ServerUnreachable, match="not known"):
        connect("http://there.invalid").request("GET", "/")
    assert time.now < 5.0


def test_without_time_for_it_nothing_is_sent_again(
    time: FakeClock, connect: Connect
) -> None:
    with ScriptedServer.of(silence) as scripted:
        link = connect(scripted.url, retries=time.retries(0.0), time_limit=0.05)
        with pytest.raises(ServerTimeout) as caught:
            link.request(*STEP)
    assert len(scripted.seen) == 1
    assert caught.value.attempts == 1
    assert str(caught.value.key) in str(caught.value)


def test_an_invalid_answer_is_not_retried(connect: Connect) -> None:
    with ScriptedServer.of(b"SSH-2.0-OpenSSH_9.2\r\n") as scripted:
        with pytest.raises(UnexpectedAnswer, match="is it a gym_http_server") as caught:
            connect(scripted.url).request(*STEP)
        assert caught.value.url == scripted.url + STEP[1]
    assert len(scripted.seen) == 1


def test_each_post_has_a_key_of_its_own(connect: Connect) -> None:
    with ScriptedServer.of(OK) as scripted:
        one, other = connect(scripted.url), connect(scripted.url)
        for link in (one, one, other):
            link.request("POST", "/")
        one.request("POST", "/", key="mine")
        one.request("GET", "/", key="mine")
        one.request("GET", "/")
    keys = [seen.header("Idempotency-Key") for seen in scripted.seen]
    assert keys[3:] == ["mine", "mine", None]
    assert len(set(keys[:3])) == 3
    assert all(keys[:3])


def test_a_wrong_request_is_no_failure(time: FakeClock, connect: Connect) -> None:
    with ScriptedServer.of(OK) as scripted:
        link = connect(scripted.url)
        with pytest.raises(ValueError, match="is no quoted path"):
            link.request("GET", "/a b")
        assert link.request("GET", "/").status == 200
    assert time.pauses == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_a_connection_and_keys_of_its_own(
    connect: Connect,
) -> None:
    with ScriptedServer.of(OK) as scripted:
        link = connect(scripted.url)
        link.request(*STEP)
        child = os.fork()
        if child == 0:
            done = False
            try:
                done = link.request(*STEP).body == b"done"
                link.close()
            finally:
                os._exit(0 if done else 1)
        assert os.waitpid(child, 0)[1] == 0
        link.request(*STEP)
    assert [seen.connection for seen in scripted.seen] == [0, 1, 0]
    keys = [str(seen.header("Idempotency-Key")) for seen in scripted.seen]
    first, second, third = (key.rpartition("-") for key in keys)
    assert first[0] == third[0] != second[0]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_in_an_exchange_does_not_lock_the_child_out(connect: Connect) -> None:
    request, answer = threading.Event(), threading.Event()

    def slow(sender: Any) -> None:
        request.set()
        answer.wait(20.0)
        sender.sendall(OK)

    with ScriptedServer.of(slow, OK) as scripted:
        link = connect(scripted.url)
        thread = threading.Thread(target=link.request, args=STEP)
        thread.start()
        assert request.wait(20.0)
        child = os.fork()
        if child == 0:
            try:
                link.request(*STEP)
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        answer.set()
        thread.join()
    assert len(scripted.seen) == 2


def test_errors_hold_no_cycle(connect: Connect, time: FakeClock) -> None:
    def request_once() -> None:
        with pytest.raises(ServerUnreachable):
            link.request(*STEP)

    def failures() -> set[int]:
        return {id(x) for x in gc.get_objects() if isinstance(x, Failure)}

    with ScriptedServer.of(then_close()) as scripted:
        link = connect(scripted.url, retries=time.retries(1.0))
        request_once()
        gc.collect()
        gc.disable()
        try:
            before = failures()
            request_once()
            assert failures() <= before
        finally:
            gc.enable()


@pytest.fixture
def proxied(
    monkeypatch: pytest.MonkeyPatch, nothing_left_behind: None
) -> Iterator[Callable[[str], None]]:
    """Return a function that sets a proxy in the environment variables."""

    def name(url: str) -> None:
        for variable in ("http_proxy", "no_proxy", "all_proxy"):
            monkeypatch.delenv(variable, raising=False)
            monkeypatch.delenv(variable.upper(), raising=False)
        monkeypatch.setenv("http_proxy", url)

    yield name
    # The errors that a test holds hold answers, and those hold connections.
    gc.collect()


def test_a_proxy_of_the_environment_is_used(
    proxied: Callable[[str], None], time: FakeClock, connect: Connect
) -> None:
    trouble = then_close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
    with ScriptedServer.of(trouble, BUSY, http_answer(b"done", "X-Y: z")) as proxy:
        proxied(proxy.url)
        link = connect("http://there.invalid:5000/p", token="t\xf6ken")
        reply = link.request(*STEP, content_type="application/json", key="k-1")
        assert (reply.status, reply.body, reply.headers["x-y"]) == (200, b"done", "z")
        assert link.request("GET", "/").headers["content-length"] == "4"
    first = proxy.seen[0]
    assert first.line == f"POST http://there.invalid:5000/p{STEP[1]}"
    assert first.header("Idempotency-Key") == "k-1"
    assert first.header("Authorization") == "Bearer t\xf6ken"
    assert first.body == STEP[2]
    assert [(s.head, s.body) for s in proxy.seen[:3]] == [(first.head, first.body)] * 3
    assert len(time.pauses) == 2


def test_failures_through_a_proxy(
    proxied: Callable[[str], None], time: FakeClock, connect: Connect
) -> None:
    once = {"retries": time.retries(0.0)}
    with ScriptedServer.of(silence, http_answer(b"x" * 101), then_reset()) as proxy:
        proxied(proxy.url)
        slow = connect("http://there.invalid", time_limit=0.05, **once)
        with pytest.raises(ServerTimeout):
            slow.request("GET", "/")
        with pytest.raises(UnexpectedAnswer, match="more than 100 bytes"):
            connect(
                "http://there.invalid", max_body=100, transport=None, **once
            ).request("GET", "/")
        with pytest.raises(ServerUnreachable):
            connect("http://there.invalid", **once).request("DELETE", "/")
        with pytest.raises(ValueError, match="is no quoted path"):
            slow.request("GET", "/a b")
    with pytest.raises(ServerUnreachable, match="refused"):
        connect("http://there.invalid", **once).request("GET", "/")


SHOWN = r"through the proxy http://127\.0\.0\.1:\d+"


@pytest.mark.parametrize("status", [403, 407, 200])
def test_an_answer_of_a_proxy_names_it(
    proxied: Callable[[str], None], status: int
) -> None:
    page = http_answer(b"<html>Not from here.</html>", status=status)
    with ScriptedServer.of(page, page) as proxy:
        proxied(f"http://me:secret@127.0.0.1:{proxy.port}")
        with pytest.raises(UnexpectedAnswer, match=SHOWN) as caught:
            RemoteEnv("http://there.invalid", "CartPole-v1")
        assert "secret" not in str(caught.value)
        assert "NO_PROXY" in str(caught.value)
        with (
            pytest.raises(UnexpectedAnswer, match=SHOWN),
            Client("http://there.invalid") as client,
        ):
            client.env_create("CartPole-v1")


def test_a_refused_tunnel_names_the_proxy(
    proxied: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, time: FakeClock
) -> None:
    with ScriptedServer.of(http_answer(b"", status=407)) as proxy:
        proxied(proxy.url)
        monkeypatch.setenv("https_proxy", proxy.url)
        link = Requester("https://there.invalid", retries=time.retries(0.0))
        with pytest.raises(ServerUnreachable, match=f"407.*{SHOWN}"):
            link.request("GET", "/")
    with pytest.raises(ServerUnreachable, match=f"refused.*{SHOWN}"):
        link.request("GET", "/")


def test_no_proxy_is_used_for_excluded_hosts(
    proxied: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    connect: Connect,
) -> None:
    with ScriptedServer.of(OK) as scripted:
        proxied("http://proxy.invalid:1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert connect(scripted.url).request("GET", "/").body == b"done"
    assert scripted.seen[0].line == "GET /"


def test_the_shipped_server(server: Server) -> None:
    with Requester(server.url) as link:
        reply = link.request("POST", "/v1/envs/", b'{"env_id":"CartPole-v1"}')
        assert reply.status == 200
        path = f"/v1/envs/{json.loads(reply.body)['instance_id']}/"
        assert link.request("POST", path + "reset/", b'{"seed":42}').status == 200
        steps = [link.request("POST", path + "step/", b'{"action":1}') for _ in "12"]
        assert [step.status for step in steps] == [200, 200]
        assert steps[0].body != steps[1].body
        assert link.request("DELETE", path).status == 204


def test_the_token_of_the_shipped_server(make_server: Callable[..., Server]) -> None:
    url = make_server("--token", "a-s3cret-token/=").url
    with (
        Requester(url, token="") as without,
        Requester(url, token="a-s3cret-token/=") as link,
    ):
        assert without.request("GET", "/v1/").status == 401
        assert link.request("GET", "/v1/").status == 200
    with Requester(url.replace("//", "//:a-s3cret-token%2F%3D@")) as link:
        assert link.request("GET", "/v1/").status == 200
    with pytest.raises(ServerError, match="token is missing or wrong") as refused:
        RemoteEnv(url, "CartPole-v1", token="a-s3cret-token/=")
    assert "or pass Server(url, token=TOKEN)" in refused.value.__notes__[-1]
