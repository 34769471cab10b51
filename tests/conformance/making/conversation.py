"""Builds one conversation, message by message."""

from __future__ import annotations

from typing import Any

from gymnasium import Space

from tests.conformance.making import Case
from tests.conformance.making.describing import described
from tests.conformance.making.external_messages import Side
from tests.conformance.making.forms import compact
from tests.conformance.making.models import Model, model_of

_LIMITS = {"max_message": 67_108_864}
_CAPABILITIES = ["options", "reset", "seed"]


class Talk:
    """A conversation under construction."""

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
        """Add a connection: a hello and its welcome."""
        self._server = Side(self._dialect)
        self._number = self._number if resumed else 0
        self._messages.append({"from": "environment", "hello": {"resume": resume}})
        fields = {
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
        self.send({"text": compact(fields)})

    def send(self, message: Case, **more: Any) -> None:
        """Add a message of the server."""
        self._messages.append({"from": "server", **message, **more})

    def lose(self) -> None:
        """Lose the connection."""
        self._messages.append({"from": "nobody", "lost": True})

    def request(self, kind: str, **given: Model) -> None:
        """Add a request of the server."""
        self._number += 1
        asks = {"type": kind, "id": self._number, "given": given}
        self.send(self._server.request(kind, self._number, given), asks=asks)

    def request_again(self) -> None:
        """Add the same request again, over this connection."""
        asks = next(m["asks"] for m in reversed(self._messages) if "asks" in m)
        number, kind, given = asks["id"], asks["type"], asks["given"]
        self.send(self._server.request(kind, number, given), asks=asks)

    def control(self, kind: str) -> None:
        """Add a ping or pong of the server."""
        self.send(self._server.control(kind))

    def fault(self, message: str, field: str) -> None:
        """Add a fault of the server."""
        self.send(self._server.fault(message, self._number, field))

    def answers(self, **result: Model) -> None:
        """Have the environment answer."""
        fields = {"id": self._number, "result": result}
        self._messages.append({"from": "environment", **fields})

    def fails(self, message: str, code: str = "env-error") -> None:
        """Have the environment answer that it failed."""
        fields = {"id": self._number, "error": {"code": code, "message": message}}
        self._messages.append({"from": "environment", **fields})

    def replies(self, kind: str) -> None:
        """Add a ping or pong of the environment."""
        self._messages.append({"from": "environment", "control": kind})

    def does(self, handler: str, **entry: Any) -> None:
        """Have the script go on."""
        self.case["script"].append({"handler": handler, **entry})

    def begin(self) -> None:
        """Make an instance."""
        self.request("init", kwargs=model_of({}), render_mode=model_of(None))
        self.answers()

    def end(self) -> None:
        """Add the end of the instance."""
        self.request("close")
        self.answers()

    def reset(
        self, observation: Any, seed: int | None = None, **options: Any
    ) -> dict[str, Model]:
        """Begin an episode."""
        request = model_of(options) if options else model_of(None)
        gives = {"observation": model_of(observation), "info": model_of(options)}
        given = {"seed": model_of(seed), "options": model_of(options)}
        self.does("reset", **given, gives=gives)
        self.request("reset", options=request, seed=model_of(seed))
        self.answers(**gives)
        return gives

    def step(
        self, action: Any, observation: Any, reward: float, *flags: bool
    ) -> dict[str, Model]:
        """Take a step."""
        gives = outcome(observation, reward, *flags)
        self.does("step", action=model_of(action), gives=gives)
        self.request("step", action=model_of(action))
        self.answers(**gives)
        return gives


def outcome(
    observation: Any, reward: Any, terminated: bool = False, truncated: bool = False
) -> dict[str, Model]:
    """Return the outcome of a step."""
    return {
        "observation": model_of(observation),
        "reward": model_of(reward),
        "terminated": model_of(terminated),
        "truncated": model_of(truncated),
        "info": model_of({"note": "ok"}),
    }
