"""Compares an environment with the local environment that is its reference."""

from typing import Any

from tests.support.identity import assert_identical

STEPS = 60


def assert_same_description(env: Any, local: Any) -> None:
    """Check that an environment has the spaces, metadata and ID of the local one."""
    assert env.observation_space == local.observation_space
    assert env.action_space == local.action_space
    assert env.metadata == local.metadata
    assert env.spec is not None
    assert env.spec.id == local.spec.id


def assert_same_episodes(env: Any, local: Any, steps: int = STEPS) -> None:
    """Play both environments from a reset on, and check that the results are equal."""
    local.action_space.seed(3)
    assert_identical(env.reset(seed=5), local.reset(seed=5))
    for _ in range(steps):
        action = local.action_space.sample()
        step, expected = env.step(action), local.step(action)
        assert_identical(step, expected)
        if expected[2] or expected[3]:
            assert_identical(env.reset(), local.reset())


def assert_same_vector_steps(env: Any, local: Any, steps: int = STEPS) -> None:
    """Play two vectors that reset themselves, and check that the results are equal."""
    local.action_space.seed(3)
    assert_identical(env.reset(seed=5), local.reset(seed=5))
    for _ in range(steps):
        action = local.action_space.sample()
        assert_identical(env.step(action), local.step(action))
