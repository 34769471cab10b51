"""Compares EnvPool's environments on a server with a pool in this process."""

import warnings
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from gym_http_client import RemoteEnv, RemoteVectorEnv


def assert_same(found: Any, local: Any) -> None:
    """Check that arrays, or trees of them, are equal to the bit."""
    if isinstance(local, dict):
        assert list(found) == list(local)
        for name, value in local.items():
            assert_same(found[name], value)
    else:
        assert (found.dtype, found.shape) == (local.dtype, local.shape)
        assert found.tobytes() == local.tobytes()


def without_masks(info: dict[str, Any], mask: Any) -> dict[str, Any]:
    """Return an info without Gymnasium's masks, after checking them."""
    bare = {}
    for name in [name for name in info if f"_{name}" in info]:
        np.testing.assert_array_equal(info[f"_{name}"], mask, strict=True)
        value = info[name]
        bare[name] = without_masks(value, mask) if isinstance(value, dict) else value
    assert len(info) == 2 * len(bare)
    return bare


def assert_same_pools(remote: RemoteVectorEnv, pool: Any, steps: int) -> int:
    """Play a vector and a pool whose seeds are equal; return the episodes that ended.

    The vector was reset; the pool is new.
    """
    count = remote.num_envs
    everyone = np.ones(count, np.bool_)
    done, ended = np.zeros(count, np.bool_), 0
    remote.action_space.seed(1)
    for _ in range(steps):
        actions = remote.action_space.sample()
        *found, info = remote.step(actions)
        *expected, local = pool.step(actions)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        assert_same(without_masks(info, everyone), local)
        assert remote.observation_space.contains(found[0])
        # The mode that the metadata name: a reset takes the place of the next step.
        assert not found[1][done].any()
        assert not (found[2] | found[3])[done].any()
        assert not info["elapsed_step"][done].any()
        done = found[2] | found[3]
        ended += int(done.sum())
    return ended


def compare_vectors(
    envpool: Any, url: str, task_id: str, count: int, steps: int
) -> int:
    """Play an environment remotely and locally; return the episodes that ended."""
    with warnings.catch_warnings():
        # EnvPool's bounds are float64.
        warnings.simplefilter("ignore")
        pool = envpool.make_gymnasium(task_id, num_envs=count, seed=7)
        action_space = pool.action_space
    remote = RemoteVectorEnv(url, f"envpool/{task_id}", num_envs=count)
    try:
        assert remote.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        assert remote.single_action_space == action_space
        assert remote.action_space == batch_space(action_space, count)
        space = remote.single_observation_space
        assert remote.observation_space == batch_space(space, count)
        observations, info = remote.reset(seed=7)
        expected, local = pool.reset()
        assert_same(observations, expected)
        assert_same(without_masks(info, np.ones(count, np.bool_)), local)
        return assert_same_pools(remote, pool, steps)
    finally:
        remote.close()


def compare_single(envpool: Any, url: str, task_id: str, steps: int) -> int:
    """Play a single environment and a pool of one; return the episodes that ended."""
    pool = envpool.make_gymnasium(task_id, num_envs=1, seed=7)
    remote = RemoteEnv(url, f"envpool/{task_id}")
    ended = 0
    try:
        remote.action_space.seed(1)
        _assert_first(remote.reset(seed=7), pool.reset())
        for _ in range(steps):
            action = remote.action_space.sample()
            result = remote.step(action)
            _assert_first(result, pool.step(np.expand_dims(action, 0)))
            assert [type(each) for each in result[1:4]] == [float, bool, bool]
            assert remote.observation_space.contains(result[0])
            if result[2] or result[3]:
                ended += 1
                _assert_first(remote.reset(), pool.reset())
    finally:
        remote.close()
    return ended


def _assert_first(found: Any, batch: Any) -> None:
    """Check that a result is the first of each batch in another."""
    for one, other in zip(found, batch, strict=True):
        _assert_first_of(one, other)


def _assert_first_of(one: Any, batch: Any) -> None:
    if isinstance(batch, dict):
        assert list(one) == list(batch)
        for name, value in batch.items():
            _assert_first_of(one[name], value)
    else:
        np.testing.assert_array_equal(one, batch[0])
        assert getattr(one, "shape", ()) == batch.shape[1:]
