"""Plays a policy with weights of a run, without sending anything to the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from gym_http_client.relay.calls import RelayCalls
from gym_http_client.relay.episodes import EpisodePlay, Policy, return_words
from gym_http_client.relay.weights import load_weights

__all__ = ["Played", "play", "play_weights"]

# Episodes are seeded by a worker's name, too.
_WORKER = "play"
_PART_STEPS = 1000


class Played(NamedTuple):
    """An episode that was played.

    Attributes:
        value: Its return, the sum of its rewards; float (k,) if they have k
            components.
        length: Number of its steps.
    """

    value: Any
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
    mean, *ends = (
        return_words(figure(returns, axis=0)) for figure in (np.mean, np.min, np.max)
    )
    print(
        f"{run}, version {found.version}: mean return {mean} "
        f"({' to '.join(ends)}) in {episodes} episodes",
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
    numbers = range(1, episodes + 1)
    return [_played(env, policy, weights, seed, number) for number in numbers]


def _played(
    env: gymnasium.Env[Any, Any], policy: Policy, weights: Any, seed: int, number: int
) -> Played:
    episode = EpisodePlay(
        env,
        policy,
        weights,
        seed=seed,
        worker=_WORKER,
        number=number,
        mode="evaluation",
    )
    while not episode.step():
        if episode.count >= _PART_STEPS:
            # Frees the memory.
            episode.take()
    return Played(episode.total, episode.length)
