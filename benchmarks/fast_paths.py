"""The fast paths that ``python -m benchmarks --without NAME`` can switch off.

A fast path bypasses a general one with the same results. The server itself has no
switches: `benchmarks/hooks/sitecustomize.py` replaces names in modules as they are
imported, in every process of a run.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

__all__ = ["FAST_PATHS", "FastPath", "SwitchOff"]


class FastPath(NamedTuple):
    """A fast path, and how to switch it off.

    Attributes:
        module: The module of the fast path.
        switch_off: Changes this module after its import, so that callers use the
            general path.
        questions: The benchmarks that the fast path improves.
    """

    module: str
    switch_off: Callable[[Any], None]
    questions: tuple[str, ...]


def _replace(owner: Any, name: str, replacement: Any) -> None:
    """Set an existing attribute; raise if it does not exist, as after a rename."""
    getattr(owner, name)
    setattr(owner, name, replacement)


def _no_fast_frames(module: Any) -> None:
    client, host, missed = (
        module.FastClientFrames,
        module.FastHostFrames,
        module.MISSED,
    )
    _replace(client, "message", lambda *_: missed)
    _replace(client, "message_from_leaves", lambda *_: missed)
    _replace(client, "value", lambda *_: missed)
    _replace(client, "learn", lambda *_: None)
    _replace(host, "decode_request", lambda *_: None)
    _replace(host, "learn", lambda *_: None)


def _no_long_frames(module: Any) -> None:
    _replace(module, "_MAX_LONG", 0)


def _no_layouts(module: Any) -> None:
    _replace(module.Layouts, "learn", lambda *_: None)


def _no_generated_codec(module: Any) -> None:
    _replace(module, "fixed_reader", lambda signature, general: general)
    _replace(module, "fixed_writer", lambda signature: None)


def _no_fast_step(module: Any) -> None:
    _replace(module.FastStepper, "execute", lambda *_: False)


def _no_json_types(module: Any) -> None:
    _replace(module, "json_type", lambda space: None)


def _no_fast_routes(module: Any) -> None:
    # Flask's dispatch behind it has the same routes.
    routes = module.FastRoutes
    _replace(routes, "__call__", lambda self, *arguments: self.flask(*arguments))


def _no_fast_request(module: Any) -> None:
    _replace(module, "reads_fast", lambda cfg: False)


FAST_PATHS = {
    "fast-routes": FastPath(
        "gym_http_server.web.api.fast_routes", _no_fast_routes, ("rest_1",)
    ),
    "fast-request": FastPath(
        "gym_http_server.web.gunicorn_worker.fast_request",
        _no_fast_request,
        ("rest_1",),
    ),
    "fast-frames": FastPath(
        "gym_http_wire.fast_frames", _no_fast_frames, ("stream_same",)
    ),
    "long-frames": FastPath(
        "gym_http_wire.fast_frames", _no_long_frames, ("vector64_same",)
    ),
    "layouts": FastPath(
        "gym_http_wire.values.layouts", _no_layouts, ("vector64_ends",)
    ),
    "generated-codec": FastPath(
        "gym_http_wire.values.fixed", _no_generated_codec, ("stream_same",)
    ),
    "fast-step": FastPath(
        "gym_http_server.host.fast_step", _no_fast_step, ("stream_same",)
    ),
    "json-types": FastPath(
        "gym_http_wire.elements.json_types", _no_json_types, ("external",)
    ),
}


class SwitchOff(MetaPathFinder):
    """Switches a fast path off as soon as its module is imported.

    Args:
        path: The fast path.
    """

    def __init__(self, path: FastPath) -> None:
        self._path = path

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find the fast path's module, and change it once it has been executed."""
        if fullname != self._path.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec
        assert spec.loader
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._path.switch_off(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
