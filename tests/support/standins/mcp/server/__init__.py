"""A server that calls its tools with what is on standard input, line by line."""

import json
import sys
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError


class MCPServer:
    """Knows tools by the names of their functions."""

    def __init__(self, name: str, instructions: str) -> None:
        self._tools: dict[str, Callable[..., Any]] = {}

    def tool(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that adds a tool."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self._tools[function.__name__] = function
            return function

        return add

    def run(self) -> None:
        """Answer calls until standard input ends."""
        for line in sys.stdin:
            call = json.loads(line)
            try:
                result = self._tools[call["name"]](**call["arguments"])
            except ToolError as error:
                result = str(error)
            print(json.dumps(result), flush=True)
