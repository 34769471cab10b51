"""FastStepper in the quick lane of a stream: from a request's bytes to its answer's.

This is what a host does nearly all the time. It does just what `Dispatch` does, for a
request that is nothing but an action, the next of its session, of a kind that has been
there before; all others are left to that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gym_http_server.envhost import env_warnings, fork_guard
from gym_http_server.envhost.dispatch import Dispatch
from gym_http_server.envhost.streams import Stream
from gym_http_server.rundir import StatusPage
from gym_http_wire.external.steps import PackedStep
from gym_http_wire.fast_frames import FastAnswer, FastHostFrames, FastRequest
from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import Form, Op
from gym_http_wire.problems import ExternalAway

if TYPE_CHECKING:
    from gym_http_server.envhost.external.fast_step import FastStep

__all__ = ["FastStepper", "frame_of"]

_STEP = int(Op.STEP)
_BOTH_BINARY = Form.BINARY | Form.BINARY << 4
_ABSENT: Any = object()


class FastStepper:
    """Takes steps of one environment.

    Args:
        dispatch: What answers all other requests.
        page: The host's status page.
    """

    def __init__(self, dispatch: Dispatch, page: StatusPage) -> None:
        self._dispatch = dispatch
        self._handlers = dispatch.handlers
        self._operations = dispatch.operations
        self._sessions = dispatch.sessions
        self._page = page
        self._broadcast = dispatch.broadcast
        self._watchers = dispatch.broadcast.watchers
        self._warnings = env_warnings.pending
        self._external_step = dispatch.external_step

    def take(self, stream: Stream, lane: FastHostFrames, asked: FastRequest) -> bool:
        """Take a step and answer it, if that is what was asked.

        Args:
            stream: Where the request came from, and the answer goes.
            lane: The stream's.
            asked: The request.

        Returns:
            Whether it was; if not, nothing has happened.
        """
        kind, number, _, given, signature, leaves = asked
        dispatch = self._dispatch
        if kind != _STEP or len(given) != 1 or self._handlers.monitor is not None:
            return False
        action = given.get("action", _ABSENT)
        if action is _ABSENT or not self._operations.takes(action):
            return False
        if not self._sessions.proceed(stream.session, number):
            return False
        page, operations = self._page, self._operations
        page.begin(time.monotonic_ns())
        outcome: Any = None
        told, external_step = None, self._external_step
        if external_step is not None and not self._watchers:
            told = self._step_external(external_step, lane, number, action)
        if told is None:
            external = dispatch.external
            if external is None:
                outcome = self._outcome(action)
            else:
                # By its key, a retry of a step whose connection was lost is recognized.
                key = f"{stream.session}-{number}"
                outcome = external.perform(key, lambda: self._outcome(action))
            fork_guard.check()
            if type(outcome) is dict and not self._warnings:
                told = _told(lane, number, outcome)
        now = time.monotonic_ns()
        page.finish(now, operations.steps, operations.episodes)
        dispatch.used(now)
        if told is not None:
            message, said, parts = told
            stream.send(message)
            self._sessions.keep_step(
                (stream.session, number, signature, leaves, said, parts)
            )
            if self._watchers:
                self._broadcast.hear(_STEP, outcome)
        else:
            request = frame_of(asked)
            reply = self._handlers.given(request, outcome)
            if type(outcome) is ExternalAway:
                self._sessions.retract(stream.session, number)
            else:
                self._sessions.keep(stream.session, number, request, reply)
            stream.answer(reply)
            lane.learn(reply)
        return True

    def _outcome(self, action: Any) -> dict[str, Any] | Exception:
        """Give what came of an action, or what it raised."""
        try:
            result = self._operations.step(action)
            observation, reward, terminated, truncated, info = result
        except Exception as error:
            return error
        return {
            "info": info,
            "observation": observation,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
        }

    def _step_external(
        self,
        step: FastStep[PackedStep],
        lane: FastHostFrames,
        number: int,
        action: Any,
    ) -> FastAnswer | None:
        """Step an external environment the fast way, if that can be."""
        place = lane.place(step.signature)
        if place is None:
            return None
        stepped = step.step(action)
        if type(stepped) is not PackedStep:
            # If it is pending, the environment's step waits for it.
            return None
        self._operations.count(stepped.over)
        return lane.answer_from_leaves(number, stepped.leaves, step.signature, place)


def _told(lane: FastHostFrames, number: int, value: Any) -> FastAnswer | None:
    try:
        return lane.told(number, value)
    except Exception:
        # There are infos whose keys raise when they are compared.
        return None


def frame_of(asked: FastRequest) -> Frame:
    """Give a request of the lane as all others are."""
    kind, number, status, value, signature, leaves = asked
    body = Pieces(signature, [leaves], 8 + len(signature) + len(leaves))
    body.value = value
    return Frame(kind, number, status, _BOTH_BINARY, b"", body)
