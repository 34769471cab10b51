"""The desk: where hosts take connections, and bring them back."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from gym_http_server.broker.idle_connection import IdleConnection
from gym_http_server.broker.idle_connections import IdleConnections
from gym_http_server.broker.messages import State, TakeRequest
from gym_http_server.broker.registry import Lease, Registry, Waiter
from gym_http_server.frame_socket import FrameSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import answer, problem_answer
from gym_http_wire.problems import ExternalAway

__all__ = ["Allocator"]

#: That somebody is told of who asks for one that is not there.
MAX_NAMES = 5


class Allocator:
    """Gives connections out, to each host all that it wants or none.

    Args:
        guests: Who is free, who was taken, and who waits.
        hall: Where the free ones are.
        hang_up: Called with the line of a host that is gone.
    """

    def __init__(
        self,
        guests: Registry,
        hall: IdleConnections,
        hang_up: Callable[[FrameSocket], None],
    ) -> None:
        self._guests = guests
        self._hall = hall
        self._hang_up = hang_up

    def list_guests(self, line: FrameSocket, frame: Frame) -> None:
        """Tell which environments there are."""
        body = msgspec.json.encode(self._guests.listed())
        line.send(answer(200, body, number=frame.number))

    def take(self, line: FrameSocket, frame: Frame) -> None:
        """Give connections to a host, or have it wait for them."""
        wanted = msgspec.json.decode(frame.body, type=TakeRequest)
        until = time.monotonic() + wanted.wait_s
        self._guests.waiting.append(Waiter(line, wanted.name, wanted.count, until))
        self.serve_waiting()
        self.refuse_late(time.monotonic())

    def release(self, line: FrameSocket, frame: Frame) -> None:
        """Take a connection back from a host."""
        state = msgspec.json.decode(frame.body, type=State)
        end = line.take_socket()
        self._guests.taken.pop(state.resume, None)
        if end is not None:
            self._hall.come_again(end, state)

    def adopt(self, line: FrameSocket, frame: Frame) -> None:
        """Learn what a host has, after another broker ended that knew."""
        for state in msgspec.json.decode(frame.body, type=list[State]):
            taken = Lease(line, state.connection, state.resume, state.hello)
            self._guests.taken[state.resume] = taken

    def serve_waiting(self) -> None:
        """Give to who waits, in their order: who wants many is not passed by."""
        guests = self._guests
        passed: set[str] = set()
        for taking in list(guests.waiting):
            found = guests.takeable(taking.name)[: taking.count]
            if taking.name in passed or len(found) < taking.count:
                passed.add(taking.name)
                continue
            guests.waiting.remove(taking)
            try:
                for arrival in found:
                    self._give(taking.line, arrival)
            except OSError:
                self._hang_up(taking.line)

    def _give(self, line: FrameSocket, arrival: IdleConnection) -> None:
        hello = arrival.hello
        assert hello is not None  # noqa: S101 - it was free
        line.send(answer(200, arrival.state()), arrival.line.fileno())
        taken = Lease(line, arrival.connection, arrival.resume, hello)
        self._hall.leave(arrival)
        self._guests.taken[taken.resume] = taken

    def refuse_late(self, now: float) -> None:
        """Tell who has waited long enough that there are none."""
        for taking in list(self._guests.waiting):
            if now >= taking.until:
                self._guests.waiting.remove(taking)
                words = self._lack(taking)
                try:
                    taking.line.send(problem_answer(ExternalAway(words)))
                except OSError:
                    self._hang_up(taking.line)

    def _lack(self, taking: Waiter) -> str:
        """Return why an instance cannot be made now, and what to do."""
        name = f"external/{taking.name}"
        names = self._guests.names()
        if taking.name in names:
            free = len(self._guests.takeable(taking.name))
            connections = "connection" if taking.count == 1 else "connections"
            have = f"{free} {'is' if free == 1 else 'are'}" if free else "none is"
            return (
                f"{name} needs {taking.count} free {connections}, and {have} free: "
                "try again later, or wait with wait_s"
            )
        there = ", ".join(f"external/{each}" for each in names[:MAX_NAMES])
        if len(names) > MAX_NAMES:
            there += f" and {len(names) - MAX_NAMES} more"
        others = f"connected: {there}" if there else "no external environment is"
        return (
            f"{name} is not connected ({others}): start its program, or wait for it "
            "with wait_s"
        )
