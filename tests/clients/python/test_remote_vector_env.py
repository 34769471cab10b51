"""A remote vector equals the local one: values, types, bits, infos, errors, spaces."""

import contextlib
import copy
import itertools
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym_http_client import RemoteEnv, RemoteVectorEnv, ServerError, through_wire
from tests.support.identity import assert_identical
from tests.support.server import Server

# Before anything imports mujoco: without a display it renders by EGL only.
os.environ.setdefault("MUJOCO_GL", "egl")

COUNT = 7
ENVS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "FrozenLake-v1": {},
    "Taxi-v4": {"max_episode_steps": 19},
    "Blackjack-v1": {},
    "CliffWalking-v1": {"max_episode_steps": 17},
    "Pendulum-v1": {"max_episode_steps": 13},
    "MountainCar-v0": {"max_episode_steps": 13},
    "Acrobot-v1": {"max_episode_steps": 13},
    "LunarLander-v3": {"max_episode_steps": 19},
    "HalfCheetah-v5": {"max_episode_steps": 13},
}
SPACES = (
    "action_space",
    "observation_space",
    "single_action_space",
    "single_observation_space",
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:UserWarning", "ignore::DeprecationWarning"
)
Make = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def shared_memory() -> None:
    """Make the memory that AsyncVectorEnv shares, and multiprocessing never frees."""
    multiprocessing.RawArray("b", 1)


@pytest.fixture(scope="module")
def crowd_server() -> Iterator[Server]:
    """A server whose environments have varying infos."""
    with Server("--import", "tests.support.envs.varying_infos") as started:
        yield started


def play(vectors: list[Any], local: Any, steps: int = 30) -> int:
    """Play all vectors, check that they are equal, and count ends of episodes."""
    mode = local.metadata["autoreset_mode"]
    count = local.num_envs
    ends = 0

    def reset(where: str, seed: Any = None, options: Any = None) -> None:
        expected = local.reset(seed=seed, options=copy.deepcopy(options))
        for vector in vectors:
            given = copy.deepcopy(options)
            answer = vector.reset(seed=seed, options=given)
            assert_identical(answer, expected, f"{where} of {vector}")
            assert not given

    seeds = [1, None, 3, None, 2**40, 5, None][:count]
    for seed in (7, seeds, None):
        reset(f"reset with {seed}", seed)
        for number in range(steps):
            where = f"step {number} of seed {seed}"
            actions = local.action_space.sample()
            expected = local.step(actions)
            for vector in vectors:
                answer = vector.step(copy.deepcopy(actions))
                assert_identical(answer, expected, f"{where} of {vector}")
            done = np.logical_or(expected[2], expected[3])
            ends += int(done.sum())
            if mode is AutoresetMode.DISABLED and done.any():
                again = seeds if number % 2 else None
                reset(f"masked reset after {where}", again, {"reset_mask": done})
    for vector in vectors:
        assert_identical(tuple(vector.np_random_seed), local.np_random_seed)
    return ends


