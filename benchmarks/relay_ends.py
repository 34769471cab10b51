"""The two ends of a relay, each a program: one sends samples, one receives them.

``python -m benchmarks.relay_ends NAME SIZE ADDRESS`` prints ``ready``. For each line
with a number of messages on its standard input, it sends or receives as many, and
prints the monotonic time: senders that of the beginning, receivers that of the end.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gym_http_client.http.retries import Retries
from gym_http_client.relay import RelayCalls, Trainer
from gym_http_client.relay.batches import (
    COLUMNS_TYPE,
    encode_columns,
    encode_columns_in_parts,
)
from gym_http_client.relay.sender import Sender
from gym_http_client.relay.spool import Spool

__all__ = ["GROUP", "PASSWORD", "RUN", "free_port"]

RUN = "bench"
#: Of the other relay.
GROUP, PASSWORD = "trainers", "benchmark"
# Larger than its default of 4 KiB, with which large messages take far longer.
_BUFFER = 1 << 20
# Messages after which our trainer commits its position.
_COMMITTED = 1000


def columns(size: int) -> dict[str, Any]:
    """Return samples of about so many bytes, which cannot be compressed."""
    numbers = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    return {"observations": numbers, "rewards": np.ones(1)}


def our_sender(size: int, url: str) -> Callable[[int], None]:
    """Return a function that appends messages to a spool, whose thread sends them."""

    def connect(retries: Retries) -> RelayCalls:
        return RelayCalls(url, RUN, retries=retries)

    folder = tempfile.TemporaryDirectory(prefix="relay-bench-")
    spool = Spool(folder.name, run=RUN, worker="bench")
    spool.begin(connect(Retries()).create_session("bench")["session"])
    sender = Sender(spool, connect)
    sender.start()
    sample = columns(size)

    def send(count: int, _kept: object = folder) -> None:
        for _ in range(count):
            parts = encode_columns_in_parts(sample)
            spool.append(*parts, policy=0, count=1, content_type=COLUMNS_TYPE)

    return send


def posting_sender(size: int, url: str) -> Callable[[int], None]:
    """Return a function that sends each message in a request, and waits for it."""
    calls = RelayCalls(url, RUN)
    session = calls.create_session("bench")["session"]
    sample = columns(size)
    number = 0

    def send(count: int) -> None:
        nonlocal number
        for _ in range(count):
            number += 1
            calls.put_batch(
                encode_columns(sample),
                session=session,
                number=number,
                policy=0,
                count=1,
                content_type=COLUMNS_TYPE,
            )

    return send


def our_trainer(_size: int, url: str) -> Callable[[int], None]:
    """Return a function that receives messages with a trainer."""
    trainer = Trainer(url, RUN, progress=None).__enter__()
    batches = iter(trainer)

    def receive(count: int) -> None:
        for number in range(1, count + 1):
            _ = next(batches).columns
            if number % _COMMITTED == 0:
                trainer.commit()
        trainer.commit()

    trainer.receive()
    return receive


def their_sender(size: int, address: str) -> Callable[[int], None]:
    """Return a function that produces messages with tlspyo."""
    endpoint = _endpoint(address, "workers")
    sample = columns(size)

    def send(count: int) -> None:
        for _ in range(count):
            endpoint.produce(sample, GROUP)

    return send


def their_trainer(_size: int, address: str) -> Callable[[int], None]:
    """Return a function that consumes messages with tlspyo."""
    endpoint = _endpoint(address, GROUP)

    def receive(count: int) -> None:
        # Announced at once: the relay then forwards each message as it comes.
        endpoint.notify({GROUP: count})
        while count:
            count -= len(endpoint.pop(max_items=count, blocking=True))

    return receive


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _endpoint(address: str, group: str) -> Any:
    from tlspyo import Endpoint

    host, _, port = address.rpartition(":")
    return Endpoint(
        host,
        int(port),
        PASSWORD,
        groups=group,
        local_com_port=free_port(),
        max_buf_len=_BUFFER,
        security=None,
    )


def serve_theirs(_size: int, address: str) -> Callable[[int], None]:
    """Run tlspyo's relay until the input ends."""
    from tlspyo import Relay

    port = int(address.rpartition(":")[2])
    relay = Relay(port, PASSWORD, local_com_port=free_port(), security=None)

    def wait(_count: int, _kept: object = relay) -> None:
        """Do nothing: the relay runs in a process of its own."""

    return wait


_ENDS: dict[str, Callable[[int, str], Callable[[int], None]]] = {
    "our_sender": our_sender,
    "posting_sender": posting_sender,
    "our_trainer": our_trainer,
    "their_sender": their_sender,
    "their_trainer": their_trainer,
    "their_relay": serve_theirs,
}


def main() -> None:
    """Run one end until its input is over."""
    name, size, address = sys.argv[1:]
    # What a library prints must not disturb the protocol.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    transfer = _ENDS[name](int(size), address)
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        began = time.monotonic()
        if name.endswith("sender"):
            print(began, file=out, flush=True)
            transfer(int(line))
        else:
            print("waits", file=out, flush=True)
            transfer(int(line))
            print(time.monotonic(), file=out, flush=True)
    out.close()
    # Threads and child processes of either side end with the process group.
    os._exit(0)


if __name__ == "__main__":
    main()
