"""Brings a new environment to the state of a recording, by the calls recorded in it.

A recording may be cut anywhere, and an environment without the sandbox can have written
it. Its records are decoded as requests are, and take the same calls as those.
"""

from __future__ import annotations

import copy
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from gym_http_core.env_errors import env_exceptions
from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.operations import Operations
from gym_http_server.errors import CannotResume, ResumeDiffers
from gym_http_server.host import env_warnings
from gym_http_server.host.differences import first_difference
from gym_http_server.host.lineage import OpenPart, Recorded, lineage, records
from gym_http_server.host.step_recorder import COUNTED, reset_members, step_members
from gym_http_wire.frames import VALUE_HEADER
from gym_http_wire.problems import BadParameter, ExternalAway
from gym_http_wire.step_parts import BODY, Kind
from gym_http_wire.step_records import StepDecoder
from gym_http_wire.values import UnsupportedValue, binary
from gym_http_wire.values.binary import compile_reader
from gym_http_wire.values.fixed import fixed_reader, fixed_writer
from gym_http_wire.values.infos import with_unsent
from gym_http_wire.values.writing import Writing

__all__ = ["Resumed", "replay"]

Json = dict[str, Any]
# Seconds after which the host records again that a call begins.
_QUIET_SECONDS = 0.02
_CAUSES = (
    "The environment may read the clock, or draw random numbers otherwise than from "
    "its np_random, or be of another version"
)
_SHOWN_CHARS = 120
# Where the leaves of a record begin whose signature came before.
_LEAVES = BODY.size + VALUE_HEADER.size
_DRAWS = struct.Struct("<q")


class Resumed(NamedTuple):
    """What was replayed.

    Attributes:
        header: The header of the recording.
        records: Records that lead to the state.
        steps: Steps among them.
        reset: Whether a reset is among them.
        last: The last of them, with ``op``; ``None`` if there are none.
    """

    header: Json
    records: int
    steps: int
    reset: bool
    last: Json | None


class _StepLayout(NamedTuple):
    """How to read the actions of steps of one signature, without their results.

    Attributes:
        signature: The signature of the record.
        action_bytes: The bytes of its action, the first of its leaves.
        read_action: Reads them.
        has_draws: Whether the last leaf is the number of draws.
    """

    signature: bytes
    action_bytes: int
    read_action: Callable[[bytes, int], Json]
    has_draws: bool


def replay(
    operations: Operations,
    exact: LosslessCalls,
    open_part: OpenPart,
    *,
    step: int | None,
    verify: bool,
    on_call: Callable[[], None],
) -> Resumed:
    """Do with an environment what was done with a recorded one.

    Args:
        operations: The environment, just made.
        exact: Its lossless calls.
        open_part: Opens a part.
        step: Steps to take; ``None``: all.
        verify: Whether results must be the recorded ones, bit by bit.
        on_call: Called now and then before a call of the environment.

    Raises:
        CannotResume: The recording does not begin with its instance.
        ResumeDiffers: The environment did something else.
        BadParameter: The recording has fewer steps.
    """
    segments = lineage(open_part)
    first = segments[0] if segments else None
    if first is None or first.start or first.header.get("request") is None:
        raise CannotResume(
            "the recording began after its instance: expected one that the member "
            "'record' of a create request began"
        )
    run = _Replay(operations, exact, verify)
    noted = 0.0
    with env_warnings.muted():
        for decoder, body in records(open_part, segments):
            if step is not None and run.steps >= step and not run.may_follow(body[0]):
                break
            now = time.monotonic()
            if now > noted:
                on_call()
                noted = now + _QUIET_SECONDS
            if not run.play(decoder, body):
                break
    if step is not None and run.steps < step:
        raise BadParameter(
            f"step is {step}: expected at most {run.steps}, the steps of the recording"
        )
    return Resumed(first.header, run.records, run.steps, run.reset, run.last)


