"""Exports of recordings: datasets of Minari, lines of JSON, and animations.

    recording = recordings.read("data/cartpole")
    dataset = recording_exports.to_minari(recording, "cartpole/random-v0")

Packages that only one of them needs are imported when it is called.
"""

from __future__ import annotations

import errno
import importlib
import math
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Space, spaces

from gym_http_client.recordings import RecordedEpisode, StepRecording
from gym_http_wire.opaque import RemoteSpace, class_name
from gym_http_wire.space_parsing import parse_space
from gym_http_wire.specs import rebuild_spec

if TYPE_CHECKING:
    import minari

__all__ = ["MissingPackage", "json_lines", "to_gif", "to_minari", "video_to_gif"]

_SPACES = ("observation_space", "action_space")
_REFUSED = (spaces.Graph, spaces.OneOf, spaces.Sequence)
_LARGE = 1e100


class MissingPackage(ImportError):
    """An export needs a package that is not installed."""


def to_minari(
    recording: StepRecording,
    dataset_id: str,
    *,
    infos: bool = False,
    jpeg: bool = False,
    **about: Any,
) -> minari.MinariDataset:
    """Write a recording as a dataset of Minari, which needs no environment.

    The arrays equal those of `minari.DataCollector` around the environment. The last
    step of an episode that was cut short is marked as truncated, as there. Of a vector,
    each environment has its own episodes, in the order of their ends; their rewards are
    floats, as Gymnasium's vectors return them.

    Args:
        recording: What to write.
        dataset_id: As ``"cartpole/random-v0"``. The dataset is put where Minari keeps
            datasets: below ``$MINARI_DATASETS_PATH``, or else ``~/.minari/datasets``.
        infos: Write infos, too, which then must have the same keys in each step.
        jpeg: Encode pictures as JPEG, which is smaller and loses detail.
        about: Arguments of `minari.create_dataset_from_buffers` that describe the
            dataset, as ``author`` or ``description``.

    Returns:
        The dataset.

    Raises:
        MissingPackage: Minari or h5py, its storage, is not installed.
        ValueError: Minari has no form for a space or a value, the ID has no version, or
            the dataset exists.
            Nothing is left behind.
    """
    if "api" in recording.header:
        raise ValueError(
            "the recording has several agents, and datasets of Minari have one: "
            "expected the export as JSON lines"
        )
    which = {name: _space_of(recording, name) for name in _SPACES}
    for name, space in which.items():
        _check_space(space, name)
    try:
        importlib.import_module("h5py")  # which Minari imports late
        import minari
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.storage.datasets_root_dir import get_dataset_path
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"datasets of Minari need {error.name}, which is not installed: "
            'pip install "minari[hdf5]"'
        ) from None
    try:
        parse_dataset_id(dataset_id)
    except (TypeError, ValueError):
        # Without a version, Minari raises a TypeError.
        raise ValueError(
            f"the ID of the dataset is {dataset_id!r}: expected a name that ends with "
            "a version, such as 'cartpole/random-v0'"
        ) from None
    folder = Path(get_dataset_path(dataset_id))
    if folder.exists():
        raise ValueError(f"the dataset {dataset_id} exists already, at {folder}")
    try:
        # A list is asked for, but iterated over once: so one episode is in memory.
        buffers: Any = (
            EpisodeBuffer(**_buffer(each, infos=infos)) for each in recording.episodes()
        )
        with warnings.catch_warnings():
            # It has the spec, but would make the environment.
            warnings.filterwarnings("ignore", "env_spec is None", UserWarning)
            made = minari.create_dataset_from_buffers(
                dataset_id, buffers, jpeg_encoding=jpeg, **which, **about
            )
        spec = _spec_of(recording)
        if spec is not None:
            made.storage.update_metadata({"env_spec": spec})
        if not made.total_episodes:
            raise ValueError("the recording has no step")
        return minari.load_dataset(dataset_id)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, TypeError):
            raise ValueError(f"Minari cannot store a value: {error}") from error
        raise


def _check_space(space: Space[Any], place: str) -> None:
    """Check that Minari has a form for a space.

    Raises:
        ValueError: It has none; the message names the space and its place.
    """
    name = type(space).__name__
    if isinstance(space, RemoteSpace):
        name = class_name(space)
    if isinstance(space, (*_REFUSED, RemoteSpace)):
        raise ValueError(
            f"{place} is a {name}, for which Minari has no form: "
            "expected Box, Discrete, MultiBinary, MultiDiscrete, Text, or a Dict or "
            "Tuple of them"
        )
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            _check_space(part, f"{place}[{name!r}]")
    if isinstance(space, spaces.Tuple):
        for number, part in enumerate(space.spaces):
            _check_space(part, f"{place}[{number}]")


def json_lines(recording: StepRecording) -> Iterator[dict[str, Any]]:
    """Yield the resets and steps of all episodes as objects that JSON can represent.

    As in answers of the server, NaN is null and infinities are 1e100 and -1e100. Values
    that JSON lacks are shown as Python shows them.

    Yields:
        Dicts with ``episode``, ``env`` (of a vector) and ``step``. Step 0, the reset,
        has ``seed``, ``options``, ``observation`` and ``info``; others have ``action``,
        ``observation``, ``reward``, ``terminated``, ``truncated`` and ``info``.
    """
    for number, episode in enumerate(recording.episodes()):
        place = {"episode": number, "env": episode.env}
        yield _plain(
            {
                **place,
                "step": 0,
                "seed": episode.seed,
                "options": episode.options,
                "observation": episode.observations[0],
                "info": episode.infos[0],
            }
        )
        for step in range(len(episode)):
            yield _plain(
                {
                    **place,
                    "step": step + 1,
                    "action": episode.actions[step],
                    "observation": episode.observations[step + 1],
                    "reward": episode.rewards[step],
                    "terminated": episode.terminations[step],
                    "truncated": episode.truncations[step],
                    "info": episode.infos[step + 1],
                }
            )


