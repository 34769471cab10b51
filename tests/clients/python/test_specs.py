"""The spec of a remote environment is the server's, and makes remote environments."""

import copy
import dataclasses
import gc
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.wrappers import TimeAwareObservation

from gym_http_client import RealTimeEnv, RemoteEnv, RemoteVectorEnv, through_wire
from gym_http_client import Server as Address
from gym_http_client.envs.remote_specs import RemoteSpec
from tests.support.api import Api
from tests.support.envs import corridors  # noqa: F401
from tests.support.identity import assert_identical
from tests.support.server import Server

ENV_IDS = [each for each in gymnasium.registry if each.startswith("corridor/")]
MEMBERS = ("id", "max_episode_steps", "nondeterministic", "reward_threshold")
NAMES = {
    "corridor/Class-v0": "tests.support.envs.corridors.Corridor",
    "corridor/Lambda-v0": "tests.support.envs.corridors.<lambda>",
    "corridor/Partial-v0": "tests.support.envs.corridors.Corridor",
}

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")
Make = Callable[[Any], Any]


@pytest.fixture(scope="module")
def corridor_server() -> Iterator[Server]:
    modules = ("tests.support.envs.corridors", "tests.support.envs.keyword_arguments")
    with Server(*(word for each in modules for word in ("--import", each))) as started:
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
    # A closed AsyncVectorEnv has descriptors until it is forgotten.
    gc.collect()


def assert_same_play(ours: Any, theirs: Any, steps: int = 60) -> None:
    """Check that two environments return the same for the same seed and actions."""
    theirs.action_space.seed(5)
    assert_identical(ours.reset(seed=3), theirs.reset(seed=3))
    for _ in range(steps):
        action = theirs.action_space.sample()
        expected = theirs.step(action)
        assert_identical(ours.step(action), expected)
        if not isinstance(theirs, gymnasium.vector.VectorEnv) and any(expected[2:4]):
            assert_identical(ours.reset(), theirs.reset())


@pytest.mark.parametrize("way", ["server", "attached", "in process"])
@pytest.mark.parametrize("env_id", NAMES)
def test_an_entry_point_that_is_no_text(
    corridor_server: Server, closing: Make, env_id: str, way: str
) -> None:
    local = closing(gymnasium.make(env_id))
    if way == "in process":
        remote = closing(through_wire(gymnasium.make(env_id)))
    else:
        remote = closing(RemoteEnv(corridor_server.url, env_id))
        if way == "attached":
            remote = RemoteEnv.attach(corridor_server.url, remote.instance_id)
    assert isinstance(remote.spec, EnvSpec)
    for name in (*MEMBERS, "kwargs", "additional_wrappers"):
        assert getattr(remote.spec, name) == getattr(local.spec, name), name
    text = EnvSpec.from_json(remote.spec.to_json())
    assert str(remote.spec.entry_point).endswith(f":{NAMES[env_id]}")
    with pytest.raises(ModuleNotFoundError, match="only on the server, and cannot be"):
        gymnasium.make(text)


def test_what_cannot_be_sent_is_left_out_and_named(
    corridor_server: Server, closing: Make
) -> None:
    env = closing(RemoteEnv(corridor_server.url, "corridor/Function-v0"))
    assert env.spec.kwargs == {"length": 6}
    assert env.spec.max_episode_steps == 50
    wrapper = env.spec.additional_wrappers[0]
    assert (wrapper.name, wrapper.kwargs) == ("TransformReward", None)
    answer = Api(corridor_server).get(f"/v1/envs/{env.instance_id}/").json()
    assert answer["spec"]["kwargs"] == {"length": 6}
    for words in ("kwargs['reward'] is of a type", 'the wrapper TransformReward["func'):
        assert words in answer["spec_error"]


def test_a_table_of_more_parts_than_a_description_has(
    corridor_server: Server, closing: Make
) -> None:
    # Its signature is larger than one may be, and two of the others are, too.
    tables = {"table": [[1] * 1000] * 300, "some": [1] * 70_000, "more": [1] * 70_000}
    url, env_id = corridor_server.url, "keyword/Arguments-v0"
    env = closing(RemoteEnv(url, env_id, **tables))
    assert env.reset()[1]["kept"] == str({"size": (2, 3), **tables})
    assert set(env.spec.kwargs) == {"size", "some"}
    error = (
        Api(corridor_server).get(f"/v1/envs/{env.instance_id}/").json()["spec_error"]
    )
    for name in ("table", "more"):
        assert f"kwargs['{name}'] has more parts than a " in error
    made = closing(gymnasium.make(env.spec))
    assert made.reset()[1] == env.reset()[1]


