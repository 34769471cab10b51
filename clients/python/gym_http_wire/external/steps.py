"""Steps in plain JSON, read by a type that is made from the observation space.

This is what an environment elsewhere says nearly always. What does not fit is no error
here: it is read in the general way, which says what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from gym_http_wire.elements import LARGEST, Shaped
from gym_http_wire.external.messages import MAX_NUMBER
from gym_http_wire.fast_frames import MAX_LEAVES
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
    """What came of a step, as `gymnasium.Env.step` gives it."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class PackedStep(NamedTuple):
    """What came of a step, as a stream has it.

    Attributes:
        leaves: Of the value that such a step is.
        over: Whether this was the last step of its episode.
    """

    leaves: bytes
    over: bool


class _Said(msgspec.Struct, Generic[T], forbid_unknown_fields=True, gc=False):
    observation: T
    reward: _Reward
    terminated: bool
    truncated: bool
    info: msgspec.Raw = _NO_INFO


class _Nothing(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    pass


_NOTHING = _Nothing()


class _SaidBare(msgspec.Struct, Generic[T], forbid_unknown_fields=True, gc=False):
    observation: T
    reward: _Reward
    terminated: bool
    truncated: bool
    info: _Nothing = _NOTHING


class _Answer(msgspec.Struct, Generic[T], forbid_unknown_fields=True, gc=False):
    id: Annotated[int, msgspec.Meta(gt=0, le=MAX_NUMBER)]
    result: T


class StepReader(Generic[M]):
    """Reads what comes of steps.

    Args:
        kind: What a result is like, as a type for `msgspec`.
        make: Makes of such a result what is wanted; raises `ValueError`.
    """

    def __init__(self, kind: Any, make: Callable[[Any], M]) -> None:
        self._make = make
        self._decode_result = msgspec.json.Decoder(kind).decode
        self._decode_answer = msgspec.json.Decoder(_Answer[kind]).decode

    def result(self, payload: bytes) -> M | None:
        """Read a result; nothing if it is not just that."""
        try:
            return self._make(self._decode_result(payload))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def answer(self, payload: bytes) -> tuple[int, M] | None:
        """Read an ID and a result; nothing if it is not just these."""
        try:
            said = self._decode_answer(payload)
            return said.id, self._make(said.result)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None


def step_reader(shape: Shaped, loads: Callable[[bytes], object]) -> StepReader[Step]:
    """Give a reader of steps, for Gymnasium.

    Args:
        shape: What observations are like.
        loads: Reads an info; raises `ValueError`.
    """
    observed = shape.make

    def make(said: _Said[Any]) -> Step:
        info: Any = {}
        if (raw := bytes(said.info)) != b"{}":
            # As deep as it is there.
            whole: Any = loads(b'{"info":%b}' % raw)
            info = whole["info"]
            if type(info) is not dict:
                raise ValueError(info)
        observation = observed(said.observation)
        return Step(observation, said.reward, said.terminated, said.truncated, info)

    kind: Any = shape.type
    return StepReader(_Said[kind], make)


class StepPacking(NamedTuple):
    """How steps without an info become leaves of a stream.

    Attributes:
        reader: Reads them.
        signature: Of the value that the leaves belong to.
    """

    reader: StepReader[PackedStep]
    signature: bytes


def step_packing(shape: Shaped) -> StepPacking | None:
    """Give how steps become leaves; ``None`` if a quick lane has no room for them.

    Args:
        shape: What observations are like.
    """
    leaves = shape.leaves
    record = struct.Struct(f"<{shape.format}dQQ")
    if record.size > MAX_LEAVES:
        return None
    pack = record.pack

    def make(said: _SaidBare[Any]) -> PackedStep:
        ended, cut = said.terminated, said.truncated
        packed = pack(*leaves(said.observation), said.reward, ended, cut)
        return PackedStep(packed, ended or cut)

    kind: Any = shape.type
    like = {
        "info": {},
        "observation": shape.like,
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
    }
    return StepPacking(StepReader(_SaidBare[kind], make), binary.split(like)[0])
