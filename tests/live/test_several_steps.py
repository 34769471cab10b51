"""Many steps in one request equal the same steps in single requests."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_wire.messages import MEDIA_TYPES, Form
from gym_http_wire.values import Unsent, binary, typed
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.identity import assert_identical, unpacked
from tests.support.plain import plain
from tests.support.server import Server
from tests.support.websocket import TEXT, WebSocket

Create = Callable[..., Instance]
BINARY = MEDIA_TYPES[Form.BINARY]
TYPED = MEDIA_TYPES[Form.TYPED]
CODECS: dict[str, Any] = {BINARY: binary, TYPED: typed}
COLUMNS = ("observations", "rewards", "terminated", "truncated", "infos")


@pytest.fixture(scope="module")
def explosive_server() -> Iterator[Server]:
    with Server("--import", "tests.support.envs.failing_actions") as shared:
        yield shared


@pytest.fixture
def explosive(explosive_server: Server) -> Iterator[Instance]:
    instance = Api(explosive_server).create("failing/Actions-v0")
    instance.reset()
    yield instance
    instance.close()


def exactly(instance: Instance, rest: str, given: Any, media: str = BINARY) -> Any:
    """Send a request in a lossless form, and return the answer's value."""
    headers = {"Content-Type": media, "Accept": media}
    data = CODECS[media].encode(given)
    answer = instance.post(rest, data=data, headers=headers)
    assert answer.status == 200, answer
    assert answer.content_type == media
    return CODECS[media].decode(answer.body)


def columns_of(answer: dict[str, Any]) -> list[list[Any]]:
    return [unpacked(answer[name], name in answer["scalars"]) for name in COLUMNS]


def local_columns(env: Any, actions: Any) -> list[list[Any]]:
    rows: list[Any] = []
    for action in actions:
        rows.append(env.step(action))
        if rows[-1][2] or rows[-1][3]:
            break
    return [list(column) for column in zip(*rows, strict=True)]


def test_several_steps_are_one_after_the_other(create: Create) -> None:
    instance = create()
    instance.reset(seed=3)
    actions = [1, 0, 1, 1, 0] + [1] * 30
    body = calls.ok(instance.post("step/", {"actions": actions}))
    with gymnasium.make("CartPole-v1") as local:
        local.reset(seed=3)
        columns = local_columns(local, actions)
    for name, column in zip(COLUMNS, columns, strict=True):
        assert body[name] == plain(column), name
    ends = body["done"]
    assert ends == [False] * (len(columns[0]) - 1) + [True]
    assert (body["steps"], body["stopped"]) == (len(ends), "episode")
    assert calls.ok(instance.get(""))["steps"] == len(ends)


@pytest.mark.parametrize("media", [BINARY, TYPED])
@pytest.mark.parametrize(
    "env_id",
    [
        "CartPole-v1",
        "FrozenLake-v1",
        "Blackjack-v1",
        "Pendulum-v1",
        "LunarLander-v3",
        "HalfCheetah-v5",
        "Taxi-v4",
    ],
)
def test_nothing_is_lost_in_columns(env_id: str, media: str, create: Create) -> None:
    instance = create(env_id)
    with gymnasium.make(env_id) as local:
        local.action_space.seed(5)
        for seed in range(3):
            instance.reset(seed=seed)
            local.reset(seed=seed)
            actions = [local.action_space.sample() for _ in range(20)]
            answer = exactly(instance, "step/", {"actions": actions}, media)
            columns = local_columns(local, actions)
            assert_identical(columns_of(answer), columns)
            assert answer["steps"] == len(columns[0])


