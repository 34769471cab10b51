"""Plays a policy with weights of a run, without sending anything to the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from gym_http_client.relay.calls import RelayCalls
from gym_http_client.relay.weights import load_weights

__all__ = ["Played", "play", "play_weights"]

#: Chooses an action, given weights by name, an observation and a random generator.
Policy = Callable[[Mapping[str, npt.NDArray[Any]], Any, np.random.Generator], Any]


class Played(NamedTuple):
    """An episode that was played.

    Attributes:
        value: Its return, the sum of its rewards.
        length: Number of its steps.
    """

    value: float
    length: int


def play(
    url: str,
    run: str,
    *,
    env: gymnasium.Env[Any, Any],
    policy: Policy,
    version: int | Literal["newest", "best"] = "newest",
    episodes: int = 10,
    seed: int = 0,
    token: str | None = None,
    save: str | Path | None = None,
) -> list[Played]:
    """Play episodes with weights of a run, and print their returns.

    The environment is not part of the run: no samples and no records are sent.

    Args:
        url: The server's address.
        run: Name of the run.
        env: The environment.
        policy: Returns an action, or an action and a dict of further columns, as for
            `RolloutWorker`.
        version: The version of the weights. "best" is the one with the highest mean
            return in 5 evaluations or more.
        episodes: Number of episodes.
        seed: Seed of the episodes: the same one gives the same episodes.
        token: A token of the run or of the server.
        save: Path of a file in which the weights are stored. `load_weights` reads its
            bytes, and `play_weights` plays without a server.

    Raises:
        LookupError: The run has no weights, or no best ones.
    """
    with RelayCalls(url, run, token=token) as calls:
        found = calls.weights(None if version == "newest" else version)
    if found is None:
        raise LookupError(
            f"run {run!r} has no weights of version {version!r}: expected a version "
            "that is kept; the status of the run has the newest and the best"
        )
    weights = load_weights(found.data)
    if save is not None:
        Path(save).write_bytes(found.data)
    played = play_weights(env, policy, weights, episodes=episodes, seed=seed)
    returns = [each.value for each in played]
    print(
        f"{run}, version {found.version}: mean return {np.mean(returns):.1f} "
        f"({min(returns):.1f} to {max(returns):.1f}) in {episodes} episodes",
        flush=True,
    )
    return played


def play_weights(
    env: gymnasium.Env[Any, Any],
    policy: Policy,
    weights: Mapping[str, npt.NDArray[Any]],
    *,
    episodes: int = 10,
    seed: int = 0,
) -> list[Played]:
    """Play episodes with weights, without a server.

    Args:
        env: The environment.
        policy: As for `play`.
        weights: Arrays by name.
        episodes: Number of episodes.
        seed: Seed of the episodes.
    """
    return [_played(env, policy, weights, seed, each) for each in range(episodes)]


def _played(
    env: gymnasium.Env[Any, Any],
    policy: Policy,
    weights: Mapping[str, npt.NDArray[Any]],
    seed: int,
    number: int,
) -> Played:
    generator = np.random.default_rng([seed, number])
    observation, _ = env.reset(seed=int(generator.integers(2**31)))
    total, length, over = 0.0, 0, False
    while not over:
        action = policy(weights, observation, generator)
        if isinstance(action, tuple) and len(action) == 2:
            first, extras = action
            action = first if isinstance(extras, dict) else action
        observation, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        length += 1
        over = bool(terminated or truncated)
    return Played(total, length)
