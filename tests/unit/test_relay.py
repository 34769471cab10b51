"""The relays of the tests close every connection that they accepted."""

import gc
import socket

from tests.support.faults.http_connection import HttpConnection
from tests.support.faults.relay import Relay
from tests.support.processes import open_descriptors

ROUNDS = 200


class Idle(Relay):
    """A relay that sends nothing."""

    async def attend(
        self, client: HttpConnection, server: HttpConnection, number: int
    ) -> None:
        """Wait until the client closes the connection."""
        await client.until_closed()


def test_a_client_that_connects_while_a_relay_ends_is_closed() -> None:
    before = open_descriptors()
    # A connection that the garbage collector closes was forgotten.
    gc.disable()
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=2 * ROUNDS) as server:
            for _ in range(ROUNDS):
                with Idle(server.getsockname()[1]) as relay:
                    _, _, port = relay.url.rpartition(":")
                    client = socket.create_connection(("127.0.0.1", int(port)))
                client.close()
        assert open_descriptors() == before
    finally:
        gc.enable()
