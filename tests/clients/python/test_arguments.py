"""Keyword arguments reach environments unchanged, and specs keep them."""

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers import TimeLimit

from gym_http_client import RemoteEnv, RemoteVectorEnv, ServerError
from gym_http_wire.specs import describe_spec, rebuild_spec
from gym_http_wire.values import binary, typed
from tests.support.api import Api
from tests.support.envs import keyword_arguments  # noqa: F401
from tests.support.identity import assert_identical
from tests.support.server import Server

ENV_ID = "keyword/Arguments-v0"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {"a": 1, "b": [1.5, None, "text"], "c": {"d": True}},
    "scalars": {"a": np.float32(0.1), "b": np.int64(5), "c": np.bool_(True)},
    "arrays": {"goal": np.array([0.5, -0.0]), "map": np.eye(3, dtype=np.int8)},
    "tuples": {"size": (4, (5, 6)), "nested": [{"a": (1,)}]},
    "numbers": {"a": float("nan"), "b": float("-inf"), "c": 2**80},
    "names": {"a": {1: "one", (2, 3): "two"}, "b": {"$t": "no tag"}, "c": "$t"},
    "enum": {"mode": AutoresetMode.SAME_STEP, "b": b"\0\xff"},
}

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def arguments_server() -> Iterator[Server]:
    with Server("--import", "tests.support.envs.keyword_arguments") as started:
        yield started


@pytest.fixture
def closing() -> Iterator[Make]:
    """Return a function that registers an environment to close after the test."""
    made: list[Any] = []

    def add(env: Any) -> Any:
        made.append(env)
        return env

    yield add
    while made:
        made.pop().close()


def assert_same_spec(ours: Any, theirs: Any) -> None:
    """Check that specs are equal in every argument, arrays included."""
    found = [describe_spec(each) for each in (ours, theirs)]
    assert_identical(found[0], found[1])


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_reach_the_environment(
    arguments_server: Server, closing: Make, name: str
) -> None:
    arguments = ARGUMENTS[name]
    remote = closing(RemoteEnv(arguments_server.url, ENV_ID, **arguments))
    local = closing(gymnasium.make(ENV_ID, **arguments))
    assert_identical(remote.kept, local.unwrapped.kept)
    assert_identical(remote.reset(seed=1), local.reset(seed=1))
    assert_same_spec(remote.spec, local.spec)
    attached = RemoteEnv.attach(arguments_server.url, remote.instance_id)
    assert_same_spec(attached.spec, local.spec)


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_spec_of_a_vector_keeps_its_arguments(
    arguments_server: Server, closing: Make, mode: AutoresetMode, hosts: int
) -> None:
    options: dict[str, Any] = {"num_envs": 2, "vectorization_mode": "sync"}
    arguments = {**options, **ARGUMENTS["tuples"], "pair": (1, 2)}
    url = arguments_server.url

    def remote(**more: Any) -> VectorEnv[Any, Any, Any]:
        made = RemoteVectorEnv(url, ENV_ID, hosts=hosts, **arguments, **more)
        return closing(made)  # type: ignore[no-any-return]

    for kind in (mode, mode.value):
        given = {"autoreset_mode": kind}
        local = closing(gymnasium.make_vec(ENV_ID, vector_kwargs=given, **arguments))
        for vector in (remote(vector_kwargs=given), remote(autoreset_mode=kind)):
            assert vector.spec == local.spec
            kept = vector.spec.kwargs  # type: ignore[union-attr]
            assert type(kept["vector_kwargs"]["autoreset_mode"]) is type(kind)
            assert type(kept["pair"]) is tuple
            assert vector.metadata["autoreset_mode"] is mode
            for name in ("get_attr", "call"):
                ours, theirs = getattr(vector, name)("spec"), local.get_attr("spec")
                assert ours == theirs
            assert vector.call("get_wrapper_attr", "spec") == local.get_attr("spec")