def test_actions_may_be_the_rows_of_an_array(create: Create) -> None:
    instance = create("Pendulum-v1")
    actions = np.linspace(-2, 2, 9, dtype=np.float32).reshape(9, 1)
    instance.reset(seed=1)
    answer = exactly(instance, "step/", {"actions": actions})
    with gymnasium.make("Pendulum-v1") as local:
        local.reset(seed=1)
        assert_identical(columns_of(answer), local_columns(local, list(actions)))
    assert answer["observations"].shape == (9, 3)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"actions": [0, 1, 2]}, "invalid-action"),
        ({"actions": [0, None]}, "invalid-action"),
        ({"actions": [0], "action": 0}, "bad-parameter"),
        ({"actions": 1}, "bad-parameter"),
        ({"actions": {}}, "bad-parameter"),
        ({"actions": "01"}, "bad-parameter"),
        ({"actions": []}, "missing-parameter"),
        ({"actions": [0] * 10_001}, "bad-parameter"),
    ],
)
def test_bad_actions_are_found_before_the_first_step(
    body: Any, code: str, instance: Instance
) -> None:
    instance.reset(seed=1)
    problem = calls.error(instance.post("step/", body), 400, code)
    if code == "invalid-action":
        assert (problem["index"], problem["steps"]) == (len(body["actions"]) - 1, 0)
    assert calls.ok(instance.get(""))["steps"] == 0


def test_actions_of_the_unknown_are_of_an_unknown_instance(api: Api) -> None:
    answer = api.post("/v1/envs/00c0ffee/step/", {"actions": [1]})
    calls.error(answer, 400, "unknown-instance")


def test_several_steps_before_a_reset_are_refused(instance: Instance) -> None:
    problem = calls.error(instance.post("step/", {"actions": [1, 1]}), 409)
    assert problem["steps"] == 0


@pytest.mark.parametrize("media", ["application/json", BINARY, TYPED])
def test_steps_before_a_failure_are_returned(media: str, explosive: Instance) -> None:
    instance = explosive
    answer = instance.post(
        "step/",
        {"actions": [1, 2, 3, 13, 4]},
        headers={"Accept": media, "Idempotency-Key": "k"},
    )
    problem = calls.error(answer, 502, "env-error")
    assert (problem["steps"], problem["error_type"]) == (3, "ValueError")
    result = problem["results"]
    if media == "application/json":
        assert result["observations"] == [[1.0], [2.0], [3.0]]
        assert result["rewards"] == [1.0, 2.0, 3.0]
    else:
        result = typed.decode(json.dumps(result).encode())
        assert_identical(result["observations"], np.array([[1.0], [2.0], [3.0]]))
        assert_identical(result["rewards"], np.array([1.0, 2.0, 3.0]))
    again = instance.post(
        "step/",
        {"actions": [1, 2, 3, 13, 4]},
        headers={"Accept": media, "Idempotency-Key": "k"},
    )
    assert again.header("Idempotent-Replayed") == "true"
    assert again.json()["results"] == problem["results"]
    assert calls.ok(instance.get(""))["steps"] == 3
    calls.error(instance.post("step/", {"actions": [1]}), 409, "reset-needed")
    instance.reset()
    assert calls.ok(instance.post("step/", {"actions": [1, 2]}))["steps"] == 2


def test_values_that_cannot_be_sent_do_not_hide_others(explosive: Instance) -> None:
    answer = explosive.post(
        "step/", {"actions": [1, 2, 14]}, headers={"Accept": BINARY}
    )
    output = binary.decode(answer.body)
    assert_identical(output["rewards"], np.array([1.0, 2.0, 14.0]))
    assert type(output["infos"][2]["who"]) is Unsent


@pytest.mark.parametrize("media", ["application/json", BINARY, TYPED])
def test_a_batch_stops_before_its_answer_is_too_large(
    media: str, make_server: Callable[..., Server]
) -> None:
    api = Api(make_server("--max-answer", "20000"))
    instance = api.create("MountainCarContinuous-v0")
    with gymnasium.make("MountainCarContinuous-v0") as local:
        local.reset(seed=1)
        instance.reset(seed=1)
        left = [[0.5]] * 999
        seen: list[Any] = []
        while left:
            answer = instance.post(
                "step/", {"actions": left}, headers={"Accept": media}
            )
            assert answer.status == 200, answer
            assert len(answer.body) <= 20_000
            if media == "application/json":
                body = answer.json()
                seen += body["observations"]
            else:
                body = CODECS[media].decode(answer.body)
                seen += [plain(each) for each in body["observations"]]
            left = left[body["steps"] :]
            assert body["stopped"] in ("answer-size", "episode", None)
            if body["stopped"] != "answer-size":
                break
            assert body["steps"] > 50
        columns = local_columns(local, [np.array([0.5], np.float32)] * 999)
    assert seen == plain(columns[0])
    assert calls.ok(instance.get(""))["steps"] == len(seen)


