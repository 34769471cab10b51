"""Draws a thumbnail of an environment, in a process that does nothing else."""

from __future__ import annotations

import importlib
import os
import resource
import sys
from collections.abc import Callable, Sequence

import msgspec

from gym_http_core.vectors import operations_of
from gym_http_server.datadir.thumbnails import Drawn, changed_ns
from gym_http_server.errors import UnknownEnv
from gym_http_server.host import fork_guard
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.making import make
from gym_http_server.host.show.pictures import Pictures, to_jpeg
from gym_http_wire.problems import BadParameter

__all__ = ["UNKNOWN", "draw"]

#: Pixels of the longer side: twice those of the page, for screens with small ones.
SIZE = 192
SEED = 0
#: Sent instead of all else: no such environment is registered.
UNKNOWN = b"?"
#: Bytes of private memory that the environment may take.
MEMORY_BYTES = 1 << 30


def draw(env_id: str, modules: Sequence[str], send: Callable[[bytes], None]) -> None:
    """Draw the state after a reset; send what it is drawn from, a line, and a JPEG.

    Sends no JPEG if the environment has no image, and only `UNKNOWN` if it is not
    registered.

    Args:
        env_id: The environment.
        modules: Modules to import before.
        send: Called with bytes to send.

    Raises:
        BaseException: The environment raised it.
    """
    for module in modules:
        importlib.import_module(module)
    _limit_memory()
    fork_guard.claim()
    try:
        env = make(CreateRequest(env_id, render_mode="rgb_array"))
    except UnknownEnv:
        send(UNKNOWN)
        return
    except BadParameter:
        # Its observations may be images.
        env = make(CreateRequest(env_id))
    send(msgspec.json.encode(_drawn_from(env_id, type(env.unwrapped))) + b"\n")
    operations = operations_of(env)
    observation, _ = operations.reset(SEED, None)
    images = Pictures(operations).view(observation).images
    if images:
        send(to_jpeg(images, SIZE).data)


def _drawn_from(env_id: str, kind: type) -> Drawn:
    module = sys.modules.get(kind.__module__)
    path = os.path.abspath(getattr(module, "__file__", None) or "")
    if not os.path.isfile(path):
        return Drawn(env_id)
    return Drawn(env_id, path, changed_ns(path))


def _limit_memory() -> None:
    """Let allocations fail before the machine runs out of memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MEMORY_BYTES
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
