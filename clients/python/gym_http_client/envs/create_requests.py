"""Create requests of remote environments, as JSON or in the binary form."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np

from gym_http_wire.messages import MEDIA_TYPES, Form
from gym_http_wire.values import UnsupportedValue, binary
from gym_http_wire.values.treewriting import TAG, write

__all__ = ["as_json", "body_of", "create_request", "merged"]

_TYPED = ("kwargs", "vector_kwargs", "wrappers")
#: Longer bodies are in the binary form, if arguments are no plain JSON. Servers that do
#: not read it refuse them in any form.
_MAX_TYPED_BYTES = 16 * 1024
# The meaning of these names for the server, to show beside `env_kwargs`.
_OWN: dict[str, tuple[type | tuple[type, ...], str]] = {
    "label": (str, "text, which lists of instances show"),
    "node": (str, "the name of a server of a fleet"),
    "wait_s": ((int, float, np.number), "seconds to wait for an external environment"),
    "wrappers": ((list, tuple), "a list of Gymnasium's wrappers"),
}


def merged(kwargs: dict[str, Any], env_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return all arguments of an environment.

    Args:
        kwargs: Those that were given by name.
        env_kwargs: Those that were given as a dict.

    Raises:
        TypeError: An argument is among both, or ``env_kwargs`` is no dict.
    """
    if env_kwargs is None:
        return kwargs
    if not isinstance(env_kwargs, dict):
        raise TypeError(
            f"env_kwargs is {env_kwargs!r:.80}: expected a dict of arguments"
        )
    if twice := sorted(kwargs.keys() & env_kwargs.keys()):
        raise TypeError(
            f"{', '.join(twice)}: given by name and in env_kwargs, expected in one of "
            "them"
        )
    return {**kwargs, **env_kwargs}


def create_request(
    env_id: str, options: dict[str, Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return a create request, with exact arguments.

    Args:
        env_id: The env ID.
        options: Members of the request, such as ``wrappers``.
        kwargs: Keyword arguments of the environment.

    Raises:
        TypeError: A member cannot be sent, or is of another type.
    """
    for name, (kind, meaning) in _OWN.items():
        value = options.get(name)
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"{name} is {value!r:.80}: expected {meaning}; an argument of the "
                f"environment goes into env_kwargs={{{name!r}: …}}"
            )
    for each in options.get("wrappers") or ():
        if isinstance(each, type):
            raise TypeError(
                f"wrappers has the class {each.__name__}: expected names of "
                "Gymnasium's wrappers; classes go around the environment, as "
                f"{each.__name__}(env)"
            )
    # Refuse a retired version, as gymnasium.make does.
    request = {"env_id": env_id, "exact_id": True, **options, "kwargs": kwargs}
    for name, value in request.items():
        if name not in _TYPED and value is not None:
            request[name] = _plain(name, value)
        elif isinstance(value, tuple):
            request[name] = list(value)
    return request


def as_json(request: dict[str, Any]) -> dict[str, Any]:
    """Return a create request as JSON, with typed JSON where arguments need it.

    Raises:
        UnsupportedValue: An argument cannot be sent.
    """
    written = dict(request)
    for name in _TYPED:
        if written.get(name) is not None:
            try:
                written[name] = write(written[name])
            except UnsupportedValue as error:
                error.root = name
                raise
    if any(f'"{TAG}"' in json.dumps(written.get(name)) for name in _TYPED):
        # Only if it is needed: not all servers know this member.
        written["typed"] = True
    return written


def body_of(request: dict[str, Any]) -> tuple[bytes, str]:
    """Return the body of a create request, and its media type.

    Raises:
        UnsupportedValue: An argument cannot be sent.
    """
    written = as_json(request)
    body = json.dumps(written, allow_nan=False).encode()
    if len(body) <= _MAX_TYPED_BYTES or "typed" not in written:
        return body, MEDIA_TYPES[Form.PLAIN]
    with contextlib.suppress(UnsupportedValue):
        return binary.encode(request), MEDIA_TYPES[Form.BINARY]
    # A long list of numbers has more parts than a signature.
    return body, MEDIA_TYPES[Form.PLAIN]


def _plain(name: str, value: Any) -> Any:
    """Return a member of a create request as JSON."""
    value = value.item() if isinstance(value, np.generic) else value
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is {value!r:.80}, which cannot be sent: {error}"
        ) from None
    return value
