"""What spools send arrives once and in order, over killed servers and bad networks."""

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_http_client import Retries
from gym_http_client.relay import RelayCalls, RolloutWorker, Spool, worker
from gym_http_client.relay import spool as spool_module
from gym_http_client.relay.batches import Batch, batches_of
from gym_http_client.relay.sender import Sender
from tests.clients.python.test_relay_worker import Corridor, act
from tests.support.faults.http_faults import Fault, FaultyNetwork
from tests.support.server import Server

QUICK = Retries(longest=0.3)
WORKERS = ("w1", "w2", "w3", "w4")


def all_batches(calls: RelayCalls, after: int = 0) -> list[Batch]:
    found: list[Batch] = []
    while bundle := calls.samples(found[-1].position if found else after):
        found += batches_of(bundle)
    return found


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., tuple[Spool, Sender]]]:
    """Return a factory of spools and their senders, which end after the test."""
    made: list[tuple[Spool, Sender]] = []

    def begin(calls: RelayCalls, **options: Any) -> tuple[Spool, Sender]:
        spool = Spool(tmp_path / "spool", run=calls.run, worker="w1", **options)
        if not spool.session:
            spool.begin(calls.create_session("w1")["session"])
        url, run = calls.url, calls.run
        sender = Sender(
            spool, lambda retries: RelayCalls(url, run, retries=retries), retries=QUICK
        )
        made.append((spool, sender))
        return spool, sender

    yield begin
    for spool, sender in made:
        sender.close()
        spool.close()


def add(spool: Spool, first: int, count: int, padding: int = 0) -> None:
    for number in range(first, first + count):
        body = b"%d " % number + bytes(padding)
        spool.append(body, policy=0, count=1, content_type="text/plain")


def again(make_server: Callable[..., Server], killed: Server) -> Server:
    """Start a server with the address and the folders of one that was killed."""
    folders = ["--run-dir", str(killed.run_dir), "--data-dir", str(killed.data_dir)]
    return make_server("--port", str(killed.port), *folders)


