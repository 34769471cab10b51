"""Steps in plain JSON, read by a type that is made from the observation space.

This is what an environment elsewhere says nearly always. What does not fit is no error
here: it is read in the general way, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from gym_http_wire.elements import Shaped
from gym_http_wire.external.asks import MAX_NUMBER

__all__ = ["Step", "StepReader"]

T = TypeVar("T")
#: Beyond it a number may have been an integer that is too large.
_LARGEST = 2.0**200
_NO_INFO = msgspec.Raw(b"{}")


class Step(NamedTuple):
    """What came of a step, as `gymnasium.Env.step` gives it."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class _Result(msgspec.Struct, Generic[T], forbid_unknown_fields=True, gc=False):
    observation: T
    reward: float
    terminated: bool
    truncated: bool
    info: msgspec.Raw = _NO_INFO


class _Answer(msgspec.Struct, Generic[T], forbid_unknown_fields=True, gc=False):
    id: Annotated[int, msgspec.Meta(gt=0, le=MAX_NUMBER)]
    result: _Result[T]


class StepReader:
    """Reads what comes of steps.

    Args:
        shape: What observations are like.
        loads: Reads an info; raises `ValueError`.
    """

    def __init__(self, shape: Shaped, loads: Callable[[bytes], object]) -> None:
        self._make = shape.make
        self._loads = loads
        kind: Any = shape.type
        self._decode_result = msgspec.json.Decoder(_Result[kind]).decode
        self._decode_answer = msgspec.json.Decoder(_Answer[kind]).decode

    def result(self, payload: bytes) -> Step | None:
        """Read a result; nothing if it is not just that."""
        try:
            return self._step(self._decode_result(payload))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def answer(self, payload: bytes) -> tuple[int, Step] | None:
        """Read an ID and a result; nothing if it is not just these."""
        try:
            said = self._decode_answer(payload)
            return said.id, self._step(said.result)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def _step(self, said: _Result[Any]) -> Step:
        """Make the step.

        Raises:
            ValueError: It is none.
        """
        info: Any = {}
        if (raw := bytes(said.info)) != b"{}":
            # As deep as it is there.
            whole: Any = self._loads(b'{"info":%b}' % raw)
            info = whole["info"]
            if type(info) is not dict:
                raise ValueError(info)
        if not -_LARGEST <= said.reward <= _LARGEST:
            raise ValueError(said.reward)
        observation = self._make(said.observation)
        return Step(observation, said.reward, said.terminated, said.truncated, info)
