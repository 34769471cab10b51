"""A monitor with ``steps`` writes every reset and step to ``steps.gym``."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import Client, RemoteEnv, recordings
from gym_http_wire.step_records import Kind, Record, StepDecoder
from gym_http_wire.values import typed
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.faults.small_disk import small_disk
from tests.support.server import Server

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Server]:
    """A server with the sandbox on, whose hosts cannot read the data directory."""
    with Server("--sandbox", "on", "--data-dir", str(data_dir)) as running:
        yield running


def read(file: Path) -> tuple[list[Record], bool]:
    decoder = StepDecoder()
    return decoder.feed(file.read_bytes()), decoder.complete


def local_steps(seed: int, actions: list[int]) -> list[tuple[Any, ...]]:
    with gymnasium.make("CartPole-v1") as env:
        rows = [env.reset(seed=seed)[0]]
        return [*rows, *(env.step(action)[:4] for action in actions)]


def assert_steps(records: list[Record], seed: int, actions: list[int]) -> None:
    """Compare a reset and its steps with those of a local environment."""
    first, *expected = local_steps(seed, actions)
    assert records[0].kind == Kind.RESET
    assert records[0].value["seed"] == seed
    assert np.array_equal(records[0].value["observation"], first)
    assert len(records) == len(actions) + 1
    for record, action, row in zip(records[1:], actions, expected, strict=True):
        value = record.value
        assert record.kind == Kind.STEP
        assert value["action"] == action
        assert value["observation"].dtype == np.float32
        assert np.array_equal(value["observation"], row[0])
        assert (value["reward"], value["terminated"], value["truncated"]) == row[1:]


def assert_episodes(source: Path, expected: dict[int, list[int]]) -> None:
    """Compare the episodes of a recording, by seed, with those of local ones."""
    recording = recordings.read(source)
    assert recording.header["env_id"] == "CartPole-v1"
    episodes = list(recording.episodes())
    assert {each.seed: each.actions for each in episodes} == expected
    for episode in episodes:
        first, *rows = local_steps(episode.seed or 0, episode.actions)
        observations = [first, *(row[0] for row in rows)]
        assert np.array_equal(episode.observations, observations)
        assert episode.rewards == [row[1] for row in rows]
        assert episode.terminations == [row[2] for row in rows]
        assert episode.truncations == [row[3] for row in rows]


def test_resets_and_steps_of_all_paths_are_recorded(
    server: Server, data_dir: Path
) -> None:
    made = Api(server).create()
    with Client(server.url) as client:
        client.env_monitor_start(made.id, "paths", steps=True)
    made.reset(seed=3)
    made.step(1)
    ok(made.post("step/", {"actions": [0, 1]}))
    env = RemoteEnv.attach(server.url, made.id)
    env.reset(seed=4)
    for _ in range(5):
        env.step(np.int64(1))
        env.step(np.int64(0))
    no_content(made.post("monitor/close/"))
    records, complete = read(data_dir / "paths" / "steps.gym")
    assert complete
    header, end = records[0], records[-1]
    assert (header.kind, end.kind) == (Kind.HEADER, Kind.END)
    assert header.value["env_id"] == "CartPole-v1"
    assert header.value["part"] == 1
    assert end.value == {"reason": "closed"}
    assert_steps(records[1:5], 3, [1, 0, 1])
    assert_steps(records[5:-1], 4, [1, 0] * 5)
    assert_episodes(data_dir / "paths", {3: [1, 0, 1], 4: [1, 0] * 5})
    made.close()


def reset_plainly(made: Instance) -> None:
    made.reset()


def reset_losslessly(made: Instance) -> None:
    kind = "application/vnd.gym-http.typed+json"
    answer = made.post(
        "reset/", data=typed.encode({}), headers={"Content-Type": kind, "Accept": kind}
    )
    assert (answer.status, answer.content_type) == (200, kind)


def roll_out(made: Instance) -> None:
    ok(made.post("rollout/", {"episodes": 1, "max_steps": 1}))


CLOCK = {"mode": "elastic", "hz": 100}


@pytest.mark.parametrize(
    ("options", "action", "reset"),
    [
        ({}, 1, reset_plainly),
        ({}, 1, reset_losslessly),
        ({}, 1, roll_out),
        ({"num_envs": 2}, [1, 1], reset_plainly),
        ({"env_id": "Pendulum-v1", "realtime": CLOCK}, [0.0], reset_plainly),
    ],
)
def test_the_seed_of_the_creation_is_that_of_the_first_reset(
    options: Any, action: Any, reset: Any, server: Server, data_dir: Path
) -> None:
    made = Api(server).create(**{"env_id": "CartPole-v1", "seed": 11, **options})
    folder = f"seed-{made.id}"
    no_content(made.post("monitor/start/", {"directory": folder, "steps": True}))
    for each in (reset, Instance.reset):
        each(made)
        made.step(action)
    made.close()
    records, _ = read(data_dir / folder / "steps.gym")
    found = [each.value["seed"] for each in records if each.kind == Kind.RESET]
    assert found == [11, None]
    lines = (data_dir / folder / "episodes.jsonl").read_text().splitlines()
    seeds = [11, 12] if "num_envs" in options else [11]
    expected = [*seeds, *[None] * len(seeds)]
    assert [json.loads(each)["seed"] for each in lines] == expected


def test_nothing_is_lost_when_the_host_is_killed(
    server: Server, data_dir: Path
) -> None:
    made = Api(server).create()
    no_content(made.post("monitor/start/", {"directory": "killed", "steps": True}))
    made.reset(seed=5)
    for _ in range(4):
        made.step(1)
    server.host(made.id).kill()
    records, complete = read(data_dir / "killed" / "steps.gym")
    assert complete
    assert_steps(records[1:], 5, [1] * 4)


def test_branches_are_not_recorded(server: Server, data_dir: Path) -> None:
    made = Api(server).create(render_mode="rgb_array")
    monitor = {"directory": "branched", "steps": True, "video": True}
    no_content(made.post("monitor/start/", monitor))
    made.reset(seed=5)
    made.step(1)
    for _ in range(3):
        branches = ok(made.post("rollout/", {"count": 8, "steps": 9}))["branches"]
        assert not [each for each in branches if "error" in each]
    made.step(0)
    no_content(made.post("monitor/close/", {}))
    records, complete = read(data_dir / "branched" / "steps.gym")
    assert complete
    assert_steps(records[1:-1], 5, [1, 0])
    made.close()


def test_exceptions_of_the_environment_are_recorded(
    server: Server, data_dir: Path
) -> None:
    made = Api(server).create()
    no_content(made.post("monitor/start/", {"directory": "failed", "steps": True}))
    made.reset(seed=5)
    made.step(1)
    error(made.post("reset/", {"options": {"low": 1, "high": -1}}), 502, "env-error")
    no_content(made.post("monitor/close/"))
    records, _ = read(data_dir / "failed" / "steps.gym")
    (failure,) = [each for each in records if each.kind == Kind.FAILURE]
    assert failure.value["op"] == "reset"
    assert "Lower bound (1.0) must be lower than higher bound" in failure.value["error"]
    made.close()


def test_parts_follow_and_force_deletes_them(server: Server, data_dir: Path) -> None:
    made = Api(server).create()
    folder = data_dir / "parts"
    for flags in ({}, {"resume": True}, {"force": True}):
        body = {"directory": "parts", "steps": True, **flags}
        no_content(made.post("monitor/start/", body))
        no_content(made.post("monitor/close/"))
        names = {file.name for file in folder.glob("*.gym")}
        both = {"steps.gym", "steps.2.gym"}
        assert names == (both if "resume" in flags else {"steps.gym"})
    body = {"directory": "other", "steps": "perhaps"}
    assert "steps is" in error(made.post("monitor/start/", body), 400)["message"]
    made.close()


def test_a_full_disk_ends_the_recording_and_nothing_else() -> None:
    flags = ("--import", "tests.support.envs.toys", "--data-dir")
    with small_disk("300m") as disk, Server(*flags, str(disk.path)) as running:
        api = Api(running)
        made: Instance = api.create("toys/Big-v0", kwargs={"size": 600_000})
        no_content(made.post("monitor/start/", {"directory": "full", "steps": True}))
        made.reset(seed=1)
        with (disk.path / "other").open("wb") as other:
            os.posix_fallocate(other.fileno(), 0, 50 * 2**20)
        answers = [made.post("step/", {"action": 1}) for _ in range(3)]
        warned = [each.header("Gym-Warnings") for each in answers]
        ended = "the recording of steps has ended: less than 256 MiB of the disk"
        assert [ended in str(each) for each in warned].count(True) == 1, warned
        assert "less than 256 MiB of the disk are free" in running.stderr
        (listed,) = ok(api.get("/v1/instances/"))["instances"]
        assert listed["recording"]["failed"] is True
        made.close()

        # What cannot begin is refused, and nothing of it stays.
        made = api.create()
        steps = {"directory": "new", "steps": True}
        requests = [(made.path("monitor/start/"), steps)]
        requests += [("/v1/envs/", {"env_id": "CartPole-v1", "record": "new"})]
        for path, body in requests:
            refused = error(api.post(path, body), 507, "disk-full")
            assert "less than 256 MiB" in refused["message"]
        (disk.path / "other").unlink()
        again = api.create(record="new")
        for each in (made, again):
            each.close()
