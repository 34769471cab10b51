"""All clients return exactly the values that local Gymnasium returns.

Each driver plays one environment from one seed with one list of actions, and prints
the bits of all values. The lines are compared with those of a local environment, and
so with those of the other clients.
"""

import json
import struct
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from gym_http_client import recordings
from gym_http_wire.step_records import Kind
from tests.support.api import Api, Instance, no_content
from tests.support.drivers import DRIVERS, Program
from tests.support.envs import mixed_observations, opaque_spaces
from tests.support.reference_runs import ReferenceRun, in_hex
from tests.support.server import Server

ENV_IDS = [
    "CartPole-v1",
    "Taxi-v4",
    "Blackjack-v1",
    "Pendulum-v1",
    *mixed_observations.ENV_IDS,
]
TRANSPORTS = ["rest", "stream"]
# Every driver with every environment, and both of them over every transport.
PAIRWISE = [
    (name, env_id, TRANSPORTS[(i + j) % len(TRANSPORTS)])
    for i, name in enumerate(DRIVERS)
    for j, env_id in enumerate(ENV_IDS)
]
STEPS = 220
#: Bytes that a message may have, and actions beyond: one that fits into the buffers of
#: a connection, so that the refusal is read, and one in whose midst that ends.
MAX_BODY = 64 * 1024
TOO_LARGE = {"toys/Heavy-v0": 20_000, "toys/Heavier-v0": 400_000}

pytestmark = [
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]
walk = cache(ReferenceRun)


@pytest.fixture(scope="module")
def mixed_server() -> Iterator[Server]:
    modules = (mixed_observations, opaque_spaces)
    with Server(*(f"--import={each.__name__}" for each in modules)) as server:
        yield server


@pytest.mark.live
@pytest.mark.parametrize(("name", "env_id", "transport"), PAIRWISE)
def test_lines_are_those_of_a_local_environment(
    name: str,
    env_id: str,
    transport: str,
    driver: Callable[[str], Program],
    mixed_server: Server,
    tmp_path: Path,
) -> None:
    program = driver(name)
    walked = walk(env_id, 42, STEPS)
    args = walked.args(mixed_server.url, transport, tmp_path)
    walked.compare(program.output(*args))


@pytest.mark.live
@pytest.mark.parametrize("name", DRIVERS)
def test_environments_with_opaque_spaces_are_played(
    name: str, driver: Callable[[str], Program], mixed_server: Server, tmp_path: Path
) -> None:
    walked = walk("opaque/Sum-v0", 42, 30)
    assert walked.ends > 0
    for transport in TRANSPORTS:
        args = walked.args(mixed_server.url, transport, tmp_path)
        walked.compare(driver(name).output(*args))


# Each driver once, and each environment and transport.
RECORDED = [
    (name, ENV_IDS[i % len(ENV_IDS)], TRANSPORTS[i % len(TRANSPORTS)])
    for i, name in enumerate(DRIVERS)
]


@pytest.mark.live
@pytest.mark.parametrize(("name", "env_id", "transport"), RECORDED)
def test_recordings_are_those_of_a_local_environment(
    name: str,
    env_id: str,
    transport: str,
    driver: Callable[[str], Program],
    mixed_server: Server,
    tmp_path: Path,
) -> None:
    walked = walk(env_id, 42, STEPS)
    instance = Api(mixed_server).create(env_id)
    settings = {"directory": f"{name}-{transport}", "steps": True}
    no_content(instance.post("monitor/start/", settings))
    args = walked.args(mixed_server.url, transport, tmp_path, instance.id)
    walked.compare(driver(name).output(*args))
    instance.close()
    found = recordings.read(mixed_server.data_dir / settings["directory"])
    walked.compare("\n".join(lines_of(found)))


def lines_of(recording: recordings.StepRecording) -> Iterator[str]:
    """Write a recording as drivers write what they get."""
    for record in recording:
        value = record.value
        if record.kind == Kind.RESET:
            yield f"reset {in_hex(value['observation'])}"
        elif record.kind == Kind.STEP:
            reward = struct.pack("<d", value["reward"]).hex()
            flags = f"{value['terminated']:d} {value['truncated']:d}"
            yield f"{in_hex(value['observation'])} {reward} {flags}"


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_walks_are_long_and_go_beyond_the_end_of_an_episode(env_id: str) -> None:
    walked = walk(env_id, 42, STEPS)
    assert walked.ends > 0
    assert len(walked.lines) == 1 + STEPS + walked.ends


def test_another_seed_gives_other_lines() -> None:
    for env_id in ENV_IDS:
        assert walk(env_id, 42, STEPS).lines != walk(env_id, 43, STEPS).lines


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    """A server with a limit of 64 KiB for messages."""
    flags = ("--import", "tests.support.envs.toys", "--max-body", str(MAX_BODY))
    with Server(*flags) as server:
        yield server


@pytest.mark.live
@pytest.mark.parametrize("env_id", TOO_LARGE)
@pytest.mark.parametrize("name", DRIVERS)
def test_an_action_over_the_limit_fails_at_once_and_names_the_limit(
    name: str,
    env_id: str,
    driver: Callable[[str], Program],
    small_server: Server,
    tmp_path: Path,
) -> None:
    program, api = driver(name), Api(small_server)
    actions = tmp_path / "actions"
    actions.write_text(json.dumps([0.123456789] * TOO_LARGE[env_id]) + "\n")
    began = time.monotonic()
    args = ("agree", small_server.url, env_id, "42", "stream", str(actions))
    done = program.run(*args, timeout=100.0)
    # Not every driver closes it when it fails.
    for instance_id in api.instances():
        Instance(api, instance_id).close()
    # The shortest time limit of a client is 60 s.
    assert time.monotonic() - began < 30.0, done.stderr
    assert done.returncode != 0
    assert f"more than the {MAX_BODY} bytes that this server takes" in done.stderr
    assert done.stdout == f"reset {bytes(8).hex()}\n"
