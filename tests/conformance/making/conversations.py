"""Conversations: what a server asks of a scripted environment, and what that says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from tests.conformance.making import Case
from tests.conformance.making.describing import described
from tests.conformance.making.forms import compact
from tests.conformance.making.models import Model, model_of
from tests.conformance.making.saying import DIALECTS, Side

_BOX = spaces.Box(0, 1, (2,), np.float32)
_THREE = spaces.Discrete(3)
_PLACES = spaces.Dict(
    {"place": spaces.Discrete(9), "seen": spaces.Box(0, 255, (2, 2), np.uint8)}
)
_LIMITS = {"max_message": 67_108_864}
_CAPABILITIES = ["options", "reset", "seed"]


def cases() -> Iterator[Case]:
    """Give all conversations, each in all dialects."""
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


class _Talk:
    """One conversation, as it goes on."""

    def __init__(
        self, dialect: str, name: str, observed: Space[Any], acted: Space[Any]
    ) -> None:
        self.case: Case = {
            "id": f"{dialect}-{name}",
            "kind": "conversation",
            "dialect": dialect,
            "observation_space": described(observed),
            "action_space": described(acted),
            "capabilities": list(_CAPABILITIES),
            "script": [],
            "messages": [],
        }
        self._dialect = dialect
        self._number = 0
        self.connect()

    @property
    def _messages(self) -> list[Case]:
        messages: list[Case] = self.case["messages"]
        return messages

    def connect(self, resume: str = "", *, resumed: bool = False, **more: Any) -> None:
        """Say hello, and be welcome."""
        self._server = Side(self._dialect)
        self._number = self._number if resumed else 0
        self._messages.append({"from": "environment", "hello": {"resume": resume}})
        told = {
            "type": "welcome",
            "protocol": 1,
            "connection": "c4d1e0f2",
            "resume": "a-token-to-go-on",
            "resumed": resumed,
            "heartbeat_s": 60,
            "grace_s": 30,
            "limits": _LIMITS,
            **more,
        }
        self.says({"text": compact(told)})

    def says(self, message: Case, **more: Any) -> None:
        """Have the server say something."""
        self._messages.append({"from": "server", **message, **more})

    def lose(self) -> None:
        """Lose the connection."""
        self._messages.append({"from": "nobody", "lost": True})

    def ask(self, kind: str, **given: Model) -> None:
        """Have the server ask something."""
        self._number += 1
        asks = {"type": kind, "id": self._number, "given": given}
        self.says(self._server.request(kind, self._number, given), asks=asks)

    def ask_again(self) -> None:
        """Have the server ask the same again, over this connection."""
        asks = next(m["asks"] for m in reversed(self._messages) if "asks" in m)
        number, kind, given = asks["id"], asks["type"], asks["given"]
        self.says(self._server.request(kind, number, given), asks=asks)

    def control(self, kind: str) -> None:
        """Have the server say ping or pong."""
        self.says(self._server.control(kind))

    def fault(self, message: str, field: str) -> None:
        """Have the server say what was wrong."""
        self.says(self._server.fault(message, self._number, field))

    def answers(self, **result: Model) -> None:
        """Have the environment answer."""
        told = {"id": self._number, "result": result}
        self._messages.append({"from": "environment", **told})

    def fails(self, message: str, code: str = "env-error") -> None:
        """Have the environment answer that it failed."""
        told = {"id": self._number, "error": {"code": code, "message": message}}
        self._messages.append({"from": "environment", **told})

    def replies(self, kind: str) -> None:
        """Have the environment say ping or pong."""
        self._messages.append({"from": "environment", "control": kind})

    def does(self, handler: str, **entry: Any) -> None:
        """Have the script go on."""
        self.case["script"].append({"handler": handler, **entry})

    def begin(self) -> None:
        """Make an instance."""
        self.ask("init", kwargs=model_of({}), render_mode=model_of(None))
        self.answers()

    def end(self) -> None:
        """Give it back."""
        self.ask("close")
        self.answers()

    def reset(
        self, observation: Any, seed: int | None = None, **options: Any
    ) -> dict[str, Model]:
        """Begin an episode."""
        asked = model_of(options) if options else model_of(None)
        gives = {"observation": model_of(observation), "info": model_of(options)}
        given = {"seed": model_of(seed), "options": model_of(options)}
        self.does("reset", **given, gives=gives)
        self.ask("reset", options=asked, seed=model_of(seed))
        self.answers(**gives)
        return gives

    def step(
        self, action: Any, observation: Any, reward: float, *flags: bool
    ) -> dict[str, Model]:
        """Take a step."""
        gives = outcome(observation, reward, *flags)
        self.does("step", action=model_of(action), gives=gives)
        self.ask("step", action=model_of(action))
        self.answers(**gives)
        return gives


def outcome(
    observation: Any, reward: Any, terminated: bool = False, truncated: bool = False
) -> dict[str, Model]:
    """Give what comes of a step."""
    return {
        "observation": model_of(observation),
        "reward": model_of(reward),
        "terminated": model_of(terminated),
        "truncated": model_of(truncated),
        "info": model_of({"note": "ok"}),
    }


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
    talk = _Talk(dialect, f"episode-{name}", observed, acted)
    talk.begin()
    talk.reset(seen[0], 5, level=3)
    talk.step(actions[0], seen[1], 0.5)
    talk.step(actions[1], seen[0], -1.0, True)
    talk.reset(seen[1])
    talk.step(actions[0], seen[1], 2.0, False, True)
    talk.reset(seen[0], 2**53 - 1)
    talk.end()
    return talk.case


def _begun(dialect: str, name: str) -> _Talk:
    talk = _Talk(dialect, name, _BOX, _THREE)
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
    talk = _Talk(dialect, name, _BOX, _THREE)
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
    talk = _Talk(dialect, "pings-and-faults", _BOX, _THREE)
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
    talk = _Talk(dialect, "members-unknown", _BOX, _THREE)
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
    talk = _Talk(dialect, "attributes", _BOX, _THREE)
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
