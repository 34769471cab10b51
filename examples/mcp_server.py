"""An MCP server, with which an assistant plays an environment over REST."""

import json
import sys
import urllib.error
import urllib.request
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

URL, ENV_ID = sys.argv[1:]
server = MCPServer(
    "gym", instructions=f"Play {ENV_ID}: look at its actions, and reset."
)


def post(path: str, body: Any) -> Any:
    """Call the HTTP interface; a refusal tells the assistant what was wrong."""
    data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{URL}/v1/envs/{path}", data, kind)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        raise ToolError(json.loads(error.read())["message"]) from None


@server.tool()
def actions() -> dict[str, Any]:
    """Describe the actions, and return one of them."""
    with urllib.request.urlopen(f"{URL}/v1/envs/{instance}/action_space") as answer:
        space = json.loads(answer.read())["info"]
    return {**space, "example": post(f"{instance}/action_space/sample/", {})["action"]}


@server.tool()
def reset(seed: int | None = None) -> dict[str, Any]:
    """Begin an episode, and return the first observation."""
    return dict(post(f"{instance}/reset/", {"seed": seed}))


@server.tool()
def step(action: Any) -> dict[str, Any]:
    """Take an action; return observation, reward and whether the episode is over."""
    return dict(post(f"{instance}/step/", {"action": action}))


if __name__ == "__main__":
    instance = post("", {"env_id": ENV_ID, "label": "mcp"})["instance_id"]
    try:
        server.run()
    finally:
        post(f"{instance}/close/", {})
