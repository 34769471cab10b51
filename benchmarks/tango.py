"""A rebuilt Tango gateway, between an agent (ZeroMQ) and an environment (WebSocket).

As in Tango, one asyncio loop serves a REP socket and the environment's WebSocket, and
forwards each message unchanged. ``python -m benchmarks.tango`` runs it. (In Tango,
Sanic serves the WebSocket.)
"""

from __future__ import annotations

import asyncio

import websockets.asyncio.server
import zmq
import zmq.asyncio

__all__ = ["main"]


async def _serve() -> None:
    environments: asyncio.Queue[websockets.asyncio.server.ServerConnection]
    environments = asyncio.Queue()

    async def connected(connection: websockets.asyncio.server.ServerConnection) -> None:
        await environments.put(connection)
        await connection.wait_closed()

    agents = zmq.asyncio.Context.instance().socket(zmq.REP)
    door = agents.bind_to_random_port("tcp://127.0.0.1")
    serving = websockets.asyncio.server.serve(
        connected, "127.0.0.1", 0, compression=None
    )
    async with serving as server:
        port = next(iter(server.sockets)).getsockname()[1]
        print(f"Listening on http://127.0.0.1:{port}?agents={door}", flush=True)
        connection = await environments.get()
        while True:
            await connection.send((await agents.recv()).decode())
            await agents.send(str(await connection.recv()).encode())


def main() -> None:
    """Serve until killed."""
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
