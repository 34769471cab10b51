"""Routes of OpenEnv's protocol that need no server."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gym_http_server.access.identities import EVERYONE
from gym_http_server.web.api.exchange import CALLER
from gym_http_server.web.api.openenv import routes
from gym_http_server.web.api.websockets import KeptSockets
from gym_http_wire.problems import TooManyStreams
from tests.support.websocket import KEY

HANDSHAKE = {
    "REQUEST_METHOD": "GET",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "HTTP_UPGRADE": "websocket",
    "HTTP_CONNECTION": "Upgrade",
    "HTTP_SEC_WEBSOCKET_VERSION": "13",
    "HTTP_SEC_WEBSOCKET_KEY": KEY,
    CALLER: EVERYONE,
}


def test_connections_leave_room_for_requests() -> None:
    kept = KeptSockets()
    kept._all = cast(Any, set(range(30)))
    web = cast(Any, SimpleNamespace(draining=False))
    web.under_way, web.kept = SimpleNamespace(most=40), kept
    with pytest.raises(TooManyStreams, match="this web worker has 30 connections"):
        routes._connect(web, dict(HANDSHAKE), "CartPole-v1")
