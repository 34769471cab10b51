"""The newest versions of environments are created as `gymnasium.make` does it."""

import warnings

import gymnasium
import pytest
from gymnasium.envs import registration

from gym_http_server.host import env_versions


@pytest.fixture(autouse=True)
def looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look through a registry of the test's own, and forget it afterwards."""
    monkeypatch.setattr(registration, "registry", dict(registration.registry))
    monkeypatch.setattr(env_versions, "_newest", {})
    monkeypatch.setattr(env_versions, "_registered", 0)
    for env_id in ("many/Env-v1", "many/Env-v3", "lone/Env", "lone/Old-v0"):
        registration.register(env_id, "gymnasium.envs.classic_control:CartPoleEnv")
    # Not by `register`, which would refuse it.
    without = registration.EnvSpec("many/Env", "gymnasium.envs.classic_control:A")
    registration.registry["many/Env"] = without
    env_versions.read_versions()


def test_only_the_newest_versions_are_listed() -> None:
    registry = registration.registry
    for env_id in ("CartPole-v1", "many/Env-v3", "lone/Env", "lone/Old-v0"):
        assert env_versions.newest(env_id) is registry[env_id]
    for env_id in ("CartPole-v0", "many/Env-v1", "many/Env", "no/Env-v0", "os:many/E"):
        assert env_versions.newest(env_id) == env_id


def test_gymnasium_warns_of_none_of_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for env_id in registration.registry:
            if not isinstance(env_versions.newest(env_id), str):
                # A newer version would be a warning, and so an error.
                found = registration._find_spec(env_id)
                assert found is env_versions.newest(env_id)


def test_it_makes_the_same() -> None:
    for options in ({}, {"max_episode_steps": 3, "sutton_barto_reward": True}):
        ours = gymnasium.make(env_versions.newest("CartPole-v1"), **options)
        theirs = gymnasium.make("CartPole-v1", **options)
        assert ours.spec == theirs.spec
        assert str(ours) == str(theirs)


def test_later_registrations_may_be_newer() -> None:
    registration.register("lone/Old-v1", "gymnasium.envs.classic_control:CartPoleEnv")
    assert env_versions.newest("lone/Old-v0") == "lone/Old-v0"
    del registration.registry["lone/Old-v1"]
    assert env_versions.newest("lone/Old-v0") is registration.registry["lone/Old-v0"]
    registration.registry["lone/Old-v0"] = registration.registry["CartPole-v1"]
    assert env_versions.newest("lone/Old-v0") == "lone/Old-v0"
