"""The Python client against the shipped server."""

import gc
import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces
from PIL import Image

import gym_http_client
from gym_http_client import Client, ServerError
from tests.support.server import ROOT, Server

CLIENT = ROOT / "clients" / "python"
TOKEN = "sixteen/or@more:characters"


@pytest.fixture(autouse=True)
def errors_are_collected(nothing_left_behind: None) -> Iterator[None]:
    """Free the errors: they hold their answers, which hold their connections."""
    yield
    gc.collect()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, token=server.token) as client:
        yield client


@pytest.fixture
def create(client: Client) -> Iterator[Callable[..., str]]:
    created = []

    def create(env_id: str = "CartPole-v1", **options: Any) -> str:
        created.append(client.env_create(env_id, **options))
        return created[-1]

    yield create
    for instance_id in set(created) & set(client.env_list_all()):
        client.env_close(instance_id)


@pytest.fixture
def cartpole(create: Callable[..., str]) -> str:
    return create()


def test_instances_are_listed_with_their_activity(
    client: Client, create: Callable[..., str]
) -> None:
    instance_id = create(label="from Python")
    client.reset(instance_id)
    client.step(instance_id, 1)
    with gym_http_client.RemoteEnv(
        client.remote_base, "CartPole-v1", label="an Env"
    ) as env:
        rows = client.instances()["instances"]
        listed = {row["instance_id"]: (row["label"], row["steps"]) for row in rows}
        assert listed[instance_id] == ("from Python", 1)
        assert listed[env.instance_id] == ("an Env", 0)
    (found,) = client.instances("FROM python", state="idle")["instances"]
    assert found["instance_id"] == instance_id
    assert client.instances("from python", state="busy")["instances"] == []
    vector = gym_http_client.RemoteVectorEnv(
        client.remote_base, "CartPole-v1", num_envs=2, label="two"
    )
    assert client.env_describe(vector.instance_id)["label"] == "two"
    vector.close()
    ended = client.instances()["ended"]
    assert [each["label"] for each in ended[:2]] == ["two", "an Env"]


def test_episodes_and_keys_are_returned(client: Client, cartpole: str) -> None:
    for seed in range(3):
        client.reset(cartpole, seed=seed)
        client.step(cartpole, 1)
    found = client.env_episodes(cartpole)
    ended = [(each["seed"], each["return"], each["end"]) for each in found["episodes"]]
    assert ended == [(0, 1.0, "reset"), (1, 1.0, "reset")]
    assert found["current"][0]["seed"] == 2
    assert client.env_episodes(cartpole, last=1)["episodes"] == found["episodes"][1:]
    assert client.env_episodes(cartpole, start=2)["episodes"] == []
    keys = client.env_keys(cartpole)
    assert {"keys": ["ArrowRight"], "action": 1} in keys["keys"]


def test_a_log_is_read_part_by_part(client: Client, create: Callable[..., str]) -> None:
    instance_id = create()
    # Nothing is printed by this one.
    assert client.env_log(instance_id) == (b"", 0, 0, False)
    client.env_close(instance_id)
    part = client.env_log(instance_id, wait_s=5)
    assert (part.data, part.ended) == (b"", True)
    with pytest.raises(ServerError, match=r"wait_s is 26\.0"):
        client.env_log(instance_id, wait_s=26)


def test_an_agent_of_gym_http_api_runs_unmodified(server: Server) -> None:
    client = gym_http_client.Client(server.url)
    # As Gymnasium warns where the environment is made.
    with pytest.warns(DeprecationWarning, match="CartPole-v0 is out of date"):
        instance_id = client.env_create("CartPole-v0")
    action_space_info = client.env_action_space_info(instance_id)
    assert action_space_info == {"name": "Discrete", "n": 2}
    outdir = "/tmp/random-agent-results"
    client.env_monitor_start(
        instance_id, outdir, force=True, resume=False, video_callable=False
    )
    for _ in range(2):
        ob = client.env_reset(instance_id)
        assert len(ob) == 4
        for _ in range(200):
            action = client.env_action_space_sample(instance_id)
            ob, reward, done, _ = client.env_step(instance_id, action, render=True)
            assert reward == 1.0
            if done:
                break
    client.env_monitor_close(instance_id)
    client.env_close(instance_id)
    with pytest.raises(gym_http_client.ServerError) as caught:
        client.upload(outdir)
    assert caught.value.status_code in (400, 410)
    client.session.close()


