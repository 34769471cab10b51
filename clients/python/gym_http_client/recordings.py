"""Recordings: reads what a monitor with ``steps`` wrote.

    recording = recordings.read("data/cartpole")
    for episode in recording.episodes():
        print(episode.seed, sum(episode.rewards))

It reads a directory, or what a server has below ``/v1/recordings/``. A recording
that was cut short, as by the kill of its host, is read up to the cut.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from gymnasium.vector.utils import iterate

from gym_http_client.calls.client import Client
from gym_http_wire.space_parsing import parse_space
from gym_http_wire.step_records import Kind, Record, StepDecoder

__all__ = ["RecordedEpisode", "StepRecording", "read"]

_PART = re.compile(r"steps(?:\.([1-9][0-9]{0,8}))?\.gym", re.ASCII)
_ADDRESS = re.compile(r"https?://", re.ASCII)
_CHUNK = 1024 * 1024
_T = TypeVar("_T")
#: Returns the bytes of a part, from its beginning.
_Part = Callable[[], Generator[bytes, None, None]]


@dataclass
class RecordedEpisode:
    """An episode of a recording.

    Attributes:
        env: Number of the environment in a vector, else ``None``.
        seed: Seed of its reset; ``None``, too, if a vector reset the environment.
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
    env: int | None = None

    def __len__(self) -> int:
        """Steps of the episode."""
        return len(self.rewards)


class StepRecording:
    """The parts of a recording, which are read anew by each iteration.

    Attributes:
        header: What was recorded: environment, spaces, versions.
    """

    def __init__(self, name: str, parts: list[_Part]) -> None:
        self._parts = parts
        first = next(iter(self), None)
        if first is None or first.kind != Kind.HEADER:
            raise ValueError(
                f"{name} has no header: expected a steps.gym that a monitor wrote"
            )
        self.header: dict[str, Any] = first.value

    def __iter__(self) -> Iterator[Record]:
        """Yield the records of all parts in order, with the header of each."""
        return (record for record in self._pieces() if record is not None)

    def episodes(self) -> Iterator[RecordedEpisode]:
        """Yield each episode that has a step, those of a vector as they end."""
        if self.header["num_envs"] is not None:
            yield from _VectorEpisodes(self.header).of(self._pieces())
            return
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
            with contextlib.closing(part()) as chunks:
                for data in chunks:
                    yield from decoder.feed(data)
                    if decoder.ended:
                        break
            if not decoder.complete:
                yield None


def read(source: str | os.PathLike[str], *, token: str | None = None) -> StepRecording:
    """Open a recording.

    Args:
        source: A part, the directory of the monitor with all of its parts, or the
            address of a recording: ``http://127.0.0.1:5000/v1/recordings/<directory>/``.
        token: The server's token, for an address.

    Raises:
        FileNotFoundError: There is no such directory, or no part in it.
        ValueError: A part has no header.
        ServerError: The server refuses.
    """
    if isinstance(source, str) and _ADDRESS.match(source):
        return _read_remote(source, token)
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(
            f"there is no recording {os.fspath(path)!r} here: expected a directory "
            'that a monitor wrote with "steps": true, or the address of a recording, '
            "as http://127.0.0.1:5000/v1/recordings/<directory>/"
        )
    if not path.is_dir():
        return StepRecording(str(path), [functools.partial(_file, path)])
    parts = _in_order({each.name: each for each in path.iterdir()}, path)
    return StepRecording(
        str(parts[0]), [functools.partial(_file, each) for each in parts]
    )


def _read_remote(source: str, token: str | None) -> StepRecording:
    base, _, directory = source.partition("/v1/recordings/")
    directory = unquote(directory).strip("/")
    if not directory:
        raise ValueError(
            f"{source} names no recording: expected <server>/v1/recordings/<directory>/"
        )
    with Client(base, token=token) as client:
        described = client.recording(directory)
    names = {each["name"]: each["name"] for each in described["files"]}
    parts = _in_order(names, source)
    return StepRecording(
        f"{source}: {parts[0]}",
        [functools.partial(_download, base, token, directory, each) for each in parts],
    )


def _in_order(found: dict[str, _T], source: object) -> list[_T]:
    """Return the parts among some files, by their numbers."""
    numbers = {
        int(match[1] or 1): each
        for name, each in found.items()
        if (match := _PART.fullmatch(name))
    }
    if not numbers:
        raise FileNotFoundError(
            f"{source} has no steps.gym: expected the directory of a monitor that was "
            'started with "steps": true'
        )
    return [numbers[number] for number in sorted(numbers)]


