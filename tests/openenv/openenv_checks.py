"""OpenEnv's own clients, 0.10 and 0.3, with real environments: ``make openenv``.

Not part of ``make test``, since they need a gigabyte.
``tests/live/test_openenv_recorded`` sends what they sent.
"""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.openenv.recording import EPISODES, PYTHONS, TOYS, play
from tests.support.api import Api
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

EXAMPLE = ROOT / "examples" / "openenv"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with toys and the word game."""
    words = ("--import", str(EXAMPLE / "words.py"))
    with Server("--workers", "2", *TOYS, *words) as started:
        yield started


@pytest.mark.parametrize("name", PYTHONS)
def test_results_are_those_of_rest(name: str, server: Server) -> None:
    api = Api(server)
    for episode, results in zip(
        EPISODES, play(name, server.url, EPISODES), strict=True
    ):
        assert results == list(over_rest(api, episode))
    wait_until(lambda: api.instances() == {}, 10.0, "the ends")


def over_rest(api: Api, episode: dict[str, Any]) -> Iterator[Any]:
    """Yield what OpenEnv's client has to get, from the same calls over REST."""
    env_id = episode["env_id"].replace("%2F", "/")
    kwargs: dict[str, Any] = {}
    instance = api.create(env_id)
    for reset in episode["resets"]:
        if kwargs != reset.get("kwargs", {}):
            kwargs = reset.get("kwargs", {})
            instance.close()
            instance = api.create(env_id, kwargs=kwargs)
        begun = instance.reset(seed=reset["seed"])
        yield {"observation": flagged(begun), "reward": None, "done": False}
        steps = 0
        for data in episode["actions"]:
            answer = instance.post("step/", {"action": data.get("action", data)})
            if answer.status == 200:
                steps += 1
                result = answer.json()
                rest = {name: result.pop(name) for name in ("reward", "done")}
                yield {"observation": flagged(result), **rest}
            elif "acton" in data:
                yield Refused()
            else:
                words = answer.json()["message"]
                yield f"Server error: {words} (code: VALIDATION_ERROR)"
        yield State(env_id, reset.get("episode_id"), steps)
    instance.close()


def flagged(result: dict[str, Any]) -> dict[str, Any]:
    return {"terminated": False, "truncated": False, **result}


class Refused:
    """Equal to what the client raises for data that is no action."""

    def __eq__(self, other: object) -> bool:
        return "(code: VALIDATION_ERROR)" in str(other) and "acton" in str(other)

    __hash__ = None  # type: ignore[assignment]


class State:
    """Equal to a state, whose instance has another ID."""

    def __init__(self, env_id: str, episode_id: str | None, steps: int) -> None:
        self._known = {"env_id": env_id, "step_count": steps}
        if episode_id is not None:
            self._known["episode_id"] = episode_id

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, dict)
        return self._known.items() <= other.items() and len(other) == 4

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("name", PYTHONS)
def test_the_example(name: str, server: Server) -> None:
    done = subprocess.run(
        [PYTHONS[name], EXAMPLE / "play.py", server.url, "--games", "8"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("8 games"), done.stdout


MCP = """
import asyncio, sys
from mcp import Client, StdioServerParameters

async def main():
    command = StdioServerParameters(command=sys.executable, args=sys.argv[1:])
    async with Client(command) as client:
        listed = await client.list_tools()
        print(sorted(tool.name for tool in listed.tools))
        await client.call_tool("reset", {"seed": 42})
        result = await client.call_tool("step", {"action": 1})
        print(result.structured_content["reward"])
        refused = await client.call_tool("step", {"action": 7})
        print(refused.is_error, "must be an integer" in str(refused.content))

asyncio.run(main())
"""


def test_an_assistant_plays_over_mcp(server: Server) -> None:
    python = ROOT / "build" / "mcp" / "bin" / "python"
    example = ROOT / "examples" / "mcp_server.py"
    done = subprocess.run(
        [python, "-c", MCP, example, server.url, "CartPole-v1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['actions', 'reset', 'step']",
        "1.0",
        "True True",
    ]
    wait_until(lambda: Api(server).instances() == {}, 10.0, "the end")
