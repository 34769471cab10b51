"""A full disk and a used-up quota refuse samples, until a trainer commits."""

import contextlib
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_wire.bundles import split
from tests.support.api import Api, error, ok
from tests.support.faults.small_disk import Disk, small_disk
from tests.support.raw import RawConnection, Response
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

RUN = "/v1/runs/pendulum"
MIB = 1 << 20
OCTETS = {"Content-Type": "application/octet-stream"}


class Worker:
    """Sends batches of one session."""

    def __init__(self, server: Server, name: str = "w1") -> None:
        self.api = Api(server)
        assert self.api.post("/v1/runs/", {"run": "pendulum"}).status in (200, 201)
        begun = self.api.post(f"{RUN}/sessions/", {"worker": name})
        self.session = begun.json()["session"]
        self.next = 1

    def path(self) -> str:
        """Return the path to which the next batch is posted."""
        query = f"session={self.session}&number={self.next}&policy=0&count=1"
        return f"{RUN}/samples/?{query}"

    def send(self, size: int) -> Response:
        body = bytes([self.next % 256]) * size
        answer = self.api.post(self.path(), data=body, headers=OCTETS)
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


def test_uploads_under_way_count_to_the_quota(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--relay-disk", "64M", "--workers", "2")
    workers = [Worker(server, f"w{number}") for number in range(3)]
    size = 25 * MIB
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(RawConnection(server.port)) for _ in range(2)]
        for connection, worker in zip(slow, workers, strict=False):
            connection.send(upload_head(worker, size) + bytes(MIB))
        folder = server.data_dir / "relay" / "bodies"
        wait_until(lambda: len(os.listdir(folder)) == 2, 5.0, "two uploads")
        # Not before it was sent to the end.
        with RawConnection(server.port) as third:
            third.send(upload_head(workers[2], size, "Expect: 100-continue"))
            error(third.read_response(), 507, "storage-full")
        slow[0].close()
        wait_until(lambda: len(os.listdir(folder)) == 1, 5.0, "one upload")
        wait_until(lambda: workers[2].send(size).status == 201, 5.0, "room")
        slow[1].send(bytes(size - MIB))
        assert slow[1].read_response().status == 201
    assert workers[0].samples()["stored"] == 2


def upload_head(worker: Worker, size: int, *headers: str) -> bytes:
    """Return the head of a request with the next batch of a worker."""
    lines = [
        f"POST {worker.path()} HTTP/1.1",
        f"Host: 127.0.0.1:{worker.api.server.port}",
        f"Content-Length: {size}",
    ]
    return "\r\n".join([*lines, *headers, "", ""]).encode()


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
