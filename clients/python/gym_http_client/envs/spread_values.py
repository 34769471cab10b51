"""Splits the requests of a vector by node, and joins the nodes' results."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

__all__ = [
    "Bounds",
    "in_order",
    "join",
    "join_generators",
    "join_infos",
    "seeds_of",
    "split",
    "split_calls",
    "split_generators",
    "split_reset",
]

Bounds = Sequence[tuple[int, int]]
"""By part, its first environment, and the first one of the next part."""


def split(single: Space[Any], batch: Any, bounds: Bounds) -> list[Any]:
    """Return each part's share of a batch of actions, without copies.

    Args:
        single: The space of one environment.
        batch: As ``batch_space`` of it arranges them.
        bounds: The parts.

    Raises:
        ValueError: The batch has no action for some environment, or too many.
    """
    if isinstance(single, spaces.Dict) and isinstance(batch, dict):
        each = {
            key: split(single[key], value, bounds) if key in single.spaces else value
            for key, value in batch.items()
        }
        return [
            {key: shares[part] for key, shares in each.items()}
            for part in range(len(bounds))
        ]
    if isinstance(single, spaces.Tuple) and isinstance(batch, tuple):
        members = [
            split(space, value, bounds)
            for space, value in zip(single.spaces, batch, strict=True)
        ]
        return [tuple(shares) for shares in zip(*members, strict=True)]
    expected = bounds[-1][1]
    found = len(batch)
    if found != expected:
        raise ValueError(
            f"there are {found} actions: expected {expected}, one for each environment"
        )
    return [batch[start:stop] for start, stop in bounds]


def join(single: Space[Any], parts: Sequence[Any]) -> Any:
    """Return one batch of the parts' batches of observations.

    Args:
        single: The space of one environment.
        parts: As ``batch_space`` of it arranges them.
    """
    if isinstance(single, spaces.Dict):
        return {
            key: join(space, [part[key] for part in parts])
            for key, space in single.spaces.items()
        }
    if isinstance(single, spaces.Tuple):
        return tuple(
            join(space, [part[number] for part in parts])
            for number, space in enumerate(single.spaces)
        )
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return tuple(value for part in parts for value in part)


def join_infos(
    parts: Sequence[dict[Any, Any] | None], bounds: Bounds
) -> dict[Any, Any]:
    """Return the infos of one vector, as Gymnasium's vectors make them.

    A key's array has the dtype of the first part that has the key; where a part has
    none, it is zero or None.

    Args:
        parts: The infos of each part; None if it took no part.
        bounds: The parts.
    """
    whole: dict[Any, Any] = {}
    for part, (start, stop) in zip(parts, bounds, strict=True):
        for key, value in (part or {}).items():
            if isinstance(value, dict):
                shares = [
                    each.get(key) if each and isinstance(each.get(key), dict) else None
                    for each in parts
                ]
                if key not in whole:
                    whole[key] = join_infos(shares, bounds)
            elif isinstance(value, np.ndarray):
                if key not in whole:
                    whole[key] = _empty(value, bounds[-1][1])
                whole[key][start:stop] = value
            else:
                whole.setdefault(key, value)
    return whole


def _empty(like: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    if like.dtype == object:
        return np.full((count, *like.shape[1:]), None, object)
    return np.zeros((count, *like.shape[1:]), like.dtype)


def seeds_of(seed: Any, bounds: Bounds) -> list[Any]:
    """Return each part's seeds.

    Args:
        seed: A number for the first environment, whose followers have the next ones;
            a seed for each; or None.
        bounds: The parts.
    """
    if seed is None:
        return [None] * len(bounds)
    if isinstance(seed, int | np.integer):
        return [seed + start for start, _ in bounds]
    return [list(seed[start:stop]) for start, stop in bounds]


def split_reset(given: dict[str, Any], bounds: Bounds) -> dict[int, Any]:
    """Return the reset of each part that has environments to reset."""
    seeds = seeds_of(given["seed"], bounds)
    options = given["options"]
    if not options or "reset_mask" not in options:
        return {part: {**given, "seed": seed} for part, seed in enumerate(seeds)}
    mask = options["reset_mask"]
    return {
        part: {
            **given,
            "seed": seeds[part],
            "options": {**options, "reset_mask": mask[start:stop]},
        }
        for part, (start, stop) in enumerate(bounds)
        if mask[start:stop].any()
    }


def split_generators(given: dict[str, Any], bounds: Bounds) -> dict[int, Any]:
    """Return each part's share of new random generators."""
    return {
        part: {
            name: each[start:stop] if isinstance(each, tuple) else each
            for name, each in given.items()
        }
        for part, (start, stop) in enumerate(bounds)
    }


def split_calls(given: dict[str, Any], bounds: Bounds) -> dict[int, Any]:
    """Return the calls of each part that has some of the environments to call."""
    shares = {}
    for part, (start, stop) in enumerate(bounds):
        own = [index - start for index in given["indices"] if start <= index < stop]
        if own:
            shares[part] = {**given, "indices": own}
    return shares


def in_order(
    indices: Sequence[int], bounds: Bounds, answers: dict[int, Any]
) -> list[Any]:
    """Return the results of some environments in the order of their indices."""
    values = {part: iter(answer["value"]) for part, answer in answers.items()}
    starts = [stop for _, stop in bounds]
    return [next(values[bisect.bisect_right(starts, index)]) for index in indices]


def join_generators(each: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Join the descriptions of generators, whose members are tuples."""
    rows = list(each)
    return {
        name: tuple(one for row in rows for one in row[name])
        if isinstance(value, tuple)
        else value
        for name, value in rows[0].items()
    }
