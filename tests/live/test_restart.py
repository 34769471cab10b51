"""After a restart, IDs of earlier instances are distinguished from unknown IDs."""

from collections.abc import Callable
from pathlib import Path

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.wait import wait_until
from tests.support.websocket import WebSocket

NEVER = "00000000"


def test_instances_of_the_server_before_are_410(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    before = make_server(*data)
    lived, closed = Api(before).create(), Api(before).create()
    closed.close()
    assert before.stop() == 0
    api = Api(make_server(*data, "--port", str(before.port)))
    for known in (lived, closed):
        instance = Instance(api, known.id)
        for answer in (
            instance.get(""),
            instance.post("reset/", {}),
            instance.post("step/", {"action": 0}),
            instance.close(),
            handshaken(instance),
        ):
            error = calls.error(answer, 410, "server-restarted")
            assert known.id in error["message"]
            assert "create it anew, or resume its recording" in error["message"]
    never = Instance(api, NEVER)
    calls.error(never.post("reset/"), 400, "unknown-instance")
    modern = {"Accept": "application/problem+json"}
    calls.error(never.post("reset/", headers=modern), 404, "unknown-instance")
    own = api.create()
    own.close()
    calls.error(own.post("reset/"), 400, "unknown-instance")
    elsewhere = Api(make_server(*data))
    calls.error(Instance(elsewhere, lived.id).post("reset/"), 400, "unknown-instance")


def handshaken(instance: Instance) -> Response:
    """Return the answer to the handshake of a stream."""
    with WebSocket.to(instance) as refused:
        return refused.response


def test_a_server_that_cannot_note_ids_serves(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "instance-ids").touch()
    server = make_server("--data-dir", str(tmp_path))
    for _ in range(2):
        Api(server).create().close()
    output = "cannot note instance IDs in"
    wait_until(lambda: output in server.stderr)
    assert server.stderr.count(output) == 1
