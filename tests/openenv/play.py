"""Plays episodes with OpenEnv's client, in any version, and prints what it got.

    python play.py URL < episodes.json

Each episode has the environment, the data of resets, and the actions. It is run by the
Python that has the client, so it imports nothing of this project.
"""

import json
import sys
from typing import Any

try:
    from openenv import GenericEnvClient
except ImportError:
    from openenv.core.generic_client import GenericEnvClient


def play(url: str, episode: dict[str, Any]) -> list[Any]:
    """Play an episode; return the results, in their order."""
    results: list[Any] = []
    env = GenericEnvClient(base_url=f"{url}/openenv/{episode['env_id']}").sync()
    with env:
        for reset in episode["resets"]:
            results.append(shown(env.reset(**reset)))
            for action in episode["actions"]:
                try:
                    results.append(shown(env.step(action)))
                except RuntimeError as error:
                    results.append(str(error))
            results.append(env.state())
    return results


def shown(result: Any) -> dict[str, Any]:
    """Return a result as JSON."""
    return {
        "observation": result.observation,
        "reward": result.reward,
        "done": result.done,
    }


if __name__ == "__main__":
    print(json.dumps([play(sys.argv[1], each) for each in json.load(sys.stdin)]))
