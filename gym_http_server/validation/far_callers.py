"""External environments that fetch requests by HTTP, and post their answers."""

from __future__ import annotations

import time

from gym_http_server.validation.checks import equal
from gym_http_server.validation.external_env import (
    PATH,
    PATIENCE_S,
    AnyExternalEnv,
    Json,
    hello_of,
)
from gym_http_server.validation.target import Target

__all__ = ["PollingEnv"]

#: Seconds that a request waits for what is asked.
LOOK_S = 5


class PollingEnv(AnyExternalEnv):
    """One that calls by HTTP."""

    def __init__(self, target: Target) -> None:
        hello = hello_of()
        super().__init__(target, hello["name"])
        answer = target.post(PATH, hello)
        target.needs("external", answer)
        equal(answer.status, 200, "status of a hello")
        self.welcome = answer.json()
        self.path = f"{PATH}{self.welcome['connection']}/"

    def hear(self) -> dict[str, Json]:
        """Fetch what the server asks."""
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.target.get(f"{self.path}request?wait_s={LOOK_S}")
            if answer.status != 204 or time.monotonic() > until:
                break
        equal(answer.status, 200, "status of what is fetched")
        told: dict[str, Json] = answer.json()
        return told

    def say(self, message: dict[str, Json]) -> None:
        """Post an answer."""
        answer = self.target.post(f"{self.path}answer", message)
        equal(answer.status, 204, "status of an answer")
