"""Steps on the relay's store, in a process that can be killed before any call.

Run with the library of `tests.support.faults.syscalls` preloaded. The first argument is
"kill" or "answer", the second a directory.
"""

import contextlib
import ctypes
import itertools
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator

from gym_http_server.services.relay.files import FileSlice, lock_upload, sync_folder
from gym_http_server.services.relay.leases import Leases, deliver
from gym_http_server.services.relay.rows import BatchRow, BlobRow, RunRow
from gym_http_server.services.relay.store import Store

MIB = 1 << 20
#: What is seen of the run after each step: positions kept, versions of weights kept,
#: stored, consumed, leased and kept files.
Seen = tuple[list[int], list[int], int, int, int, int]
AFTER: list[Seen] = [
    ([], [], 0, 0, 0, 0),
    ([], [], 0, 0, 0, 0),
    ([1, 2, 3], [], 3, 0, 0, 0),
    ([1, 2, 3, 4, 5], [1], 5, 0, 0, 2),
    ([3, 4, 5], [1], 5, 2, 0, 2),
    ([6, 7], [1], 7, 5, 0, 2),
    ([6, 7], [2], 7, 5, 0, 1),
    ([6, 7], [2], 7, 5, 1, 1),
    ([7], [2], 7, 6, 0, 1),
    ([7], [2], 7, 6, 0, 1),
    ([7], [2], 7, 6, 0, 1),
]


def upload(store: Store, data: bytes) -> tuple[str, int]:
    """Write a file as a web worker does; return its name and open descriptor."""
    name = os.urandom(16).hex() + ".body"
    path = f"{store.files.folder}/{name}"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    lock_upload(file)
    os.write(file, data)
    os.fsync(file)
    sync_folder(store.files.folder)
    return name, file


def take(folder: str) -> Iterator[None]:
    """Take the steps: each is committed and answered, and then frees files."""
    store = Store(folder, 1 << 30, MIB)
    store.begin()
    run = store.add_run("pendulum", b"{}", None, 0, 1.0)
    other = store.add_run("other", b"{}", None, 0, 1.0)
    session = store.add_session(run, "s", "w1", 1.0)
    others = store.add_session(other, "t", "w1", 1.0)
    store.commit()
    yield
    store.clean_up()

    store.begin()
    store.append(run, session, [BatchRow(n, 0, 1, bytes(5000)) for n in (1, 2, 3)])
    store.commit()
    yield
    store.clean_up()

    samples, first = upload(store, bytes(9000))
    weights, second = upload(store, bytes(1000))
    store.begin()
    rows = [BatchRow(n, 0, 1, FileSlice(samples, n, 100)) for n in (4, 5)]
    store.append(run, session, rows)
    place = FileSlice(weights, 0, 1000)
    store.add_blob(run, BlobRow("weights", 1, "", "x/y", 1.0, 1000, place))
    store.commit()
    os.close(first)
    os.close(second)
    yield
    store.clean_up()

    store.begin()
    store.consume_to(run, 2)
    store.commit()
    yield
    store.clean_up()

    samples, first = upload(store, bytes(100))
    store.begin()
    store.consume_to(run, 5)
    rows = [BatchRow(n, 0, 1, FileSlice(samples, 0, 50)) for n in (6, 7)]
    store.append(run, session, rows)
    store.commit()
    os.close(first)
    yield
    store.clean_up()

    store.begin()
    store.add_blob(run, BlobRow("weights", 2, "", "x/y", 1.0, 3, b"abc"))
    store.drop_blobs(run, "weights", [1])
    store.commit()
    yield
    store.clean_up()

    store.begin()
    leases = Leases(run.id, 60.0, 5, store.leases(run))
    (batch,) = deliver(store, run, leases, 1.0, max_bytes=MIB, max_batches=1)
    store.commit()
    yield
    store.clean_up()

    store.begin()
    for row in leases.ack([batch.lease], 7)[0]:
        store.put_lease(run, row)
    store.commit()
    yield
    store.clean_up()

    samples, first = upload(store, bytes(100))
    store.begin()
    rows = [BatchRow(1, 0, 1, bytes(20_000))]
    rows.append(BatchRow(2, 0, 1, FileSlice(samples, 0, 100)))
    store.append(other, others, rows)
    store.commit()
    os.close(first)
    remove_other(store)
    yield
    store.clean_up()

    # It ends with a checkpoint.
    store.close()
    yield


def remove_other(store: Store) -> None:
    """Remove the other run, if it is there, and what is left of it."""
    if other := store.run("other"):
        store.begin()
        store.delete_run(other)
        store.commit()
    while store.maintain():
        pass


def seen(store: Store, run: RunRow | None) -> Seen:
    """Return what is seen of a run, whose bodies must all be there."""
    if run is None:
        return AFTER[0]
    rows = store.batches(run, 0, max_bytes=1 << 30)
    blobs = [store.blob(run, "weights", b.version) for b in store.blobs(run, "weights")]
    bodies = [row.body for row in rows] + [blob.body for blob in blobs if blob]
    files = {body.name for body in bodies if isinstance(body, FileSlice)}
    for body in bodies:
        if isinstance(body, FileSlice):
            assert body.offset + body.size <= store.files.size(body.name)
    assert set(os.listdir(store.files.folder)) == files
    totals = run.totals
    counted = totals.waiting + totals.leased + totals.consumed + totals.aside
    assert totals.stored == counted
    positions = [row.position for row in rows]
    versions = [blob.version for blob in blobs if blob]
    return (
        positions,
        versions,
        totals.stored,
        totals.consumed,
        totals.leased,
        len(files),
    )


def take_and_die(folder: str, number: int, arm: Callable[[int], None]) -> int | None:
    """Take the steps in a child that dies before a call.

    Returns:
        The number of steps that it reported, or ``None`` if it lived to the end.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        arm(number)
        for _ in take(folder):
            os.write(writer, b".")
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as reports:
        steps = len(reports.read())
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return None
    assert os.WTERMSIG(status) == signal.SIGKILL
    return steps


def take_and_answer(folder: str) -> int:
    """Take the steps, and send an answer after each."""
    near, far = socket.socketpair()
    with near, far:
        for _ in take(folder):
            near.sendall(b"answer")
    return 0


def kill_everywhere(base: str) -> int:
    """Kill a child before each of its calls, and look at what it leaves."""
    arm = ctypes.CDLL(None).kill_before
    for number in itertools.count(1):
        folder = f"{base}/{number}"
        steps = take_and_die(folder, number, arm)
        with contextlib.closing(Store(folder, 1 << 30, MIB)) as store:
            remove_other(store)
            found = seen(store, store.run("pendulum"))
        last = len(AFTER) - 1
        assert found in AFTER[steps or 0 : 2 + (last if steps is None else steps)], (
            number,
            steps,
            found,
        )
        shutil.rmtree(folder)
        if steps is None:
            assert found == AFTER[last]
            print(number)
            return 0
    return 1


if __name__ == "__main__":
    mains = {"answer": take_and_answer, "kill": kill_everywhere}
    sys.exit(mains[sys.argv[1]](sys.argv[2]))
