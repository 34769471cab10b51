"""Plays conversations of the vectors with a scripted environment, without a network."""

import threading
from collections.abc import Callable
from typing import Any

import gymnasium

from gym_http_client.serving.connections import ConnectionLost, SocketConnection
from gym_http_client.serving.provided_env import ProvidedEnv
from gym_http_client.serving.provider import Provider
from gym_http_wire.external.framing import ReceivedMessage
from gym_http_wire.space_parsing import parse_space
from tests.clients.python.exact_json import loosened
from tests.conformance.making.models import model_of, native_of

Case = dict[str, Any]
_DIALECTS = {"typed", "binary"}


def can_converse(case: Case) -> bool:
    """Return whether the client supports this conversation."""
    return case["kind"] == "conversation" and case["dialect"] in _DIALECTS


def serve_conversation(case: Case, send_out: Callable[[str], object]) -> None:
    """Play a conversation.

    Args:
        case: The case.
        send_out: Called with each message of the environment.
    """
    stopped = threading.Event()
    messages = list(case["messages"])
    provider = Provider(
        ProvidedEnv(_Scripted(case), None),
        lambda: _Line(messages, send_out, stopped),
        name="scripted",
        token="",
        dialect=case["dialect"],
        replace=False,
        stopped=stopped,
        on_taken=lambda: None,
        on_free=lambda: None,
    )
    provider.run()


class _Line(SocketConnection):
    """A connection that leads nowhere."""

    def __init__(
        self,
        messages: list[Case],
        send_out: Callable[[str], object],
        end: threading.Event,
    ) -> None:
        self._messages = messages
        self._send_out = send_out
        self._stopped = end

    def send(self, payload: bytes, *, text: bool) -> None:
        self._send_out(f"text\t{payload.decode()}" if text else f"hex\t{payload.hex()}")
        if self._messages and self._messages[0]["from"] == "environment":
            del self._messages[0]

    def receive(self, seconds: float | None) -> ReceivedMessage | None:
        if not self._messages or self._messages[0]["from"] == "environment":
            # That was all, or there should have been an answer.
            self._stopped.set()
            return None
        message = self._messages.pop(0)
        if message["from"] == "nobody":
            raise ConnectionLost("the connection was lost")
        if "text" in message:
            return ReceivedMessage(message["text"].encode(), True)
        return ReceivedMessage(bytes.fromhex(message["hex"]), False)

    def close(self) -> None:
        pass


class _Scripted(gymnasium.Env[Any, Any]):
    """An environment that follows a script."""

    def __init__(self, case: Case) -> None:
        self.observation_space = parse_space(case["observation_space"])
        self.action_space = parse_space(case["action_space"])
        self.render_mode = case.get("render_mode")
        self.metadata = {"render_modes": [self.render_mode] if self.render_mode else []}
        self._script = list(case["script"])
        for name, model in case.get("attributes", {}).items():
            setattr(self, name, native_of(model))
        for entry in self._script:
            if "kwargs" in entry:
                setattr(self, entry["handler"], self._method(entry["handler"]))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        gives = self._next("reset", seed=seed, options=options or {})
        return gives["observation"], gives["info"]

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        gives = self._next("step", action=action)
        names = ("observation", "reward", "terminated", "truncated", "info")
        observation, reward, terminated, truncated, info = (gives[n] for n in names)
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        return self._next("render")["rendered"]

    def _method(self, name: str) -> Callable[..., Any]:
        def method(*args: Any, **kwargs: Any) -> Any:
            return self._next(name, args=list(args), kwargs=kwargs)["value"]

        return method

    def _next(self, handler: str, **request: Any) -> dict[str, Any]:
        entry = self._script.pop(0) if self._script else {"handler": "nothing"}
        if entry["handler"] != handler:
            raise ValueError(f"{handler} was asked, and not {entry['handler']}")
        for name, value in request.items():
            if loosened(model_of(value)) != loosened(entry[name]):
                raise ValueError(f"{name} is {value!r}: expected {entry[name]}")
        if "raises" in entry:
            raise ValueError(entry["raises"])
        return {name: native_of(model) for name, model in entry["gives"].items()}