def test_the_clock_of_the_readme_is_aware_of_time(
    corridor_server: Server, closing: Make
) -> None:
    env_id = "corridor/Class-v0"
    local = closing(TimeAwareObservation(gymnasium.make(env_id)))
    url = corridor_server.url
    for remote in (
        RemoteEnv(url, env_id),
        gymnasium.make("gym_http_client:gym_http/Remote-v0", url=url, env_id=env_id),
    ):
        assert_same_play(closing(TimeAwareObservation(remote)), local)


@pytest.mark.parametrize("wrappers", [None, ["TimeAwareObservation"]])
@pytest.mark.parametrize("env_id", [*NAMES, "corridor/Function-v0", "CartPole-v1"])
def test_gymnasium_makes_a_remote_environment(
    corridor_server: Server, closing: Make, env_id: str, wrappers: list[str] | None
) -> None:
    options = {"max_episode_steps": 9, "wrappers": wrappers}
    env = closing(RemoteEnv(corridor_server.url, env_id, **options))
    specs = (env.spec, copy.deepcopy(env.spec), pickle.loads(pickle.dumps(env.spec)))
    for spec in specs:
        made = closing(gymnasium.make(spec))
        assert isinstance(made.unwrapped, RemoteEnv)
        assert made.unwrapped.instance_id != env.instance_id
        assert made.spec == env.spec
        assert made.observation_space == env.observation_space
    assert_same_play(made, env)


def test_arguments_of_make_override_those_of_the_spec(
    corridor_server: Server, closing: Make
) -> None:
    url = corridor_server.url
    env = closing(RemoteEnv(url, "corridor/Class-v0", length=5))
    made = closing(gymnasium.make(env.spec, length=300, max_episode_steps=150))
    made.reset()
    steps = [made.step(1)[2:4] for _ in range(150)]
    assert steps == [(False, False)] * 149 + [(False, True)]
    made = closing(gymnasium.make(env.spec))
    made.reset()
    assert [made.step(1)[2] for _ in range(4)] == [False] * 3 + [True]


def test_arguments_of_any_name_are_kept(corridor_server: Server, closing: Make) -> None:
    url, given = corridor_server.url, {"label": 1, "wrappers": (2,), "num_envs": 3}
    options: dict[str, Any] = {"label": "ours", "env_kwargs": given}
    env = closing(RemoteEnv(url, "keyword/Arguments-v0", **options))
    made = closing(gymnasium.make(env.spec, b=4))
    assert made.unwrapped.kept == env.kept | {"b": 4}
    # These two are arguments of make_vec.
    del given["num_envs"], given["wrappers"]
    vector = closing(RemoteVectorEnv(url, "keyword/Arguments-v0", **options))
    made = closing(gymnasium.make_vec(vector.spec))
    assert made.get_attr("kept") == vector.get_attr("kept")


def test_a_collection_of_frames_is_made_again(
    corridor_server: Server, closing: Make
) -> None:
    url, options = corridor_server.url, {"render_mode": "ansi_list"}
    env = closing(RemoteEnv(url, "corridor/Class-v0", **options))
    made = closing(gymnasium.make(env.spec))
    assert made.spec == env.spec
    for each in (env, made):
        each.reset()
        each.step(1)
        assert each.render() == ["x", ".x"]


def test_a_clock_is_made_again(corridor_server: Server, closing: Make) -> None:
    clock = {"mode": "elastic", "hz": 100, "default_action": 0}
    env = closing(RealTimeEnv(corridor_server.url, "corridor/Class-v0", clock))
    made = closing(gymnasium.make(env.spec))
    assert made.unwrapped.timing()["settings"] == env.timing()["settings"]
    made.reset()
    assert made.step(1)[0] == 0