def to_gif(
    recording: StepRecording,
    file: str | os.PathLike[str],
    *,
    episode: int = 0,
    fps: float = 30.0,
) -> int:
    """Write the observations of an episode as an animated GIF, if they are pictures.

    Args:
        recording: Its observations are ``uint8`` of shape ``(height, width)``, or with
            1, 3 or 4 channels.
        file: What to write.
        episode: Number of the episode, from 0.
        fps: Pictures a second.

    Returns:
        The number of pictures.

    Raises:
        MissingPackage: Pillow is not installed.
        ValueError: The observations are no pictures, or there is no such episode.
    """
    space = _space_of(recording, "observation_space")
    if not _is_picture(space):
        raise ValueError(
            f"the observations are no pictures, but {space}: record a video, and "
            "export its MP4"
        )
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise MissingPackage(
            "animations need Pillow, which is not installed: pip install pillow"
        ) from None
    number = -1
    for number, each in enumerate(recording.episodes()):
        if number == episode:
            frames = [Image.fromarray(np.squeeze(o)) for o in each.observations]
            first, *rest = frames
            pause = round(1000 / fps)
            first.save(file, "GIF", save_all=True, append_images=rest, duration=pause)
            return len(frames)
    raise ValueError(
        f"episode is {episode}: expected 0 to {number}, as the recording has "
        f"{number + 1} episodes"
    )


def video_to_gif(
    video: str | os.PathLike[str], file: str | os.PathLike[str], *, fps: float = 30.0
) -> None:
    """Convert an MP4 of a recording to an animated GIF, with a palette of its own.

    Raises:
        FileNotFoundError: The file's folder does not exist.
        MissingPackage: imageio-ffmpeg is not installed.
        ValueError: ffmpeg cannot read the video.
    """
    try:
        import imageio_ffmpeg  # an extra
    except ModuleNotFoundError:
        raise MissingPackage(
            "videos need imageio-ffmpeg, which is not installed: "
            "pip install imageio-ffmpeg"
        ) from None
    if not Path(file).resolve().parent.is_dir():
        # The error would name a temporary folder.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    filters = f"fps={fps:g},split[a][b];[a]palettegen[p];[b][p]paletteuse"
    with tempfile.TemporaryDirectory(dir=Path(file).resolve().parent) as folder:
        # A name that begins with a dash would be an option.
        made = Path(folder) / "animation.gif"
        done = subprocess.run(
            [
                *(imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-nostdin"),
                *("-i", str(Path(video).resolve()), "-vf", filters, str(made)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ValueError(f"{video} cannot be read: {done.stderr.strip()[-500:]}")
        made.replace(file)


def _space_of(recording: StepRecording, name: str) -> Space[Any]:
    """Return a space of the environment; of a vector, that of each environment."""
    header = recording.header
    if header["num_envs"] is not None:
        name = f"single_{name}"
    return parse_space(header[name])


def _spec_of(recording: StepRecording) -> str | None:
    """Return the environment's spec as JSON, if JSON can represent it."""
    described = recording.header.get("spec")
    if described is None or recording.header["num_envs"] is not None:
        return None
    try:
        return rebuild_spec(described).to_json()
    except (TypeError, ValueError):
        return None


def _buffer(episode: RecordedEpisode, *, infos: bool) -> dict[str, Any]:
    """Return the members of an `EpisodeBuffer`."""
    truncations = list(episode.truncations)
    if not episode.terminations[-1]:
        truncations[-1] = True
    options = dict(episode.options or {})
    # Of the vector, not of the environment.
    options.pop("reset_mask", None)
    return {
        "seed": episode.seed,
        "options": options or None,
        "observations": _columns(episode.observations, "observations"),
        "actions": _columns(episode.actions, "actions"),
        "rewards": episode.rewards,
        "terminations": episode.terminations,
        "truncations": truncations,
        "infos": _columns(episode.infos, "infos") if infos else {},
    }


def _columns(values: list[Any], place: str) -> Any:
    """Convert a list of nested values to nested lists of values."""
    first = values[0]
    if isinstance(first, dict):
        for number, each in enumerate(values):
            if not isinstance(each, dict) or each.keys() != first.keys():
                raise ValueError(
                    f"{place} are not alike: those of the reset have {list(first)}, "
                    f"those of step {number} have {list(each)}; leave out infos"
                )
        return {
            key: _columns([each[key] for each in values], f"{place}[{key!r}]")
            for key in first
        }
    if isinstance(first, tuple):
        parts = zip(*values, strict=True)
        return tuple(_columns(list(p), f"{place}[{n}]") for n, p in enumerate(parts))
    if all(each is None for each in values):
        return None
    return values


def _is_picture(space: Space[Any]) -> bool:
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return False
    shape = space.shape
    return len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))


def _plain(value: Any) -> Any:
    """Convert a value to JSON's own types."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    as_dict = getattr(value, "_asdict", None)
    if callable(as_dict):
        return _plain(as_dict())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else math.copysign(_LARGE, value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)
