"""Crossing: steps from an agent's stream to a far side and back, on the short way.

Where nothing stands between the two, a step in plain JSON becomes the leaves of a
stream's value at once: there is no `gymnasium.Env` in between, no call, and no array.
Whatever is unusual is left to `ExternalEnv`, which goes on with what was asked.
"""

from __future__ import annotations

from typing import Any

from gym_http_server.envhost.external.connection import Begun, ExternalConnection
from gym_http_server.envhost.external.requester import Requester
from gym_http_wire.external.steps import PackedStep, StepPacking

__all__ = ["FastStep"]

#: How many steps take the long way after one whose answer was not just a plain step:
#: where infos are given, they are likely to go on.
_REST = 64


class FastStep:
    """The short way to one far side.

    Args:
        far: The far side.
        asking: Asks it on the long way.
        records: How steps become leaves.
        deadline_s: For an answer.

    Attributes:
        signature: Of the value that the leaves belong to.
    """

    def __init__(
        self,
        far: ExternalConnection,
        asking: Requester,
        records: StepPacking,
        deadline_s: float,
    ) -> None:
        self.signature = records.signature
        self._far = far
        self._asking = asking
        self._reader = records.reader
        self._deadline_s = deadline_s
        self._rest = 0

    def step(self, action: Any) -> PackedStep | None:
        """Take an action.

        Returns:
            What came of it; ``None`` if `ExternalEnv.step` has to be called for it.
        """
        if self._rest:
            self._rest -= 1
            return None
        asking = self._asking
        if asking.pending is None and not asking.wants_reset:
            said = self._far.step(action, self._deadline_s, self._reader)
            if type(said) is PackedStep:
                return said
            if type(said) is Begun:
                asking.begun = said
                if said.unfit:
                    self._rest = _REST
        return None