@pytest.mark.parametrize(
    ("kind", "make", "words"),
    [
        ("remote_env:RemoteEnv", "make", r"has the wrappers \[\] now, and had \['Zen'"),
        ("real_time_env:RealTimeEnv", "make_vec", "vectors have no clock"),
    ],
)
def test_a_module_that_only_the_server_names_is_not_imported(
    corridor_server: Server, kind: str, make: str, words: str
) -> None:
    env_id, zen = "CartPole-v1", "this:d"
    honest = gymnasium.make(env_id).spec
    assert honest is not None
    lied = dataclasses.replace(
        honest,
        additional_wrappers=(WrapperSpec("Zen", zen, {}),) if make == "make" else (),
        vector_entry_point=zen,
    )
    options = {"realtime": {"hz": 10}} if make == "make_vec" else {}
    address = Address(corridor_server.url)
    path = f"gym_http_client.envs.{kind}"
    spec = RemoteSpec.of(lied, path, address, env_id, options)
    assert spec == lied
    with pytest.raises((gymnasium.error.Error, TypeError), match=words):
        getattr(gymnasium, make)(copy.deepcopy(spec))
    assert "this" not in sys.modules


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_the_spec_of_a_vector(
    corridor_server: Server, closing: Make, mode: str
) -> None:
    env_id = "corridor/Class-v0"
    options: dict[str, Any] = {"num_envs": 3, "vectorization_mode": mode}
    if mode == "vector_entry_point":
        env_id = "corridor/Partial-v0"
    if mode == "async":
        # Python keeps the descriptors of shared memory that was freed.
        options["vector_kwargs"] = {"shared_memory": False}
    local = closing(gymnasium.make_vec(env_id, **options))
    remote = closing(RemoteVectorEnv(corridor_server.url, env_id, **options))
    for name in (*MEMBERS, "kwargs"):
        assert getattr(remote.spec, name) == getattr(local.spec, name), name
    attached = RemoteVectorEnv.attach(corridor_server.url, remote.instance_id)
    for spec in (remote.spec, attached.spec):
        made = closing(gymnasium.make_vec(spec))
        assert isinstance(made, RemoteVectorEnv)
        assert made.instance_id != remote.instance_id
        assert made.num_envs == 3
        assert made.spec == remote.spec
    assert_same_play(made, local)


def test_the_wrappers_of_a_vector(corridor_server: Server, closing: Make) -> None:
    options: dict[str, Any] = {
        "num_envs": 2,
        "vectorization_mode": "sync",
        "wrappers": ["TimeAwareObservation"],
    }
    url = corridor_server.url
    remote = closing(RemoteVectorEnv(url, "corridor/Class-v0", **options))
    assert remote.spec is not None
    assert remote.spec.max_episode_steps == 100
    made = closing(gymnasium.make_vec(remote.spec))
    assert isinstance(made, RemoteVectorEnv)
    assert_same_play(made, remote)


def test_an_autoreset_mode_is_kept(server: Server, closing: Make) -> None:
    options: dict[str, Any] = {"num_envs": 2, "autoreset_mode": "same_step"}
    remote = closing(
        RemoteVectorEnv(
            server.url, "CartPole-v1", vectorization_mode="sync", hosts=2, **options
        )
    )
    made = closing(gymnasium.make_vec(remote.spec, num_envs=2))
    assert isinstance(made, RemoteVectorEnv)
    assert_same_play(made, remote)


def test_wrappers_with_arrays_for_arguments(server: Server, closing: Make) -> None:
    bounds = {"min_action": np.float32(-1), "max_action": np.ones(1, np.float32)}
    wrapper = {"name": "RescaleAction", "kwargs": bounds}
    env = closing(RemoteEnv(server.url, "Pendulum-v1", wrappers=[wrapper]))
    assert_same_play(closing(gymnasium.make(env.spec)), env)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "FrozenLake-v1"])
def test_a_vector_of_the_spec_of_an_environment(
    server: Server, closing: Make, env_id: str
) -> None:
    env = closing(RemoteEnv(server.url, env_id))
    made = closing(gymnasium.make_vec(env.spec, num_envs=2))
    assert isinstance(made, RemoteVectorEnv)
    assert made.num_envs == 2
    assert_same_play(made, closing(gymnasium.make_vec(env_id, num_envs=2)))


def test_a_token_is_not_in_the_spec(closing: Make) -> None:
    token = "a-long-secret-token-of-ours"
    with Server("--token", token, token=token) as started:
        url = started.url.replace("http://", f"http://:{token}@")
        env = RemoteEnv(url, "CartPole-v1")
        spec = gymnasium.wrappers.TimeLimit(env, 5).spec
        for shown in (repr(spec), spec.to_json(), str(pickle.dumps(spec))):
            assert token not in shown
        gymnasium.make(spec).close()
        env.close()
