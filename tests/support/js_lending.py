"""A process of Node's that lends an environment."""

import json
import os
import subprocess
from threading import Thread
from types import TracebackType
from typing import Any, Self

from tests.support.drivers import CLIENTS, needs
from tests.support.wait import wait_until


class Lending:
    """A process of Node's that lends, and tells what its handlers do."""

    def __init__(
        self,
        url: str,
        kind: str,
        dialect: str,
        token: str | None = None,
        transport: str = "websocket",
    ) -> None:
        needs("node")
        variables = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
        if token:
            variables["GHS_TOKEN"] = token
        self._process = subprocess.Popen(
            [
                "node",
                str(CLIENTS / "js/tests/lending.mjs"),
                url,
                "toy",
                kind,
                dialect,
                transport,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
            text=True,
        )
        self.told: list[dict[str, Any]] = []
        self._reading = Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reading.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._process.communicate("stop\n", timeout=20)
        finally:
            self._process.kill()
            self._reading.join()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.told.append(json.loads(line))

    def done(self, kind: str) -> list[dict[str, Any]]:
        """Give what its handlers of a kind did."""
        return [each for each in self.told if each.get("asked") == kind]

    def wait_for(self, words: str) -> None:
        """Wait until it logs a line with these words."""
        wait_until(
            lambda: any(words in each.get("log", "") for each in self.told),
            30.0,
            f"a line with {words!r}",
        )
