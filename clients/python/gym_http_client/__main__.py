"""``python -m gym_http_client watch URL ID…``: follows the episodes of instances.

It prints a line for each episode that ends. With --tensorboard it writes return,
length and seconds of each as scalars for TensorBoard. It ends when all instances have
ended, or by Ctrl-C. The token comes from the environment variable GHS_TOKEN, or from
the address, which other users of this machine may see.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from gym_http_client.calls.client import Client
from gym_http_client.errors import ServerError
from gym_http_client.following import News, follow
from gym_http_client.http.addresses import Address
from gym_http_client.http.retries import Retries

_PROGRESS_S = 5.0
#: The writer's own flush() misses events that its thread has not taken yet.
_FLUSH_S = 1
_FIGURES = ("return", "length", "seconds")


def main() -> int:
    """Run the command; return the exit status."""
    options = _options()
    # SIGTERM raises, so that the event files are complete.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        names = _run_names(options.url, options.ids)
        lines: _Lines = _Lines()
        if options.tensorboard is not None:
            lines = _Scalars(options.tensorboard, names, options.step)
        print(f"Watching {', '.join(names)}; Ctrl-C stops.", flush=True)
        try:
            for news in follow(options.url, list(names), every=options.every):
                lines.add(news)
        finally:
            lines.close()
    except (ServerError, OSError, _Missing) as error:
        print(f"watch: {_printable(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gym_http_client")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    rest = (__doc__ or "").partition("\n\n")[2]
    watch = commands.add_parser(
        "watch",
        help="follow the episodes of instances, for TensorBoard if wanted",
        description=" ".join(rest.split()),
    )
    add = watch.add_argument
    add("url", type=_url, metavar="URL", help="the server, as http://127.0.0.1:5000")
    add("ids", nargs="+", metavar="ID", help="an instance, as 3c657dbc")
    add(
        "--tensorboard",
        type=Path,
        metavar="DIR",
        help="write event files there, a run for each instance; needs tensorboardX",
    )
    add(
        "--step",
        choices=("steps", "episodes"),
        default="steps",
        help="what the horizontal axis counts: the steps of all ended episodes of the "
        "instance (the default), or its episodes",
    )
    add(
        "--every",
        type=_seconds,
        default=0.5,
        metavar="SECONDS",
        help="time between two requests for an instance, 0.05 to 60 [default: 0.5]",
    )
    return parser.parse_args()


def _url(text: str) -> str:
    try:
        Address.parse(text)
    except ValueError as error:
        # The address may contain a token, so it is not shown.
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.05 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds, 0.05 to 60")
    return seconds


def _run_names(url: str, ids: list[str]) -> dict[str, str]:
    """Return a name for the run of each instance, from its label or environment.

    Raises:
        ServerError: The server refuses, an instance does not exist, or there is no
            answer.
    """
    with Client(url, timeout=60.0, retries=Retries(total=0.0)) as client:
        answer = client.instances()
        rows = [*answer["ended"], *answer["instances"]]
        listed = {each["instance_id"]: each for each in rows}
        names = {}
        for each in dict.fromkeys(ids):
            if each not in listed:
                # The answer says whether it has ended or never was.
                client.env_episodes(each, last=1)
            row = listed.get(each, {})
            name = row.get("label") or row.get("env_id") or "instance"
            names[each] = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}-{each}"
    return names


class _Lines:
    """Prints the episodes, each as a line."""

    def add(self, news: News) -> None:
        """Print the news of an instance."""
        if news.away is not None:
            self._say(f"{news.instance_id}: no answer, trying on: {news.away}")
        if news.missed:
            self._say(
                f"{news.instance_id}: {news.missed} episodes are missing, "
                + (
                    "which ended just before the instance"
                    if news.over is not None
                    else "since the server keeps the last 1000"
                )
            )
        self._add_episodes(news)
        if news.over is not None:
            self._say(f"{news.instance_id} ended: {news.over}")

    def close(self) -> None:
        """Finish."""

    def _add_episodes(self, news: News) -> None:
        for each in news.episodes:
            self._say(f"{news.instance_id}  {_line_of(each)}")

    def _say(self, text: str) -> None:
        print(_printable(text), flush=True)


class _Scalars(_Lines):
    """Writes the episodes as scalars for TensorBoard, and prints the progress.

    Args:
        folder: Gets a folder for each instance, which TensorBoard shows as a run.
        names: The names of the runs by instance.
        step: ``"steps"`` or ``"episodes"``.

    Raises:
        _Missing: tensorboardX is not installed.
    """

    def __init__(self, folder: Path, names: dict[str, str], step: str) -> None:
        try:
            module = importlib.import_module("tensorboardX")
        except ModuleNotFoundError:
            raise _Missing(
                "--tensorboard needs tensorboardX, which is not installed: "
                "pip install tensorboardX"
            ) from None
        self._by_steps = step == "steps"
        self._writers = {
            each: module.SummaryWriter(str(folder / name), flush_secs=_FLUSH_S)
            for each, name in names.items()
        }
        self._steps = dict.fromkeys(names, 0)
        self._counts = dict.fromkeys(names, 0)
        self._said: dict[str, float] = {}
        print(f"Show the curves by: tensorboard --logdir {folder}", flush=True)

    def close(self) -> None:
        """Write what is left, and close the files."""
        for each, writer in self._writers.items():
            writer.close()
            self._say(f"{each}: wrote {self._counts[each]} episodes")

    def _add_episodes(self, news: News) -> None:
        if not news.episodes:
            return
        instance_id = news.instance_id
        writer = self._writers[instance_id]
        for each in news.episodes:
            self._steps[instance_id] += each["length"]
            step = self._steps[instance_id] if self._by_steps else each["number"] + 1
            groups = ["episode"]
            if each["env"] is not None:
                groups.append(f"env-{each['env']}")
            for group in groups:
                _write(writer, group, each, step)
        self._counts[instance_id] += len(news.episodes)
        now = time.monotonic()
        if now >= self._said.get(instance_id, 0.0) + _PROGRESS_S:
            self._said[instance_id] = now
            count = self._counts[instance_id]
            last = _line_of(news.episodes[-1])
            self._say(f"{instance_id}: {count} episodes, the last: {last}")


class _Missing(Exception):
    """A package is not installed."""


def _write(writer: Any, group: str, episode: dict[str, Any], step: int) -> None:
    """Write an episode; a return has several components, or is of several agents."""
    for name in _FIGURES:
        parts = {"": episode[name]}
        if isinstance(episode[name], list):
            parts = {f"-{index}": part for index, part in enumerate(episode[name], 1)}
        if isinstance(episode[name], dict):
            parts = {f"-{agent}": part for agent, part in episode[name].items()}
        for suffix, value in parts.items():
            # TensorBoard marks a NaN; the server sends null for what is not finite.
            number = math.nan if value is None else value
            writer.add_scalar(
                f"{group}/{name}{suffix}", number, step, walltime=episode["ended_at"]
            )


def _line_of(episode: dict[str, Any]) -> str:
    env = "" if episode["env"] is None else f"env {episode['env']}  "
    returned = episode["return"]
    parts = returned if isinstance(returned, list) else [returned]
    shown = ", ".join(map(_shown, parts))
    if isinstance(returned, dict):
        each = (f"{agent} {_shown(part)}" for agent, part in returned.items())
        shown = ", ".join(each)
    return (
        f"episode {episode['number']}  {env}return {shown}  "
        f"length {episode['length']}  {episode['seconds']:.3g} s  {episode['end']}"
    )


def _shown(part: float | None) -> str:
    return "unknown" if part is None else f"{part:g}"


def _printable(text: str) -> str:
    """Replace control characters, which a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in text)


if __name__ == "__main__":
    sys.exit(main())
