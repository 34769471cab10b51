"""A worker that repeats the largest bundle over many connections, for ever."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gym_http_wire.bundles import BUNDLE, MOST_BATCHES, BatchHead, encode_batch
from tests.support.raw import RawConnection, Response
from tests.support.runs import Run
from tests.support.wait import wait_until

__all__ = ["Abuse", "bundle_request"]

CONNECTIONS = 10


class Abuse:
    """Posts one bundle of empty batches over many connections, again and again.

    Attributes:
        answers: Number of answers by status and code.
        refused: An answer with status 429.
    """

    def __init__(self, run: Run) -> None:
        self.answers: Counter[tuple[int, str]] = Counter()
        self.refused: Response | None = None
        self._stopping = threading.Event()
        self._port = run.api.server.port
        self._request = bundle_request(run, run.session("noisy"), MOST_BATCHES)
        self._threads = [
            threading.Thread(target=self._repeat) for _ in range(CONNECTIONS)
        ]

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Repeat the bundle meanwhile."""
        for each in self._threads:
            each.start()
        try:
            wait_until(lambda: self.answers, 20.0, "the first answer")
            yield
        finally:
            self._stopping.set()
            for each in self._threads:
                each.join()

    def _repeat(self) -> None:
        with RawConnection(self._port) as connection:
            while not self._stopping.is_set():
                connection.send(self._request)
                answer = connection.read_response()
                code = answer.json().get("code", "")
                self.answers[answer.status, code] += 1
                if answer.status == 429:
                    self.refused = answer


def bundle_request(run: Run, session: str, count: int) -> bytes:
    """Return the request that posts a bundle of empty batches."""
    body = b"".join(
        encode_batch(BatchHead(session, number, 0, 1), b"")
        for number in range(1, count + 1)
    )
    head = (
        f"POST {run.path('samples/')} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {run.tokens['worker']}\r\n"
        f"Content-Type: {BUNDLE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
