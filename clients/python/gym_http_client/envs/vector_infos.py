"""Splits the infos and observations of a vector by environment."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["split_infos", "split_observations"]


def split_infos(infos: Any, num: int) -> list[dict[str, Any]]:
    """Return the info of each environment.

    Args:
        infos: A vector's dict, in which ``_key`` is a mask of the environments with
            ``key``; or a list of infos.
        num: Number of environments.
    """
    if isinstance(infos, list):
        return [dict(info) for info in infos]
    result: list[dict[str, Any]] = [{} for _ in range(num)]
    for key, values in infos.items():
        if _is_mask(key, values, infos, num):
            continue
        has = infos.get(f"_{key}") if isinstance(key, str) else None
        if isinstance(values, dict):
            parts: Any = split_infos(values, num)
        elif isinstance(values, np.ndarray | list | tuple) and len(values) == num:
            parts = values
        else:
            # The value concerns all environments together.
            parts = [values] * num
        for index, part in enumerate(parts):
            if has is None or has[index]:
                result[index][key] = part
    return result


def _is_mask(key: Any, values: Any, infos: Any, num: int) -> bool:
    return (
        isinstance(key, str)
        and key.startswith("_")
        and key[1:] in infos
        and isinstance(values, np.ndarray)
        and values.dtype == np.bool_
        and values.shape == (num,)
    )


def split_observations(observation: Any, num: int) -> list[Any]:
    """Return a copy of each environment's part of a batch."""
    if isinstance(observation, dict):
        columns = {
            name: split_observations(each, num) for name, each in observation.items()
        }
        return [
            {name: column[index] for name, column in columns.items()}
            for index in range(num)
        ]
    return list(np.array(observation))
