"""Fixtures for tests of the Python client."""

from typing import Any

import pytest
import requests

from gym_http_client import Client


@pytest.fixture(params=["socket", "requests"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with clients over sockets, and with clients over ``requests``."""
    if request.param == "requests":
        made = Client.__init__

        def with_session(self: Client, *args: Any, **options: Any) -> None:
            made(self, *args, **options)
            assert isinstance(self.session, requests.Session)

        monkeypatch.setattr(Client, "__init__", with_session)
    return str(request.param)