def test_arguments_of_wrappers(server: Server, closing: Make) -> None:
    bounds = {"min_action": np.float32(-1), "max_action": np.ones(1, np.float32)}
    wrapper = {"name": "RescaleAction", "kwargs": bounds}
    remote = closing(RemoteEnv(server.url, "Pendulum-v1", wrappers=[wrapper]))
    local = closing(
        gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), **bounds)
    )
    assert_identical(remote.reset(seed=1), local.reset(seed=1))
    action = np.array([0.5], np.float32)
    assert_identical(remote.step(action), local.step(action))
    assert_same_spec(remote.spec, local.spec)


def test_scalars_for_arguments_of_gymnasium(server: Server, closing: Make) -> None:
    env = closing(RemoteEnv(server.url, "CartPole-v1", max_episode_steps=np.int64(3)))
    assert env.spec.max_episode_steps == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"f": print}, r"kwargs\[.f.\] is of a type that cannot be sent: builtin_fun"),
        ({"a": {"b": [1, object()]}}, r"kwargs\[.a.\]\[.b.\]\[1\] is of a type"),
        ({"vector_kwargs": {"worker": print}}, r"vector_kwargs\[.worker.\] is of"),
        (
            {"wrappers": [{"name": "ClipReward", "kwargs": {"min_reward": print}}]},
            r"wrappers\[0\]\[.kwargs.\]\[.min_reward.\] is of a type",
        ),
        (
            {"wrappers": [TimeLimit]},
            r"class TimeLimit: expected names.*TimeLimit\(env\)",
        ),
        ({"max_episode_steps": 1j}, "max_episode_steps is 1j, which cannot be sent"),
        ({"render_mode": print}, "render_mode is <built-in function print>, which"),
    ],
)
def test_an_argument_that_cannot_be_sent_is_named(
    server: Server, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        RemoteVectorEnv(server.url, "CartPole-v1", num_envs=2, **given)
    assert not Api(server).instances()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"typed": 1}, "typed is 1: expected true or false"),
        (
            {"kwargs": {"a": {"$t": "nonsense", "v": 1}}},
            'kwargs["a"] has an unknown $t',
        ),
        ({"kwargs": {"$t": "tuple", "v": []}}, "kwargs is (): expected an object"),
        (
            {"kwargs": {"$t": "dict", "v": [[1, 2]]}},
            "kwargs is {1: 2}: expected an object with names",
        ),
        (
            {"kwargs": {"render_mode": {"$t": "str", "v": "aHVtYW4="}}},
            "kwargs.render_mode is 'human', which would open a window",
        ),
        (
            {"wrappers": [{"name": "ClipReward", "kwargs": {"a": {"$t": "nd"}}}]},
            'wrappers[0].kwargs["a"]',
        ),
        (
            {
                "num_envs": 2,
                "vector_kwargs": {"autoreset_mode": {"$t": "autoreset", "v": "No"}},
            },
            'vector_kwargs["autoreset_mode"] is no mode of autoreset',
        ),
    ],
)
def test_malformed_arguments_are_refused(
    arguments_server: Server, members: dict[str, Any], words: str
) -> None:
    answer = Api(arguments_server).post(
        "/v1/envs/", {"env_id": ENV_ID, "typed": True, **members}
    )
    assert answer.status == 400, answer.text
    assert words in answer.json()["message"]


