"""Tickets of a running server, which open streams for web pages."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.api import Api, Instance, error, ok
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.websocket import TEXT, WebSocket

TOKEN = "canary-5f1d0c8e7b6a49322d14"
APP = "https://app.example"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server with a token and four web workers, which one origin may use."""
    flags = ["--token", TOKEN, "--allow-origin", APP, "--workers", "4"]
    with Server(*flags, token=TOKEN) as server:
        yield server


@pytest.fixture
def cart(guarded: Server) -> Iterator[Instance]:
    """A CartPole on it."""
    instance = Api(guarded).create()
    yield instance
    instance.close()


def issue(api: Api, **headers: str) -> str:
    """Get a ticket."""
    response = api.post("/v1/tickets/", headers=headers)
    assert response.header("Cache-Control") == "no-store"
    body = ok(response)
    assert body.keys() == {"expires_in_s", "ticket"}
    assert body["expires_in_s"] == 30
    return str(body["ticket"])


def shake(instance: Instance, query: str, **changes: str | None) -> Response:
    """Try to open a stream as a page does: with no token in any header."""
    path = instance.path(f"stream?{query}")
    changes = {"authorization": None, "sec_websocket_protocol": TEXT, **changes}
    with WebSocket.to(instance, path=path, **changes) as stream:
        if stream.response.status == 101:
            assert stream.call(op="reset", seed=1)["status"] == 200
        return stream.response


def test_a_ticket_opens_one_stream(cart: Instance) -> None:
    ticket = issue(cart.api)
    opened = shake(cart, f"session=mine&ticket={ticket}", origin=APP)
    assert (opened.status, opened.header("Gym-Session")) == (101, "mine")
    for _ in range(8):  # whichever worker it reaches
        again = shake(cart, f"session=mine&ticket={ticket}")
        problem = error(again, 401, "ticket-refused")
        assert again.header("WWW-Authenticate")
        assert ticket not in json.dumps(problem)


def test_any_worker_takes_it_for_any_instance(cart: Instance, guarded: Server) -> None:
    other = Api(guarded).create()
    for _ in range(8):
        assert shake(other, f"ticket={issue(cart.api)}").status == 101
    other.close()


def test_the_first_attempt_uses_it_up(cart: Instance) -> None:
    ticket = issue(cart.api)
    error(shake(cart, f"ticket={ticket}", sec_websocket_key="no"), 400, "bad-parameter")
    error(shake(cart, f"ticket={ticket}"), 401, "ticket-refused")


def test_pages_of_other_origins_are_refused_and_use_no_ticket(cart: Instance) -> None:
    ticket = issue(cart.api, Origin=APP)
    for _ in range(4):
        away = shake(cart, f"ticket={ticket}", origin="https://evil.example")
        error(away, 403, "origin-refused")
    assert shake(cart, f"ticket={ticket}", origin=APP).status == 101


def test_a_page_of_an_allowed_origin_gets_one(guarded: Server) -> None:
    api = Api(guarded, {"Origin": APP})
    assert issue(api)
    assert api.post("/v1/tickets").header("Access-Control-Allow-Origin") == APP
    evil = Api(guarded, {"Origin": "https://evil.example"})
    error(evil.post("/v1/tickets/"), 403, "origin-refused")
    request = {"Access-Control-Request-Method": "POST"}
    assert api.request("OPTIONS", "/v1/tickets/", headers=request).status == 204


def test_without_a_token_there_is_none(guarded: Server) -> None:
    for wrong in ("", "Bearer another-token-of-16"):
        api = Api(guarded, {"Authorization": wrong})
        for path in ("/v1/tickets/", "/v1/tickets", f"/v1/tickets/?token={TOKEN}"):
            error(api.post(path), 401, "unauthorized")


@pytest.mark.parametrize(
    "query",
    [
        f"token={TOKEN}",
        f"access_token={TOKEN}",
        f"authorization=Bearer%20{TOKEN}",
        f"session=a&token={TOKEN}",
    ],
)
def test_the_token_is_no_part_of_an_address(cart: Instance, query: str) -> None:
    error(shake(cart, query), 401, "unauthorized")


@pytest.mark.parametrize(
    "ticket", [TOKEN, "", "A" * 32, "..%2Fdraining", "%00", "%F0%9F", "x" * 1500]
)
def test_others_are_refused(cart: Instance, ticket: str) -> None:
    known = {"ticket-refused", "unauthorized"}
    assert error(shake(cart, f"ticket={ticket}"), 401)["code"] in known


def test_it_has_to_be_good_even_beside_the_token(cart: Instance) -> None:
    bearer = f"Bearer {TOKEN}"
    bad = shake(cart, f"ticket={'A' * 32}", authorization=bearer)
    error(bad, 401, "ticket-refused")
    good = shake(cart, f"ticket={issue(cart.api)}", authorization=bearer)
    assert good.status == 101


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        ("GET", ""),
        ("POST", "reset/"),
        ("POST", "step/"),
        ("DELETE", ""),
        ("GET", "attributes/stream/"),
    ],
)
def test_it_opens_nothing_else(cart: Instance, method: str, rest: str) -> None:
    ticket = issue(cart.api)
    api = Api(cart.api.server, {"Authorization": ""})
    response = api.request(method, cart.path(f"{rest}?ticket={ticket}"))
    error(response, 401, "unauthorized")
    error(api.get(f"/v1/envs/?ticket={ticket}"), 401, "unauthorized")
    error(api.get(f"/v1/?ticket={ticket}"), 401, "unauthorized")
    assert shake(cart, f"ticket={ticket}").status == 101


def test_a_key_does_not_matter(guarded: Server) -> None:
    keyed = Api(guarded, {"Idempotency-Key": "same"})
    assert issue(keyed) != issue(keyed)


def test_a_server_without_a_token_does_the_same(instance: Instance) -> None:
    ticket = issue(instance.api)
    assert shake(instance, f"ticket={ticket}").status == 101
    error(shake(instance, f"ticket={ticket}"), 401, "ticket-refused")
    evil = shake(instance, f"ticket={issue(instance.api)}", host="evil.example")
    error(evil, 403, "host-refused")


def test_the_server_announces_them(server: Server) -> None:
    assert "tickets" in ok(Api(server).get("/v1/"))["capabilities"]


def test_they_cannot_fill_the_disk(make_server: Callable[..., Server]) -> None:
    server = make_server("--workers", "1")
    answers: list[Any] = [Api(server).post("/v1/tickets/") for _ in range(1025)]
    problem = error(answers[-1], 429, "too-many-tickets")
    assert "1024" in problem["message"]
    assert answers[-1].header("Retry-After") == "5"
    assert {answer.status for answer in answers[:-1]} == {200}
    (folder,) = server.run_dir.glob("*/tickets")
    assert len(list(folder.iterdir())) == 1024


def test_they_stand_in_no_log(make_server: Callable[..., Server]) -> None:
    server = make_server("--token", TOKEN, token=TOKEN)
    instance = Api(server).create()
    tickets = [issue(instance.api) for _ in range(4)]
    assert shake(instance, f"ticket={tickets[0]}").status == 101
    error(shake(instance, f"ticket={tickets[0]}"), 401)
    error(shake(instance, f"ticket={tickets[1]}", sec_websocket_key="no"), 400)
    error(shake(instance, f"ticket={tickets[2]}", origin="https://evil.example"), 403)
    malformed = instance.path(f"stream?ticket={tickets[3]}\x01")
    with WebSocket.to(instance, path=malformed) as stream:
        assert stream.response.status >= 400
    instance.close()
    assert server.stop() == 0
    for ticket in tickets:
        assert ticket not in server.log()
