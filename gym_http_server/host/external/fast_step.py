"""The fast step: one exchange with one external environment, read in one pass.

Nearly every answer to a step is plain JSON, with an observation of the space's shape. A
reader made from the observation space converts its bytes to the step in one pass. The
`ExternalConnection` reads every other answer again, in the general way, and the caller
waits for the step's `Call`.
"""

from __future__ import annotations

import time
from typing import Any, Generic, TypeVar

from gym_http_server.external.connection import Call
from gym_http_server.host.external.requester import Requester
from gym_http_wire.external.steps import StepReader
from gym_http_wire.messages import Op

__all__ = ["FastStep"]

M = TypeVar("M")


class FastStep(Generic[M]):
    """Sends steps over one connection, and reads the answers of the expected form.

    Args:
        requester: Sends all other requests to the same environment, the only one in its
            host.
        reader: Reads the expected answers.
        signature: Of the stream's value that a step becomes; empty for others.
        pause: Number of steps to leave to the general path after an unexpected answer:
            an environment that sends infos is likely to send more.
    """

    def __init__(
        self,
        requester: Requester,
        reader: StepReader[M],
        *,
        signature: bytes = b"",
        pause: int = 0,
    ) -> None:
        self.signature = signature
        self._requester = requester
        self._connection = requester.connection
        self._protocol = requester.connection.protocol
        self._deadline_s = requester.deadline_s
        self._reader = reader
        self._pause = pause
        self._paused = 0
        self._pending: Call | None = None

    def step(self, action: Any) -> M | Call | None:
        """Send a step, and wait a moment for its answer.

        Returns:
            The step. Or its pending call, if the answer has not arrived or does not
            have the expected form; `take_pending` returns that, too. Or ``None``, if
            this step has to take the general path; then nothing was sent.
        """
        if self._paused:
            self._paused -= 1
            return None
        requester = self._requester
        if requester.lost_call is not None or requester.needs_reset:
            return None
        protocol = self._protocol
        written = protocol.write_step(action, self._deadline_s)
        if written is None:
            return None
        number, request = written
        deadline = time.monotonic() + self._deadline_s
        data = self._connection.exchange(request, deadline)
        if data:
            step = protocol.read_step(number, data, self._reader, time.monotonic())
            if step is not None:
                requester.last_step = step
                return step
        call = Call(Op.STEP, {"action": action}, number, deadline)
        self._connection.follow(call, data)
        if call.over and not call.lost:
            self._paused = self._pause
        self._pending = call
        return call

    def take_pending(self) -> Call | None:
        """Remove and return the pending call of the last step, or ``None``."""
        call, self._pending = self._pending, None
        return call