def test_the_first_program_of_the_readme_runs(server: Server, tmp_path: Path) -> None:
    readme = (CLIENT / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert found
    program = found[1]
    assert len(program.splitlines()) <= 10
    assert "http://127.0.0.1:5000" in program
    file = tmp_path / "first.py"
    file.write_text(program.replace("http://127.0.0.1:5000", server.url))
    played = runpy.run_path(str(file))
    assert played["terminated"] or played["truncated"]
    played["client"].close()


def test_the_example_runs(server: Server) -> None:
    example = CLIENT / "examples" / "random_agent.py"
    arguments = [server.url, "--episodes", "3", "--record", "random-agent"]
    done = subprocess.run(
        [sys.executable, str(example), *arguments],
        env={**os.environ, "PYTHONPATH": str(CLIENT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^episode \d: \d+$", done.stdout, re.MULTILINE)) == 3


def test_exports_are_sorted_and_there() -> None:
    assert gym_http_client.__all__ == sorted(gym_http_client.__all__)
    assert all(hasattr(gym_http_client, name) for name in gym_http_client.__all__)


def test_reset_and_step_return_like_gymnasium(client: Client, cartpole: str) -> None:
    with gymnasium.make("CartPole-v1") as local:
        observation, info = client.reset(cartpole, seed=42)
        expected, _ = local.reset(seed=42)
        assert np.array_equal(np.array(observation, np.float32), expected)
        assert info == {}
        terminated = truncated = False
        while not (terminated or truncated):
            stepped = client.step(cartpole, 1)
            observation, reward, terminated, truncated, info = stepped
            expected, *rest = local.step(1)
            assert np.array_equal(np.array(observation, np.float32), expected)
            assert [reward, terminated, truncated, info] == rest
    assert terminated is True
    assert truncated is False


def test_reset_takes_options(client: Client, cartpole: str) -> None:
    observation = client.env_reset(cartpole, options={"low": 0.1, "high": 0.1})
    assert observation == [0.1] * 4


def test_create_takes_the_arguments_of_make(
    client: Client, create: Callable[..., str]
) -> None:
    lake = create(
        "FrozenLake-v1",
        kwargs={"is_slippery": False},
        seed=0,
        render_mode="ansi",
        max_episode_steps=2,
        disable_env_checker=True,
        wrappers=[
            "RecordEpisodeStatistics",
            {"name": "RecordEpisodeStatistics", "kwargs": {"stats_key": "again"}},
        ],
    )
    assert client.env_reset(lake) == 0
    assert client.env_step(lake, 1)[:3] == [4, 0.0, False]
    *_, terminated, truncated, info = client.step(lake, 1)
    assert (terminated, truncated) == (False, True)
    assert info["episode"]["l"] == info["again"]["l"] == 2


def test_the_seed_of_create_is_that_of_the_first_reset(
    client: Client, create: Callable[..., str]
) -> None:
    seeded = client.env_reset(create(seed=7))
    assert seeded == client.env_reset(create(), seed=7)


@pytest.mark.parametrize(
    ("env_id", "action"),
    [
        ("CartPole-v1", np.int64(1)),
        ("CartPole-v1", np.array(1)),
        ("Pendulum-v1", np.array([0.5], np.float32)),
        ("Pendulum-v1", (np.float32(0.5),)),
    ],
)
def test_arrays_are_actions(
    env_id: str, action: Any, client: Client, create: Callable[..., str]
) -> None:
    one, two = create(env_id), create(env_id)
    client.env_reset(one, seed=1)
    client.env_reset(two, seed=1)
    plain = 1 if env_id == "CartPole-v1" else [0.5]
    assert client.env_step(one, action) == client.env_step(two, plain)


def test_graphs_are_actions(toy_server: Server) -> None:
    nodes, links = np.array([[0.5, 0], [0, 1]], np.float32), np.array([[0, 1]])
    graph = spaces.GraphInstance(nodes, np.array([2]), links)
    with Client(toy_server.url) as client:
        instance = client.env_create("toys/Echo-v0", kwargs={"space": "graph"})
        client.env_reset(instance)
        answer, *_ = client.env_step(instance, graph)
        assert client.env_action_space_contains(instance, graph)
        client.env_close(instance)
    assert answer == {
        "nodes": [[0.5, 0.0], [0.0, 1.0]],
        "edges": [2],
        "edge_links": [[0, 1]],
    }


def test_values_that_json_lacks_are_not_sent(client: Client, cartpole: str) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        client.env_step(cartpole, float("nan"))
    with pytest.raises(TypeError, match="object cannot be sent as JSON"):
        client.env_step(cartpole, object())


def test_instances_are_listed_and_described(client: Client, cartpole: str) -> None:
    assert client.env_list_all()[cartpole] == "CartPole-v1"
    described = client.env_describe(cartpole)
    assert described["instance_id"] == cartpole
    assert described["spec"]["id"] == "CartPole-v1"
    assert described["action_space"] == client.env_action_space(cartpole)
    client.env_close(cartpole)
    assert cartpole not in client.env_list_all()


def test_frames_are_png_files_and_arrays(
    client: Client, create: Callable[..., str]
) -> None:
    instance_id = create(render_mode="rgb_array")
    client.env_reset(instance_id, seed=3)
    with gymnasium.make("CartPole-v1", render_mode="rgb_array") as local:
        local.reset(seed=3)
        expected: Any = local.render()
    frame = client.env_render(instance_id, as_array=True)
    assert isinstance(frame, np.ndarray)
    assert frame.dtype == np.uint8
    assert frame.flags.writeable
    assert np.array_equal(frame, expected)
    png = client.env_render(instance_id)
    assert isinstance(png, bytes)
    with Image.open(io.BytesIO(png)) as image:
        assert np.array_equal(np.asarray(image), expected)


@pytest.mark.parametrize("as_array", [False, True])
def test_frames_of_text_are_text(
    as_array: bool, client: Client, create: Callable[..., str]
) -> None:
    instance_id = create("FrozenLake-v1", render_mode="ansi")
    client.env_reset(instance_id)
    frame = client.env_render(instance_id, as_array=as_array)  # type: ignore[call-overload]
    assert isinstance(frame, str)
    assert "FFF" in frame


def test_spaces_are_described(client: Client, cartpole: str) -> None:
    assert client.env_action_space(cartpole) == {
        "type": "Discrete",
        "n": 2,
        "start": 0,
        "dtype": "int64",
    }
    info = client.env_observation_space_info(cartpole)
    assert set(info) == {"name", "shape", "low", "high"}
    space = client.env_observation_space(cartpole)
    assert space["type"] == "Box"
    assert space["dtype"] == "float32"
    assert space["low"][1] == "-inf"


def test_samples_are_those_of_the_space(
    client: Client, create: Callable[..., str]
) -> None:
    taxi = create("Taxi-v4")
    space = gymnasium.spaces.Discrete(6)
    mask = np.array([0, 1, 1, 0, 0, 1], np.int8)
    space.seed(5)
    assert client.env_action_space_sample(taxi, seed=5) == space.sample()
    assert client.env_action_space_sample(taxi) == space.sample()
    space.seed(6)
    drawn = client.env_action_space_sample(taxi, seed=6, mask=mask)
    assert drawn == space.sample(mask=mask)
    observation = client.env_observation_space_sample(taxi, seed=5)
    assert client.env_observation_space_contains(taxi, observation)


@pytest.mark.parametrize(
    ("value", "member"), [(0, True), (1, True), (2, False), ("a", False), ({}, False)]
)
def test_values_are_tested_as_actions(
    value: Any, member: bool, client: Client, cartpole: str
) -> None:
    assert client.env_action_space_contains(cartpole, value) is member


def test_values_are_tested_as_observations(client: Client, cartpole: str) -> None:
    contains = client.env_observation_space_contains
    assert contains(cartpole, np.zeros(4)) is True
    assert contains(cartpole, value=[0.0] * 4) is True
    assert contains(cartpole, value=[0.0] * 3) is False
    assert contains(cartpole, value={"name": "Box"}) is False


def test_mappings_are_compared_with_info(client: Client, cartpole: str) -> None:
    contains = client.env_observation_space_contains
    assert contains(cartpole, {"name": "Box", "shape": [4]}) is True
    assert contains(cartpole, {"name": "Box", "shape": [5]}) is False


def test_the_monitor_writes_on_the_server(
    client: Client, cartpole: str, server: Server
) -> None:
    client.env_monitor_start(cartpole, "recorded/here")
    client.env_reset(cartpole)
    while not client.env_step(cartpole, 0)[2]:
        pass
    client.env_monitor_close(cartpole)
    written = server.data_dir / "recorded" / "here" / "episodes.jsonl"
    assert len(written.read_text().splitlines()) == 1
    with pytest.raises(ServerError):
        client.env_monitor_start(cartpole, "recorded/here")
    client.env_monitor_start(cartpole, "recorded/here", resume=True)


def test_the_registry_is_searched(client: Client) -> None:
    found = client.registry("CartPole")
    assert "CartPole-v1" in [env["env_id"] for env in found]
    assert all("cartpole" in env["env_id"].lower() for env in found)
    here, away = client.registry(available=True), client.registry(available=False)
    assert "CartPole-v1" in [env["env_id"] for env in here]
    assert len(here) + len(away) == len(client.registry())
    assert all(env["reason"] for env in away)


def test_the_server_describes_itself(client: Client) -> None:
    assert client.healthy() is True
    answer = client.server_info()
    assert answer["name"] == "gym_http_server"
    assert answer["gymnasium"] == gymnasium.__version__


def test_the_server_can_be_shut_down(make_server: Callable[..., Server]) -> None:
    server = make_server("--enable-shutdown")
    with Client(server.url) as client:
        client.shutdown_server()
    assert server.wait_exit() == 0


def test_shutting_down_is_off_by_default(client: Client) -> None:
    with pytest.raises(ServerError) as caught:
        client.shutdown_server()
    assert (caught.value.status_code, caught.value.code) == (403, "shutdown-disabled")


def test_one_connection_serves_many_calls(
    client: Client, cartpole: str, server: Server
) -> None:
    def ports() -> list[int]:
        connections = psutil.Process().net_connections("tcp")
        return [c.laddr.port for c in connections if c.raddr == address]

    address = ("127.0.0.1", server.port)
    first = ports()
    assert len(first) == 1
    for _ in range(5):
        client.env_reset(cartpole)
    assert ports() == first


def test_errors_have_the_message_of_the_server(client: Client, server: Server) -> None:
    with pytest.raises(ServerError, match="Instance_id deadbeef unknown") as caught:
        client.env_reset("deadbeef")
    error = caught.value
    assert error.message == "Instance_id deadbeef unknown"
    assert (error.status_code, error.code) == (400, "unknown-instance")
    assert error.url == f"{server.url}/v1/envs/deadbeef/reset/"
    assert error.body["request_id"]
    assert str(error) == "Instance_id deadbeef unknown (400, unknown-instance)"


def test_an_instance_id_is_one_segment_of_the_path(client: Client) -> None:
    with pytest.raises(ServerError):
        client.env_describe("../registry")


@pytest.fixture
def guarded(make_server: Callable[..., Server]) -> Server:
    return make_server(env={"GHS_TOKEN": TOKEN}, token=TOKEN)


def test_the_token_is_an_argument_or_stands_in_the_address(
    guarded: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = guarded.url.removeprefix("http://")
    inside = f"http://:{quote(TOKEN, safe='')}@{host}/"
    monkeypatch.setenv("GHS_TOKEN", "a wrong one that must not win")
    for client in (Client(guarded.url, token=TOKEN), Client(inside)):
        with client:
            assert client.env_list_all() == {}
            assert client.remote_base == guarded.url
            assert repr(client) == f"Client({guarded.url!r})"


def test_the_token_is_taken_from_the_environment_at_last(
    guarded: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GHS_TOKEN", TOKEN)
    with Client(guarded.url) as client:
        assert client.env_list_all() == {}
    for token in ("", "a wrong one of enough characters"):
        with Client(guarded.url, token=token) as client:
            with pytest.raises(ServerError) as caught:
                client.env_list_all()
            assert (caught.value.status_code, caught.value.code) == (
                401,
                "unauthorized",
            )
            assert client.healthy() is True
