"""Results of steps in plain JSON, decoded by a type of the observation space.

Nearly every message of an external environment is such a result. A message that does
not fit is not an error here: the dialect decodes it in the general way, which raises
with the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from gym_http_wire.elements import LARGEST, JSONType
from gym_http_wire.fast_frames import MAX_LEAVES
from gym_http_wire.frames import MAX_NUMBER
from gym_http_wire.values import binary

__all__ = [
    "PackedStep",
    "Step",
    "StepPacking",
    "StepReader",
    "step_packing",
    "step_reader",
]

T = TypeVar("T")
M = TypeVar("M")
_NO_INFO = msgspec.Raw(b"{}")
_Reward = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]


class Step(NamedTuple):
    """The result of a step, as `gymnasium.Env.step` returns it."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class PackedStep(NamedTuple):
    """The result of a step, encoded for a stream.

    Attributes:
        leaves: Leaves of the value.
        reward: Its reward.
        terminated: Whether the episode has ended.
        truncated: Whether it was cut short.
    """

    leaves: bytes
    reward: float
    terminated: bool
    truncated: bool


class _Result(msgspec.Struct, Generic[T], forbid_unknown_fields=True, gc=False):
    observation: T
    reward: _Reward
    terminated: bool
    truncated: bool
    info: msgspec.Raw = _NO_INFO


class _Empty(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    pass


_EMPTY = _Empty()


class _ResultWithoutInfo(
    msgspec.Struct, Generic[T], forbid_unknown_fields=True, gc=False
):
    observation: T
    reward: _Reward
    terminated: bool
    truncated: bool
    info: _Empty = _EMPTY


class _Answer(msgspec.Struct, Generic[T], forbid_unknown_fields=True, gc=False):
    id: Annotated[int, msgspec.Meta(gt=0, le=MAX_NUMBER)]
    result: T


class StepReader(Generic[M]):
    """Decodes results of steps.

    Args:
        kind: Type of a result, for `msgspec`.
        make: Converts such a result; raises `ValueError`.
    """

    def __init__(self, kind: Any, make: Callable[[Any], M]) -> None:
        self._make = make
        self._decode_result = msgspec.json.Decoder(kind).decode
        self._decode_answer = msgspec.json.Decoder(_Answer[kind]).decode

    def result(self, payload: bytes) -> M | None:
        """Decode a result; ``None`` if it does not fit the type."""
        try:
            return self._make(self._decode_result(payload))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def answer(self, payload: bytes) -> tuple[int, M] | None:
        """Decode an ID and a result; ``None`` if they do not fit the type."""
        try:
            answer = self._decode_answer(payload)
            return answer.id, self._make(answer.result)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None


def step_reader(shape: JSONType, loads: Callable[[bytes], object]) -> StepReader[Step]:
    """Make a reader that returns steps for Gymnasium.

    Args:
        shape: JSON type of observations.
        loads: Decodes an info; raises `ValueError`.
    """
    observed = shape.make

    def make(result: _Result[Any]) -> Step:
        info: Any = {}
        if (raw := bytes(result.info)) != b"{}":
            # At the depth that it has in the message, for limits of nesting.
            whole: Any = loads(b'{"info":%b}' % raw)
            info = whole["info"]
            if type(info) is not dict:
                raise ValueError(info)
        observation = observed(result.observation)
        return Step(
            observation, result.reward, result.terminated, result.truncated, info
        )

    kind: Any = shape.type
    return StepReader(_Result[kind], make)


class StepPacking(NamedTuple):
    """Decodes steps without an info to leaves of a stream.

    Attributes:
        reader: Decodes them.
        signature: Signature of the value with these leaves.
    """

    reader: StepReader[PackedStep]
    signature: bytes


def step_packing(shape: JSONType) -> StepPacking | None:
    """Make a decoder of steps to leaves; ``None`` if fast frames are too short.

    Args:
        shape: JSON type of observations.
    """
    leaves = shape.leaves
    record = struct.Struct(f"<{shape.format}dQQ")
    if record.size > MAX_LEAVES:
        return None
    pack = record.pack
    new = tuple.__new__

    def make(result: _ResultWithoutInfo[Any]) -> PackedStep:
        ended, cut = result.terminated, result.truncated
        reward = result.reward
        packed = pack(*leaves(result.observation), reward, ended, cut)
        # Without the call that PackedStep(…) makes: each step comes here.
        return new(PackedStep, (packed, reward, ended, cut))

    kind: Any = shape.type
    like = {
        "info": {},
        "observation": shape.like,
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
    }
    return StepPacking(
        StepReader(_ResultWithoutInfo[kind], make), binary.split(like)[0]
    )
