"""The nodes on which a vector is made if the caller gives their number."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from gym_http_client.envs.spread_handle import chosen_nodes
from gym_http_client.http.http1 import Reply


def node(name: str, free: int, **more: bool) -> dict[str, Any]:
    return {"node": name, "free": free, "away": False, "draining": False, **more}


def test_nodes_that_are_away_or_stop_are_not_chosen() -> None:
    nodes = [
        *(node("gone", 9, away=True), node("stopping", 8, draining=True)),
        *(node("small", 1), node("large", 7)),
    ]
    reply = Reply(200, {}, json.dumps({"nodes": nodes}).encode())
    link = SimpleNamespace(request=lambda *_: reply, close=lambda: None)
    server: Any = SimpleNamespace(url="http://here", link=lambda: link)
    assert chosen_nodes(server, 2, 8) == ["large", "small"]
    with pytest.raises(ValueError, match="this fleet has 2 nodes"):
        chosen_nodes(server, 3, 8)
