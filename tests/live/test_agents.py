"""Hosts treat environments of several agents like any other."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.error import InvalidAction

from gym_http_client import RemoteEnv, Retries, ServerError, recordings, resume
from gym_http_client import Server as Address
from gym_http_client.pettingzoo import RemoteAECEnv, RemoteParallelEnv
from gym_http_client.recording_exports import to_minari
from gym_http_wire.step_records import Kind, StepDecoder
from gym_http_wire.values import typed
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.envs import agent_worlds
from tests.support.envs.agent_worlds import STEPS, Arena, Numbered
from tests.support.faults.http_faults import FaultyNetwork
from tests.support.identity import assert_identical
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

PARALLEL, NUMBERED, TURNS = (
    f"arena/{name}-v0" for name in ("Parallel", "Numbered", "Turns")
)
TIMES = float(os.environ.get("CHAOS_TIMES", "1"))
TYPED = "application/vnd.gym-http.typed+json"
#: Actions of all agents, of the steps in which they live.
LEFT, RIGHT, BORN = 1, [0.5, -0.5], [1, 0]
ACTIONS: list[dict[str, Any]] = [
    *[{"left": LEFT, "right": RIGHT}] * 2,
    {"left": LEFT, "right": RIGHT, "born": BORN},
    *[{"right": RIGHT, "born": BORN}] * 3,
]
#: The sum of the rewards of each agent: its place among those that acted decides.
RETURNS = {
    "left": 0.5 * (1 + 2 + 3),
    "right": 1.5 * (1 + 2 + 3) + 0.5 * (4 + 5 + 6),
    "born": 2.5 * (2 + 3) + 1.5 * (4 + 5 + 6),
}


RESUMED = [
    (PARALLEL, ACTIONS),
    (TURNS, [{"one": 1}, {"two": 2}, {"one": 3}, {"two": 4}]),
]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Server]:
    imported = ("--import", agent_worlds.__name__)
    with Server(*imported, "--data-dir", str(data_dir)) as started:
        yield started


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    api = Api(server)
    yield api
    for each in api.instances():
        no_content(api.post(f"/v1/envs/{each}/close/"))


def refused(instance: Instance, action: Any) -> str:
    """Return the message with which an action is refused, and check it took no step."""
    steps = ok(instance.get(""))["steps"]
    problem = error(instance.post("step/", {"action": action}), 400, "invalid-action")
    assert ok(instance.get(""))["steps"] == steps
    return str(problem["message"])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"left": 1}, "there is no action of 'right'"),
        (
            {"left": 1, "right": RIGHT, "nobody": 1},
            "there is no agent 'nobody': expected",
        ),
        ({"left": 1, "right": RIGHT, "born": BORN}, "'born' does not act now"),
        ({"left": 7, "right": RIGHT}, "of 'left': action is 7"),
        ({"left": 1, "right": [0.5]}, "of 'right': action"),
        ({"left": None, "right": RIGHT}, "'left' has no action"),
        (1, "expected an object with the action of each agent"),
    ],
)
def test_actions_that_are_none_are_refused(api: Api, action: Any, message: str) -> None:
    made = api.create(PARALLEL)
    made.reset()
    assert message in refused(made, action)


@pytest.mark.parametrize("env_id", [PARALLEL, TURNS, "pettingzoo/classic.rps_v2"])
def test_an_environment_of_one_agent_is_not_made_of_several(
    api: Api, server: Server, env_id: str
) -> None:
    with pytest.raises(TypeError, match="several agents: expected RemoteParallelEnv"):
        RemoteEnv(server.url, env_id)
    assert api.instances() == {}


def test_the_dead_do_not_act(api: Api) -> None:
    made = api.create(PARALLEL)
    error(made.post("step/", {"action": ACTIONS[0]}), 409, "reset-needed")
    made.reset()
    for action in ACTIONS[:3]:
        last = made.step(action)
    assert last["agents"] == ["right", "born"]
    assert last["done"] == {"born": False, "left": True, "right": False}
    assert "'left' does not act now" in refused(made, ACTIONS[2])
    for action in ACTIONS[3:]:
        last = made.step(action)
    assert last["agents"] == []
    error(made.post("step/", {"action": ACTIONS[-1]}), 409, "reset-needed")


def test_the_dead_take_their_last_turn_with_null(api: Api) -> None:
    made = api.create(TURNS, kwargs={"turns": 1})
    made.reset()
    assert made.step({"one": 3})["truncated"] == {"one": True, "two": True}
    assert "expected null (None), since its episode has ended" in refused(
        made, {"two": 1}
    )
    assert made.step({"two": None})["agents"] == ["one"]
    assert made.step({"one": None})["agents"] == []


@pytest.mark.parametrize(
    ("env_id", "options", "code", "message"),
    [
        (PARALLEL, {"wrappers": ["ClipAction"]}, "bad-parameter", "wrappers"),
        (PARALLEL, {"num_envs": 2}, "bad-parameter", "num_envs"),
        (PARALLEL, {"max_episode_steps": 9}, "bad-parameter", "max_episode_steps"),
        (
            PARALLEL,
            {"realtime": {"mode": "elastic", "hz": 10}},
            "bad-parameter",
            "realtime",
        ),
        (PARALLEL, {"api": "aec"}, "bad-parameter", "has only ['parallel']"),
        (
            "pettingzoo/classic.tictactoe_v3",
            {"api": "parallel"},
            "bad-parameter",
            "has only ['aec']",
        ),
        ("CartPole-v1", {"api": "aec"}, "bad-parameter", "no environment of several"),
        (
            "pettingzoo/classic.rps_v1",
            {},
            "unknown-env",
            "did you mean 'pettingzoo/classic.rps_v2'",
        ),
        ("pettingzoo/test.api_test", {}, "unknown-env", "PettingZoo has no"),
        ("pettingzoo/..os_v2", {}, "unknown-env", "PettingZoo has no"),
        ("pettingzoo/os.path_v2", {}, "unknown-env", "PettingZoo has no"),
    ],
)
def test_creates_are_refused_by_what_is_wrong(
    api: Api, env_id: str, options: dict[str, Any], code: str, message: str
) -> None:
    refusal = error(api.post("/v1/envs/", {"env_id": env_id, **options}), 400, code)
    assert message in refusal["message"]


def test_an_environment_that_raised_needs_a_reset(api: Api) -> None:
    made = api.create(PARALLEL)
    made.reset()
    wrong = {"left": LEFT, "right": [9.0, 0.0]}
    problem = error(made.post("step/", {"action": wrong}), 502, "env-error")
    assert "right went too far" in problem["message"]
    error(made.post("step/", {"action": ACTIONS[0]}), 409, "reset-needed")
    made.reset()
    assert made.step(ACTIONS[0])["agents"] == ["left", "right"]


def test_only_lossless_forms_have_agents_whose_ids_are_no_strings(
    server: Server, api: Api
) -> None:
    made = api.create(NUMBERED)
    assert ok(made.get(""))["possible_agents"] == [0, ["b", 1], 2]
    for path, body in (("reset/", {}), ("step/", {"action": {"0": 1}})):
        problem = error(made.post(path, body), 501, "unsupported-value")
        assert "the agent 0 has an ID that is no string" in problem["message"]
    error(made.post("rollout/", {"max_steps": 1}), 501, "unsupported-value")
    headers = {"Content-Type": TYPED, "Accept": TYPED}
    answer = made.post("reset/", data=typed.encode({}), headers=headers)
    assert typed.decode(answer.body)["agents"] == [0, ("b", 1)]
    env, here = RemoteParallelEnv(server.url, NUMBERED), Numbered()
    assert_identical(env.reset(seed=1), here.reset(seed=1))
    actions = {0: np.int64(1), ("b", 1): np.ones(2, np.float32)}
    for _ in range(2):
        assert_identical(env.step(actions), here.step(actions))
    assert env.agents == here.agents == [0, ("b", 1), 2]
    env.close()


def test_spaces_state_and_frames_are_those_of_the_environment(server: Server) -> None:
    env = RemoteParallelEnv(server.url, PARALLEL, render_mode="rgb_array", max_cycles=3)
    here = Arena(render_mode="rgb_array", max_cycles=3)
    assert env.possible_agents == list(here.possible_agents)
    env.reset()
    here.reset()
    for agent in here.possible_agents:
        assert env.action_space(agent) == here.action_space(agent)
        assert env.action_space(agent) is env.action_space(agent)
    # As in the environment, both have one object, with one random generator.
    assert env.observation_space("left") is env.observation_space("right")
    assert_identical(env.state(), here.state())
    assert env.state_space == here.state_space
    assert_identical(env.render(), here.render())
    with pytest.raises(KeyError):
        env.action_space("nobody")
    assert env.max_cycles == 3
    env.max_cycles = 1
    assert env.step(ACTIONS[0])[3] == {"left": True, "right": True}
    assert env.agents == []
    env.close()


def test_batches_rollouts_and_episodes_have_values_by_agent(api: Api) -> None:
    made = api.create(PARALLEL)
    made.reset(seed=1)
    several = ok(made.post("step/", {"actions": ACTIONS}))
    assert (several["steps"], several["stopped"]) == (STEPS, "episode")
    assert several["agents"] == []
    assert several["done"][2] == {"born": False, "left": True, "right": False}
    (rolled,) = ok(made.post("rollout/", {"actions": [ACTIONS], "seed": 2}))["episodes"]
    assert rolled["return"] == RETURNS
    assert rolled["rewards"] == several["rewards"]
    wrong = [*ACTIONS[:2], ACTIONS[0]]
    made.reset()
    problem = error(made.post("step/", {"actions": wrong}), 400, "invalid-action")
    assert problem["steps"] == 2
    assert problem["results"]["rewards"] == several["rewards"][:2]
    random = ok(made.post("rollout/", {"episodes": 1, "max_steps": 2, "seed": 3}))
    assert list(random["episodes"][0]["actions"][0]) == ["left", "right"]
    (first, second, *_) = ok(made.get("episodes/"))["episodes"]
    assert first["return"] == second["return"] == RETURNS
    assert (first["length"], first["end"], first["seed"]) == (STEPS, "truncated", 1)


def test_a_random_rollout_takes_turns_until_nobody_is_left(api: Api) -> None:
    made = api.create(TURNS)
    rolled = ok(made.post("rollout/", {"policy": "random", "seed": 1}))
    (episode,) = rolled["episodes"]
    assert rolled["stopped"] is None
    assert episode["length"] == STEPS + 2
    assert [next(iter(each)) for each in episode["actions"]] == ["one", "two"] * 4
    assert episode["actions"][-1] == {"two": None}
    assert episode["return"] == {"one": STEPS / 2, "two": STEPS / 2}


def test_branches_play_from_the_present_turn(api: Api) -> None:
    made = api.create(PARALLEL)
    made.reset(seed=1)
    made.step(ACTIONS[0])
    given = {"branches": [ACTIONS[1:], ACTIONS[1:2]], "observations": True}
    whole, short = ok(made.post("rollout/", given))["branches"]
    assert (whole["steps"], whole["stopped"]) == (STEPS - 1, "episode")
    assert short["rewards"] == whole["rewards"][:1]
    assert short["rewards"][0] == {"left": 1.0, "right": 3.0, "born": 5.0}


def test_a_killed_host_leaves_the_values_of_every_agent(
    server: Server, api: Api, data_dir: Path
) -> None:
    made = api.create(PARALLEL)
    no_content(made.post("monitor/start/", {"directory": "killed", "steps": True}))
    env = RemoteParallelEnv.attach(server.url, made.id)
    here = Arena()
    expected = [(env.reset(seed=5), here.reset(seed=5))]
    for action in ACTIONS * 2:
        if not env.agents:
            expected.append((env.reset(seed=6), here.reset(seed=6)))
        expected.append((env.step(action), here.step(action)))
    server.host(made.id).kill()
    decoder = StepDecoder()
    header, *records = decoder.feed((data_dir / "killed/steps.gym").read_bytes())
    assert (header.value["api"], header.value["env_id"]) == ("parallel", PARALLEL)
    assert header.value["possible_agents"] == ["left", "right", "born"]
    assert len(records) == len(expected) == 2 * (1 + STEPS)
    for record, (received, local) in zip(records, expected, strict=True):
        value = record.value
        names = ["observation", "info"]
        if record.kind == Kind.STEP:
            names[1:1] = ["reward", "terminated", "truncated"]
        assert_identical(tuple(value[name] for name in names), local)
        assert_identical(received, local)
    recording = recordings.read(data_dir / "killed")
    with pytest.raises(ValueError, match="has several agents"):
        to_minari(recording, "arena/killed-v0")
    first, second = recording.episodes()
    assert (first.seed, second.seed) == (5, 6)
    assert first.actions == second.actions == ACTIONS
    assert sum(each["born"] for each in first.rewards if "born" in each) == 35.0
    # The episodes that a monitor counts are on disk as well.
    lines = (data_dir / "killed/episodes.jsonl").read_text().splitlines()
    assert [json.loads(each)["return"] for each in lines] == [RETURNS] * 2
    # So does the archive of ended instances.
    kept = wait_until(lambda: made.get("episodes/").json().get("episodes"), 20, "them")
    assert [each["return"] for each in kept] == [RETURNS] * 2
    assert "the archiver failed" not in server.stderr
    env.close()


def test_a_monitor_knows_when_nobody_is_left(api: Api) -> None:
    made = api.create(TURNS, kwargs={"turns": 2})
    no_content(made.post("monitor/start/", {"directory": "turns"}))
    made.reset(seed=4)
    for action in ({"one": 1}, {"two": 2}, {"one": None}):
        made.step(action)
    assert ok(made.get("monitor/"))["episodes"] == []
    made.step({"two": None})
    (episode,) = ok(made.get("monitor/"))["episodes"]
    assert episode["return"] == {"one": 1.0, "two": 1.0}
    assert (episode["length"], episode["truncated"]) == (4, True)


def test_a_turn_repeated_with_its_key_is_taken_once(api: Api) -> None:
    made = api.create(TURNS)
    made.reset()
    key = {"Idempotency-Key": "turn-1"}
    first = ok(made.post("step/", {"action": {"one": 1}}, headers=key))
    again = ok(made.post("step/", {"action": {"one": 1}}, headers=key))
    assert first == again
    assert ok(made.get(""))["steps"] == 1


def test_an_action_refused_on_a_stream_leaves_the_episode(server: Server) -> None:
    env = RemoteAECEnv(server.url, TURNS)
    env.reset()
    for _ in range(2):
        env.step(1)
    env.agent_selection = "two"
    with pytest.raises(InvalidAction, match="'two' does not act now"):
        env.step(1)
    env.agent_selection = "one"
    env.step(4)
    assert_identical(env.last()[0], np.array([4, 3]))
    env.close()


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("streams", [True, False])
def test_faults_cost_no_step_and_double_none(server: Server, streams: bool) -> None:
    """CHAOS_TIMES=110 takes 5,280 steps with each transport."""
    retries = Retries(first=0.005, longest=0.2)
    with FaultyNetwork(server.port, probability=0.2, seed=3, holds=False) as chaos:
        address = Address(chaos.url, time_limit=2, retries=retries, streams=streams)
        env, here = RemoteParallelEnv(address, PARALLEL), Arena()
        for episode in range(max(1, int(8 * TIMES))):
            assert_identical(env.reset(seed=episode), here.reset(seed=episode))
            for action in ACTIONS:
                # Observations count the steps.
                assert_identical(env.step(action), here.step(action))
            assert env.agents == []
        env.close()
        counts = chaos.counts()
    well = sum(counts[each] for each in ("exchanges", "handshakes", "messages"))
    assert counts.total() - well > 5 * TIMES, counts


def test_a_video_has_an_episode_until_nobody_is_left(api: Api, data_dir: Path) -> None:
    made = api.create(PARALLEL, render_mode="rgb_array")
    no_content(
        made.post("monitor/start/", {"directory": "video", "video": {"every": 1}})
    )
    for _ in range(2):
        made.reset()
        for action in ACTIONS:
            made.step(action)
    assert ok(made.get("monitor/"))["episodes_written"] == 2
    (row,) = ok(api.get(f"/v1/instances/?search={made.id}"))["instances"]
    assert row["recording"]["frames_written"] == 2 * (1 + STEPS)
    no_content(made.post("monitor/close/"))
    found = sorted(each.name for each in (data_dir / "video").glob("*.mp4"))
    assert found == ["episode-000000.mp4", "episode-000001.mp4"]


def test_watchers_see_each_agent(server: Server, api: Api) -> None:
    made = api.create(PARALLEL, render_mode="rgb_array")
    address = Address(server.url)
    made.reset()
    with (
        address.watch(made.id, plain=True) as copies,
        address.show(made.id, fps=60, share=0.5) as states,
    ):
        assert next(copies).value["agents"] == ["left", "right"]
        step = made.step(ACTIONS[0])
        assert next(copies).value == step
        after = (each for each in states if each.state["steps"] == 1)
        shown = next(each for each in after if each.picture)
    assert shown.state["return"] == shown.state["reward"] == step["reward"]
    assert shown.state["action"] == {"left": LEFT, "right": RIGHT}


@pytest.mark.parametrize(("env_id", "actions"), RESUMED)
def test_a_recording_is_resumed(
    api: Api, env_id: str, actions: list[dict[str, Any]]
) -> None:
    directory = f"resumed-{env_id.partition('/')[2]}"
    made = api.create(env_id, record=directory)
    made.reset()
    whole = [made.step(action) for action in actions]
    made.close()
    answer = ok(api.post("/v1/envs/", {"resume": directory, "step": 2}))
    again = Instance(api, answer["instance_id"])
    assert [again.step(action) for action in actions[2:]] == whole[2:]
    again.close()


def test_python_resumes_both_interfaces_and_plays_branches(server: Server) -> None:
    actions = [
        {"left": np.int64(LEFT), "right": np.array(RIGHT, np.float32)} for _ in range(2)
    ]
    with contextlib.closing(
        RemoteParallelEnv(server.url, PARALLEL, record="python-parallel")
    ) as env:
        env.reset(seed=1)
        env.step(actions[0])
        (branch,) = env.branches([actions[1:]])
    with contextlib.closing(resume(server.url, "python-parallel")) as again:
        assert isinstance(again, RemoteParallelEnv)
        assert_identical(again.last["action"], actions[0])
        assert again.agents == ["left", "right"]
        assert_identical([again.step(actions[1])[1]], branch["rewards"])

    for make in (RemoteParallelEnv, RemoteAECEnv):
        with pytest.raises(ServerError, match="node is 'elsewhere': "):
            make(server.url, PARALLEL, node="elsewhere")

    with contextlib.closing(
        RemoteAECEnv(server.url, TURNS, record="python-turns")
    ) as turns:
        turns.reset(seed=1)
        turns.step(1)
        expected = turns.agent_selection, turns.last()
    with contextlib.closing(resume(server.url, "python-turns")) as again:
        assert isinstance(again, RemoteAECEnv)
        assert again.last_recorded["action"] == {"one": 1}
        assert_identical((again.agent_selection, again.last()), expected)
        again.step(2)
        assert again.agent_selection == "one"
