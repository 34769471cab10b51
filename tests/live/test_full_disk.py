"""On a full disk, only requests that need disk space fail."""

import errno
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.support.api import Api, error, ok
from tests.support.faults.small_disk import Disk, small_disk
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

HELLO = {"type": "hello", "protocol": 1}
WRITERS = ("--import", "tests.support.envs.writing")


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    with small_disk() as mounted:
        yield mounted


@pytest.fixture(scope="module")
def small_server(disk: Disk) -> Iterator[Server]:
    """A server whose run directory is on the small disk."""
    with Server("--run-dir", str(disk.path), *WRITERS) as running:
        yield running


@pytest.fixture
def own_disk() -> Iterator[Disk]:
    """A disk for one test; to be named before fixtures that make servers."""
    with small_disk() as mounted:
        yield mounted


@pytest.fixture(params=["bytes", "inodes"])
def fill(request: pytest.FixtureRequest, disk: Disk) -> Iterator[Callable[[], None]]:
    """Return a function that fills the blocks or the inodes, freed after the test."""
    yield getattr(disk, f"fill_{request.param}")
    disk.free()


def test_instances_step_on_and_new_ones_are_refused(
    small_server: Server, disk: Disk, fill: Callable[[], None]
) -> None:
    api = Api(small_server)
    instance = api.create()
    instance.reset()
    fill()
    before = os.listdir(disk.path)
    for _ in range(3):
        instance.step(1)
        problem = error(
            api.post("/v1/envs/", {"env_id": "CartPole-v1"}), 507, "disk-full"
        )
        assert str(disk.path) in problem["message"]
    unready = api.get("/readyz")
    assert str(disk.path) in error(unready, 503, "disk-full")["message"]
    assert unready.header("Retry-After")
    ok(api.get("/healthz"))
    assert os.listdir(disk.path) == before
    assert api.instances() == {instance.id: "CartPole-v1"}
    assert instance.close().status == 204
    disk.free()
    ok(api.get("/readyz"))
    api.create().close()


def test_a_server_on_a_full_disk_refuses_drains_and_leaves_nothing(
    own_disk: Disk, make_server: Callable[..., Server]
) -> None:
    server = make_server("--run-dir", str(own_disk.path), "--drain-delay", "2")
    instance = Api(server).create()
    instance.reset()
    own_disk.fill_inodes()
    for route, body in (("tickets", {}), ("external", HELLO), ("external", HELLO)):
        error(Api(server).post(f"/v1/{route}/", body), 507, "disk-full")
    own_disk.free()
    error(Api(server).post("/v1/external/", HELLO), 400, "bad-hello")
    own_disk.fill_bytes()
    own_disk.fill_inodes()
    os.kill(server.pid, signal.SIGTERM)
    refused = wait_until(
        lambda: (a := Api(server).get("/readyz")).status == 503 and a, 10.0
    )
    while refused.json()["code"] == "disk-full":
        refused = Api(server).get("/readyz")
    error(refused, 503, "draining")
    instance.step(1)
    assert server.wait_exit() == 0
    assert "Traceback" not in server.stderr
    assert sorted(os.listdir(own_disk.path)) == ["filling", "many"]


def test_a_start_on_a_full_disk_is_refused_in_a_line(
    own_disk: Disk, launch_server: Callable[..., Server]
) -> None:
    for room in range(4):
        own_disk.fill_inodes()
        for number in range(room):
            (own_disk.path / "many" / str(number)).unlink()
        server = launch_server("--run-dir", str(own_disk.path))
        assert server.wait_exit() == 1
        (line,) = server.stderr.splitlines()
        assert line.startswith("gym-http-server: cannot")
        assert str(own_disk.path) in line
        assert "No space left on device" in line
        assert os.listdir(own_disk.path) == ["many"]
        own_disk.free()


def test_files_have_a_limit_that_does_not_end_the_environment(
    make_server: Callable[..., Server],
) -> None:
    flags = ("--host-file-size", str(1 << 20), "--import", "tests.support.envs.toys")
    server = make_server(*flags, *WRITERS)
    instance = Api(server).create("writing/Writes-v0")
    instance.reset()
    for _ in range(2):
        info = instance.step(1)["info"]
        assert info["errno"] == errno.EFBIG
        assert info["size"] == 1 << 20
        assert info["core"] == [0, 0]
        assert info["child"] != 0
    options = {"num_envs": 2, "hosts": 2, "kwargs": {"size": 1 << 20}}
    vector = {"env_id": "toys/Big-v0", **options}
    problem = error(Api(server).post("/v1/envs/", vector), 400, "bad-parameter")
    assert "num_envs is 2" in problem["message"]
    assert "--host-file-size" in problem["message"]


def test_printed_output_is_dropped(
    small_server: Server, disk: Disk, fill: Callable[[], None]
) -> None:
    instance = Api(small_server).create("writing/Prints-v0")
    instance.reset()
    instance.step(1)
    fill()
    for _ in range(5):
        instance.step(1)
    assert instance.close().status == 204
