"""Ended instances keep their episodes, also after a restart of the server."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance, error, ok
from tests.support.server import Server
from tests.support.token_file import api_of, token_of, write_file
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

STEPS = 60
NASTY = "=1+1,\"'</script>\\"


def played(api: Api, **options: Any) -> tuple[Instance, list[Any]]:
    """Play some episodes of a new instance; return it and how it describes them."""
    instance = api.create(**options)
    instance.reset(seed=7)
    for number in range(STEPS):
        answer = instance.step(number % 2)
        if answer["terminated"] or answer["truncated"]:
            instance.reset(seed=number)
    found = ok(instance.get("episodes/"))["episodes"]
    assert len(found) > 1
    return instance, found


def ended_row(api: Api, instance_id: str) -> Any:
    """Return the row of an instance that has ended."""
    (row,) = ok(api.get(f"/v1/instances/?search={instance_id}&state=ended"))["ended"]
    return row


def restarted(make_server: Callable[..., Server], before: Server, *args: str) -> Server:
    """Stop a server, and start another one on its address, with its data."""
    assert before.stop() == 0
    data, port = str(before.data_dir), str(before.port)
    more = ("--data-dir", data, "--port", port, *args)
    after = make_server(*more, token=before.token)
    after.data_dir = before.data_dir
    return after


def close(instance: Instance) -> None:
    calls.no_content(instance.close())


def kill(instance: Instance) -> None:
    instance.api.server.host(instance.id).kill()
    wait_until(lambda: ended_rows(instance), 10.0, "the end")


def ended_rows(instance: Instance) -> Any:
    path = f"/v1/instances/?search={instance.id}&state=ended"
    return ok(instance.api.get(path))["ended"]


def test_episodes_stay_when_an_instance_ends(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    lived = {
        reason: played(Api(server), label=f"Anna's {reason}")
        for reason in ("closed", "crashed")
    }
    close(lived["closed"][0])
    kill(lived["crashed"][0])
    for reason, (instance, wanted) in lived.items():
        check_kept(instance, wanted, reason)
        assert instance.post("step/", {"action": 0}).status in (400, 410)
    api = Api(restarted(make_server, server))
    for reason, (ended, wanted) in lived.items():
        instance = Instance(api, ended.id)
        check_kept(instance, wanted, reason)
        error(instance.post("step/", {"action": 0}), 410, "server-restarted")


def check_kept(instance: Instance, wanted: list[Any], reason: str) -> None:
    """Check that the server describes an ended instance as it was."""
    found = ok(instance.get("episodes/"))
    assert found["episodes"] == wanted
    assert found["current"] == []
    assert (found["total"], found["reason"]) == (len(wanted), reason)
    assert ok(instance.get("episodes/?last=1"))["episodes"] == wanted[-1:]
    assert ok(instance.get("episodes/?from=1"))["episodes"] == wanted[1:]
    row = ended_row(instance.api, instance.id)
    assert (row["reason"], row["label"]) == (reason, f"Anna's {reason}")
    assert (row["steps"], row["episodes"]) == (STEPS, len(wanted))
    assert row["log"] == f"/v1/envs/{instance.id}/log/"


def test_instances_that_the_end_of_the_server_ends_are_kept(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    lived = [played(Api(server)) for _ in range(3)]
    api = Api(restarted(make_server, server))
    for instance, wanted in lived:
        found = ok(Instance(api, instance.id).get("episodes/"))
        assert (found["reason"], found["episodes"]) == ("shutdown", wanted)


def test_the_end_of_the_log_stays(make_server: Callable[..., Server]) -> None:
    server = make_server("--import", "tests.support.envs.printing")
    instance = Api(server).create("printing/Actions-v0")
    instance.reset()
    for line in ("x48690a", "xc3a4c3b6c3bc0a"):
        instance.step(line)
    close(instance)
    whole = "Hi\näöü\nbye\n"
    api = Api(restarted(make_server, server))
    answer = Instance(api, instance.id).get("log/")
    assert (answer.status, answer.text) == (200, whole)
    assert answer.header("Gym-Log-Ended") == "true"
    later = Instance(api, instance.id).get("log/?from=3")
    assert later.text == whole[3:]
    beyond = Instance(api, instance.id).get("log/?from=999999")
    assert (beyond.status, beyond.text) == (200, "")


def test_only_owners_see_the_episodes(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens = write_file(tmp_path)
    server = make_server("--tokens", tokens, token=token_of("root"))
    instance, wanted = played(api_of(server, "ada"))
    close(instance)

    def check() -> None:
        for name in ("ada", "root"):
            own = Instance(api_of(server, name), instance.id)
            assert ok(own.get("episodes/"))["episodes"] == wanted
            assert own.get("log/").status == 200
        bob = Instance(api_of(server, "bob"), instance.id)
        modern = {"Accept": "application/problem+json"}
        for path in ("episodes/", "log/"):
            error(bob.get(path, headers=modern), 404, "unknown-instance")
        assert ok(bob.api.get("/v1/instances/"))["ended"] == []

    check()
    server = restarted(make_server, server, "--tokens", tokens)
    check()
    # Without ada's token, nobody but an admin sees them.
    lines = Path(tokens).read_text().splitlines(keepends=True)
    Path(tokens).write_text("".join(each for each in lines if "ada" not in each))
    server = restarted(make_server, server, "--tokens", tokens)
    bob = Instance(api_of(server, "bob"), instance.id)
    assert bob.get("episodes/").status in (400, 404)
    root = Instance(api_of(server, "root"), instance.id)
    assert ok(root.get("episodes/"))["episodes"] == wanted


def test_damaged_and_foreign_files_harm_nothing(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    instance, wanted = played(Api(server), label=NASTY)
    close(instance)
    ok(instance.get("episodes/"))
    folder = server.data_dir / "ended-instances"
    (folder / "0000000a").write_bytes(b"\x00\xff no JSON\n[1,2]\n")
    (folder / "0000000b").write_bytes((folder / instance.id).read_bytes())
    (folder / "0000000c").mkdir()
    os.mkfifo(folder / "0000000d")
    (folder / "0000000e").symlink_to(folder / instance.id)
    (folder / "notes.txt").write_text("mine")
    with (folder / instance.id).open("ab") as file:
        file.write(b'[1,"x"]\n{"number":1}\nno JSON\n[[[[')
    api = Api(restarted(make_server, server))
    assert ok(Instance(api, instance.id).get("episodes/"))["episodes"] == wanted
    wait_until(lambda: ok(api.get("/v1/instances/"))["ended"], 10.0, "the archive")
    (row,) = ok(api.get("/v1/instances/"))["ended"]
    assert (row["instance_id"], row["label"]) == (instance.id, NASTY)
    for name in ("0000000a", "0000000b", "0000000c", "0000000d", "0000000e"):
        assert Instance(api, name).get("episodes/").status == 400
    for name in ("notes.txt", "..%2fnotes", "%2e%2e", "0000000A"):
        assert Instance(api, name).get("episodes/").status in (400, 404)
    close(played(api)[0])
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_server_that_cannot_write_serves(make_server: Callable[..., Server]) -> None:
    server = make_server()
    (server.data_dir / "ended-instances").touch()
    for _ in range(2):
        instance, _ = played(Api(server))
        close(instance)
        assert instance.get("episodes/").status == 400
    assert ended_row(instance.api, instance.id)["steps"] == STEPS
    assert server.stderr.count("cannot keep the episodes of ended instances") == 1


def test_two_servers_may_share_a_data_directory(
    make_server: Callable[..., Server],
) -> None:
    first = make_server()
    second = make_server("--data-dir", str(first.data_dir))
    instance, wanted = played(Api(first))
    close(instance)
    ok(instance.get("episodes/"))
    elsewhere = Instance(Api(second), instance.id)
    assert ok(elsewhere.get("episodes/"))["episodes"] == wanted
    other, others = played(Api(second))
    close(other)
    ok(other.get("episodes/"))
    assert ok(Instance(Api(first), other.id).get("episodes/"))["episodes"] == others


def test_an_archiver_that_is_killed_loses_nothing(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    close(played(Api(server))[0])
    (archiver,) = wait_until(lambda: server.services("archiver"), 10.0, "archiver")
    archiver.suspend()
    instance, wanted = played(Api(server))
    close(instance)
    archiver.kill()
    found = wait_until(lambda: ok_or_none(instance), 10.0, "the episodes")
    assert found["episodes"] == wanted
    assert psutil.pid_exists(server.pid)


def ok_or_none(instance: Instance) -> Any:
    answer = instance.get("episodes/")
    return ok(answer) if answer.status == 200 else None


def test_an_instance_without_a_step_is_not_kept(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    instance = Api(server).create()
    close(instance)
    assert instance.get("episodes/").status == 400
    assert not (server.data_dir / "ended-instances").exists()


def test_episodes_in_a_recording_are_read_from_there(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    instance = Api(server).create()
    options = {"directory": "cart/first", "steps": True}
    calls.no_content(instance.post("monitor/start/", options))
    ok(instance.post("rollout/", {"episodes": 4, "seed": 3}))
    instance.reset()
    instance.step(0)
    wanted = ok(instance.get("episodes/"))["episodes"]
    close(instance)
    api = Api(restarted(make_server, server))
    ended = Instance(api, instance.id)
    found = ok(ended.get("episodes/"))
    assert (found["total"], found["reason"]) == (4, "closed")
    times = ("seconds", "ended_at")
    for each, other in zip(found["episodes"], wanted, strict=True):
        for name in times:
            assert each.pop(name) == pytest.approx(other.pop(name), abs=0.05)
        assert each == other
    file = server.data_dir / "ended-instances" / instance.id
    assert len(file.read_bytes().splitlines()) == 1
    # Another instance replaces the recording.
    other = api.create()
    again = {"directory": "cart/first", "force": True}
    calls.no_content(other.post("monitor/start/", again))
    ok(other.post("rollout/", {"episodes": 9}))
    close(other)
    assert ok(ended.get("episodes/"))["episodes"] == []
    assert len(ok(other.get("episodes/"))["episodes"]) == 9


def test_a_disk_that_stands_still_holds_up_nothing_else(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    first, wanted = played(Api(server))
    close(first)
    assert ok(first.get("episodes/"))["episodes"] == wanted
    (archiver,) = server.services("archiver")
    archiver.suspend()
    late, _ = played(Api(server))
    close(late)
    # It waits for a while, and is as unknown as one whose episodes are not kept.
    assert late.get("episodes/").status == 400
    assert ok(first.get("episodes/"))["episodes"] == wanted
    close(played(Api(server))[0])
    archiver.resume()
    assert ok(late.get("episodes/"))["reason"] == "closed"
    archiver.suspend()
    close(played(Api(server))[0])
    assert server.stop() == 0
