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
        for name, talk in _EPISODES.items():
            yield _episode(dialect, name, *talk)
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
    talk = Talk(dialect, f"episode-{name}", observed, acted)
    talk.begin()
    talk.reset(seen[0], 5, level=3)
    talk.step(actions[0], seen[1], 0.5)
    talk.step(actions[1], seen[0], -1.0, True)
    talk.reset(seen[1])
    talk.step(actions[0], seen[1], 2.0, False, True)
    talk.reset(seen[0], 2**53 - 1)
    talk.end()
    return talk.case


def _begun(dialect: str, name: str) -> Talk:
    talk = Talk(dialect, name, _BOX, _THREE)
    talk.begin()
    talk.reset(_at(0, 0))
    return talk


def _again(dialect: str) -> Case:
    talk = _begun(dialect, "asked-again")
    gives = talk.step(_go(1), _at(0.25, 0), 1.0)
    talk.ask_again()
    talk.answers(**gives)
    talk.step(_go(2), _at(0.5, 0), 2.0)
    talk.end()
    return talk.case


def _over_another_connection(dialect: str) -> Case:
    talk = _begun(dialect, "asked-again-over-another-connection")
    gives = talk.step(_go(1), _at(0.25, 0), 1.0)
    talk.lose()
    talk.connect("a-token-to-go-on", resumed=True)
    talk.ask_again()
    talk.answers(**gives)
    talk.step(_go(2), _at(0.5, 0), 2.0)
    talk.end()
    return talk.case


def _forgotten(dialect: str) -> Case:
    talk = _begun(dialect, "forgotten-by-the-server")
    talk.lose()
    talk.connect("a-token-to-go-on", resumed=False)
    # These IDs it has answered before, to a server that knows nothing of it.
    talk.begin()
    talk.reset(_at(1, 1), 7)
    talk.end()
    return talk.case


def _raised(dialect: str) -> Case:
    talk = _begun(dialect, "raised")
    words = "the crate is stuck"
    talk.does("step", action=model_of(_go(1)), raises=words)
    talk.ask("step", action=model_of(_go(1)))
    talk.fails(words)
    talk.ask_again()
    talk.fails(words)
    talk.reset(_at(0.5, 0.5))
    talk.end()
    return talk.case


def _rendered(dialect: str, name: str, mode: str, frame: Any) -> Case:
    talk = Talk(dialect, name, _BOX, _THREE)
    talk.case["capabilities"].append("render")
    talk.case["render_mode"] = mode
    talk.ask("init", kwargs=model_of({}), render_mode=model_of(mode))
    talk.answers()
    talk.reset(_at(0, 0))
    talk.does("render", gives={"rendered": model_of(frame)})
    talk.ask("render")
    talk.answers(rendered=model_of(frame))
    talk.end()
    return talk.case


def _rendered_text(dialect: str) -> Case:
    return _rendered(dialect, "rendered-text", "ansi", "#..\n.\u00f6.")


def _rendered_picture(dialect: str) -> Case:
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    return _rendered(dialect, "rendered-picture", "rgb_array", picture)


def _controls(dialect: str) -> Case:
    talk = Talk(dialect, "pings-and-faults", _BOX, _THREE)
    talk.control("ping")
    talk.replies("pong")
    talk.begin()
    talk.control("pong")
    talk.fault("observation is odd", "observation")
    talk.reset(_at(0, 1))
    talk.control("ping")
    talk.replies("pong")
    talk.end()
    return talk.case


def _many_agents(dialect: str) -> Case:
    talk = _begun(dialect, "one-agent-after-the-other")
    talk.end()
    # Signatures are numbered anew, IDs go on.
    talk.begin()
    talk.reset(_at(0, 1))
    talk.step(_go(0), _at(1, 1), 0.5)
    talk.end()
    return talk.case


def _members_unknown(dialect: str) -> Case:
    talk = Talk(dialect, "members-unknown", _BOX, _THREE)
    talk.lose()
    talk.connect("a-token-to-go-on", resumed=False, mood={"is": "good"})
    talk.begin()
    gives = {"observation": model_of(_at(0, 0)), "info": model_of({})}
    talk.does("reset", seed=model_of(1), options=model_of({}), gives=gives)
    unknown = {"since": model_of("today")}
    talk.ask("reset", options=model_of(None), seed=model_of(1), **unknown)
    talk.answers(**gives)
    talk.end()
    return talk.case


def _attributes(dialect: str) -> Case:
    talk = Talk(dialect, "attributes", _BOX, _THREE)
    talk.case["capabilities"].append("attributes")
    talk.case["attributes"] = {"level": model_of(3), "secret": model_of("x")}
    talk.begin()
    talk.ask("describe")
    talk.answers(render_mode=model_of(None), spec=model_of(None))
    talk.ask("attribute", name=model_of("level"))
    talk.answers(callable=model_of(False), value=model_of(3))
    given = {"force": model_of(True), "name": model_of("level"), "value": model_of(4)}
    talk.ask("set_attribute", **given)
    talk.answers(set=model_of(True))
    talk.ask("attribute", name=model_of("level"))
    talk.answers(callable=model_of(False), value=model_of(4))
    given = {"force": model_of(False), "name": model_of("no"), "value": model_of(4)}
    talk.ask("set_attribute", **given)
    talk.answers(set=model_of(False))
    talk.ask("attribute", name=model_of("no"))
    talk.fails("no", "no-attribute")
    talk.ask("attribute", name=model_of("_secret"))
    talk.fails("private", "no-attribute")
    talk.ask("attribute", name=model_of("join"))
    talk.answers(callable=model_of(True))
    args, kwargs = model_of(["a", 2]), model_of({"end": "!"})
    talk.does("join", args=args, kwargs=kwargs, gives={"value": model_of("a2!")})
    talk.ask("call_attribute", args=args, kwargs=kwargs, name=model_of("join"))
    talk.answers(value=model_of("a2!"))
    talk.end()
    return talk.case
