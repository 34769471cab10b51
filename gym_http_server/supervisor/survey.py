"""Which environments can be made here, and why not the others.

An environment can be made if its entry point can be loaded. Loading imports heavy
libraries that may start threads, so the survey runs in a child of its own.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import warnings
from typing import Any

import msgspec
from gymnasium.envs import registration

__all__ = ["start_survey", "survey"]


def start_survey(modules: tuple[str, ...]) -> tuple[int, int]:
    """Let a child make the survey.

    Returns:
        The child's process ID, and the descriptor from which to read the survey.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(survey(modules))
    finally:
        os._exit(0)


def survey(modules: tuple[str, ...]) -> bytes:
    """List every registered environment, as JSON.

    Args:
        modules: Modules to import before.

    Returns:
        A list of objects with ``env_id``, ``available``, ``reason``,
        ``entry_point`` and ``max_episode_steps``, sorted by ID.
    """
    reasons: dict[str, str | None] = {}
    rows = []
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for module in modules:
            __import__(module)
        for env_id, spec in sorted(registration.registry.items()):
            entry = spec.entry_point or spec.vector_entry_point
            name = _name(entry)
            if name not in reasons:
                reasons[name] = _reason(entry)
            rows.append(
                {
                    "available": reasons[name] is None,
                    "entry_point": name,
                    "env_id": env_id,
                    "max_episode_steps": spec.max_episode_steps,
                    "reason": reasons[name],
                }
            )
    return msgspec.json.encode(rows)


def _name(entry: Any) -> str:
    if isinstance(entry, str) or entry is None:
        return str(entry)
    return f"{entry.__module__}:{getattr(entry, '__qualname__', type(entry).__name__)}"


def _reason(entry: Any) -> str | None:
    try:
        if isinstance(entry, str):
            registration.load_env_creator(entry)
        elif getattr(entry, "__name__", "").startswith("_raise"):
            # Gymnasium registers what has moved away with functions that raise.
            entry()
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"[:500]
    return None
