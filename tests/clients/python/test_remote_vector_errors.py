"""RemoteVectorEnv raises the errors of a local vector, and those of invalid results."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from gym_http_client import ServerError
from tests.support.identity import assert_identical
from tests.support.server import Server

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:UserWarning", "ignore::DeprecationWarning"
)
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def odd_server() -> Iterator[Server]:
    """A server with environments that are odd."""
    with Server("--import", "tests.support.envs.invalid_results") as started:
        yield started


def same_error(call: Callable[[Any], Any], vector: Any, reference: Any) -> None:
    """Check that both raise the same class with the same message."""
    raised = []
    for each in (reference, vector):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            call(each)
        raised.append((type(caught.value), str(caught.value)))
    assert raised[0] == raised[1]


@pytest.mark.parametrize("hosts", [1, 2])
def test_errors_are_those_of_the_local_one(
    remote_vector: Make, local_vector: Make, hosts: int
) -> None:
    options = {
        "num_envs": 3,
        "vectorization_mode": "sync",
        "disable_env_checker": True,
        "autoreset_mode": AutoresetMode.DISABLED,
        "max_episode_steps": 1,
    }
    vector = remote_vector("CartPole-v1", hosts=hosts, **options)
    reference = local_vector("CartPole-v1", **options)
    actions = np.array([0, 1, 0])
    calls: list[Callable[[Any], Any]] = [
        lambda env: env.step(actions),
        lambda env: env.reset(seed=-3),
        lambda env: env.reset(seed=np.int64(3)),
        lambda env: env.reset(seed=[1, 2]),
        lambda env: env.reset(seed="one"),
        lambda env: env.reset(options={"low": 1, "high": 0}),
        lambda env: env.reset(options={"reset_mask": [True, False, False]}),
        lambda env: env.reset(options={"reset_mask": np.zeros(3, np.bool_)}),
        lambda env: env.reset(options={"reset_mask": np.ones(2, np.bool_)}),
        lambda env: env.reset(options={"reset_mask": np.ones(3, np.int8)}),
        lambda env: env.get_attr("nonsense"),
        lambda env: env.set_attr("gravity", [1.0, 2.0]),
        lambda env: env.call("step", "x"),
    ]
    for call in calls:
        same_error(call, vector, reference)
    for each in (vector, reference):
        each.reset(seed=0)
    # The third is in another process, with two of them.
    same_error(lambda env: env.step(np.array([0, 1, 7])), vector, reference)
    for each in (vector, reference):
        each.reset(seed=0)
    if hosts == 1:
        same_error(lambda env: env.step(np.array([0, 1])), vector, reference)
    for each in (vector, reference):
        each.reset(seed=0)
        each.step(actions)
    if hosts == 1:  # Each shard names its own environments only.
        same_error(lambda env: env.step(actions), vector, reference)
    with pytest.raises(AssertionError, match="_autoreset_envs"):
        vector.step(actions)
    assert_identical(vector.reset(seed=1), reference.reset(seed=1))


@pytest.mark.parametrize("hosts", [2, 3])
def test_odd_actions_move_no_process_of_a_vector(
    remote_vector: Make, local_vector: Make, hosts: int
) -> None:
    for env_id, given, words in (
        ("CartPole-v1", np.array([0, 1]), r"int64 and shape \(2,\): .* \(3,\)"),
        ("CartPole-v1", np.zeros(4, np.int64), r"shape \(4,\): expected"),
        ("CartPole-v1", np.array([0.0, 1.0, 0.0]), "float64 .* expected int64"),
        ("CartPole-v1", [0, 1], "2 actions: expected 3"),
        ("Pendulum-v1", np.zeros((3, 2), np.float32), r"expected float32 and \(3, 1\)"),
        ("Pendulum-v1", np.array([["a"]] * 3), "<U1 .* expected float32"),
    ):
        options = {"num_envs": 3, "vectorization_mode": "sync"}
        vector = remote_vector(env_id, hosts=hosts, **options)
        reference = local_vector(env_id, **options)
        actions = reference.action_space.sample()
        assert_identical(vector.reset(seed=1), reference.reset(seed=1))
        for _ in range(2):
            with pytest.raises(gymnasium.error.InvalidAction, match=words):
                vector.step(given)
            # Nothing has moved, and no reset is needed.
            assert_identical(vector.step(actions), reference.step(actions))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.uint8])
def test_actions_of_related_types_reach_the_environments_unchanged(
    remote_vector: Make, local_vector: Make, dtype: type
) -> None:
    options = {"num_envs": 3, "vectorization_mode": "sync"}
    vector = remote_vector("Pendulum-v1", hosts=2, **options)
    reference = local_vector("Pendulum-v1", **options)
    assert_identical(vector.reset(seed=1), reference.reset(seed=1))
    for number in range(3):
        actions = np.full((3, 1), number / 3).astype(dtype)
        assert_identical(vector.step(actions), reference.step(actions))


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("Nonsense-v0", {}),
        ("CartPole-v1", {"nonsense": 1}),
        ("FrozenLake-v1", {"map_name": "none such"}),
    ],
)
@pytest.mark.parametrize("hosts", [1, 2])
def test_errors_of_making_are_those_of_gymnasium(
    remote_vector: Make,
    local_vector: Make,
    env_id: str,
    options: dict[str, Any],
    hosts: int,
) -> None:
    options = {"num_envs": 2, "vectorization_mode": "sync", **options}
    with pytest.raises(Exception) as expected:  # noqa: PT011
        local_vector(env_id, **options)
    with pytest.raises(type(expected.value)) as caught:
        remote_vector(env_id, hosts=hosts, **options)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("hosts", [1, 2])
def test_odd_environments(
    remote_vector: Make, local_vector: Make, odd_server: Server, hosts: int
) -> None:
    from tests.support.envs import invalid_results  # noqa: F401

    options: dict[str, Any] = {"num_envs": 2, "vectorization_mode": "sync"}
    options["disable_env_checker"] = True
    for gives in ("flags", "text", "complex", "three"):
        options["gives"] = gives
        reference = local_vector("invalid/Results-v0", **options)
        vector = remote_vector(
            "invalid/Results-v0", odd_server.url, hosts=hosts, **options
        )
        for each in (vector, reference):
            each.reset()
        same_error(lambda env: env.step(np.array([0, 1])), vector, reference)
        assert_identical(vector.reset(), reference.reset())
        vector.close()
    for has in ("no space", "no action"):
        # The instance must not remain: no client would know its ID.
        with pytest.raises((ServerError, TypeError, AttributeError)):
            remote_vector(
                "invalid/Results-v0", odd_server.url, has=has, hosts=hosts, **options
            )
