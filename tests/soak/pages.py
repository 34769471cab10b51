"""The pages of instances of many kinds, used by hand and by keyboard in Chromium."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.api import Api, Instance
from tests.support.peers.checked_page import CheckedPage
from tests.support.peers.provider_process import provided_env
from tests.support.server import Server
from tests.support.wait import wait_until

SECONDS = 60.0
PLAYED_S = 5.0
#: Part of the pace of the environment that is kept while somebody plays.
KEPT = 0.8
TOKEN = "a-token-for-the-page"
_TOYS = ("--import", "tests.support.envs.toys")
#: Options of the instances: the first four show a frame, and the first two are played.
KINDS: dict[str, dict[str, Any]] = {
    "Breakout": {"env_id": "ALE/Breakout-v5", "render_mode": "rgb_array"},
    "lander": {"env_id": "LunarLander-v3", "render_mode": "rgb_array"},
    "HalfCheetah": {"env_id": "HalfCheetah-v5", "render_mode": "rgb_array"},
    "Taxi": {"env_id": "Taxi-v4", "render_mode": "ansi"},
    "Dict": {"env_id": "toys/Echo-v0", "kwargs": {"space": "dict"}},
    "Tuple": {"env_id": "toys/Echo-v0", "kwargs": {"space": "tuple"}},
    "Text": {"env_id": "toys/Echo-v0", "kwargs": {"space": "text"}},
    "vector": {"env_id": "CartPole-v1", "num_envs": 4, "render_mode": "rgb_array"},
    "external": {"env_id": "external/provided", "wait_s": 20},
}
_PLAYED = ("Breakout", "lander")
_SHOWN = {"Taxi": "'.frame-text'"}


def pages() -> list[str]:
    """Use the page of each kind of instance, and return what went wrong."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    found = []
    for flags in ((), ("--token", TOKEN), ("--stream-relay",)):
        token = TOKEN if "--token" in flags else None
        with Server(*_TOYS, *flags, token=token) as server, _provider(server):
            for name in KINDS:
                title = " ".join(("the page of", name, *flags[:1]))
                found += _tried(title, server, name)
    return found


@contextlib.contextmanager
def _provider(server: Server) -> Iterator[None]:
    url = server.url
    if server.token:
        url = url.replace("://", f"://:{server.token}@")
    with provided_env(url, "CartPole-v1"):
        yield


def _tried(title: str, server: Server, name: str) -> list[str]:
    try:
        with CheckedPage() as page:
            _use(server, page, name)
            page.run("1")
            assert page.faults == []
            assert len(page.hosts) == 1
    except Exception as error:
        print(f"{title}: {type(error).__name__}: {error}", flush=True)
        return [f"{title}: {type(error).__name__}: {error}"]
    print(f"{title}: done", flush=True)
    return []


def _use(server: Server, page: CheckedPage, name: str) -> None:
    instance = Api(server).create(**KINDS[name])
    open_instance(page, instance)
    page.press("[aria-label='Reset the environment']")
    page.shows("answer to\nreset", SECONDS)
    for _ in range(2):
        page.press("[aria-label='Sample and step']")
        page.shows("answer to\nstep", SECONDS)
    wait_until(lambda: steps_of(instance) >= 2, SECONDS, "two steps")
    if KINDS[name].get("render_mode"):
        place = _SHOWN.get(name, "'.frame-picture[src]'")
        seen = f"!!document.querySelector({place}).getClientRects().length"
        wait_until(lambda: page.run(seen), SECONDS, "a frame")
    if name in _PLAYED:
        pace_kept(page, instance)
    page.press("[aria-label='Close instance']")
    page.press("dialog button")
    api = instance.api
    wait_until(lambda: instance.id not in api.instances(), SECONDS, "its end")


def open_instance(page: CheckedPage, instance: Instance) -> None:
    """Open the page of an instance, and wait for its controls."""
    server = instance.api.server
    page.open(f"{server.url}/#token={server.token}" if server.token else server.url)
    page.run(f"location.hash = '#/envs/{instance.id}'")
    page.shows("Sample and step", SECONDS)


def steps_of(instance: Instance) -> int:
    """Return the number of steps that an instance has taken."""
    return int(instance.get("").json()["steps"])


def pace_kept(page: CheckedPage, instance: Instance) -> None:
    """Play for some seconds, and check the pace."""
    fps = instance.get("keys/").json()["fps"]
    page.press("[aria-label='Play by keyboard']")
    wait_until(_grown(instance, steps_of(instance)), SECONDS, "the first step")
    before, began = steps_of(instance), time.monotonic()
    page.hold("ArrowLeft")
    time.sleep(PLAYED_S)
    page.release("ArrowLeft")
    pace = (steps_of(instance) - before) / (time.monotonic() - began)
    page.strike("Escape")
    print(f"{pace:.1f} of {fps} steps/s were kept", flush=True)
    assert pace >= KEPT * fps, pace


def _grown(instance: Instance, count: int) -> Callable[[], bool]:
    return lambda: steps_of(instance) > count
