"""PettingZoo's environments are served with both of its interfaces."""

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gym_http_client import RemoteEnv
from gym_http_client.pettingzoo import RemoteAECEnv, RemoteParallelEnv
from gym_http_server.host.agents import agent_rows
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.making import make
from gym_http_wire.problems import DependencyMissing
from tests.support.api import Api, error, ok
from tests.support.identity import assert_identical
from tests.support.server import Server

with warnings.catch_warnings():
    # It would rather have its own `make` called.
    warnings.simplefilter("ignore")
    import supersuit
    from pettingzoo.test import (
        api_test,
        parallel_api_test,
        parallel_seed_test,
        seed_test,
    )

pytestmark = [
    pytest.mark.live,
    # PettingZoo's tests and environments warn of themselves, and of its old interface.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

RPS = "classic.rps_v2"
GENERATED = "test.example_envs.generated_agents"
PARALLEL = [
    RPS,
    "sisl.multiwalker_v9",
    "butterfly.cooperative_pong_v6",
    f"{GENERATED}_parallel_v0",
]
AEC = [
    *PARALLEL,
    "classic.tictactoe_v3",
    "classic.connect_four_v3",
    f"{GENERATED}_env_v0",
]
STEPS = 200


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture(autouse=True)
def _end_instances(server: Server) -> Iterator[None]:
    yield
    api = Api(server)
    for each in api.instances():
        api.post(f"/v1/envs/{each}/close/")


def local(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"pettingzoo.{name}")


def plain(values: Any) -> Any:
    """Return values of which a `defaultdict` is a dict, as it arrives."""
    if isinstance(values, tuple):
        return tuple(dict(each) if isinstance(each, dict) else each for each in values)
    return dict(values)


def chosen(env: Any, agent: Any, observation: Any, info: Any) -> Any:
    mask = info.get("action_mask")
    if isinstance(observation, dict):
        mask = observation.get("action_mask", mask)
    return env.action_space(agent).sample(mask)


@pytest.mark.parametrize("name", PARALLEL)
def test_it_passes_the_tests_of_the_parallel_interface(
    server: Server, name: str
) -> None:
    def make() -> RemoteParallelEnv:
        return RemoteParallelEnv(server.url, f"pettingzoo/{name}")

    env = make()
    parallel_api_test(env, 30)
    env.close()
    parallel_seed_test(make, 10)


@pytest.mark.parametrize("name", AEC)
def test_it_passes_the_tests_of_the_aec_interface(server: Server, name: str) -> None:
    def make() -> RemoteAECEnv:
        return RemoteAECEnv(server.url, f"pettingzoo/{name}")

    env = make()
    api_test(env, 20)
    env.close()
    seed_test(make, 10)


@pytest.mark.parametrize("name", PARALLEL)
def test_agents_that_act_together_see_what_they_see_here(
    server: Server, name: str
) -> None:
    env = RemoteParallelEnv(server.url, f"pettingzoo/{name}")
    here = local(name).parallel_env()
    assert_identical(env.reset(seed=5), plain(here.reset(seed=5)))
    for agent in here.agents:
        assert env.action_space(agent) == here.action_space(agent)
        assert env.observation_space(agent) == here.observation_space(agent)
        here.action_space(agent).seed(3)
    for _ in range(STEPS):
        actions = {agent: here.action_space(agent).sample() for agent in here.agents}
        assert_identical(env.step(actions), plain(here.step(actions)))
        assert env.agents == here.agents
        if not here.agents:
            assert_identical(env.reset(seed=6), plain(here.reset(seed=6)))
    env.close()
    here.close()


@pytest.mark.parametrize("name", AEC)
def test_agents_that_take_turns_see_what_they_see_here(
    server: Server, name: str
) -> None:
    env = RemoteAECEnv(server.url, f"pettingzoo/{name}")
    here = local(name).env()
    for each in (env, here):
        each.reset(seed=5)
    for _ in range(STEPS):
        assert (env.agents, env.agent_selection) == (here.agents, here.agent_selection)
        for values in ("rewards", "terminations", "truncations", "infos"):
            assert_identical(getattr(env, values), plain(getattr(here, values)))
        observation, _, terminated, truncated, info = last = here.last()
        assert_identical(env.last(), last)
        action = None
        if not (terminated or truncated):
            action = chosen(here, here.agent_selection, observation, info)
        env.step(action)
        here.step(action)
        # PettingZoo seeds no space of a type of agents that is born in an episode.
        if not here.agents or "type3_0" in here.agents:
            assert env.agents == here.agents
            for each in (env, here):
                each.reset(seed=6)
    env.close()
    here.close()


def test_a_thin_client_plays_in_plain_json(server: Server) -> None:
    instance = Api(server).create(f"pettingzoo/{RPS}")
    about = ok(instance.get(""))
    assert (about["api"], about["agents"]) == ("parallel", [])
    assert about["possible_agents"] == ["player_0", "player_1"]
    instance.reset()
    assert instance.step({"player_0": 0, "player_1": 2}) == {
        "agents": ["player_0", "player_1"],
        "done": {"player_0": False, "player_1": False},
        "info": {"player_0": {}, "player_1": {}},
        "observation": {"player_0": 2, "player_1": 0},
        "reward": {"player_0": 1.0, "player_1": -1.0},
        "terminated": {"player_0": False, "player_1": False},
        "truncated": {"player_0": False, "player_1": False},
    }
    instance.close()


def test_a_turn_is_one_request(server: Server) -> None:
    instance = Api(server).create("pettingzoo/classic.tictactoe_v3")
    first = instance.reset()
    assert first["agent_selection"] == "player_1"
    assert list(first["observation"]) == ["player_1"]
    turn = instance.step({"player_1": 4})
    assert turn["agent_selection"] == "player_2"
    assert turn["agents"] == ["player_1", "player_2"]
    assert turn["cumulative_rewards"] == {"player_1": 0, "player_2": 0}
    # The middle is taken.
    assert turn["observation"]["player_2"]["action_mask"][4] == 0
    message = error(instance.post("step/", {"action": {"player_1": 0}}), 400)["message"]
    assert "'player_1' does not act now: expected one of 'player_2'" in message
    # No step was taken.
    assert instance.step({"player_2": 0})["agent_selection"] == "player_1"
    instance.close()


def test_an_instance_of_the_other_interface_is_refused(server: Server) -> None:
    instance = Api(server).create(f"pettingzoo/{RPS}", api="aec")
    with pytest.raises(TypeError, match="'parallel'"):
        RemoteParallelEnv.attach(server.url, instance.id)
    with pytest.raises(TypeError, match="RemoteParallelEnv or RemoteAECEnv"):
        RemoteEnv.attach(server.url, instance.id)
    instance.reset()
    instance.step({"player_0": 1})
    env = RemoteAECEnv.attach(server.url, instance.id)
    assert env.agent_selection == "player_1"
    assert env.last()[1:] == (0, False, False, {})
    env.close()


def test_a_vector_of_supersuit_learns(server: Server) -> None:
    """The first player learns to beat a second one that always has the rock."""
    single = RemoteParallelEnv(server.url, f"pettingzoo/{RPS}", max_cycles=20)
    vector = supersuit.pettingzoo_env_to_vec_env_v1(single)
    # It makes others, by pickling the first one.
    envs = supersuit.concat_vec_envs_v1(vector, 2, base_class="gymnasium")
    envs.reset(seed=1)
    generator = np.random.default_rng(1)
    totals, counts = np.zeros(3), np.ones(3)
    for _ in range(60):
        explores = generator.random() < 0.3
        action = generator.integers(3) if explores else np.argmax(totals / counts)
        _, rewards, _, _, _ = envs.step(np.array([action, 0] * 2))
        totals[action] += rewards[0::2].sum()
        counts[action] += 2
    assert np.argmax(totals / counts) == 1, "paper covers rock"
    envs.close()
    single.close()


def test_without_pettingzoo_its_ids_name_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DependencyMissing, match=r"gymnasium-http-server\[pettingzoo\]"):
        make(CreateRequest(f"pettingzoo/{RPS}"))
    rows = agent_rows(lambda name: None)
    assert not [row for row in rows if row["env_id"].startswith("pettingzoo/")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("classic.rps_v3", "; did you mean 'pettingzoo/classic.rps_v2'?"),
        ("rps_v2", "; did you mean 'pettingzoo/classic.rps_v2'?"),
        ("magent.battle_v4", ": magent has moved to the package magent2"),
        ("classic.nonsense_v2", "; the registry lists all"),
        ("mpe.simple_spread_v3", ": mpe has moved to the package mpe2"),
        ("atari", "; the registry lists all"),
    ],
)
def test_an_unknown_name_is_not_called_malformed(
    server: Server, name: str, words: str
) -> None:
    answer = Api(server).post("/v1/envs/", {"env_id": f"pettingzoo/{name}"})
    message = error(answer, 400, "unknown-env")["message"]
    assert message == (
        f"there is no environment 'pettingzoo/{name}': PettingZoo has no environment "
        f"{name!r}{words}"
    )


