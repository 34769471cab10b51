"""Keys with which a person plays an environment.

Keys are named as browsers name them, by their place: ``KeyboardEvent.code`` of the
W3C's UI Events. An environment's ``get_keys_to_action`` comes before the table below,
since of Gymnasium's own environments only MountainCar and those of the ALE have one.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

__all__ = ["describe_keys"]

Json = dict[str, Any]

_FPS = 30.0
_MOST_FPS = 1000.0
_MOST_KEYS = 256
# By the code that pygame and others have for a key: that of its character.
_CODES = {
    " ": "Space",
    "\r": "Enter",
    "\t": "Tab",
    "\x1b": "Escape",
    **{letter: f"Key{letter.upper()}" for letter in string.ascii_lowercase},
    **{digit: f"Digit{digit}" for digit in string.digits},
}
# Arrow keys of pygame 1 and of pygame 2.
_NUMBERS = {
    273: "ArrowUp",
    274: "ArrowDown",
    275: "ArrowRight",
    276: "ArrowLeft",
    0x4000004F: "ArrowRight",
    0x40000050: "ArrowLeft",
    0x40000051: "ArrowDown",
    0x40000052: "ArrowUp",
}
_LEFT, _RIGHT, _UP, _DOWN = "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"
_TURNS = {_LEFT: 0, _DOWN: 1, _RIGHT: 2, _UP: 3}
# By the name of an environment: actions by keys, the action without a key, and whether
# to wait for a key.
_TABLE: dict[str, tuple[dict[str, Any], Any, bool]] = {
    "FrozenLake": (_TURNS, None, True),
    "FrozenLake8x8": (_TURNS, None, True),
    "CliffWalking": ({_UP: 0, _RIGHT: 1, _DOWN: 2, _LEFT: 3}, None, True),
    "CliffWalkingSlippery": ({_UP: 0, _RIGHT: 1, _DOWN: 2, _LEFT: 3}, None, True),
    "Taxi": (
        {_DOWN: 0, _UP: 1, _RIGHT: 2, _LEFT: 3, "KeyP": 4, "Space": 4, "KeyD": 5},
        None,
        True,
    ),
    "Blackjack": ({"KeyS": 0, "KeyH": 1, "Space": 1}, None, True),
    "CartPole": ({_LEFT: 0, _RIGHT: 1}, 0, False),
    "Acrobot": ({_LEFT: 0, _RIGHT: 2}, 1, False),
    "MountainCarContinuous": ({_LEFT: [-1.0], _RIGHT: [1.0]}, [0.0], False),
    "Pendulum": ({_LEFT: [2.0], _RIGHT: [-2.0]}, [0.0], False),
    "LunarLander": ({_LEFT: 1, _UP: 2, _RIGHT: 3}, 0, False),
    "LunarLanderContinuous": (
        {_LEFT: [0.0, -1.0], _UP: [1.0, 0.0], _RIGHT: [0.0, 1.0]},
        [0.0, 0.0],
        False,
    ),
    "CarRacing": (
        {
            _LEFT: [-1.0, 0.0, 0.0],
            _RIGHT: [1.0, 0.0, 0.0],
            _UP: [0.0, 1.0, 0.0],
            _DOWN: [0.0, 0.0, 0.8],
        },
        [0.0, 0.0, 0.0],
        False,
    ),
    "CarRacingDiscrete": ({_RIGHT: 1, _LEFT: 2, _UP: 3, _DOWN: 4}, 0, False),
    "BipedalWalker": (
        {
            "KeyQ": [1.0, 0.0, 0.0, 0.0],
            "KeyA": [-1.0, 0.0, 0.0, 0.0],
            "KeyW": [0.0, 1.0, 0.0, 0.0],
            "KeyS": [0.0, -1.0, 0.0, 0.0],
            "KeyE": [0.0, 0.0, 1.0, 0.0],
            "KeyD": [0.0, 0.0, -1.0, 0.0],
            "KeyR": [0.0, 0.0, 0.0, 1.0],
            "KeyF": [0.0, 0.0, 0.0, -1.0],
        },
        [0.0, 0.0, 0.0, 0.0],
        False,
    ),
}
# Of two arrow keys that are held: actions of both, where they can be added.
_CHORDS = ((_LEFT, _UP), (_RIGHT, _UP), (_LEFT, _DOWN), (_RIGHT, _DOWN))


def describe_keys(env: Any) -> Json:
    """Describe the keys of an environment.

    Returns:
        ``keys``: a list with ``keys``, names that are held together, and ``action``,
        as plain JSON; ``None`` if there are no keys. ``noop``: the action without a
        key, or ``None``. ``wait``: whether to wait for a key. ``fps``: steps a second.
    """
    fps = _fps(env)
    nothing: Json = {"fps": fps, "keys": None, "noop": None, "wait": False}
    if isinstance(env, VectorEnv):
        return nothing
    try:
        found = _of_env(env)
    except Exception:
        # It is a method of the environment, which may do anything.
        found = None
    if found is None:
        found = _of_table(env)
    return nothing if found is None else nothing | found


def _fps(env: Any) -> float:
    try:
        fps = float((env.metadata or {}).get("render_fps") or _FPS)
    except (AttributeError, TypeError, ValueError):
        return _FPS
    return fps if 0 < fps <= _MOST_FPS else _FPS


def _of_env(env: Any) -> Json | None:
    """Return the keys that the environment names itself."""
    method = env.get_wrapper_attr("get_keys_to_action")
    pairs: dict[tuple[str, ...], Any] = {}
    noop = None
    for keys, action in list(method().items())[:_MOST_KEYS]:
        names = _names(keys)
        if names is None:
            continue
        if names:
            pairs[names] = _plain(action)
        else:
            noop = _plain(action)
    if not pairs:
        return None
    if noop is None and hasattr(env.action_space, "n"):
        noop = int(getattr(env.action_space, "start", 0))
    return {"keys": _listed(pairs), "noop": noop, "wait": noop is None}


def _names(keys: Any) -> tuple[str, ...] | None:
    """Return the names of keys that are held together; ``None`` if one is unknown."""
    if keys is None:
        return ()
    given = keys if isinstance(keys, str | tuple | list) else (keys,)
    names = [_name(each) for each in given]
    return None if None in names else tuple(sorted(each for each in names if each))


def _name(key: Any) -> str | None:
    if isinstance(key, str):
        return _CODES.get(key.lower())
    if isinstance(key, int | np.integer):
        number = int(key)
        if number in _NUMBERS:
            return _NUMBERS[number]
        return _CODES.get(chr(number).lower()) if 0 <= number < 128 else None
    return None


def _of_table(env: Any) -> Json | None:
    spec = env.spec
    if spec is None or spec.namespace is not None:
        return None
    name = spec.name
    kwargs = spec.kwargs or {}
    if name == "LunarLander" and kwargs.get("continuous"):
        name = "LunarLanderContinuous"
    if name == "CarRacing" and kwargs.get("continuous") is False:
        name = "CarRacingDiscrete"
    if name == "BipedalWalkerHardcore":
        name = "BipedalWalker"
    found = _TABLE.get(name)
    if found is None:
        return None
    single, noop, waits = found
    pairs: dict[tuple[str, ...], Any] = {
        (key,): action for key, action in single.items()
    }
    if isinstance(noop, list):
        for chord in _CHORDS:
            if all(key in single for key in chord):
                both = np.add(*(single[key] for key in chord)).tolist()
                pairs[tuple(sorted(chord))] = both
    return {"keys": _listed(pairs), "noop": noop, "wait": waits}


def _listed(pairs: dict[tuple[str, ...], Any]) -> list[Json]:
    return [{"keys": list(names), "action": action} for names, action in pairs.items()]


def _plain(action: Any) -> Any:
    return action.tolist() if hasattr(action, "tolist") else action
