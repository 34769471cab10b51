"""Environments that write files and print at action 1.

A server loads this module with ``--import tests.support.envs.writing``.
"""

import os
import resource
import subprocess
import sys
from typing import Any

import gymnasium

from tests.support.envs.hostile import Hostile


class Prints(Hostile):
    """Prints a hundred lines."""

    def misbehave(self) -> None:
        for number in range(100):
            print("a line of output", number)
        print("and one of errors", file=sys.stderr, flush=True)


class Writes(Hostile):
    """Writes a file of 2 MiB, and runs a child process that does the same."""

    def misbehave(self) -> dict[str, Any]:
        child = subprocess.run(
            [sys.executable, "-c", "open('theirs', 'wb').write(bytes(1 << 21))"],
            capture_output=True,
        )
        limits = {
            "core": list(resource.getrlimit(resource.RLIMIT_CORE)),
            "child": child.returncode,
        }
        try:
            with open("ours", "wb") as file:
                file.write(bytes(1 << 21))
        except OSError as error:
            limits["errno"] = error.errno
        return limits | {"size": os.stat("ours").st_size}


gymnasium.register("writing/Prints-v0", Prints)
gymnasium.register("writing/Writes-v0", Writes)