def test_a_step_that_is_too_large_is_not_lost_silently(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(
        "--max-answer", "20000", "--import", "tests.support.envs.failing_actions"
    )
    instance = Api(server).create("failing/Actions-v0")
    instance.reset()
    answer = instance.post("step/", {"actions": [1, 2, 15, 3]})
    problem = calls.error(answer, 502, "answer-too-large")
    assert problem["steps"] in (3, 4)
    assert problem["results"]["rewards"] == [1.0, 2.0]


def test_the_step_deadline_is_each_steps_own(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(
        "--import", "tests.support.envs.hostile", "--step-deadline", "1"
    )
    instance = Api(server).create("hostile/Slow-v0", kwargs={"seconds": 0.3})
    instance.reset()
    began = time.monotonic()
    body = calls.ok(instance.post("step/", {"actions": [1] * 6}))
    assert time.monotonic() - began > 1.5
    assert body["steps"] == 6
    slow = Api(server).create("hostile/Slow-v0", kwargs={"seconds": 5.0})
    slow.reset()
    calls.error(slow.post("step/", {"actions": [1, 1]}), 504, "step-deadline")


def test_several_steps_are_recorded(create: Create, server: Server) -> None:
    instance = create()
    calls.no_content(
        instance.post("monitor/start/", {"directory": "batches", "force": True})
    )
    instance.reset(seed=1)
    first = calls.ok(instance.post("step/", {"actions": [1] * 30}))
    played = calls.ok(instance.post("rollout/", {"episodes": 2, "seed": 4}))
    calls.no_content(instance.post("monitor/close/"))
    (path,) = server.data_dir.glob("batches/episodes.jsonl")
    lengths = [json.loads(line)["length"] for line in path.read_text().splitlines()]
    assert lengths == [first["steps"], *(e["length"] for e in played["episodes"])]


def test_a_rollout_equals_a_local_loop(create: Create) -> None:
    for env_id in ("CartPole-v1", "FrozenLake-v1", "Pendulum-v1"):
        instance = create(env_id)
        given = {"episodes": 3, "seed": 9, "max_steps": 40}
        answer = exactly(instance, "rollout/", given)
        with gymnasium.make(env_id) as local:
            local.action_space.seed(9)
            for index, episode in enumerate(answer["episodes"]):
                observation, info = local.reset(seed=9 if index == 0 else None)
                observations, infos = [observation], [info]
                actions: list[Any] = []
                rewards: list[Any] = []
                ended = False
                while len(actions) < 40 and not ended:
                    actions.append(local.action_space.sample())
                    row = local.step(actions[-1])
                    observations.append(row[0])
                    rewards.append(row[1])
                    infos.append(row[4])
                    ended = bool(row[2] or row[3])
                seen = columns_of(episode)
                assert_identical(seen[0], observations)
                assert_identical(seen[1], rewards)
                assert_identical(seen[4], infos)
                drawn = unpacked(episode["actions"], "actions" in episode["scalars"])
                assert_identical(drawn, actions)
                assert episode["length"] == len(actions)
                assert episode["return"] == pytest.approx(sum(map(float, rewards)))
        assert answer["stopped"] is None
        assert answer["steps"] == sum(each["length"] for each in answer["episodes"])


def test_a_rollout_of_given_actions(instance: Instance) -> None:
    body = calls.ok(
        instance.post("rollout/", {"actions": [[1, 0], [1] * 50], "seed": 2})
    )
    first, second = body["episodes"]
    with gymnasium.make("CartPole-v1") as local:
        begun = local.reset(seed=2)[0]
        columns = local_columns(local, [1, 0])
        assert first["observations"] == plain([begun, *columns[0]])
        begun = local.reset()[0]
        columns = local_columns(local, [1] * 50)
        assert second["observations"] == plain([begun, *columns[0]])
    assert (first["actions"], first["length"]) == ([1, 0], 2)
    assert second["done"][-1]
    assert second["actions"] == [1] * second["length"]
    assert body["stopped"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"episodes": 0},
        {"episodes": 1001},
        {"episodes": "2"},
        {"episodes": True},
        {"policy": "best"},
        {"policy": "random", "actions": [[1]]},
        {"episodes": 2, "actions": [[1]]},
        {"actions": [1]},
        {"actions": []},
        {"actions": [[]]},
        {"actions": [[1] * 6000, [1] * 6000]},
        {"actions": [[1], [2]]},
        {"max_steps": 0},
        {"seed": -1},
        {"options": 5},
        [],
    ],
)
def test_rollouts_that_cannot_be_played(body: Any, instance: Instance) -> None:
    instance.reset()
    calls.error(instance.post("rollout/", body), 400)
    assert calls.ok(instance.get(""))["steps"] == 0


