"""Abuse by one run's worker delays no other run, whatever it repeats, and no probe."""

import time

import pytest

from gym_http_server.services.relay.sessions import MOST_OF_TOKEN
from gym_http_wire.bundles import MOST_BATCHES
from tests.support.api import Api, error, ok
from tests.support.raw import RawConnection, Response
from tests.support.relay_abuse import Abuse, bundle_request
from tests.support.runs import Run, done
from tests.support.server import Server

pytestmark = [pytest.mark.live, pytest.mark.alone]

SECONDS = 5.0
#: Such abuse took 3 s of an insert on an idle machine, and 17 s on a busy one.
SLOWEST_S = 2.0
USUAL_S = 0.5


def token_id(run: Run) -> str:
    """Return the ID of the token that its creation made for workers."""
    tokens = ok(run.get("tokens/"))["tokens"]
    return next(each["id"] for each in tokens if each["role"] == "worker")


def timed(calls: list[float], answer: Response, began: float) -> None:
    """Note how long a request took that was successful."""
    assert answer.status in (200, 201), answer.text
    calls.append(time.monotonic() - began)


def test_abuse_of_one_run_delays_no_other(server: Server) -> None:
    api = Api(server)
    abused, other = Run.create(api, "abused"), Run.create(api, "other")
    session, inserts, probes = other.session(), list[float](), list[float]()
    abuse = Abuse(abused)
    with abuse.going_on():
        end = time.monotonic() + SECONDS
        while (began := time.monotonic()) < end:
            target = other.samples(session, len(inserts) + 1)
            timed(inserts, api.post(target, data=b"x"), began)
            began = time.monotonic()
            timed(probes, api.get("/healthz"), began)
    for took in (inserts, probes):
        assert max(took) < SLOWEST_S
        assert sorted(took)[len(took) // 2] < USUAL_S
    # It was stored, repeated, or over its share.
    assert {status for status, _ in abuse.answers} == {201, 429}
    assert abuse.refused is not None
    error(abuse.refused, 429, "share-used-up")
    assert abuse.refused.header("Retry-After") == "1"
    token = token_id(abused)
    assert f"a request of the worker token {token} of run abused" in server.stderr


def test_a_bundle_of_too_many_batches_is_refused(server: Server) -> None:
    run = Run.create(Api(server), "large")
    session = run.session()
    with RawConnection(server.port) as connection:
        connection.send(bundle_request(run, session, MOST_BATCHES + 1))
        problem = error(connection.read_response(), 413, "bundle-too-large")
    assert problem["limit"] == MOST_BATCHES
    assert ok(run.get(f"sessions/{session}/"))["next"] == 1


def test_a_token_begins_a_limited_number_of_sessions(server: Server) -> None:
    run = Run.create(Api(server), "sessions")
    request = (
        f"POST {run.path('sessions/')} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {run.tokens['worker']}\r\n"
        'Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{"worker": "w"}'
    )
    with RawConnection(server.port) as connection:
        for _ in range(MOST_OF_TOKEN):
            connection.send(request.encode())
            assert connection.read_response().status == 201
        connection.send(request.encode())
        answer = connection.read_response()
    assert error(answer, 429, "too-many-sessions")["limit"] == MOST_OF_TOKEN
    assert answer.header("Retry-After") == "60"
    line = f"a request of the worker token {token_id(run)} of run sessions"
    assert line in server.stderr
    other = done(run.post("tokens/", {"role": "worker"}))["token"]
    headers = {"Authorization": f"Bearer {other}"}
    done(run.post("sessions/", {"worker": "w"}, headers=headers))
