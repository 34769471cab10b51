"""``python -m benchmarks.play``: counts the frames that a player of the page sees.

Each environment is played on its page in Chromium, with a key held. The steps are those
of the environment, the drawn frames those that the server counts
(``gym_frames_shown_total``), and the seen ones those that the page has decoded.
Processor time is that of the host, in milliseconds a second.
"""

from __future__ import annotations

import argparse
import re
import time
from typing import NamedTuple

from tests.support.api import Api, Instance
from tests.support.peers.checked_page import CheckedPage
from tests.support.server import Server
from tests.support.wait import wait_until

_COUNT_SEEN = """
globalThis.seen = 0;
document.querySelector(".frame-picture").addEventListener("load", () => seen++);
"""
_SECONDS = 60.0


class Played(NamedTuple):
    """An environment that is played, and the steps a second."""

    env_id: str
    fps: int
    key: str


PLAYED = (
    Played("MountainCar-v0", 30, "ArrowRight"),
    Played("LunarLander-v3", 50, "ArrowUp"),
    Played("CarRacing-v3", 50, "ArrowUp"),
    Played("ALE/Breakout-v5", 60, "KeyD"),
)


class _Counts(NamedTuple):
    at: float
    steps: int
    drawn: int
    seen: int
    cpu_s: float


def _play(server: Server, played: Played, seconds: float) -> None:
    instance = Api(server).create(played.env_id, render_mode="rgb_array")
    with CheckedPage() as page:
        page.open(f"{server.url}/")
        page.run(f"location.hash = '#/envs/{instance.id}'")
        page.shows("Sample and step", _SECONDS)
        page.run(_COUNT_SEEN)
        page.write(".play input[type=number]", str(played.fps))
        page.press("[aria-label='Play by keyboard']")
        page.hold(played.key)
        wait_until(lambda: page.run("seen > 30"), _SECONDS, "the first frames")
        first = _count(instance, page)
        time.sleep(seconds)
        last = _count(instance, page)
    took = last.at - first.at
    steps, drawn, seen, cpu = (
        (getattr(last, name) - getattr(first, name)) / took
        for name in ("steps", "drawn", "seen", "cpu_s")
    )
    print(
        f"{played.env_id:16} {played.fps:5d} {steps:8.1f} {drawn:8.1f} {seen:8.1f} "
        f"{1000 * cpu:8.0f}",
        flush=True,
    )
    instance.close()


def _count(instance: Instance, page: CheckedPage) -> _Counts:
    api = instance.api
    metrics = api.get("/metrics").body.decode()
    env_id = re.escape(api.instances()[instance.id])
    shown = re.search(
        rf'^gym_frames_shown_total{{env_id="{env_id}"}} (\S+)', metrics, re.MULTILINE
    )
    assert shown
    steps = int(instance.get("").json()["steps"])
    host = api.server.host(instance.id)
    times = host.cpu_times()
    seen = page.run("seen")
    return _Counts(
        time.monotonic(), steps, int(float(shown[1])), seen, times.user + times.system
    )


def main() -> None:
    """Play each environment for some seconds, and print a line about it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    print(f"{'':16} {'asked':>5} {'steps/s':>8} {'drawn/s':>8} {'seen/s':>8} CPU ms/s")
    with Server() as server:
        for each in PLAYED:
            _play(server, each, arguments.seconds)


if __name__ == "__main__":
    main()