def _file(path: Path) -> Generator[bytes, None, None]:
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            yield data


def _download(
    base: str, token: str | None, directory: str, name: str
) -> Generator[bytes, None, None]:
    with Client(base, token=token) as client:
        yield from client.recording_pieces(directory, name)


class _VectorEpisodes:
    """Splits the steps of a vector by environment.

    Args:
        header: Of the recording.
    """

    def __init__(self, header: dict[str, Any]) -> None:
        self._header = header
        self._count: int = header["num_envs"]
        self._mode: str = header["autoreset_mode"]
        self._spaces = {
            "observation": parse_space(header["observation_space"]),
            "action": parse_space(header["action_space"]),
        }
        self._open: list[RecordedEpisode | None] = [None] * self._count

    def of(self, records: Iterator[Record | None]) -> Iterator[RecordedEpisode]:
        """Yield the episodes of the records."""
        instance = self._header["instance_id"]
        for record in records:
            if record is not None and record.kind == Kind.STEP:
                yield from self._step(record.value)
            elif record is not None and record.kind == Kind.RESET:
                yield from self._reset(record.value)
            elif record is None or record.kind == Kind.END:
                yield from self._end()
            elif record.kind == Kind.HEADER and record.value["instance_id"] != instance:
                instance = record.value["instance_id"]
                yield from self._end()
        yield from self._end()

    def _reset(self, value: dict[str, Any]) -> Iterator[RecordedEpisode]:
        options, seed = value["options"], value["seed"]
        mask = None if options is None else options.get("reset_mask")
        observations = self._split("observation", value["observation"])
        for env in range(self._count):
            if mask is not None and not mask[env]:
                continue
            yield from self._end_one(env)
            own = seed[env] if isinstance(seed, list) else seed
            own = own + env if isinstance(seed, int) else own
            info = _info_of(value["info"], env)
            self._begin(env, observations[env], info, own, options)

    def _step(self, value: dict[str, Any]) -> Iterator[RecordedEpisode]:
        observations = self._split("observation", value["observation"])
        actions = self._split("action", value["action"])
        infos = value["info"]
        final = _final_of(infos)
        for env in range(self._count):
            info = _info_of(infos, env)
            episode = self._open[env]
            if episode is None:
                # Of the mode next_step, this was the reset.
                if self._mode == "next_step":
                    self._begin(env, observations[env], info)
                continue
            over = bool(value["terminated"][env] or value["truncated"][env])
            replaced = over and self._mode == "same_step"
            shown, last = final(env) if replaced else (observations[env], info)
            step = {
                "action": actions[env],
                "observation": shown,
                "reward": value["reward"][env],
                "terminated": bool(value["terminated"][env]),
                "truncated": bool(value["truncated"][env]),
                "info": last,
            }
            _add(episode, step)
            if over:
                yield from self._end_one(env)
            if replaced:
                self._begin(env, observations[env], info)

    def _begin(
        self,
        env: int,
        observation: Any,
        info: Any,
        seed: Any = None,
        options: Any = None,
    ) -> None:
        self._open[env] = RecordedEpisode(seed, options, [observation], [info], env=env)

    def _end(self) -> Iterator[RecordedEpisode]:
        for env in range(self._count):
            yield from self._end_one(env)

    def _end_one(self, env: int) -> Iterator[RecordedEpisode]:
        episode, self._open[env] = self._open[env], None
        if episode:
            yield episode

    def _split(self, which: str, values: Any) -> list[Any]:
        """Return the values of each environment."""
        return list(iterate(self._spaces[which], values))


def _info_of(infos: dict[str, Any], env: int) -> dict[str, Any]:
    """Return what a vector's info says about one environment."""
    found = {}
    for name, values in infos.items():
        has = infos.get(f"_{name}")
        if has is None or not has[env] or name in ("final_obs", "final_info"):
            continue
        found[name] = _info_of(values, env) if isinstance(values, dict) else values[env]
    return found


def _final_of(infos: dict[str, Any]) -> Callable[[int], tuple[Any, dict[str, Any]]]:
    """Return a function from an environment to its last observation and info."""

    def final(env: int) -> tuple[Any, dict[str, Any]]:
        return infos["final_obs"][env], _info_of(infos["final_info"], env)

    return final


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
