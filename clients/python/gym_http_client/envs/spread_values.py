"""Splits actions of a vector by node, and joins the nodes' results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

__all__ = ["Bounds", "join", "join_infos", "seeds_of", "split"]

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
