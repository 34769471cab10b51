"""The Python client against servers that are absent, broken or not ours."""

import contextlib
import gc
import logging
import os
import pickle
import socket
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
import requests

from gym_http_client import (
    Client,
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    UnexpectedAnswer,
)
from gym_http_client.http.retries import Retries
from tests.support.fake_clock import FakeClock
from tests.support.faults.http_faults import Fault, FaultyNetwork
from tests.support.peers.scripted_server import (
    Act,
    ScriptedServer,
    http_answer,
    silence,
    then_close,
    then_reset,
)
from tests.support.server import Server


@pytest.fixture(autouse=True)
def errors_are_collected(nothing_left_behind: None) -> Iterator[None]:
    """Free the errors: they hold their answers, which hold their connections."""
    yield
    gc.collect()


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


pytestmark = pytest.mark.usefixtures("transport")

ROUTE = "POST /v1/envs/3c657dbc/step/"
OK = http_answer(b'{"instance_id": "3c657dbc"}')
BUSY = http_answer(b'{"message": "full"}', "Retry-After: 3", status=503)


def _failure(
    url: str, time: FakeClock, timeout: float = 10.0, total: float = 120.0
) -> ServerError:
    retries = time.retries(total)
    client = Client(url, timeout=timeout, retries=retries)
    with client, pytest.raises(ServerError) as caught:
        client.env_step("3c657dbc", 0)
    return caught.value


def _client(scripted: ScriptedServer, time: FakeClock) -> Client:
    return Client(scripted.url, retries=time.retries())


