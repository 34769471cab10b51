"""The number of processes that a vector gets, from its create request."""

import os
from typing import Any

import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.host.create_request import read_request
from gym_http_server.host.vector_request import VectorRequest
from gym_http_server.linux import machine
from gym_http_wire.problems import BadParameter

CORES = 9
OF_SCHEMA = "expected an integer from 1 to 9007199254740991, or 'auto'"


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(CORES)))


def vector(body: str, **settings: Any) -> VectorRequest:
    """Read the request for a vector."""
    whole = '{"env_id": "CartPole-v1", ' + body + "}"
    found = read_request(whole.encode(), Settings(**settings)).vector
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("num_envs", "hosts"),
    [(1, 1), (4, 1), (7, 1), (8, 2), (31, 7), (32, 8), (33, 8), (1000, 8)],
)
def test_auto_leaves_a_core_and_gives_each_process_four(
    num_envs: int, hosts: int
) -> None:
    found = vector(f'"num_envs": {num_envs}, "hosts": "auto"')
    assert (found.hosts, found.auto) == (hosts, True)


def test_auto_is_within_the_limit() -> None:
    found = vector('"num_envs": 64, "hosts": "auto"', max_vector_processes=3)
    assert found.hosts == 3


def test_auto_on_one_core_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert vector('"num_envs": 64, "hosts": "auto"').hosts == 1


def test_auto_counts_the_part_of_the_cores_that_a_container_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/cpu.max": "300000 100000"}
    monkeypatch.setattr(machine, "_read", lambda path: files.get(path, ""))
    assert vector('"num_envs": 64, "hosts": "auto"').hosts == 2


@pytest.mark.parametrize(
    "other",
    [
        '"vectorization_mode": "async"',
        '"vectorization_mode": "vector_entry_point"',
        '"vector_kwargs": {"observation_mode": "different"}',
    ],
)
def test_auto_is_one_where_nothing_can_be_spread(other: str) -> None:
    body = f'"num_envs": 64, {other}, "hosts": '
    assert vector(body + '"auto"').hosts == 1
    with pytest.raises(BadParameter, match="hosts is 2"):
        vector(body + "2")


def test_a_number_is_no_choice_of_the_server() -> None:
    found = vector('"num_envs": 64, "hosts": 5')
    assert (found.hosts, found.auto) == (5, False)


@pytest.mark.parametrize(
    ("hosts", "refusal"),
    [
        ("9", "hosts is 9: expected an integer from 1 to 8 (num_envs and --max-vector"),
        ("0", f"hosts is 0: {OF_SCHEMA}"),
        ("true", f"hosts is True: {OF_SCHEMA}"),
        ('"Auto"', f"hosts is 'Auto': {OF_SCHEMA}"),
        ('["auto"]', f"hosts is ['auto']: {OF_SCHEMA}"),
    ],
)
def test_other_values_are_refused(hosts: str, refusal: str) -> None:
    with pytest.raises(BadParameter) as caught:
        vector(f'"num_envs": 8, "hosts": {hosts}')
    assert str(caught.value).startswith(refusal)


def test_the_limit_of_the_server_is_named() -> None:
    with pytest.raises(
        BadParameter, match="hosts is 4: expected an integer from 1 to 3"
    ):
        vector('"num_envs": 8, "hosts": 4', max_vector_processes=3)


def test_auto_needs_a_vector() -> None:
    with pytest.raises(BadParameter, match="hosts is 'auto' without num_envs"):
        read_request(b'{"env_id": "CartPole-v1", "hosts": "auto"}', Settings())