def test_plain_arguments_are_sent_as_before(
    server: Server, closing: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gym_http_client import Server as Place

    create, sent = Place.create, []

    def noting(self: Place, request: dict[str, Any]) -> Any:
        sent.append(json.loads(json.dumps(request)))
        return create(self, request)

    monkeypatch.setattr(Place, "create", noting)
    closing(RemoteEnv(server.url, "FrozenLake-v1", map_name="4x4"))
    assert sent[0]["kwargs"] == {"map_name": "4x4"}
    assert "typed" not in sent[0]


@pytest.mark.parametrize("form", [binary, typed])
def test_specs_as_data(form: Any) -> None:
    for spec in gymnasium.registry.values():
        if not callable(spec.entry_point):
            described = form.decode(form.encode(describe_spec(spec)))
            assert rebuild_spec(described) == spec
    spec = gymnasium.spec(ENV_ID)
    assert form.decode(form.encode([spec])) == [describe_spec(spec)]


#: Names of arguments of ours.
NAMES: dict[str, Any] = {
    "label": 5,
    "wait_s": "long",
    "server": ("a", 1),
    "env_id": "none",
    "url": "text",
    "env_kwargs": {"a": 1},
    "realtime": True,
    "num_envs": 3,
    "hosts": 2,
}


def test_arguments_of_any_name(arguments_server: Server, closing: Make) -> None:
    arguments = {**NAMES, "wrappers": ["none"], "vector_kwargs": 1, "kwargs": 2}
    url = arguments_server.url
    ours = closing(RemoteEnv(url, ENV_ID, label="mine", env_kwargs=arguments, own=1))
    registered = closing(
        gymnasium.make(
            "gym_http/Remote-v0",
            url=url,
            env_id=ENV_ID,
            env_kwargs={"own": 1, **arguments},
        )
    )
    again = closing(pickle.loads(pickle.dumps(ours)))
    of_spec = closing(gymnasium.make(ours.spec))
    for each in (ours, registered.unwrapped, again, of_spec.unwrapped):
        assert_identical(each.kept, {"size": (2, 3), "own": 1, **arguments})
    listed = Api(arguments_server).get("/v1/instances/").json()["instances"]
    labels = [each["label"] for each in listed]
    assert sorted(labels, key=str) == [None, "mine", "mine", "mine"]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_arguments_of_any_name_in_a_vector(
    arguments_server: Server, closing: Make, mode: str
) -> None:
    arguments = {name: NAMES[name] for name in NAMES if name != "num_envs"}
    vector = RemoteVectorEnv(
        *(arguments_server.url, ENV_ID),
        num_envs=2,
        vectorization_mode=mode,
        env_kwargs=arguments,
    )
    for kept in closing(vector).call("kept"):
        assert_identical(kept, {"size": (2, 3), **arguments})


@pytest.mark.parametrize("kind", [RemoteEnv, RemoteVectorEnv])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"a": 1, "b": 2, "env_kwargs": {"b": 3}},
            "b: given by name and in env_kwargs",
        ),
        ({"env_kwargs": [1]}, r"env_kwargs is \[1\]: expected a dict of arguments"),
        ({"label": 5}, r"label is 5: expected text.*goes into env_kwargs={'label': …}"),
        ({"node": 5}, r"node is 5: expected the name of a.*env_kwargs={'node': …}"),
        ({"wait_s": "long"}, r"wait_s is 'long': expected seconds.*env_kwargs"),
        (
            {"wrappers": {"a": 1}},
            r"wrappers is {'a': 1}: expected a list of Gym.*env_k",
        ),
        ({"server": 5}, "server is given twice: .* goes into env_kwargs={'server': …}"),
        ({"env_id": 5}, "env_id is given twice: .* goes into env_kwargs={'env_id': …}"),
    ],
)
def test_a_clash_of_names_says_so(
    server: Server, kind: Any, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        kind(server.url, "CartPole-v1", **given)
    assert not Api(server).instances()


def test_a_wait_for_an_environment_that_is_not_external(server: Server) -> None:
    with pytest.raises(ServerError, match="goes into kwargs, in Python env_kwargs"):
        RemoteEnv(server.url, "CartPole-v1", wait_s=5)


def test_a_name_that_gymnasium_takes_itself(arguments_server: Server) -> None:
    with pytest.raises(Exception, match="which Gymnasium takes itself"):
        RemoteVectorEnv(
            *(arguments_server.url, ENV_ID),
            num_envs=2,
            env_kwargs={"num_envs": 3},
        )