@contextlib.contextmanager
def _listening() -> Iterator[str]:
    """Listen without ever answering."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_server_never_reached_is_soon_given_up(time: FakeClock) -> None:
    with _listening() as url:
        pass
    error = _failure(url, time)
    assert type(error) is ServerUnreachable
    assert isinstance(error, requests.ConnectionError)
    assert error.status_code is None
    assert error.url == f"{url}/v1/envs/3c657dbc/step/"
    assert "Connection refused" in error.message
    assert error.attempts == 7
    assert 3.0 < time.now < 5.0


def test_an_unknown_host_name_is_soon_given_up(
    monkeypatch: pytest.MonkeyPatch, time: FakeClock
) -> None:
    def unknown(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "not known" in _failure("http://there.invalid", time).message
    assert time.now < 5.0


def test_a_server_that_was_there_is_waited_for(time: FakeClock) -> None:
    with ScriptedServer.of(OK) as scripted:
        client = Client(scripted.url, retries=time.retries())
        client.env_create("CartPole-v1")
        client.close()
    with client, pytest.raises(ServerUnreachable, match="Connection refused") as caught:
        client.env_step("3c657dbc", 0)
    assert 110.0 < time.now < 120.0
    assert caught.value.key is not None
    assert caught.value.key in caught.value.message


def test_the_server_is_probed_once(time: FakeClock) -> None:
    with _listening() as url, Client(url, timeout=0.05) as client:
        assert client.healthy() is False
    with Client(url, retries=time.retries()) as client:
        assert client.healthy() is False
    with ScriptedServer.of(BUSY) as scripted, _client(scripted, time) as client:
        assert client.healthy() is False
    assert len(scripted.seen) == 1
    assert time.pauses == []


def test_a_silent_server_times_out(time: FakeClock) -> None:
    with _listening() as url:
        error = _failure(url, time, timeout=0.05, total=1.0)
    assert type(error) is ServerTimeout
    assert isinstance(error, ServerUnreachable)
    assert isinstance(error, requests.Timeout)
    assert "0.05 s" in error.message
    assert error.attempts > 2


def test_an_answer_that_stops_times_out(time: FakeClock) -> None:
    def stop(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
        silence(connection)

    with ScriptedServer.of(stop) as scripted:
        error = _failure(scripted.url, time, timeout=0.05, total=0.0)
    assert type(error) is ServerTimeout
    assert error.attempts == 1


@pytest.mark.parametrize(
    "trouble",
    [
        then_close(),
        then_reset(),
        then_close(b"HTTP/1.1 2"),
        then_close(b"HTTP/1.1 200 OK\r\nContent-"),
        then_close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
        http_answer(b"", status=408),
        http_answer(b"", status=429),
        http_answer(b"", status=503),
    ],
)
def test_a_request_is_sent_again_as_it_was(
    trouble: bytes | Act, time: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    # urllib3's log record of a truncated head holds its socket.
    caplog.set_level(logging.ERROR, "urllib3.connection")
    with (
        ScriptedServer.of(trouble, trouble, OK) as scripted,
        _client(scripted, time) as client,
    ):
        assert client.env_create("CartPole-v1") == "3c657dbc"
        assert client.env_create("CartPole-v1") == "3c657dbc"
    assert time.pauses == [0.05, 0.1]
    first, second, third, other = scripted.seen
    assert (first.head, first.body) == (second.head, second.body)
    assert (first.head, first.body) == (third.head, third.body)
    key = first.header("Idempotency-Key")
    assert key
    assert key != other.header("Idempotency-Key")


def test_a_get_is_sent_again_without_a_key(time: FakeClock) -> None:
    answer = http_answer(b'{"all_envs": {}}')
    with (
        ScriptedServer.of(then_close(), answer) as scripted,
        _client(scripted, time) as client,
    ):
        assert client.env_list_all() == {}
    assert [seen.header("Idempotency-Key") for seen in scripted.seen] == [None, None]


def test_retry_after_is_honoured(time: FakeClock) -> None:
    with ScriptedServer.of(BUSY, OK) as scripted, _client(scripted, time) as client:
        client.env_create("CartPole-v1")
    assert time.pauses == [3.05]


def test_the_last_answer_counts_when_the_time_is_over(time: FakeClock) -> None:
    with ScriptedServer.of(BUSY) as scripted:
        error = _failure(scripted.url, time)
    assert str(error) == "full (503)"
    assert time.now < 120.0


@pytest.mark.parametrize("status", [400, 401, 404, 409, 410, 422, 500, 502, 504])
def test_other_answers_count(status: int, time: FakeClock) -> None:
    with ScriptedServer.of(
        http_answer(b'{"message": "no"}', status=status)
    ) as scripted:
        assert _failure(scripted.url, time).status_code == status
    assert len(scripted.seen) == 1


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (http_answer(b"<h1>Bad Gateway</h1>", status=502), 502, "has no message"),
        (http_answer(b'["message"]', status=500), 500, "has no message"),
        (http_answer(b"<h1>Welcome</h1>"), 200, "is not JSON"),
        (
            http_answer(b"", "Location: /elsewhere", status=301),
            301,
            "leads to /elsewhere",
        ),
    ],
)
def test_other_servers_are_recognised(
    answer: bytes, status: int, words: str, time: FakeClock
) -> None:
    with ScriptedServer.of(answer) as scripted:
        error = _failure(scripted.url, time)
    assert type(error) is UnexpectedAnswer
    assert isinstance(error, requests.HTTPError)
    assert error.status_code == status
    assert error.response is not None
    assert error.response.status_code == status
    assert words in error.message
    assert [seen.line for seen in scripted.seen] == [ROUTE]


def test_answers_other_than_http_are_not_retried(time: FakeClock) -> None:
    with ScriptedServer.of(b"SSH-2.0-OpenSSH_9.2\r\n") as scripted:
        error = _failure(scripted.url, time)
    assert type(error) is UnexpectedAnswer
    assert "is it a gym_http_server?" in error.message
    assert len(scripted.seen) == 1


def test_an_exception_of_the_caller_is_no_cause(time: FakeClock) -> None:
    with ScriptedServer.of(then_close()) as scripted:
        try:
            raise FileNotFoundError("some file of the agent's")
        except FileNotFoundError:
            _failure(scripted.url, time)
    assert time.now > 100.0


def test_a_forked_process_has_keys_of_its_own(time: FakeClock) -> None:
    answer = http_answer(b"", "Connection: close", status=204)
    with ScriptedServer.of(answer) as scripted, _client(scripted, time) as client:
        client.env_close("3c657dbc")
        pid = os.fork()
        if pid == 0:
            client.env_close("3c657dbc")
            os._exit(0)
        os.waitpid(pid, 0)
        client.env_close("3c657dbc")
    assert len({seen.header("Idempotency-Key") for seen in scripted.seen}) == 3


def test_over_a_bad_network_no_step_is_added_or_lost(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    # urllib3 logs heads that were cut off, and a captured record keeps the connection.
    caplog.set_level(logging.CRITICAL, "urllib3")
    local = gymnasium.make("Taxi-v4")
    retries = Retries(first=0.005, longest=0.2)
    with FaultyNetwork(server.port, probability=0.3, seed=5) as chaos:
        with Client(chaos.url, timeout=0.5, retries=retries) as client:
            remote = client.env_create("Taxi-v4")
            assert client.env_reset(remote, seed=3) == local.reset(seed=3)[0]
            local.action_space.seed(3)
            client.env_action_space_sample(remote, seed=3)
            local.action_space.sample()
            counts = chaos.counts()
            while min(counts[fault] for fault in Fault) < 5:
                action = client.env_action_space_sample(remote)
                assert action == local.action_space.sample()
                observation, *_ = client.step(remote, action)
                expected = local.step(action)
                assert observation == expected[0]
                if expected[2] or expected[3]:
                    assert client.env_reset(remote) == local.reset()[0]
                counts = chaos.counts()
            client.env_close(remote)
        chaos.finish()
    with Client(server.url) as client:
        assert remote not in client.env_list_all()


def test_an_old_server_has_no_code(time: FakeClock) -> None:
    with ScriptedServer.of(
        http_answer(b'{"message": "Instance_id X unknown"}', status=400)
    ) as old:
        error = _failure(old.url, time)
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
    expected = "looks like http://.*; this one does not begin with http://"
    with pytest.raises(ValueError, match=expected) as caught:
        Client(address)
    assert "secret" not in str(caught.value)


def test_an_address_may_have_a_path() -> None:
    with Client("http://:secret@example.org:8443/gym/") as client:
        assert client.remote_base == "http://example.org:8443/gym"