class _Replay:
    """Replays records, one after the other.

    Attributes:
        records: Records that were replayed, as `COUNTED` counts them.
        steps: Steps among them.
        reset: Whether the environment was reset, or its generator set.
    """

    def __init__(
        self, operations: Operations, exact: LosslessCalls, verify: bool
    ) -> None:
        self.records = 0
        self.steps = 0
        self.reset = False
        self._last: tuple[str, Json | Recorded] | None = None
        self._operations = operations
        self._exact = exact
        self._verify = verify
        self._writing = Writing()
        self._signatures: dict[int, bytes] = {}
        self._layouts: dict[int, _StepLayout | None] = {}
        self._play = {
            Kind.RESET: self._reset,
            Kind.STEP: self._step,
            Kind.CHANGE: self._change,
            Kind.FAILURE: self._failure,
        }

    @property
    def last(self) -> Json | None:
        """The last record of a reset, a step or a failure, with ``op``."""
        if self._last is None:
            return None
        op, value = self._last
        if isinstance(value, tuple):
            decoder, body = value
            record = decoder.decode(body)
            value = {} if record is None else record.value
        return {"op": op, **value}

    def may_follow(self, kind: int) -> bool:
        """Whether a record of a kind is replayed after the last wanted step."""
        # The state from which the first step is taken is that after the first reset.
        return kind not in COUNTED or (
            not self.steps and (self._last is None or kind == Kind.CHANGE)
        )

    def play(self, decoder: StepDecoder, body: bytes) -> bool:
        """Replay a record; return False if it is damaged.

        Raises:
            ResumeDiffers: The environment did something else.
        """
        kind = body[0]
        try:
            if kind == Kind.STEP and self._step_quickly(decoder, body):
                self.records += 1
                return True
            record = decoder.decode(body)
            if record is None:
                return False
            if kind == Kind.HEADER:
                # Each part has signatures of its own.
                self._signatures.clear()
                self._layouts.clear()
            recorded = self._split(body)
            if kind in self._play:
                members = self._play[record.kind](record.value)
                self._compare(recorded, record.value, members)
                self.records += 1
        except (ResumeDiffers, ExternalAway):
            raise
        except env_exceptions() as error:
            raise self._differs(
                f"its {Kind(kind).name.lower()} raises an exception now: {error}"
            ) from error
        if kind == Kind.STEP:
            self._learn(body, record.value)
        return True

    def _step_quickly(self, decoder: StepDecoder, body: bytes) -> bool:
        """Replay a step of which only the action is decoded, if that can be."""
        size, number = VALUE_HEADER.unpack_from(body, BODY.size)
        layout = None if size else self._layouts.get(number)
        if layout is None:
            return False
        leaves = body[_LEAVES:]
        action = layout.read_action(leaves[: layout.action_bytes], 0)["action"]
        draws = _DRAWS.unpack_from(leaves, len(leaves) - _DRAWS.size)[0]
        members = self._take(action, draws if layout.has_draws else 0)
        self._last = "step", (decoder, body)
        if not self._is_same((layout.signature, leaves), members):
            record = decoder.decode(body)
            if record is not None:
                self._explain(record.value, members)
        return True

    def _learn(self, body: bytes, value: Json) -> None:
        """Learn how to read the actions of steps that have the same signature."""
        size, number = VALUE_HEADER.unpack_from(body, BODY.size)
        if size or number in self._layouts or next(iter(value)) != "action":
            return
        signature, parts = Writing().split({"action": value["action"]})
        layout = None
        if fixed_writer(signature) is not None:
            # So the action of each of them has as many bytes.
            layout = _StepLayout(
                self._signatures[number],
                sum(memoryview(each).nbytes for each in parts),
                fixed_reader(signature, compile_reader(signature)),
                "draws" in value,
            )
        self._layouts[number] = layout

    def _reset(self, value: Json) -> Json:
        seed, options = value["seed"], value["options"]
        self._operations.first_seed = None
        # Vectors take the mask out of it.
        given = {"seed": seed, "options": copy.copy(options)}
        result = self._exact.reset(given)
        self.reset = True
        self._last = "reset", value
        return reset_members(seed, options, result, drawn="drawn" in value)

    def _step(self, value: Json) -> Json:
        members = self._take(value["action"], value.get("draws", 0))
        self._last = "step", value
        return members

    def _take(self, action: Any, draws: int) -> Json:
        operations = self._operations
        for _ in range(draws):
            operations.sample("action", None, None)
        if operations.checks_actions:
            operations.check_action(action)
        result = self._exact.take(action)
        self.steps += 1
        return step_members(action, result, draws)

    def _change(self, value: Json) -> Json:
        op, name, given = value["op"], value["name"], value["given"]
        if op == "set_generator":
            self._operations.first_seed, self.reset = None, True
        self._call(op, name, given)
        return value

    def _call(self, op: str, name: str, given: Json) -> None:
        exact, operations = self._exact, self._operations
        match op:
            case "set_generator":
                exact.set_generator(given)
            case "set_attribute":
                exact.set_attribute(name, given)
            case "call_attribute":
                exact.call_attribute(name, given)
            case "action_sample" | "observation_sample":
                which = op.removesuffix("_sample")
                operations.sample(which, given.get("seed"), given.get("mask"))
            case _:
                raise BadParameter(f"the request {op!r:.40} is unknown")

    def _failure(self, value: Json) -> Json:
        op, given = value["op"], value["given"]
        self._last = op, value
        try:
            if "action" in given:
                self._exact.step({"action": given["action"]})
            elif op in ("reset", "rollout", "step") and "seed" in given:
                self._exact.reset(dict(given))
            elif value["name"] is not None or op.endswith("_sample"):
                self._call(op, value["name"], given)
            else:
                # A render, or the like.
                return value
        except env_exceptions():
            return value
        raise self._differs(f"its {op} raised an exception: {value['error']}")

    def _compare(
        self, recorded: tuple[bytes, bytes], value: Json, members: Json
    ) -> None:
        """Check that the members of a record are the same again.

        Raises:
            ResumeDiffers: They differ.
        """
        if not self._is_same(recorded, members):
            self._explain(value, members)

    def _is_same(self, recorded: tuple[bytes, bytes], members: Json) -> bool:
        """Whether members are the same as recorded ones, for all that can be sent.

        Args:
            recorded: Signature and leaves of the recorded ones.
            members: The members.
        """
        if not self._verify:
            return True
        try:
            signature, leaves = self._writing.split(members)
        except UnsupportedValue:
            return False
        return (signature, b"".join(leaves)) == recorded

    def _explain(self, value: Json, members: Json) -> None:
        """Check part by part that the members of a record are the same again.

        Raises:
            ResumeDiffers: They differ.
        """
        again = binary.decode(binary.encode(with_unsent(members)[0]))
        found = first_difference(value, again, "")
        if found is not None:
            path, recorded, replayed = found
            raise self._differs(
                f"{path} was {_shown(recorded)} and is {_shown(replayed)} now",
                member=path,
                recorded=_shown(recorded),
                replayed=_shown(replayed),
            )

    def _split(self, body: bytes) -> tuple[bytes, bytes]:
        """Return signature and leaves of a record, which was decoded before."""
        size, number = VALUE_HEADER.unpack_from(body, BODY.size)
        if not size:
            return self._signatures[number], body[_LEAVES:]
        signature = body[_LEAVES : _LEAVES + size]
        if number:
            self._signatures[number] = signature
        return signature, body[_LEAVES + size :]

    def _differs(self, words: str, **extras: Any) -> ResumeDiffers:
        where = f"step {self.steps}"
        if self._last is not None and self._last[0] == "reset":
            where = f"the reset after step {self.steps}" if self.steps else "the reset"
        return ResumeDiffers(
            f"the environment differs from the recording at {where}: {words}. "
            f"{_CAUSES}. Resume at an earlier step, or with verify false",
            extras={"step": self.steps, **extras},
        )


def _shown(value: Any) -> str:
    return f"{value!r:.{_SHOWN_CHARS}}"
