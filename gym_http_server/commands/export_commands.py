"""The command ``export``: writes recordings as Minari datasets, JSON lines or GIFs.

It uses the Python client, which is imported late, since it imports Gymnasium.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import click

from gym_http_server.commands.client_commands import Place, on_recording
from gym_http_server.errors import StartError

if TYPE_CHECKING:
    from gym_http_client.recordings import StepRecording

__all__ = ["export"]

_FPS = click.FloatRange(0.1, 50.0)
_VIDEOS = (
    "; a video is exported by the name of its file: DIRECTORY/episode-000000.mp4, or "
    "http://127.0.0.1:5000/v1/recordings/DIRECTORY/files/episode-000000.mp4"
)
#: Seconds between two reports of progress.
_PERIOD_S = 1.0


@click.group()
def export() -> None:
    """Write a recording as a Minari dataset, JSON lines or a GIF.

    SOURCE is a directory that a monitor wrote with "steps": true, or the address of a
    recording: http://127.0.0.1:5000/v1/recordings/DIRECTORY/
    """


@export.command()
@on_recording
@click.option("--id", "dataset_id", required=True, help="As cartpole/random-v0.")
@click.option("--infos", is_flag=True, help="Write infos, too.")
@click.option("--jpeg", is_flag=True, help="Encode pictures; this loses detail.")
@click.option("--author", help="For the dataset's description.")
@click.option("--description", help="What the dataset has.")
def minari(
    place: Place, dataset_id: str, infos: bool, jpeg: bool, **about: str | None
) -> None:
    """Write a dataset of Minari, below $MINARI_DATASETS_PATH or ~/.minari/datasets.

    It needs the package minari[hdf5], but no environment.
    """
    from gym_http_client import recording_exports

    recording = _open_recording(place)
    with warnings.catch_warnings():
        # They recommend to describe the dataset.
        warnings.filterwarnings("ignore", ".* is set to None", UserWarning)
        try:
            made = recording_exports.to_minari(
                recording, dataset_id, infos=infos, jpeg=jpeg, **about
            )
        except (ImportError, OSError) as error:
            raise StartError(str(error)) from None
    click.echo(
        f"wrote {made.total_episodes} episodes, {made.total_steps} steps, "
        f"to {made.storage.data_path}"
    )


@export.command()
@on_recording
@click.argument("file", default="-", metavar="[FILE]")
def jsonl(place: Place, file: str) -> None:
    """Write a line of JSON for each reset and step, to FILE or to standard output."""
    from gym_http_client import recording_exports

    lines = _reported(recording_exports.json_lines(_open_recording(place)))
    try:
        if file == "-":
            for each in lines:
                click.echo(json.dumps(each, ensure_ascii=False))
            return
        count = 0
        with Path(file).open("w", encoding="utf-8") as output:
            for each in lines:
                output.write(json.dumps(each, ensure_ascii=False) + "\n")
                count += 1
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StartError(f"cannot write the export: {error}") from None
    click.echo(f"wrote {count} lines to {file}")


@export.command()
@on_recording
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--episode", type=click.IntRange(0), help="Number, from 0. [0]")
@click.option("--fps", default=30.0, type=_FPS, help="Pictures a second. [30]")
def gif(place: Place, file: str, episode: int | None, fps: float) -> None:
    """Write an episode as an animated GIF.

    SOURCE may also be an MP4 of a recording, or the address of one. Else the
    observations of the episode must be pictures.
    """
    from gym_http_client import recording_exports

    try:
        if place.url.endswith(".mp4"):
            if episode is not None:
                raise StartError(
                    f"--episode is {episode}, and {place.url} is the video of one "
                    "episode: expected no --episode, or the file of another one"
                )
            with _video(place) as video:
                recording_exports.video_to_gif(video.name, file, fps=fps)
            click.echo(f"wrote {file}")
            return
        count = recording_exports.to_gif(
            _open_recording(place, _VIDEOS), file, episode=episode or 0, fps=fps
        )
    except (ImportError, OSError) as error:
        raise StartError(str(error)) from None
    click.echo(f"wrote {count} pictures to {file}")


def _open_recording(place: Place, advice: str = "") -> StepRecording:
    """Open the recording of a command; without one, the error ends with the advice."""
    from gym_http_client import recordings

    try:
        return recordings.read(place.url, token=place.token)
    except OSError as error:
        raise StartError(f"{error}{advice}") from None


def _video(place: Place) -> Any:
    """Open a video; one of a server is downloaded to a file that is deleted."""
    base, found, rest = place.url.partition("/v1/recordings/")
    if not found or "://" not in base:
        return Path(place.url).open("rb")
    directory, named, name = rest.partition("/files/")
    if not named:
        raise StartError(f"{place.url}: expected …/v1/recordings/DIRECTORY/files/NAME")
    with Place(base, place.token).client() as client:
        pieces = client.recording_pieces(unquote(directory), unquote(name))
        file = tempfile.NamedTemporaryFile(suffix=".mp4")  # noqa: SIM115
        for piece in pieces:
            file.write(piece)
    file.flush()
    return file


def _reported(lines: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield lines; on a terminal, print the number of episodes each second."""
    due = time.monotonic() + _PERIOD_S
    for each in lines:
        if sys.stderr.isatty() and time.monotonic() > due:
            due = time.monotonic() + _PERIOD_S
            click.echo(f"{each['episode']} episodes so far", err=True)
        yield each
