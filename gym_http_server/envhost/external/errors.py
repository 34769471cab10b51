"""Errors that an environment elsewhere reports, as the agent is told of them."""

from __future__ import annotations

from typing import Any

from gym_http_core.env_errors import shortened
from gym_http_wire.problems import (
    BadParameter,
    EnvError,
    InvalidAction,
    NoAttribute,
    NoRenderMode,
    Problem,
    ResetNeeded,
    Unsupported,
)

__all__ = ["problem_of_error"]

#: What an environment may say of itself that leaves it as it was.
_SOFT: dict[str, type[Problem]] = {
    "bad-parameter": BadParameter,
    "invalid-action": InvalidAction,
    "no-attribute": NoAttribute,
    "no-render-mode": NoRenderMode,
    "reset-needed": ResetNeeded,
    "unsupported": Unsupported,
}
_EXTRAS = ("arguments", "error_type", "mro", "text")


def problem_of_error(error: dict[str, Any]) -> Problem:
    """Give what the agent is told: an `EnvError`, unless nothing was harmed."""
    words = str(error.get("message", "it failed"))
    soft = _SOFT.get(str(error.get("code")))
    if soft is not None:
        return soft(words)
    told = error.get("extras")
    given = told if isinstance(told, dict) else {}
    extras = {name: given[name] for name in _EXTRAS if name in given}
    if isinstance(given.get("traceback"), str):
        extras["traceback"] = shortened(given["traceback"])
    return EnvError(words, extras=extras)
