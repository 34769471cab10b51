"""On a full disk, a monitor counts the lost episodes, and the environment continues."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_wire.values import binary, typed
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.faults.small_disk import Disk, small_disk
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.websocket import TEXT, WebSocket, value

pytestmark = pytest.mark.live

RESET = 1
FORMS: dict[str, Callable[[bytes], Any]] = {
    "application/json": json.loads,
    "application/vnd.gym-http.typed+json": typed.decode,
    "application/vnd.gym-http.binary": binary.decode,
}


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    with small_disk() as mounted:
        yield mounted


@pytest.fixture(scope="module")
def recording_server(disk: Disk) -> Iterator[Server]:
    """A server whose data directory is on the small disk."""
    flags = ("--data-dir", str(disk.path), "--step-deadline", "5")
    with Server(*flags) as running:
        yield running


@pytest.fixture
def instance(recording_server: Server, disk: Disk) -> Iterator[Instance]:
    made = Api(recording_server).create()
    yield made
    disk.free()
    made.close()


def episodes(file: Path) -> list[Any]:
    """Read the lines, all of which have to be whole."""
    text = file.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def start(instance: Instance, directory: str, **options: Any) -> Response:
    return instance.post("monitor/start/", {"directory": directory, **options})


def test_lines_that_find_no_room_are_counted(instance: Instance, disk: Disk) -> None:
    no_content(start(instance, "full"))
    before = ok(instance.post("rollout/", {"episodes": 2, "max_steps": 1}))
    assert "monitor_error" not in before
    assert "monitor_error" not in instance.reset()
    disk.fill_bytes()
    # The file has the rest of a block still, which is no whole number of lines.
    batch = ok(instance.post("rollout/", {"episodes": 60, "max_steps": 1}))
    assert batch["steps"] == 60
    lost = int(batch["monitor_error"].split()[0])
    assert 0 < lost < 60
    assert "No space left on device" in batch["monitor_error"]
    file = disk.path / "full" / "episodes.jsonl"
    written = len(episodes(file))
    assert written + lost + 1 == 62
    several = ok(instance.post("step/", {"actions": [1]}))
    assert several["monitor_error"] == batch["monitor_error"]

    closing = {"headers": {"Idempotency-Key": "close-it"}}
    first = instance.post("monitor/close/", **closing)
    problem = error(first, 507, "disk-full")
    assert problem["episodes_written"] == written
    assert problem["episodes_lost"] == lost + 1
    assert f"wrote {written} of 62 episodes" in problem["message"]
    again = error(instance.post("monitor/close/", **closing), 507, "disk-full")
    assert {**again, "request_id": ""} == {**problem, "request_id": ""}
    no_content(instance.post("monitor/close/"))
    assert len(episodes(file)) == written
    assert "monitor_error" not in instance.reset()


@pytest.mark.parametrize("media", FORMS)
def test_answers_in_all_forms_report_it(
    media: str, instance: Instance, disk: Disk
) -> None:
    fail(instance, disk)
    headers = {"Accept": media}
    for rest, body in (("reset/", {}), ("step/", {"action": 1})):
        answer = instance.post(rest, body, headers=headers)
        assert (answer.status, answer.content_type) == (200, media)
        found = FORMS[media](answer.body)
        assert "No space left on device" in found["monitor_error"]
        assert "observation" in found


def test_streams_report_it(instance: Instance, disk: Disk) -> None:
    fail(instance, disk)
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
        for request in ({"op": "reset"}, {"op": "step", "action": 1}):
            answer = stream.call(**request)
            assert answer["status"] == 200
            assert "No space left" in answer["body"]["monitor_error"]
        refused = stream.call(op="monitor_close")
        assert (refused["status"], refused["body"]["code"]) == (507, "disk-full")
    fail(instance, disk)
    with WebSocket.to(instance) as stream:
        answered = stream.call_binary(RESET, 1, value('{"dict":[]}'))
        assert answered.status == 200
        assert b"monitor_error" in answered.body


def fail(instance: Instance, disk: Disk) -> None:
    """Have a monitor lose an episode."""
    disk.free()
    no_content(start(instance, "none", force=True))
    disk.fill_bytes()
    instance.reset()
    for _ in range(2):
        instance.step(1)
        found = instance.reset()
    assert "2 episodes" in found["monitor_error"]


def test_an_instance_with_a_failed_monitor_closes_normally(
    instance: Instance, disk: Disk
) -> None:
    fail(instance, disk)
    no_content(instance.close())


def test_a_monitor_that_finds_no_room_is_not_started(
    instance: Instance, disk: Disk
) -> None:
    disk.fill_inodes()
    error(start(instance, "new"), 507, "disk-full")
    disk.free()
    no_content(start(instance, "new", force=True))


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "socket", "link"])
def test_paths_that_are_no_files_are_refused_at_once(
    kind: str, instance: Instance, disk: Disk
) -> None:
    folder = disk.path / f"odd-{kind}"
    folder.mkdir()
    path = folder / "episodes.jsonl"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            # As /dev/null is.
            os.mknod(path, 0o20600, os.makedev(1, 3))
        case "directory":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case _:
            path.symlink_to("/dev/null")
    for options in ({"force": True}, {"resume": True}, {}):
        problem = error(start(instance, folder.name, **options), 400, "bad-parameter")
        assert "expected a regular file" in problem["message"]
        assert kind in problem["message"]
    instance.reset()
