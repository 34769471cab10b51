"""Recordings: reads what a monitor with ``steps`` wrote.

    recording = recordings.read("data/cartpole")
    for episode in recording.episodes():
        print(episode.seed, sum(episode.rewards))

A recording that was cut short, as by the kill of its host, is read up to the cut.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym_http_wire.step_records import Kind, Record, StepDecoder

__all__ = ["RecordedEpisode", "StepRecording", "read"]

_PART = re.compile(r"steps(?:\.([1-9][0-9]{0,8}))?\.gym", re.ASCII)
_CHUNK = 1024 * 1024


@dataclass
class RecordedEpisode:
    """An episode of a recording of one environment.

    Attributes:
        seed: Seed of its reset.
        options: Options of its reset.
        observations: That of the reset, and one of each step.
        infos: That of the reset, and one of each step.
        actions: One of each step, as are the three that follow.
        rewards: Rewards.
        terminations: Whether the step terminated the episode.
        truncations: Whether the step truncated it.
    """

    seed: int | None
    options: dict[str, Any] | None
    observations: list[Any]
    infos: list[Any]
    actions: list[Any] = field(default_factory=list)
    rewards: list[Any] = field(default_factory=list)
    terminations: list[bool] = field(default_factory=list)
    truncations: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        """Steps of the episode."""
        return len(self.rewards)


class StepRecording:
    """The parts of a recording, which are read anew by each iteration.

    Attributes:
        header: What was recorded: environment, spaces, versions.
    """

    def __init__(self, parts: list[Path]) -> None:
        self._parts = parts
        first = next(iter(self), None)
        if first is None or first.kind != Kind.HEADER:
            raise ValueError(
                f"{parts[0]} has no header: expected a steps.gym that a monitor wrote"
            )
        self.header: dict[str, Any] = first.value

    def __iter__(self) -> Iterator[Record]:
        """Yield the records of all parts in order, with the header of each."""
        return (record for record in self._pieces() if record is not None)

    def episodes(self) -> Iterator[RecordedEpisode]:
        """Yield each episode that has a step.

        Raises:
            ValueError: Several environments were recorded as a vector.
        """
        if self.header["num_envs"] is not None:
            raise ValueError(
                f"the recording is of a vector of {self.header['num_envs']}: expected "
                "one of a single environment; iterate over the records instead"
            )
        episode: RecordedEpisode | None = None
        instance = self.header["instance_id"]
        for record in self._pieces():
            kind = Kind.END if record is None else record.kind
            value = {} if record is None else record.value
            if kind == Kind.STEP and episode is not None:
                _add(episode, value)
                continue
            if kind == Kind.HEADER and value["instance_id"] == instance:
                continue
            # Steps of another instance, or after a gap, continue no episode.
            if kind in (Kind.RESET, Kind.END, Kind.HEADER):
                if episode:
                    yield episode
                episode = _begun(value) if kind == Kind.RESET else None
            if kind == Kind.HEADER:
                instance = value["instance_id"]
        if episode:
            yield episode

    def _pieces(self) -> Iterator[Record | None]:
        """Yield the records, and None after a part that was cut or damaged."""
        for part in self._parts:
            decoder = StepDecoder()
            with part.open("rb") as file:
                while not decoder.ended and (data := file.read(_CHUNK)):
                    yield from decoder.feed(data)
            if not decoder.complete:
                yield None


def read(source: str | os.PathLike[str]) -> StepRecording:
    """Open a recording.

    Args:
        source: A part, or the directory of the monitor with all of its parts.

    Raises:
        FileNotFoundError: There is no part.
        ValueError: A part has no header.
    """
    path = Path(source)
    if not path.is_dir():
        return StepRecording([path])
    numbers = {
        int(found[1] or 1): each
        for each in path.iterdir()
        if (found := _PART.fullmatch(each.name))
    }
    if not numbers:
        raise FileNotFoundError(
            f"{path} has no steps.gym: expected the directory of a monitor that was "
            'started with "steps": true'
        )
    return StepRecording([numbers[number] for number in sorted(numbers)])


def _begun(value: dict[str, Any]) -> RecordedEpisode:
    return RecordedEpisode(
        value["seed"], value["options"], [value["observation"]], [value["info"]]
    )


def _add(episode: RecordedEpisode, value: dict[str, Any]) -> None:
    episode.actions.append(value["action"])
    episode.observations.append(value["observation"])
    episode.rewards.append(value["reward"])
    episode.terminations.append(value["terminated"])
    episode.truncations.append(value["truncated"])
    episode.infos.append(value["info"])