@pytest.fixture
def sent_ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the bundles that were sent before it was their turn."""
    sizes: list[int] = []
    send = RelayCalls.send_bundle_ahead

    def counted(calls: RelayCalls, bundle: bytes | memoryview) -> None:
        send(calls, bundle)
        sizes.append(len(bundle))

    monkeypatch.setattr(RelayCalls, "send_bundle_ahead", counted)
    return sizes


@pytest.mark.parametrize("padding", [0, 200_000])
def test_a_killed_server_loses_nothing(
    padding: int,
    make_server: Callable[..., Server],
    begin: Callable[..., tuple[Spool, Sender]],
    sent_ahead: list[int],
) -> None:
    server = make_server()
    with RelayCalls(server.url, "r", retries=replace(QUICK, total=30.0)) as calls:
        calls.create()
        spool, sender = begin(calls)
        add(spool, 1, 100, padding)
        sender.start()
        assert sender.flush(30.0)
        server.stop(signal.SIGKILL)
        add(spool, 101, 50, padding)
        assert not sender.flush(0.0)
        again(make_server, server)
        assert sender.flush(40.0)
        numbers = [int(batch.data.rstrip(b"\0")) for batch in all_batches(calls)]
        assert numbers == list(range(1, 151))
        assert bool(sent_ahead) == bool(padding)
        samples = calls.status()["samples"]
        assert (samples["sent"], samples["stored"]) == (150, 150)
        assert (samples["dropped"], samples["waiting"]) == (0, 150)


def test_the_oldest_batches_of_a_long_failure_are_declared(
    make_server: Callable[..., Server], begin: Callable[..., tuple[Spool, Sender]]
) -> None:
    server = make_server()
    with RelayCalls(server.url, "r", retries=replace(QUICK, total=30.0)) as calls:
        calls.create()
        spool, sender = begin(calls, max_bytes=40_000, when_full="drop_oldest")
        sender.start()
        add(spool, 1, 3, 1000)
        assert sender.flush(30.0)
        server.stop(signal.SIGKILL)
        add(spool, 4, 100, 1000)
        assert spool.dropped > 50
        again(make_server, server)
        assert sender.flush(40.0)
        # The batches of the request that was under way may arrive, though they were
        # dropped meanwhile.
        dropped = spool.dropped
        assert dropped > 50
        numbers = [int(batch.data.rstrip(b"\0")) for batch in all_batches(calls)]
        assert numbers[:3] == [1, 2, 3]
        assert numbers[-10:] == list(range(94, 104))
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 103 - dropped
        samples = calls.status()["samples"]
        assert (samples["sent"], samples["stored"]) == (103, 103 - dropped)
        assert samples["dropped"] == dropped


def test_a_full_queue_makes_workers_wait(
    server: Server, begin: Callable[..., tuple[Spool, Sender]]
) -> None:
    with RelayCalls(server.url, "full-queue") as calls:
        calls.create(limits={"queue_batches": 8})
        spool, sender = begin(calls)
        add(spool, 1, 8)
        sender.start()
        assert sender.flush(30.0)
        add(spool, 9, 4)
        assert not sender.flush(0.5)
        calls.commit("trainer", 8)
        assert sender.flush(30.0)
        assert [int(batch.data) for batch in all_batches(calls, 8)] == [9, 10, 11, 12]
        calls.delete()


def test_large_batches_cross_a_bad_network_once(
    server: Server, tmp_path: Path, sent_ahead: list[int]
) -> None:
    with (
        RelayCalls(server.url, "large-batches") as calls,
        FaultyNetwork(server.port, probability=0.07, seed=5, holds=False) as network,
    ):
        calls.create()
        with Spool(tmp_path, run=calls.run, worker="w1") as spool:
            spool.begin(calls.create_session("w1")["session"])
            for number in range(1, 201):
                spool.append(
                    b"%d " % number + bytes(100_000),
                    policy=0,
                    count=1,
                    content_type="text/plain",
                    records=[{"type": "training", "step": number}],
                )
            sender = Sender(
                spool,
                lambda retries: RelayCalls(network.url, calls.run, retries=retries),
                retries=QUICK,
                max_post=300_000,
            )
            sender.start()
            try:
                assert sender.flush(60.0)
            finally:
                sender.close()
        counts = network.finish()
        assert len(sent_ahead) > 10
        for fault in (Fault.DROPPED, Fault.UNANSWERED, Fault.CUT, Fault.DOUBLED):
            assert counts[fault] > 0
        numbers = [int(batch.data.rstrip(b"\0")) for batch in all_batches(calls)]
        assert numbers == list(range(1, 201))
        samples = calls.status()["samples"]
        assert (samples["sent"], samples["stored"], samples["dropped"]) == (200, 200, 0)
        assert [each["step"] for each in calls.records(limit=1000)] == numbers
        calls.delete()


def test_20000_transitions_cross_a_bad_network_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small requests, so that there are hundreds.
    monkeypatch.setattr(worker, "Sender", partial(Sender, max_post=8192))
    monkeypatch.setattr(spool_module, "_MAX_RECORDS_BYTES", 1000)
    with (
        RelayCalls(server.url, "bad-network") as calls,
        FaultyNetwork(server.port, probability=0.07, seed=3, holds=False) as network,
    ):
        calls.create()
        failed: list[BaseException] = []

        def work(name: str) -> None:
            try:
                with RolloutWorker(
                    network.url,
                    calls.run,
                    env=Corridor(50),
                    policy=act,
                    spool=tmp_path / name,
                    worker=name,
                    progress=None,
                    retries=QUICK,
                ) as made:
                    made.run(episodes=100)
                    assert made.spool.waiting == made.spool.dropped == 0
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in WORKERS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        assert not failed
        counts = network.finish()
        assert counts["exchanges"] > 200
        for fault in (Fault.DROPPED, Fault.UNANSWERED, Fault.CUT, Fault.DOUBLED):
            assert counts[fault] > 0
        batches = all_batches(calls)
        for name in WORKERS:
            own = [batch for batch in batches if batch.worker == name]
            assert [batch.head.number for batch in own] == list(range(1, 101))
            assert [batch.columns["episode"] for batch in own] == list(range(1, 101))
            for batch in own:
                steps = batch.columns["observations"][:, 0]
                np.testing.assert_array_equal(steps, np.arange(51.0))
        assert sum(batch.count for batch in batches) == 20_000
        samples = calls.status()["samples"]
        assert (samples["sent"], samples["stored"]) == (400, 400)
        assert samples["transitions"] == 20_000
        recorded = [
            (each["worker"], each["episode"]) for each in calls.records(limit=1000)
        ]
        assert sorted(recorded) == [(w, n) for w in WORKERS for n in range(1, 101)]
        calls.delete()
