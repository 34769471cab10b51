"""A full disk and a used-up quota refuse samples, until a trainer commits."""

import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_wire.bundles import split
from tests.support.api import Api, error, ok
from tests.support.faults.small_disk import Disk, small_disk
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

RUN = "/v1/runs/pendulum"
MIB = 1 << 20
OCTETS = {"Content-Type": "application/octet-stream"}


class Worker:
    """Sends batches of one session."""

    def __init__(self, server: Server) -> None:
        self.api = Api(server)
        assert self.api.post("/v1/runs/", {"run": "pendulum"}).status == 201
        begun = self.api.post(f"{RUN}/sessions/", {"worker": "w1"})
        self.session = begun.json()["session"]
        self.next = 1

    def send(self, size: int) -> Response:
        query = f"session={self.session}&number={self.next}&policy=0&count=1"
        body = bytes([self.next % 256]) * size
        path = f"{RUN}/samples/?{query}"
        answer = self.api.post(path, data=body, headers=OCTETS)
        self.next += answer.status == 201
        return answer

    def send_until_full(self, size: int) -> int:
        """Send until a batch is refused; return the number of those that are stored."""
        before = self.next
        while (answer := self.send(size)).status == 201:
            assert self.next < 400
        message = error(answer, 507, "storage-full")["message"]
        assert "--relay-disk" in message
        return self.next - before

    def commit(self, after: int) -> None:
        answer = self.api.request("PUT", f"{RUN}/readers/r/", {"after": after})
        assert ok(answer)["after"] == after

    def samples(self) -> dict[str, Any]:
        found: dict[str, Any] = ok(self.api.get(f"{RUN}/"))["samples"]
        return found


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A small disk; to be named before fixtures that make servers."""
    with small_disk("128m") as mounted:
        yield mounted


def test_on_a_full_disk_reading_and_committing_make_room(
    disk: Disk, make_server: Callable[..., Server]
) -> None:
    folder = disk.path / "relay"
    worker = Worker(make_server("--relay-dir", str(folder)))
    count = worker.send_until_full(8 * MIB)
    assert count > 2
    whole_and_complete(worker, folder, count, 8 * MIB)
    disk.fill_bytes()
    error(worker.send(10), 507, "storage-full")
    error(worker.send(MIB), 507, "storage-full")
    whole_and_complete(worker, folder, count, 8 * MIB)
    worker.commit(1)
    whole_and_complete(worker, folder, count, 8 * MIB, first=2)
    disk.free()
    assert worker.send(10).status == 201
    worker.commit(count + 1)
    # The space of the reserve is not allocated again before there is more.
    assert worker.send_until_full(8 * MIB) >= count


def whole_and_complete(
    worker: Worker, folder: Path, count: int, size: int, first: int = 1
) -> None:
    samples = worker.samples()
    assert (samples["stored"], samples["last"]) == (count, count)
    assert (samples["first"], samples["waiting"]) == (first, count + 1 - first)
    path = f"{RUN}/samples/?after={first - 1}&max_bytes={1 << 40}"
    with urllib.request.urlopen(worker.api.server.url + path) as answer:
        data = answer.read()
    batches = list(split(data))
    positions = range(first, count + 1)
    assert [batch.head.position for batch in batches] == list(positions)
    for batch, number in zip(batches, positions, strict=True):
        body = data[batch.offset : batch.offset + batch.size]
        assert body == bytes([number]) * size
    assert len(os.listdir(folder / "bodies")) == len(positions)


@pytest.mark.parametrize("size", [250_000, 6_000_000])
def test_beyond_the_quota_committing_makes_room(
    make_server: Callable[..., Server], size: int
) -> None:
    worker = Worker(make_server("--relay-disk", "64M"))
    count = worker.send_until_full(size)
    assert count > 5
    assert worker.samples()["stored"] == count
    # A trainer commits its position with its state, for which there is room.
    path = f"{RUN}/state/?reader=r&after={count}"
    headers = {**OCTETS, "If-None-Match": "*"}
    put = worker.api.request("PUT", path, data=bytes(500_000), headers=headers)
    assert put.status == 201
    wait_until(lambda: worker.send(size).status == 201, 5.0, "room for a batch")
    samples = worker.samples()
    assert (samples["consumed"], samples["waiting"]) == (count, 1)
