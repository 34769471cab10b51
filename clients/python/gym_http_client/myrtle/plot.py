"""Draws recorded trials with Matplotlib (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gym_http_client.myrtle.recording import Row

__all__ = ["draw_curves", "draw_runs"]

_POINTS = 200


def draw_runs(runs: Mapping[str, Sequence[Row]], path: Path) -> None:
    """Draw rewards and lateness of runs over time.

    Args:
        runs: The rows of each run.
        path: The picture to write, as PNG, SVG or PDF.
    """
    figure = Figure((8, 6), layout="constrained")
    rewards, lateness = figure.subplots(2, 1, sharex=True)
    for run, rows in runs.items():
        seconds = np.array([row.capture_ns for row in rows]) / 1e9
        label = f"{rows[0].agentname} in {rows[0].worldname} ({run})"
        means = _smoothed([row.reward for row in rows])
        rewards.plot(seconds, means, label=label)
        late = np.array([row.late_ns for row in rows]) / 1e6
        lateness.plot(seconds, late, ".", markersize=2)
    rewards.set_ylabel("reward of an update, moving mean")
    rewards.legend(fontsize="small")
    lateness.set_ylabel("lateness in ms")
    lateness.set_xlabel("time in s")
    figure.savefig(path)


def draw_curves(
    curves: Mapping[str, Sequence[float]], path: Path, *, title: str
) -> None:
    """Draw rewards of steps as moving means.

    Args:
        curves: The rewards by label.
        path: The picture to write.
        title: Its title.
    """
    figure = Figure((8, 4), layout="constrained")
    axes = figure.subplots()
    for label, rewards in curves.items():
        axes.plot(_smoothed(rewards), label=label)
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.set_ylabel("reward, moving mean")
    axes.legend()
    figure.savefig(path)


def _smoothed(rewards: Sequence[float]) -> Sequence[float]:
    """Return means over the last steps, about a twentieth of all."""
    window = max(1, min(len(rewards) // 20, _POINTS))
    sums = np.cumsum(np.concatenate([[0.0], rewards]))
    counts = np.minimum(np.arange(1, len(rewards) + 1), window)
    ends = np.arange(1, len(rewards) + 1)
    means: list[float] = ((sums[ends] - sums[ends - counts]) / counts).tolist()
    return means
