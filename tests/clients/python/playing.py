"""Plays the episodes of the vectors on a live server."""

from typing import Any

from gym_http_client import RemoteEnv, Server
from gym_http_wire.elements import reader
from tests.clients.python.exact_json import differing
from tests.conformance.making.models import model_of


def check_transcript(case: dict[str, Any], url: str, transport: str) -> str | None:
    """Play an episode, and return the first difference from its record."""
    create = dict(case["create"])
    server = Server(url, streams=transport == "stream")
    env = RemoteEnv(server, create.pop("env_id"), **create.pop("kwargs", {}), **create)
    try:
        return _played(env, case)
    finally:
        env.close()


def _played(env: RemoteEnv, case: dict[str, Any]) -> str | None:
    observation, info = env.reset(seed=case["seed"])
    fields = {"observation": model_of(observation), "info": model_of(info)}
    problem = differing(case["reset"], fields)
    if problem is not None:
        return f"reset: {problem}"
    read = reader(env.action_space)
    pairs = zip(case["actions"], case["steps"], strict=True)
    for index, (action, expected) in enumerate(pairs):
        observation, reward, terminated, truncated, info = env.step(read(action))
        fields = {
            "observation": model_of(observation),
            "reward": model_of(reward),
            "terminated": terminated,
            "truncated": truncated,
            "info": model_of(info),
        }
        problem = differing(expected, fields)
        if problem is not None:
            return f"step {index}: {problem}"
    return None