def test_the_registry_says_which_agents_an_environment_has(server: Server) -> None:
    rows = ok(Api(server).get("/v1/registry/?search=pettingzoo/"))["envs"]
    found = {row["env_id"].removeprefix("pettingzoo/"): row for row in rows}
    assert found[RPS]["possible_agents"] == ["player_0", "player_1"]
    assert (found[RPS]["api"], found[RPS]["available"]) == ("parallel", True)
    assert found["classic.tictactoe_v3"]["api"] == "aec"
    assert found[f"{GENERATED}_env_v0"]["possible_agents"] is None
    assert found[RPS]["entry_point"] == "pettingzoo.classic.rps_v2:parallel_env"
    turns = "pettingzoo.classic.tictactoe_v3:env"
    assert found["classic.tictactoe_v3"]["entry_point"] == turns
    # Its library is not among ours.
    assert "multi_agent_ale_py" in found["atari.pong_v3"]["reason"]


def test_the_registry_names_the_package_that_a_create_names(server: Server) -> None:
    env_id = "pettingzoo/atari.pong_v3"
    (row,) = ok(Api(server).get(f"/v1/registry/?search={env_id}"))["envs"]
    refused = error(Api(server).post("/v1/envs/", {"env_id": env_id}), 501)
    words = row["reason"].removeprefix("ModuleNotFoundError: ")
    assert words.endswith("on the server: pip install multi_agent_ale_py")
    assert refused["message"].endswith(words)


def test_only_a_turn_and_observations_of_others_are_requests(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = RemoteAECEnv(server.url, "pettingzoo/classic.tictactoe_v3")
    env.reset()
    sent: list[str] = []
    call = env._handle.call

    def counted(method: str, path: str, given: Any = None) -> Any:
        sent.append(path)
        return call(method, path, given)

    monkeypatch.setattr(env._handle, "call", counted)
    env.last()
    env.observe("player_1")
    env.step(4)
    env.last()
    assert sent == ["step/"]
    env.observe("player_1")
    assert sent == ["step/", "attributes/observe/call/"]
    env.close()
