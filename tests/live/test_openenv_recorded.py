"""Conversations of OpenEnv's own clients are answered as they were, byte by byte."""

import base64
import json
from pathlib import Path

import pytest

from tests.openenv.recording import FOLDER, to_port, without_ids
from tests.support.api import Api
from tests.support.raw import RawConnection
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_a_recorded_conversation(file: Path, toy_server: Server) -> None:
    for turns in json.loads(file.read_text()):
        assert [who for who, _ in turns[:2]] == ["sent", "received"]
        with RawConnection(toy_server.port) as connection:
            for who, encoded in turns:
                data = base64.b64decode(encoded)
                if who == "sent":
                    connection.send(to_port(data, toy_server.port))
                else:
                    assert without_ids(connection._read_exactly(len(data))) == data
            assert connection.read_to_end() == b""
    wait_until(lambda: Api(toy_server).instances() == {}, 10.0, "the ends")