# One environment of each kind of action in each mode, all others in one mode.
@pytest.mark.parametrize(
    ("env_id", "mode"),
    [
        *itertools.product(("CartPole-v1", "Pendulum-v1"), AutoresetMode),
        *zip(
            (each for each in ENVS if each not in ("CartPole-v1", "Pendulum-v1")),
            itertools.cycle(AutoresetMode),
            strict=False,
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_values_are_those_of_a_local_sync_vector(
    remote_vector: Make, local_vector: Make, env_id: str, mode: AutoresetMode
) -> None:
    options = {"num_envs": COUNT, "vectorization_mode": "sync", **ENVS[env_id]}
    reference = local_vector(env_id, autoreset_mode=mode, **options)
    reference.action_space.seed(4)
    vectors = [
        remote_vector(env_id, autoreset_mode=mode, hosts=hosts, **options)
        for hosts in (None, 2, 3, 7)
    ]
    assert play(vectors, reference) >= COUNT
    for vector in vectors:
        assert isinstance(vector, VectorEnv)
        assert vector.spec == reference.spec
        assert vector.num_envs == COUNT
        assert vector.metadata["autoreset_mode"] is mode
        assert_identical(vector.metadata, reference.metadata)
        for which in SPACES:
            ours, theirs = getattr(vector, which), getattr(reference, which)
            assert ours == theirs
            assert ours is getattr(vector, which)
            ours.seed(3)
            theirs.seed(3)
            assert_identical(ours.sample(), theirs.sample(), which)


@pytest.mark.parametrize(
    ("env_id", "mode"),
    list(zip(ENVS, itertools.cycle(AutoresetMode), strict=False)),
    ids=lambda value: getattr(value, "name", None),
)
def test_values_are_those_of_a_local_async_vector(
    remote_vector: Make, local_vector: Make, env_id: str, mode: AutoresetMode
) -> None:
    options = {"num_envs": 2, "vectorization_mode": "async", **ENVS[env_id]}
    reference = local_vector(env_id, autoreset_mode=mode, **options)
    reference.action_space.seed(4)
    vector = remote_vector(env_id, autoreset_mode=mode, **options)
    assert play([vector], reference, 20) >= 2
    assert vector.spec == reference.spec
    assert vector.metadata["autoreset_mode"] is mode
    assert_identical(vector.metadata, reference.metadata)


def test_the_default_is_that_of_make_vec(
    remote_vector: Make, local_vector: Make, server: Server
) -> None:
    # Also by place.
    vector, reference = (
        remote_vector("CartPole-v1", server.url, 3),
        local_vector("CartPole-v1", num_envs=3),
    )
    assert reference.spec.kwargs["vectorization_mode"] == "vector_entry_point"
    assert vector.spec == reference.spec
    reference.action_space.seed(0)
    for seed in (1, None):
        assert_identical(vector.reset(seed=seed), reference.reset(seed=seed))
        for _ in range(60):
            actions = reference.action_space.sample()
            assert_identical(vector.step(actions), reference.step(actions))
    assert vector.np_random_seed == reference.np_random_seed
    assert vector.np_random.random() == reference.np_random.random()
    assert_identical(vector.step(actions), reference.step(actions))
    assert vector.gravity == reference.gravity
    vector.gravity = reference.gravity = 3.0
    assert_identical(vector.step(actions), reference.step(actions))
    with pytest.raises(gymnasium.error.Error, match="vector_kwargs"):
        remote_vector("CartPole-v1", num_envs=3, autoreset_mode="same_step")


@pytest.mark.parametrize("hosts", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "space", ["dict", "tuple", "text", "multibinary2", "start", "point", "bytes"]
)
def test_every_kind_of_space(
    remote_vector: Make, local_vector: Make, toy_server: Server, space: str, hosts: int
) -> None:
    from tests.support.envs import toys  # noqa: F401

    options = {"num_envs": COUNT, "vectorization_mode": "sync", "space": space}
    reference = local_vector("toys/Echo-v0", **options)
    vector = remote_vector("toys/Echo-v0", toy_server.url, hosts=hosts, **options)
    reference.action_space.seed(1)
    assert vector.single_action_space == reference.single_action_space
    assert vector.action_space == reference.action_space
    for options in (None, {"some": 1}):
        assert_identical(
            vector.reset(seed=2, options=options),
            reference.reset(seed=2, options=options),
        )
        for _ in range(3):
            actions = reference.action_space.sample()
            assert_identical(vector.step(actions), reference.step(actions))


@pytest.mark.parametrize("hosts", [1, 2, 3, 7])
def test_infos_that_differ_in_types(
    remote_vector: Make, local_vector: Make, crowd_server: Server, hosts: int
) -> None:
    from tests.support.envs import varying_infos  # noqa: F401

    options = {"num_envs": COUNT, "vectorization_mode": "sync"}
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        reference = local_vector("varying/Infos-v0", autoreset_mode=mode, **options)
        reference.action_space.seed(1)
        vector = remote_vector(
            "varying/Infos-v0",
            crowd_server.url,
            autoreset_mode=mode,
            hosts=hosts,
            **options,
        )
        play([vector], reference, 80)
        vector.close()


_numbers = st.sampled_from([1, -0.0, 2.5, np.nan, True, np.int8(3), np.float32(0.1)])
_plain_infos = st.fixed_dictionaries(
    {},
    optional={
        "x": st.sampled_from([0.25, -0.0, np.inf]),
        "y": st.integers(-9, 9),
        "inner": st.fixed_dictionaries(
            {}, optional={"z": st.booleans(), "deep": st.just({"f": np.float32(0.1)})}
        ),
        "array": st.sampled_from([np.arange(3), np.array([5, 6, 7])]),
        "empty": st.just(np.zeros((0, 2))),
    },
)
_odd_infos = st.dictionaries(
    st.sampled_from(["x", "y", "inner", "word"]),
    _numbers | st.just("some") | st.dictionaries(st.just("z"), _numbers),
    max_size=2,
)
# For each step, an info of each environment.
_scripts = st.lists(
    st.lists(
        st.one_of(_plain_infos, _plain_infos, _plain_infos, _odd_infos),
        min_size=COUNT,
        max_size=COUNT,
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("hosts", [3, 7])
@given(script=_scripts)
@settings(
    # Each makes a vector.
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_infos_of_any_script(
    crowd_server: Server, hosts: int, script: list[list[Any]]
) -> None:
    from tests.support.envs import varying_infos  # noqa: F401

    options = {"num_envs": COUNT, "vectorization_mode": "sync"}
    reference = gymnasium.make_vec("varying/Scripted-v0", **options)
    vector = RemoteVectorEnv(
        crowd_server.url, "varying/Scripted-v0", hosts=hosts, **options
    )
    with contextlib.closing(reference), contextlib.closing(vector):
        for each in (reference, vector):
            each.reset(seed=0)
            # Twice, since columns of infos get shared memory once they were seen.
            each.set_attr("script", [[*one, *one] for one in zip(*script, strict=True)])
        for number in range(2 * len(script)):
            actions = np.full(COUNT, number % 2)
            try:
                expected = reference.step(actions)
            except Exception:
                # Gymnasium cannot merge them.
                with pytest.raises(Exception, match=r"."):
                    vector.step(actions)
                return
            assert_identical(vector.step(actions), expected)


@pytest.mark.parametrize("hosts", [1, 2])
def test_methods_of_the_vector(
    remote_vector: Make, local_vector: Make, hosts: int
) -> None:
    options = {"num_envs": 3, "vectorization_mode": "sync", "render_mode": "rgb_array"}
    vector = remote_vector("CartPole-v1", hosts=hosts, **options)
    reference = local_vector("CartPole-v1", **options)
    assert_identical(vector.reset(seed=0), reference.reset(seed=0))
    assert vector.render_mode == reference.render_mode
    assert_identical(vector.render(), reference.render())
    assert_identical(vector.call("render"), reference.call("render"))
    for values in (5.0, [1.0, 2.0, 3.0], (3.0, 2.0, 1.0)):
        vector.set_attr("gravity", values)
        reference.set_attr("gravity", values)
        assert_identical(vector.get_attr("gravity"), reference.get_attr("gravity"))
    actions = np.array([0, 1, 1])
    assert_identical(vector.step(actions), reference.step(actions))
    assert_identical(vector.get_attr("state"), reference.get_attr("state"))
    assert vector.unwrapped is vector
    assert repr(vector) == "RemoteVectorEnv(CartPole-v1, num_envs=3)"
    with pytest.raises(AttributeError, match="private"):
        vector.get_attr("_elapsed_steps")


@pytest.mark.parametrize("hosts", [1, 2])
def test_generators_count_in_both_directions(
    remote_vector: Make, local_vector: Make, hosts: int
) -> None:
    options = {"num_envs": 3, "vectorization_mode": "sync"}
    vector = remote_vector("FrozenLake-v1", hosts=hosts, **options)
    reference = local_vector("FrozenLake-v1", **options)
    actions = np.array([1, 2, 1])
    for each in (vector, reference):
        each.reset(seed=3)
        # The third environment's is the one in another process.
        assert len(each.np_random) == 3
        each.np_random[2].random(7)
    for _ in range(20):
        assert_identical(vector.step(actions), reference.step(actions))
    ours, theirs = vector.get_attr("np_random"), reference.get_attr("np_random")
    assert [g.random() for g in ours] == [g.random() for g in theirs]
    assert_identical(vector.reset(), reference.reset())
    generators = [vector.np_random[0], reference.np_random[0]]
    for each, generator in zip((vector, reference), generators, strict=True):
        each.reset(seed=[5, None, None])
        generator.random()  # Now no environment uses it.
    for _ in range(20):
        assert_identical(vector.step(actions), reference.step(actions))


def test_steps_on_their_way(remote_vector: Make, local_vector: Make) -> None:
    options = {"num_envs": 3, "vectorization_mode": "sync"}
    vector, reference = (
        remote_vector("CartPole-v1", **options),
        local_vector("CartPole-v1", **options),
    )
    assert_identical(vector.reset(seed=2), reference.reset(seed=2))
    actions = np.array([0, 1, 0])
    with pytest.raises(gymnasium.error.NoAsyncCallError):
        vector.step_wait()
    for _ in range(2):
        vector.step_async(actions)
        with pytest.raises(gymnasium.error.AlreadyPendingCallError):
            vector.step(actions)
        with pytest.raises(gymnasium.error.AlreadyPendingCallError):
            vector.reset()
        vector.step_async(1 - actions)
        vector.step_async(actions)
        expected = [reference.step(each) for each in (actions, 1 - actions, actions)]
        # A call in between comes after all earlier requests.
        assert_identical(vector.get_attr("state"), reference.get_attr("state"))
        for each in expected:
            assert_identical(vector.step_wait(), each)
    vector.step_async(np.array([0, 1]))
    vector.step_async(actions)
    with pytest.raises(ValueError, match="zip"):
        vector.step_wait()
    vector.step_wait()
    assert_identical(vector.reset(seed=2), reference.reset(seed=2))


@pytest.mark.parametrize("hosts", [1, 2])
def test_returned_values_never_change(remote_vector: Make, hosts: int) -> None:
    vector = remote_vector(
        "CartPole-v1", num_envs=2, vectorization_mode="sync", hosts=hosts
    )
    first, _ = vector.reset(seed=0)
    row = vector.step(np.array([0, 1]))
    kept = copy.deepcopy((first, row))
    second = vector.step(np.array([1, 1]))
    for array, later in zip((*row[:4], first), (*second[:4], row[0]), strict=True):
        assert array.flags.writeable
        assert not np.shares_memory(array, later)
    assert_identical((first, row), kept)


def test_attaching_pickling_and_closing(
    remote_vector: Make, local_vector: Make, server: Server
) -> None:
    options = {"num_envs": 2, "vectorization_mode": "sync"}
    mode = AutoresetMode.SAME_STEP
    vector = remote_vector("CartPole-v1", autoreset_mode=mode, hosts=2, **options)
    reference = local_vector("CartPole-v1", autoreset_mode=mode, **options)
    assert_identical(vector.reset(seed=6), reference.reset(seed=6))
    actions = np.array([0, 1])
    attached = RemoteVectorEnv.attach(server.url, vector.instance_id)
    assert_identical(attached.step(actions), reference.step(actions))
    assert_identical(vector.step(actions), reference.step(actions))
    with pytest.raises(TypeError, match="RemoteVectorEnv"):
        RemoteEnv.attach(server.url, vector.instance_id)
    with RemoteEnv(server.url, "CartPole-v1") as single:
        with pytest.raises(TypeError, match="RemoteEnv"):
            RemoteVectorEnv.attach(server.url, single.instance_id)
        single.reset()
    with pytest.raises(TypeError, match="attached"):
        pickle.dumps(attached)
    copied = pickle.loads(pickle.dumps(vector))
    assert copied.instance_id != vector.instance_id
    assert copied.spec == reference.spec
    assert_identical(copied.reset(seed=9), reference.reset(seed=9))
    copied.close()
    assert copied.closed
    copied.close(terminate=True)
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        copied.step(actions)
    assert vector.step(actions)


def test_by_make_vec(server: Server, local_vector: Make) -> None:
    for prefix in ("", "gym_http_client:"):
        vector = gymnasium.make_vec(
            f"{prefix}gym_http/Remote-v0",
            num_envs=3,
            url=server.url,
            env_id="CartPole-v1",
            server_mode="sync",
            autoreset_mode="same_step",
            max_episode_steps=5,
        )
        assert isinstance(vector, RemoteVectorEnv)
        assert vector.num_envs == 3
        wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector)
        wrapped.reset(seed=1)
        rows = [wrapped.step(np.zeros(3, np.int64)) for _ in range(5)]
        assert rows[-1][3].all()
        assert rows[-1][4]["episode"]["l"].tolist() == [5, 5, 5]
        wrapped.close()
    with pytest.raises(ValueError, match="token"):
        gymnasium.make_vec(
            "gym_http/Remote-v0", url="http://:secret-secret-secret@h:1", env_id="x"
        )


def test_wrappers_are_put_around_each_environment(remote_vector: Make) -> None:
    options = {"num_envs": 3, "vectorization_mode": "sync"}
    wrapper = {"name": "FrameStackObservation", "kwargs": {"stack_size": 2}}
    vector = remote_vector("CartPole-v1", wrappers=[wrapper], hosts=2, **options)
    reference = SyncVectorEnv(
        [
            lambda: gymnasium.wrappers.FrameStackObservation(
                gymnasium.make("CartPole-v1"), 2
            )
        ]
        * 3
    )
    assert vector.observation_space == reference.observation_space
    assert_identical(vector.reset(seed=1), reference.reset(seed=1))
    actions = np.array([0, 1, 1])
    assert_identical(vector.step(actions), reference.step(actions))
    reference.close()


def test_a_vector_object_behind_the_wire(local_vector: Make) -> None:
    options = {"num_envs": 3, "vectorization_mode": "sync"}
    behind = through_wire(gymnasium.make_vec("FrozenLake-v1", **options))
    reference = local_vector("FrozenLake-v1", **options)
    reference.action_space.seed(0)
    assert play([behind], reference) > 0
    behind.step_async(np.array([0, 1, 2]))
    assert_identical(behind.step_wait(), reference.step(np.array([0, 1, 2])))
    behind.close()


def test_limits(remote_vector: Make, server: Server) -> None:
    for options, words in (
        ({"num_envs": 0}, "num_envs is 0"),
        ({"num_envs": 1025}, "--max-num-envs"),
        ({"num_envs": 2, "hosts": 3}, "hosts is 3"),
        ({"num_envs": 65, "vectorization_mode": "async"}, "--max-vector-processes"),
        ({"num_envs": 2, "vectorization_mode": "both"}, "vectorization_mode"),
        ({"num_envs": 2, "hosts": 2}, "expected 1, or a vector that can be spread"),
        ({"num_envs": 2, "hosts": "many"}, "hosts is 'many': expected an integer from"),
        ({"num_envs": 2, "autoreset_mode": "never"}, "autoreset_mode"),
        ({"num_envs": 2, "vector_kwargs": {"worker": "x"}}, "vector_kwargs"),
        ({"num_envs": None, "hosts": 2}, "without num_envs"),
    ):
        with pytest.raises(ServerError, match=words) as caught:
            remote_vector("CartPole-v1", **options)
        assert (caught.value.status_code, caught.value.code) == (400, "bad-parameter")