def test_a_rollout_has_its_most_steps(create: Create) -> None:
    instance = create("Pendulum-v1")
    body = calls.ok(instance.post("rollout/", {"episodes": 60}))
    assert (body["steps"], body["stopped"]) == (10_000, "steps")
    assert [each["length"] for each in body["episodes"]] == [200] * 50 + [0]


def test_a_rollout_with_a_key_is_played_once(instance: Instance) -> None:
    headers = {"Idempotency-Key": "rollout"}
    first = instance.post("rollout/", {"seed": 1}, headers=headers)
    again = instance.post("rollout/", {"seed": 1}, headers=headers)
    assert again.body == first.body
    assert calls.ok(instance.get(""))["episodes"] == 1


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_several_steps_of_a_vector(mode: str, create: Create) -> None:
    options: dict[str, Any] = {"num_envs": 3, "vectorization_mode": "sync"}
    instance = create("CartPole-v1", autoreset_mode=mode, **options)
    local = gymnasium.make_vec(
        "CartPole-v1", vector_kwargs={"autoreset_mode": mode}, **options
    )
    rng = np.random.default_rng(2)
    actions = list(rng.integers(0, 2, (60, 3)))
    instance.reset(seed=1)
    local.reset(seed=1)
    rows = [local.step(action) for action in actions]
    assert any(row[2].any() for row in rows)
    columns = [list(column) for column in zip(*rows, strict=True)]
    answer = exactly(instance, "step/", {"actions": actions[:30]})
    assert_identical(columns_of(answer), [each[:30] for each in columns])
    assert answer["stopped"] is None
    plainly = [action.tolist() for action in actions[30:]]
    answer = calls.ok(instance.post("step/", {"actions": plainly}))
    assert answer["observations"] == plain(columns[0][30:])
    ends = [a | b for a, b in zip(*columns[2:4], strict=True)]
    assert answer["done"] == plain(ends[30:])
    calls.error(instance.post("rollout/", {}), 400, "bad-parameter")
    local.close()


def test_several_steps_over_a_stream(instance: Instance) -> None:
    instance.reset(seed=3)
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
        answer = stream.call(op="step", actions=[1, 0, 1])
        played = stream.call(op="rollout", actions=[[1, 1]], seed=3)
    with gymnasium.make("CartPole-v1") as local:
        local.reset(seed=3)
        assert answer["body"]["observations"] == plain(
            local_columns(local, [1, 0, 1])[0]
        )
        local.reset(seed=3)
        columns = local_columns(local, [1, 1])
    (episode,) = played["body"]["episodes"]
    assert episode["observations"][1:] == plain(columns[0])


def test_a_rollout_begins_anew_after_a_failure(explosive: Instance) -> None:
    problem = calls.error(explosive.post("rollout/", {"actions": [[1, 13], [1]]}), 502)
    assert problem["steps"] == 1
    (answer,) = problem["results"]["episodes"]
    assert (answer["actions"], answer["observations"]) == ([1], [[0.0], [1.0]])
    answer = calls.ok(explosive.post("rollout/", {"actions": [[1, 2]]}))
    assert answer["episodes"][0]["return"] == 3.0
