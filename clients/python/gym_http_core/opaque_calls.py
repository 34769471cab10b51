"""Calls of opaque spaces, whose classes alone know their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium import Space, spaces

from gym_http_core.env_errors import env_call
from gym_http_wire.elements import NotAnElement, under
from gym_http_wire.opaque import (
    METHODS,
    RemoteSpace,
    class_name,
    is_opaque,
    members,
    opaque_parts,
)
from gym_http_wire.problems import BadParameter

__all__ = ["call_part", "element_check", "names_of"]

Check = Callable[[Any], None]


def names_of(space: Space[Any]) -> str:
    """Name the classes of the opaque spaces in a space; empty if it has none."""
    return ", ".join(sorted({class_name(part) for _, part in opaque_parts(space)}))


def call_part(
    space: Space[Any], path: list[Any], method: str, args: list[Any], kwargs: Any
) -> Any:
    """Call `sample`, `contains` or `seed` of a space, or of a part of it.

    Args:
        space: The space.
        path: Keys and indices that lead to the part.
        method: Name of the method.
        args: Its arguments.
        kwargs: The same, by name.

    Raises:
        BadParameter: There is no such part or method.
        EnvError: The method raised an exception.
    """
    if method not in METHODS:
        raise BadParameter(
            f"method is {method!r:.80}: expected one of {', '.join(METHODS)}"
        )
    part = space
    for key in path:
        inner = dict(members(part))
        is_key = isinstance(key, str | int) and not isinstance(key, bool)
        if not is_key or key not in inner:
            raise BadParameter(
                f"path is {path!r:.200}: expected keys and indices, and in "
                f"{class_name(part)} one of {list(inner)!r:.200}"
            )
        part = inner[key]
    call = f"{method} of the space {class_name(part)}"
    return env_call(call, lambda: getattr(part, method)(*args, **kwargs))


def element_check(space: Space[Any]) -> Check | None:
    """Make the test of the opaque parts of a space's elements.

    Other parts are not tested: an environment may take values beyond its bounds.

    Returns:
        A function that raises `NotAnElement` if a part is not in its space, and
        `EnvError` if that space raises; ``None`` if there is nothing to test here.
    """
    parts = opaque_parts(space)
    if not parts or all(isinstance(part, RemoteSpace) for _, part in parts):
        # The process that has the space tests it.
        return None
    if is_opaque(space) or not isinstance(space, spaces.Dict | spaces.Tuple):
        return _whole_check(space)
    checks = [(key, element_check(inner)) for key, inner in members(space)]

    def check(value: Any) -> None:
        for key, test in checks:
            if test is None:
                continue
            try:
                part = value[key]
            except (TypeError, LookupError):
                # The environment decides about a value of another form.
                return
            under(key, test, part)

    return check


def _whole_check(space: Space[Any]) -> Check:
    name = names_of(space)

    def check(value: Any) -> None:
        call = f"contains of the space {name}"
        if not env_call(call, lambda: bool(space.contains(value))):
            raise NotAnElement(value, f"an element of {name}")

    return check
