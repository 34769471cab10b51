"""One of several tokens cannot use up what all tokens need."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.peers.external_env import ExternalEnv
from tests.support.raw import Response
from tests.support.runs import Run
from tests.support.server import Server
from tests.support.tls import secure_server
from tests.support.token_file import api_of, write_file
from tests.support.wait import wait_until
from tests.support.websocket import WebSocket

MakeServer = Callable[..., Server]

#: Descriptors of the server's processes; a web worker has half as many connections.
FILES = 128
PLACES = FILES // 2
PREFIX = ("prlimit", f"--nofile={FILES}:{FILES}")


@pytest.fixture
def shared(make_server: MakeServer, tmp_path: Path) -> Server:
    """A server with several tokens, and few places."""
    return make_server(
        *("--tokens", write_file(tmp_path), "--max-external", "4"),
        prefix=PREFIX,
    )


def check_refusal(server: Server, answer: Response, what: str) -> None:
    """Check that a refusal names the token, and that the log does, too."""
    problem = error(answer, 429, "share-used-up")
    assert f"the token 'ada' holds {what}" in problem["detail"]
    assert int(str(answer.header("Retry-After"))) >= 1
    logged = server.stderr.count(
        f"gym_http_server.shares: the token 'ada' holds {what}"
    )
    assert 1 <= logged <= 10


def test_tickets(shared: Server) -> None:
    ada, bob = api_of(shared, "ada"), api_of(shared, "bob")
    answers = [ada.post("/v1/tickets/") for _ in range(600)]
    given = [each for each in answers if each.status == 200]
    assert len(given) == 512
    check_refusal(shared, answers[-1], "512 of 1024 unused tickets")
    for _ in range(100):
        assert ok(bob.post("/v1/tickets/"))["ticket"]


def test_external_environments(shared: Server) -> None:
    ada, bob = api_of(shared, "ada"), api_of(shared, "bob")
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(ExternalEnv.to(ada))
        third = stack.enter_context(ExternalEnv(ada))
        assert third.welcome["type"] == "refused"
        assert third.welcome["code"] == "too-many-external"
        assert "the token 'ada' holds 2 of 4 connections" in third.welcome["message"]
        assert "gym_http_server.shares: the token 'ada' holds 2 of 4" in shared.stderr
        stack.enter_context(ExternalEnv.to(bob))


def test_requests_that_wait(shared: Server) -> None:
    ada, bob = api_of(shared, "ada"), api_of(shared, "bob")
    mine, others = ada.create(), bob.create()
    path = mine.path("log/?from=0&wait_s=20")

    def refused() -> Response | None:
        answer = ada.get("/v1/instances/")
        return answer if answer.status == 429 else None

    with ThreadPoolExecutor(PLACES) as pool:
        polls = [pool.submit(ada.get, path) for _ in range(PLACES)]
        answer = wait_until(refused, 15.0, "a refusal")
        what = "32 of 64 requests under way in a web worker"
        check_refusal(shared, answer, what)
        # For another token, all is as before.
        others.reset()
        for _ in range(20):
            others.step(0)
        # It ends the waits.
        no_content(others.close())
        root = Api(shared, api_of(shared, "root").headers)
        no_content(root.request("DELETE", mine.path()))
        statuses = {each.result().status for each in polls}
    assert statuses == {200, 429}


def test_waits_with_the_token_of_a_run(make_server: MakeServer) -> None:
    api = Api(make_server(prefix=PREFIX))
    runs = [Run.create(api, name) for name in ("greedy", "modest")]
    greedy, modest = (
        Api(api.server, {"Authorization": f"Bearer {run.tokens['trainer']}"})
        for run in runs
    )

    def refused() -> Response | None:
        answer = greedy.get(runs[0].path())
        return answer if answer.status == 429 else None

    with ThreadPoolExecutor(PLACES) as pool:
        path = runs[0].path("samples/?after=0&wait_s=20")
        polls = [pool.submit(greedy.get, path) for _ in range(PLACES)]
        answer = wait_until(refused, 15.0, "a refusal")
        error(answer, 429, "share-used-up")
        for _ in range(20):
            assert modest.get(runs[1].path()).status == 200
        # It ends the waits.
        no_content(api.request("DELETE", runs[0].path()))
        assert {each.result().status for each in polls} <= {401, 404, 429}


def test_streams_over_tls(tmp_path: Path) -> None:
    flags = "--tokens", write_file(tmp_path)
    with secure_server(tmp_path, *flags, prefix=PREFIX) as server, ExitStack() as stack:
        ada, bob = api_of(server, "ada"), api_of(server, "bob")
        mine, others = ada.create(), bob.create()

        def opened(instance: Instance) -> Response:
            shown = instance.api.headers["Authorization"]
            stream = WebSocket.to(instance, authorization=shown)
            stack.enter_context(stream)
            return stream.response

        assert [opened(mine).status for _ in range(8)] == [101] * 8
        check_refusal(server, opened(mine), "8 of 16 streams over TLS")
        assert opened(others).status == 101
        others.reset()
        stack.close()
        # Their places are free again.
        wait_until(lambda: opened(mine).status == 101, 10.0, "a place")
        for each in (mine, others):
            no_content(each.close())
