"""Hellos of external environments: valid ones, and the reasons to refuse others."""

from collections.abc import Iterator
from typing import Any

from gymnasium import spaces

from tests.conformance.making import Case
from tests.conformance.making.describing import described
from tests.conformance.making.forms import compact

_SPACE = {"type": "Discrete", "n": 3}
HELLO = {
    "type": "hello",
    "protocol": 1,
    "name": "game",
    "observation_space": {"type": "Box", "low": 0, "high": 1, "shape": [2]},
    "action_space": _SPACE,
}
_DICT = spaces.Dict({"place": spaces.Discrete(5), "flags": spaces.MultiBinary(2)})
_WITHOUT = object()


def cases() -> Iterator[Case]:
    """Yield all hellos."""
    for name, changes in _welcome().items():
        yield {**_hello(f"hello-{name}", changes), "welcome": True}
    for name, (code, changes) in _refused().items():
        yield {**_hello(f"hello-refused-{name}", changes), "refused": code}
    for name, text in _no_objects().items():
        case = {"id": f"hello-refused-{name}", "kind": "hello", "text": text}
        yield {**case, "refused": "bad-hello"}


def _hello(name: str, changes: dict[str, Any]) -> Case:
    members = {**HELLO, **changes}
    kept = {key: item for key, item in members.items() if item is not _WITHOUT}
    return {"id": name, "kind": "hello", "text": compact(kept)}


def _welcome() -> dict[str, dict[str, Any]]:
    every = {
        "capabilities": ["reset", "seed", "options", "render", "replay"],
        "render_modes": ["ansi", "rgb_array"],
        "reward_channels": ["food", "pain"],
        "metadata": {"render_fps": 30, "author": None},
        "realtime": {"hz": 60},
        "dialect": "binary",
        "token": "",
        "resume": "",
        "replace": True,
    }
    return {
        "least": {},
        "every-member": every,
        "name-of-1": {"name": "7"},
        "name-of-64": {"name": "Sokoban_2.0-" + "x" * 52},
        "capability-unknown": {"capabilities": ["reset", "telepathy"]},
        "member-unknown": {"mood": "good"},
        "channels-null": {"reward_channels": None},
        "realtime-null": {"realtime": None},
        "realtime-fraction": {"realtime": {"hz": 0.5}},
        "dialect-json": {"dialect": "json"},
        "dialect-typed": {"dialect": "typed"},
        "resume-unknown": {"resume": "nobody-ever-told-this"},
        "space-dict": {"observation_space": described(_DICT)},
        "space-text": {"action_space": described(spaces.Text(8))},
    }


def _refused() -> dict[str, tuple[str, dict[str, Any]]]:
    many = [f"channel-{number}" for number in range(65)]
    return {
        "type-none": ("bad-hello", {"type": _WITHOUT}),
        "type-other": ("bad-hello", {"type": "hallo"}),
        "protocol-none": ("bad-hello", {"protocol": _WITHOUT}),
        "protocol-text": ("bad-hello", {"protocol": "1"}),
        "protocol-0": ("bad-protocol", {"protocol": 0}),
        "protocol-2": ("bad-protocol", {"protocol": 2}),
        "name-none": ("bad-hello", {"name": _WITHOUT}),
        "name-null": ("bad-hello", {"name": None}),
        "name-number": ("bad-hello", {"name": 1}),
        "name-empty": ("bad-hello", {"name": ""}),
        "name-begins-with-hyphen": ("bad-hello", {"name": "-game"}),
        "name-begins-with-dot": ("bad-hello", {"name": ".game"}),
        "name-of-65": ("bad-hello", {"name": "g" * 65}),
        "name-blank": ("bad-hello", {"name": "my game"}),
        "name-slash": ("bad-hello", {"name": "my/game"}),
        "name-line-end": ("bad-hello", {"name": "game\n"}),
        "name-letter-of-others": ("bad-hello", {"name": "gäme"}),
        "observation-none": ("bad-hello", {"observation_space": _WITHOUT}),
        "observation-word": ("bad-hello", {"observation_space": "Discrete"}),
        "observation-unknown": ("bad-space", {"observation_space": {"type": "Cube"}}),
        "action-none": ("bad-hello", {"action_space": _WITHOUT}),
        "action-empty": ("bad-space", {"action_space": {}}),
        "action-n-0": ("bad-space", {"action_space": {"type": "Discrete", "n": 0}}),
        "action-n-none": ("bad-space", {"action_space": {"type": "Discrete"}}),
        "capabilities-word": ("bad-hello", {"capabilities": "reset"}),
        "capabilities-numbers": ("bad-hello", {"capabilities": [1]}),
        "render-modes-word": ("bad-hello", {"render_modes": "ansi"}),
        "channels-empty": ("bad-hello", {"reward_channels": []}),
        "channels-twice": ("bad-hello", {"reward_channels": ["food", "food"]}),
        "channels-65": ("bad-hello", {"reward_channels": many}),
        "channels-blank": ("bad-hello", {"reward_channels": ["good food"]}),
        "metadata-list": ("bad-hello", {"metadata": []}),
        "realtime-number": ("bad-hello", {"realtime": 60}),
        "realtime-empty": ("bad-hello", {"realtime": {}}),
        "realtime-0": ("bad-hello", {"realtime": {"hz": 0}}),
        "realtime-negative": ("bad-hello", {"realtime": {"hz": -60}}),
        "realtime-text": ("bad-hello", {"realtime": {"hz": "60"}}),
        "dialect-unknown": ("bad-hello", {"dialect": "esperanto"}),
        "dialect-other-case": ("bad-hello", {"dialect": "JSON"}),
        "token-number": ("bad-hello", {"token": 1}),
        "resume-number": ("bad-hello", {"resume": 1}),
        "replace-number": ("bad-hello", {"replace": 1}),
        "replace-null": ("bad-hello", {"replace": None}),
    }


def _no_objects() -> dict[str, str]:
    return {
        "no-json": "hello",
        "empty": "",
        "list": "[]",
        "null": "null",
        "cut": compact(HELLO)[:-1],
        "two": compact(HELLO) * 2,
        "deep": '{"type":"hello","metadata":' + "[" * 2000 + "]" * 2000 + "}",
    }
