"""A worker that sends without pause delays no other worker."""

import threading
from collections import Counter

import pytest

from tests.support.api import Api, error, ok
from tests.support.raw import Response
from tests.support.runs import Run
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

MIB = 1 << 20
FLOOD, CALM = 200_000, 20_000
OCTETS = {"Content-Type": "application/octet-stream"}


class Flood(threading.Thread):
    """Sends batches of one worker without pause, until it is stopped.

    Attributes:
        answers: Number of answers by status and code.
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.answers: Counter[tuple[int, str]] = Counter()
        self.stopping = threading.Event()
        self._run = run
        self._session = run.session("flood")
        self._number = 1

    def run(self) -> None:
        while not self.stopping.is_set():
            answer = send(self._run, self._session, self._number, FLOOD)
            self._number += answer.status == 201
            code = "" if answer.status == 201 else answer.json()["code"]
            self.answers[answer.status, code] += 1


def send(run: Run, session: str, number: int, size: int) -> Response:
    target = run.samples(session, number)
    return run.api.post(target, data=bytes(size), headers=OCTETS)


def test_a_flood_delays_no_other_worker(server: Server) -> None:
    run = Run.create(Api(server), "flooded", limits={"queue_bytes": 4 * MIB})
    session = run.session("calm")
    flood = Flood(run)
    flood.start()
    try:
        refused = (429, "share-used-up")
        wait_until(lambda: flood.answers[refused] > 5, 20.0, "the flood to be refused")
        stored = flood.answers[201, ""]
        # Its share is half of the queue.
        assert 2 * MIB - FLOOD < stored * FLOOD <= 2 * MIB
        for number in range(1, 31):
            assert send(run, session, number, CALM).status == 201
        assert flood.answers[201, ""] == stored
        last = ok(run.get())["samples"]["last"]
        assert last == stored + 30
        ok(run.put("readers/r/", {"after": last}))
        # Now there is room for more of it.
        more = wait_until(lambda: flood.answers[201, ""] - stored, 20.0, "more of it")
        assert more > 0
        assert send(run, session, 31, CALM).status == 201
    finally:
        flood.stopping.set()
        flood.join()
    assert set(flood.answers) == {(201, ""), refused}
    error(send(run, "unknown", 1, 1), 404, "unknown-session")
    assert run.api.request("DELETE", run.path()).status == 204
