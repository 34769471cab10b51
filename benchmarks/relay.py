"""Measures the training relay beside tlspyo, the relay of TMRL, which keeps nothing."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Mode, available
from benchmarks.relay_ends import RUN, free_port
from benchmarks.report import Row, row
from benchmarks.servers import our_server
from gym_http_client.relay import RelayCalls

__all__ = ["relay_1k", "relay_5m", "relay_100k"]

_TLSPYO = "tlspyo"
# The first turns warm up both sides.
_WARM_UP = 2


def _compare(plan: Plan, name: str, size: int, count: int, posts: int) -> list[Row]:
    """Compare messages a second, from the sender's first to the receiver's last.

    Args:
        plan: The plan.
        name: Name of the row; that of single requests has ``_post`` behind it.
        size: Bytes of a message.
        count: Messages of a turn.
        posts: Messages of a turn with a request for each.
    """
    plan.say(f"{name}: starting")
    address = f"127.0.0.1:{free_port()}"
    with (
        our_server(available(), "--workers", "2") as server,
        contextlib.ExitStack() as stack,
    ):
        with RelayCalls(server.url, RUN) as calls:
            calls.create()

        def end(kind: str, where: str) -> _End:
            return stack.enter_context(_end(kind, size, where))

        trainer = end("our_trainer", server.url)
        sender = end("our_sender", server.url)
        posting = end("posting_sender", server.url)
        end("their_relay", address)
        consumer = end("their_trainer", address)
        producer = end("their_sender", address)
        sides: list[Callable[[], float]] = [
            functools.partial(_second_turn, sender, trainer, count),
            functools.partial(_second_turn, posting, trainer, posts),
            functools.partial(_second_turn, producer, consumer, count),
        ]
        for side in _WARM_UP * sides:
            side()
        ours, theirs = in_turn(
            plan, lambda: [sides[0](), sides[1]()], lambda: [sides[2]()]
        )
    baseline = median([each for (each,) in theirs])
    rows = []
    for label, each in zip(
        (name, f"{name}_post"), zip(*ours, strict=True), strict=True
    ):
        rate = median(each)
        plan.say(f"  {label}: {rate:.0f}/s, {_TLSPYO} {baseline:.0f}/s")
        rows.append(row(label, Mode.FREE, rate, "messages/s", _TLSPYO, baseline))
    return rows


def relay_1k(plan: Plan) -> list[Row]:
    """Compare messages of 1 kB."""
    return _compare(plan, "relay_1k", 1000, 20_000, 400)


def relay_100k(plan: Plan) -> list[Row]:
    """Compare messages of 100 kB."""
    return _compare(plan, "relay_100k", 100_000, 1000, 200)


def relay_5m(plan: Plan) -> list[Row]:
    """Compare messages of 5 MB."""
    return _compare(plan, "relay_5m", 5_000_000, 16, 16)


_End = subprocess.Popen[str]


@contextlib.contextmanager
def _end(name: str, size: int, address: str) -> Iterator[_End]:
    """Run one end of a relay."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.relay_ends", name, str(size), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _read(process, "ready")
        yield process
    finally:
        # With the processes that tlspyo starts.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _second_turn(sender: _End, receiver: _End, count: int) -> float:
    """Return how many messages a second go in a turn, after another one.

    The turn of the other side gives memory back to the system, and a virtual machine to
    its host; whoever is next takes it again, page by page.
    """
    _turn(sender, receiver, count)
    return _turn(sender, receiver, count)


def _turn(sender: _End, receiver: _End, count: int) -> float:
    """Transfer messages, and return how many went in a second."""
    _write(receiver, count)
    _read(receiver, "waits")
    _write(sender, count)
    began = float(_read(sender))
    return count / (float(_read(receiver)) - began)


def _write(process: _End, count: int) -> None:
    if process.stdin is not None:
        process.stdin.write(f"{count}\n")
        process.stdin.flush()


def _read(process: _End, expected: str = "") -> str:
    line = process.stdout.readline().strip() if process.stdout is not None else ""
    if not line or (expected and line != expected):
        raise RuntimeError(f"an end of a relay printed {line!r}: expected {expected!r}")
    return line
