"""No recording is made in directories that the server itself uses."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.api import Api, error, no_content, ok
from tests.support.runs import Run, body_files, done
from tests.support.server import Server

pytestmark = pytest.mark.live

#: What the relay has in its directory, and names that it might have.
RELAY = ("", "/relay.sqlite3", "/relay.sqlite3-wal", "/lock", "/reserve", "/bodies")
RELAY += ("/relay.sqlite3/deeper", "/bodies/deeper", "/new")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose path leaves room for the paths of sockets."""
    with tempfile.TemporaryDirectory(prefix="ghst-", dir="/tmp") as path:
        yield Path(path)


def tree(folder: Path) -> set[str]:
    """Return the paths of all files and folders below a folder."""
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def refused(api: Api, directories: list[str], data_dir: Path) -> None:
    """Check that no monitor starts in these directories, and nothing is created."""
    made = api.create()
    before = tree(data_dir)
    for directory in directories:
        for options in ({}, {"force": True, "steps": True}):
            body = {"directory": directory, **options}
            problem = error(made.post("monitor/start/", body), 400, "invalid-directory")
            assert directory.rpartition("/")[2] in problem["message"]
        error(
            api.get(f"/v1/recordings/{directory.lstrip('/')}/"),
            400,
            "invalid-directory",
        )
    assert tree(data_dir) == before
    made.close()


def train(api: Api) -> None:
    """Check that the relay works, with rows and with files."""
    run = Run.create(api, f"run-{os.urandom(4).hex()}")
    session = run.session()
    for number, size in ((1, 100), (2, 600_000)):
        done(api.request("POST", run.samples(session, number), data=bytes(size)))
    assert run.stored()["stored"] == 2


def test_directories_of_the_server_are_refused_before_and_while_they_exist(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    api = Api(server)
    relay = [f"relay{each}" for each in RELAY]
    named = [*relay, "./relay//lock", "/relay", "instance-ids", "instance-ids/new"]
    named += ["ended-instances", "/ended-instances/new"]
    refused(api, named, server.data_dir)
    assert not (server.data_dir / "relay").exists()
    train(api)
    assert len(body_files(server)) == 1
    refused(api, named, server.data_dir)
    train(api)
    made = api.create()
    for directory in ("relays", "lock", "taxi/relay/lock", "relay.sqlite3"):
        no_content(made.post("monitor/start/", {"directory": directory}))
        no_content(made.post("monitor/close/"))
        assert ok(api.get(f"/v1/recordings/{directory}/"))["directory"] == directory
    made.close()


@pytest.mark.parametrize("linked", [False, True])
def test_relay_and_run_directory_may_lie_below_the_data_directory(
    linked: bool, launch_server: Callable[..., Server], short_path: Path
) -> None:
    data_dir = short_path / "d"
    (data_dir / "deep").mkdir(parents=True)
    shown = short_path / "linked"
    shown.symlink_to(data_dir)
    base = shown if linked else data_dir
    flags = ["--relay-dir", str(base / "deep" / "er"), "--run-dir", str(base / "r")]
    flags += ["--data-dir", str(data_dir if linked else shown)]
    server = launch_server(*flags)
    server.wait_listening()
    api = Api(server)
    (run_dir,) = (data_dir / "r").iterdir()
    named = [f"deep/er{each}" for each in RELAY]
    named += [f"r/{run_dir.name}", f"r/{run_dir.name}/tickets/new"]
    refused(api, named, data_dir / "deep")
    train(api)
    refused(api, named, data_dir / "deep")
    train(api)
    # Their parents are the client's.
    made = api.create()
    for directory in ("deep", "r"):
        no_content(made.post("monitor/start/", {"directory": directory}))
        no_content(made.post("monitor/close/"))
    made.close()
    train(api)


def test_the_data_directory_may_be_that_of_the_relay(
    launch_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = launch_server("--relay-dir", str(tmp_path), "--data-dir", str(tmp_path))
    server.wait_listening()
    api = Api(server)
    train(api)
    # All that the relay has there, whatever it is.
    own = sorted(set(os.listdir(tmp_path)) - {"ended-instances", "instance-ids"})
    assert {"relay.sqlite3", "relay.sqlite3-wal", "lock", "bodies"} <= set(own)
    # SQLite reads a journal of this name before it opens the database.
    own += ["relay.sqlite3-journal", "bodies/new", "reserve"]
    refused(api, own, tmp_path)
    train(api)
    made = api.create()
    no_content(made.post("monitor/start/", {"directory": "mine"}))
    made.close()


def test_links_into_directories_of_the_server_are_refused(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    server = make_server("--relay-dir", str(outside))
    data_dir = server.data_dir
    api = Api(server)
    (data_dir / "mine").mkdir()
    (run_dir,) = server.run_dir.iterdir()
    targets = {"a": outside, "mine/b": outside / "bodies", "c": run_dir / "trash"}
    targets |= {"d": data_dir / "instance-ids", "e": Path("a")}
    for name, target in targets.items():
        (data_dir / name).symlink_to(target)
    refused(api, ["a", "a/lock", "mine/b", "c", "c/new", "d", "e"], data_dir)
    train(api)
    before = tree(outside)
    refused(api, ["a", "a/lock", "mine/b", "mine/b/new", "e/lock"], data_dir)
    assert tree(outside) == before
    train(api)


def test_earlier_recordings_stay_readable_under_their_names(
    launch_server: Callable[..., Server], tmp_path: Path
) -> None:
    lines = b'{"length":1,"return":2.0}\n'
    for directory in ("relay", "relay/old"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "episodes.jsonl").write_bytes(lines)
    server = launch_server("--data-dir", str(tmp_path))
    server.wait_listening()
    api = Api(server)
    train(api)
    made = api.create()
    for directory in ("relay", "relay/old"):
        path = f"/v1/recordings/{directory}/"
        assert ok(api.get(path))["directory"] == directory
        assert api.get(f"{path}files/episodes.jsonl").body == lines
        body = {"directory": directory, "resume": True}
        error(made.post("monitor/start/", body), 400, "invalid-directory")
    made.close()
