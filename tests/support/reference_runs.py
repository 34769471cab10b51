"""Computes the expected output of ``driver agree`` with local Gymnasium alone."""

import json
import struct
import warnings
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tests.support.plain import plain


class ReferenceRun:
    """One environment, one seed and one list of actions.

    Args:
        env_id: Gymnasium's name of the environment.
        seed: Of the first reset and, in the space, of the actions.
        steps: The number of actions.

    Attributes:
        lines: The lines that a driver has to print.
        ends: The number of episodes that end.
    """

    def __init__(self, env_id: str, seed: int, steps: int) -> None:
        self.env_id = env_id
        self.seed = seed
        self.ends = 0
        self._actions: list[Any] = []
        with warnings.catch_warnings():
            # Of the checker, about observations that are odd on purpose.
            warnings.simplefilter("ignore")
            env: gymnasium.Env[Any, Any] = gymnasium.make(env_id)
            env.action_space.seed(seed)
            self.lines = list(self._play(env, steps))
            env.close()

    def args(
        self, url: str, transport: str, folder: Path, instance_id: str = ""
    ) -> list[str]:
        """Return the words of the driver's command line, and write the actions.

        Args:
            url: The server.
            transport: Of the steps.
            folder: Where to write.
            instance_id: An instance to play; "" makes one.
        """
        path = folder / "actions"
        path.write_text("".join(json.dumps(each) + "\n" for each in self._actions))
        played = f"@{instance_id}" if instance_id else self.env_id
        return ["agree", url, played, str(self.seed), transport, str(path)]

    def compare(self, printed: str) -> None:
        """Check that these lines were printed.

        Raises:
            AssertionError: Names the first line that differs.
        """
        pairs = zip_longest(printed.splitlines(), self.lines, fillvalue="(no line)")
        for number, (actual, expected) in enumerate(pairs, 1):
            assert actual == expected, (
                f"line {number} of {self.env_id}, seed {self.seed}\n"
                f"is      {actual[:300]}\ninstead {expected[:300]}"
            )

    def _play(self, env: gymnasium.Env[Any, Any], steps: int) -> Iterator[str]:
        yield f"reset {in_hex(env.reset(seed=self.seed)[0])}"
        for _ in range(steps):
            action = env.action_space.sample()
            self._actions.append(plain(action))
            observation, reward, terminated, truncated, _ = env.step(action)
            rewarded = struct.pack("<d", reward).hex()
            flags = f"{terminated:d} {truncated:d}"
            yield f"{in_hex(observation)} {rewarded} {flags}"
            if terminated or truncated:
                self.ends += 1
                yield f"reset {in_hex(env.reset()[0])}"


def in_hex(value: Any) -> str:
    """Write an observation as drivers do."""
    if isinstance(value, dict):
        return ",".join(in_hex(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return ",".join(in_hex(part) for part in value)
    if isinstance(value, np.ndarray):
        order = value.dtype.newbyteorder("<")
        return value.astype(order).tobytes().hex()
    if isinstance(value, (float, np.floating)):
        return struct.pack("<d", value).hex()
    return struct.pack("<q", value).hex()
