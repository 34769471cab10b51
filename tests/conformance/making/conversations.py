"""Conversations between a server and a scripted environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from tests.conformance.making import Case
from tests.conformance.making.conversation import Talk
from tests.conformance.making.external_messages import DIALECTS
from tests.conformance.making.models import model_of

_BOX = spaces.Box(0, 1, (2,), np.float32)
_THREE = spaces.Discrete(3)
_PLACES = spaces.Dict(
    {"place": spaces.Discrete(9), "seen": spaces.Box(0, 255, (2, 2), np.uint8)}
)


def cases() -> Iterator[Case]:
    """Yield all conversations, each in all dialects."""
    for dialect in DIALECTS:
        for name, conversation in _EPISODES.items():
            yield _episode(dialect, name, *conversation)
        for make in (
            _again,
            _over_another_connection,
            _forgotten,
            _raised,
            _rendered_text,
            _rendered_picture,
            _controls,
            _many_agents,
            _attributes,
        ):
            yield make(dialect)
        if dialect != "binary":
            yield _members_unknown(dialect)


def _at(*place: float) -> Any:
    return np.array(place, np.float32)


def _go(action: int) -> Any:
    return np.int64(action)


def _there(place: int) -> Any:
    seen = np.array([[place, 0], [255, 1]], np.uint8)
    return {"place": np.int64(place), "seen": seen}


_PUSH = spaces.Box(-1, 1, (2,), np.float32)
_PAIR = spaces.MultiDiscrete([3, 2])
_EPISODES = {
    "box": (_BOX, _THREE, [_at(0, 0.25), _at(0.5, 1)], [_go(2), _go(0)]),
    "discrete": (_THREE, _THREE, [_go(1), _go(2)], [_go(0), _go(2)]),
    "dict": (_PLACES, _PUSH, [_there(3), _there(8)], [_at(-1, 0.5), _at(0, 1)]),
    "pair": (
        *(spaces.MultiBinary(3), _PAIR),
        [np.array([1, 0, 1], np.int8), np.array([0, 0, 1], np.int8)],
        [np.array([2, 1]), np.array([0, 0])],
    ),
}


def _episode(
    dialect: str,
    name: str,
    observed: Space[Any],
    acted: Space[Any],
    seen: list[Any],
    actions: list[Any],
) -> Case:
    conversation = Talk(dialect, f"episode-{name}", observed, acted)
    conversation.begin()
    conversation.reset(seen[0], 5, level=3)
    conversation.step(actions[0], seen[1], 0.5)
    conversation.step(actions[1], seen[0], -1.0, True)
    conversation.reset(seen[1])
    conversation.step(actions[0], seen[1], 2.0, False, True)
    conversation.reset(seen[0], 2**53 - 1)
    conversation.end()
    return conversation.case


def _begun(dialect: str, name: str) -> Talk:
    conversation = Talk(dialect, name, _BOX, _THREE)
    conversation.begin()
    conversation.reset(_at(0, 0))
    return conversation


def _again(dialect: str) -> Case:
    conversation = _begun(dialect, "asked-again")
    gives = conversation.step(_go(1), _at(0.25, 0), 1.0)
    conversation.request_again()
    conversation.answers(**gives)
    conversation.step(_go(2), _at(0.5, 0), 2.0)
    conversation.end()
    return conversation.case


def _over_another_connection(dialect: str) -> Case:
    conversation = _begun(dialect, "asked-again-over-another-connection")
    gives = conversation.step(_go(1), _at(0.25, 0), 1.0)
    conversation.lose()
    conversation.connect("a-token-to-go-on", resumed=True)
    conversation.request_again()
    conversation.answers(**gives)
    conversation.step(_go(2), _at(0.5, 0), 2.0)
    conversation.end()
    return conversation.case


def _forgotten(dialect: str) -> Case:
    conversation = _begun(dialect, "forgotten-by-the-server")
    conversation.lose()
    conversation.connect("a-token-to-go-on", resumed=False)
    # These IDs it has answered before, to a server that knows nothing of it.
    conversation.begin()
    conversation.reset(_at(1, 1), 7)
    conversation.end()
    return conversation.case


def _raised(dialect: str) -> Case:
    conversation = _begun(dialect, "raised")
    words = "the crate is stuck"
    conversation.does("step", action=model_of(_go(1)), raises=words)
    conversation.request("step", action=model_of(_go(1)))
    conversation.fails(words)
    conversation.request_again()
    conversation.fails(words)
    conversation.reset(_at(0.5, 0.5))
    conversation.end()
    return conversation.case


def _rendered(dialect: str, name: str, mode: str, frame: Any) -> Case:
    conversation = Talk(dialect, name, _BOX, _THREE)
    conversation.case["capabilities"].append("render")
    conversation.case["render_mode"] = mode
    conversation.request("init", kwargs=model_of({}), render_mode=model_of(mode))
    conversation.answers()
    conversation.reset(_at(0, 0))
    conversation.does("render", gives={"rendered": model_of(frame)})
    conversation.request("render")
    conversation.answers(rendered=model_of(frame))
    conversation.end()
    return conversation.case


def _rendered_text(dialect: str) -> Case:
    return _rendered(dialect, "rendered-text", "ansi", "#..\n.\u00f6.")


def _rendered_picture(dialect: str) -> Case:
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    return _rendered(dialect, "rendered-picture", "rgb_array", picture)


def _controls(dialect: str) -> Case:
    conversation = Talk(dialect, "pings-and-faults", _BOX, _THREE)
    conversation.control("ping")
    conversation.replies("pong")
    conversation.begin()
    conversation.control("pong")
    conversation.fault("observation is odd", "observation")
    conversation.reset(_at(0, 1))
    conversation.control("ping")
    conversation.replies("pong")
    conversation.end()
    return conversation.case


def _many_agents(dialect: str) -> Case:
    conversation = _begun(dialect, "one-agent-after-the-other")
    conversation.end()
    # Signatures are numbered anew, IDs go on.
    conversation.begin()
    conversation.reset(_at(0, 1))
    conversation.step(_go(0), _at(1, 1), 0.5)
    conversation.end()
    return conversation.case


def _members_unknown(dialect: str) -> Case:
    conversation = Talk(dialect, "members-unknown", _BOX, _THREE)
    conversation.lose()
    conversation.connect("a-token-to-go-on", resumed=False, mood={"is": "good"})
    conversation.begin()
    gives = {"observation": model_of(_at(0, 0)), "info": model_of({})}
    conversation.does("reset", seed=model_of(1), options=model_of({}), gives=gives)
    unknown = {"since": model_of("today")}
    conversation.request("reset", options=model_of(None), seed=model_of(1), **unknown)
    conversation.answers(**gives)
    conversation.end()
    return conversation.case


def _attributes(dialect: str) -> Case:
    conversation = Talk(dialect, "attributes", _BOX, _THREE)
    conversation.case["capabilities"].append("attributes")
    conversation.case["attributes"] = {"level": model_of(3), "secret": model_of("x")}
    conversation.begin()
    conversation.request("describe")
    conversation.answers(render_mode=model_of(None), spec=model_of(None))
    conversation.request("attribute", name=model_of("level"))
    conversation.answers(callable=model_of(False), value=model_of(3))
    given = {"force": model_of(True), "name": model_of("level"), "value": model_of(4)}
    conversation.request("set_attribute", **given)
    conversation.answers(set=model_of(True))
    conversation.request("attribute", name=model_of("level"))
    conversation.answers(callable=model_of(False), value=model_of(4))
    given = {"force": model_of(False), "name": model_of("no"), "value": model_of(4)}
    conversation.request("set_attribute", **given)
    conversation.answers(set=model_of(False))
    conversation.request("attribute", name=model_of("no"))
    conversation.fails("no", "no-attribute")
    conversation.request("attribute", name=model_of("_secret"))
    conversation.fails("private", "no-attribute")
    conversation.request("attribute", name=model_of("join"))
    conversation.answers(callable=model_of(True))
    args, kwargs = model_of(["a", 2]), model_of({"end": "!"})
    conversation.does(
        "join", args=args, kwargs=kwargs, gives={"value": model_of("a2!")}
    )
    conversation.request(
        "call_attribute", args=args, kwargs=kwargs, name=model_of("join")
    )
    conversation.answers(value=model_of("a2!"))
    conversation.end()
    return conversation.case
