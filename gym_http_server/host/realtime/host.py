"""Serves an instance with a clock: ticks come in time, and requests wait for them.

A request waits before it is executed, never in the middle. Resets and steps stand in a
line until the clock lets them run, and then run in one go. Requests that do not touch
the world pass them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, cast

import greenlet  # type: ignore[import-untyped]

from gym_http_server.errors import Draining
from gym_http_server.host import fork_guard
from gym_http_server.host.dispatch import Dispatch
from gym_http_server.host.external.connections import Awaited
from gym_http_server.host.host import (
    AGENT_LOST,
    SEND_SECONDS,
    UNSENT_MS,
    UNUSED,
    Host,
    WorkerConnection,
)
from gym_http_server.host.realtime.handlers import ClockedBroadcast, ClockedHandlers
from gym_http_server.host.realtime.line import Line, Waiting
from gym_http_server.host.realtime.operations import ClockedOperations
from gym_http_server.host.realtime.streams import ClockedStreams
from gym_http_server.host.realtime.timer import Timer
from gym_http_server.host.streams import Stream
from gym_http_server.processes.poller import READ
from gym_http_wire.frames import Frame, encode
from gym_http_wire.messages import Op, answer, problem_answer, request_head
from gym_http_wire.problems import Problem

__all__ = ["ClockedHost"]

Sender = WorkerConnection | Stream

#: While clients wait, how often the host records that, in nanoseconds.
_MARK_NS = 500_000_000
# How long a call of an external world may still take when the instance is closed.
_LAST_SECONDS = 1.0
_WORLD = frozenset({Op.RESET, Op.STEP})
# Operations that do not touch the world, and so are executed even during a call of it.
# MONITOR_START and MONITOR_CLOSE wait for its end: their answers are kept for repeats,
# in the order of their session, and a step that runs belongs to the monitor before.
_FREE = frozenset(
    {
        Op.ACT,
        Op.ACTION_CONTAINS,
        Op.ACTION_SPACE,
        Op.DESCRIBE,
        Op.EPISODES,
        Op.KEYS,
        Op.OBSERVATION_CONTAINS,
        Op.OBSERVATION_SPACE,
        Op.PAUSE,
        Op.REALTIME,
        Op.RESUME,
        Op.SET_REALTIME,
        Op.TRACE,
    }
)


class ClockedHost(Host):
    """Serves one instance that has a clock.

    Args:
        dispatch: Answers the requests.
        args: As of `Host`.
        more: The same.
    """

    _STREAMS = ClockedStreams
    _broadcast: ClockedBroadcast
    _streams: ClockedStreams

    def __init__(self, dispatch: Dispatch, *args: Any, **more: Any) -> None:
        super().__init__(dispatch, *args, **more)
        self._operations = cast(ClockedOperations, dispatch.operations)
        self._handlers = cast(ClockedHandlers, dispatch.handlers)
        self._broadcast = cast(ClockedBroadcast, dispatch.broadcast)
        self._sessions = dispatch.sessions
        self._mode = self._operations.mode
        self._spin_ns = self._mode.settings.spin_us * 1000
        self._timer = Timer()
        self._line: Line[Sender] = Line()
        self._updates: Line[Sender] = Line()
        self._draining = False
        self._marked_ns = 0
        # A call of an external world: its greenlet, the request that made it, and
        # its cause to pause.
        self._world: greenlet.greenlet | None = None
        self._running: Waiting[Sender] | None = None
        self._awaited: Awaited | None = None
        streams = self._streams
        streams.submit = self._submit_from_stream
        streams.count_waiting = self._count_waiting
        streams.drop_waiting = self._drop

    def serve(self) -> None:
        """Serve until the supervisor closes the instance."""
        self._activity.set_clock(1e9 / self._mode.period_ns)
        self._poller.add(self._timer, lambda events: None)
        longest_ms = self._begin()
        mode, timer, external = self._mode, self._timer, self._external
        stuck = self._server.stuck
        if external is not None:
            external.wait_with(self._pause_world)
        if mode.source is not None:
            self._poller.add(mode.source, lambda events: mode.wake())
        only_rang = [(timer.fileno(), READ)]
        while self._open:
            timer.set(self._wake_ns(), mode.period_ns)
            happened = self._streams.wait(UNSENT_MS if stuck else longest_ms)
            began, world_ns = time.monotonic_ns(), mode.world_ns
            if happened != only_rang:
                self._poller.handle(happened, self._tick_in_time)
            elif external is None and not self._line.requests:
                # As in `_run_clock`, but all that precedes a tick makes it late.
                due = mode.due_ns
                if due is not None and due <= began:
                    self._advance()
            if external is not None and time.monotonic() >= external.due:
                self._attend(external)
            spun_ns = self._run_clock()
            took_ns = time.monotonic_ns() - began - spun_ns
            mode.answers_ns += took_ns - (mode.world_ns - world_ns)
            if stuck:
                self._server.disconnect_stuck(SEND_SECONDS)
        self._finish_answers()

    def _wake_ns(self) -> int | None:
        """Return when something is due; ``None`` if nothing is."""
        due = None
        if self._world is None and self._mode.due_ns is not None:
            due = self._mode.due_ns - self._spin_ns
        line, updates = self._line.requests, self._updates.requests
        watchers = self._broadcast.watchers
        if not (line or updates or watchers or self._awaited):
            return due
        times = [due, *[each.until_ns for each in updates]]
        if watchers:
            times.append(self._broadcast.due_ns)
            if self._broadcast.showing is not None and self._world is None:
                times.append(self._broadcast.showing.wake_ns)
        if line or updates:
            times.append(self._marked_ns + _MARK_NS)
        if self._awaited is not None:
            times.append(int(self._awaited.deadline * 1e9))
        return min((each for each in times if each is not None), default=None)

    def _tick_in_time(self) -> None:
        """Do what is due between two requests, of which there may be many."""
        due = self._mode.due_ns
        if due is not None and self._world is None and due <= time.monotonic_ns():
            self._run_clock()

    def _run_clock(self) -> int:
        """Do what is due; return the nanoseconds that were spent on spinning."""
        if not self._open:
            return 0
        awaited = self._awaited
        if awaited is not None and (
            awaited.over or time.monotonic() >= awaited.deadline
        ):
            self._resume_world()
        mode, spun_ns = self._mode, 0
        line = self._line
        # One call at a time; ticks that are missed meanwhile are counted.
        due = mode.due_ns if self._world is None else None
        if due is not None and due - self._spin_ns <= (now := time.monotonic_ns()):
            if now < due:
                spun_ns = due - now
                while time.monotonic_ns() < due:
                    pass
            if line.requests:
                # A step may be this tick.
                self._serve_line()
                due = mode.due_ns if self._world is None else None
            if due is not None and due <= time.monotonic_ns():
                if self._external is None:
                    self._advance()
                else:
                    self._call_world(self._advance)
        if line.requests:
            self._serve_line()
        if self._updates.requests:
            self._serve_updates()
        if mode.closing is not None and self._world is None:
            self._close_by_itself(mode.closing)
            return spun_ns
        if self._broadcast.watchers:
            self._broadcast.send_waiting()
            if self._world is None:
                self._broadcast.attend(self._next_tick_ns())
        if line.requests or self._updates.requests:
            now = time.monotonic_ns()
            if now - self._marked_ns >= _MARK_NS:
                self._marked_ns = now
                self._activity.mark_waiting()
        return spun_ns

    def _next_tick_ns(self) -> int | None:
        due = self._mode.due_ns
        return None if due is None else due - self._spin_ns

    def _advance(self) -> None:
        # The world may change arrays of answers that are not sent yet, as of pictures.
        if self._streams.uncopied:
            self._streams.copy_outputs()
        if self._sessions.uncopied:
            self._sessions.copy_last()
        events = self._mode.advance()
        fork_guard.check()
        self._finish_world(events)

    def _close_by_itself(self, reason: str) -> None:
        """End the instance, since its agent was silent too long."""
        print(f"closing: {reason}", flush=True)
        self._channel.sendall(encode(answer(410, AGENT_LOST)))
        self._end(reason)

    def _end(self, reason: str) -> None:
        """Close all streams and the world, whose present call may end before."""
        external, deadline = self._external, time.monotonic() + _LAST_SECONDS
        while external is not None and self._awaited is not None:
            left = deadline - time.monotonic()
            if self._awaited.over:
                self._resume_world()
            elif left > 0:
                external.attend(left)
            else:
                break
        super()._end(reason)

    # Requests.

    def _take(self, connection: WorkerConnection, frame: Frame) -> None:
        self._submit(connection, frame, "", False)

    def _submit_from_stream(self, stream: Stream, frame: Frame, behind: bool) -> None:
        self._submit(stream, frame, stream.session, behind)

    def _submit(self, sender: Sender, frame: Frame, session: str, behind: bool) -> None:
        """Execute a request, or let it wait."""
        caller = session or _session_of(frame)
        if frame.kind == Op.UPDATES:
            self._submit_updates(Waiting(sender, frame, session, behind, caller))
            return
        if _is_free(frame, session):
            self._reply(sender, self._execute_free(frame, session, caller))
            return
        if frame.kind in _WORLD:
            self._mode.arrive(caller)
        self._line.add(Waiting(sender, frame, session, behind, caller))
        self._serve_line()
        if self._draining:
            self._refuse_waiting()

    def _submit_updates(self, waiting: Waiting[Sender]) -> None:
        frame = waiting.frame
        self._activity.mark_waiting()
        try:
            waiting.updates = wanted = self._handlers.read_updates(frame)
        except Problem as problem:
            self._reply(waiting.sender, problem_answer(problem, frame.number))
            return
        waiting.until_ns = time.monotonic_ns() + wanted.wait_ns
        if not self._answer_updates(waiting, {}):
            self._updates.add(waiting)
            if self._draining:
                self._refuse_waiting()

    def _answer_updates(
        self, waiting: Waiting[Sender], shared: dict[Any, Frame]
    ) -> bool:
        """Answer a request for updates, if it can be; returns whether.

        Requests that want the same at the same time share an answer.
        """
        wanted, until_ns = waiting.updates, waiting.until_ns
        if wanted is None or until_ns is None:
            return False
        last = until_ns <= time.monotonic_ns()
        reply = self._handlers.answer_updates(waiting.frame, wanted, shared, last=last)
        if reply is None:
            return False
        self._reply(waiting.sender, reply)
        return True

    def _serve_updates(self) -> None:
        """Answer the requests for updates that need not wait longer."""
        shared: dict[Any, Frame] = {}
        for each in self._updates.take_all():
            if not self._answer_updates(each, shared):
                self._updates.add(each)

    def _serve_line(self) -> None:
        """Execute the waiting requests whose time has come."""
        while self._line.requests:
            waiting = self._line.take(self._is_ready)
            if waiting is None:
                return
            self._call_world(functools.partial(self._run, waiting))

    def _is_ready(self, waiting: Waiting[Sender]) -> bool:
        frame, mode = waiting.frame, self._mode
        if self._world is not None and self._is_running(waiting):
            return False
        if self._dispatch.is_known(frame, waiting.session):
            return True
        if self._world is not None:
            return False
        if frame.kind not in _WORLD:
            return True
        if frame.kind == Op.RESET:
            return mode.may_reset(waiting.caller)
        return mode.may_step(waiting.caller)

    def _is_running(self, waiting: Waiting[Sender]) -> bool:
        """Whether a request repeats the one that calls the world at the moment."""
        running = self._running
        if running is None:
            return False
        return _name_of(running) == _name_of(waiting)

    def _run(self, waiting: Waiting[Sender]) -> None:
        """Execute a request that was taken out of the line."""
        self._running = waiting
        self._operations.caller = waiting.caller
        reply = self._execute(waiting.frame, waiting.session, waiting.behind)
        self._running = None
        self._finish_world(self._mode.take_events())
        self._reply(waiting.sender, reply)

    def _execute_free(self, frame: Frame, session: str, caller: str) -> Frame:
        """Execute a request that does not touch the world."""
        self._operations.caller = caller
        reply = self._handlers.perform(frame, bool(session))
        if frame.kind not in UNUSED:
            self._activity.mark_waiting()
        self._finish_world(self._mode.take_events())
        return reply._replace(number=frame.number)

    def _finish_world(self, events: list[Any]) -> None:
        """Record what happened in the world."""
        self._handlers.record_events(events)
        mode, page = self._mode, self._activity.page
        page.set_paused(mode.state == "paused")
        for event in events:
            page.add_tick(event.update.late_ns)
        if mode.left_out:
            for first_ns, count in mode.left_out:
                page.add_left_out(first_ns, mode.period_ns, count)
            mode.left_out.clear()
            page.set_stall(mode.stall_ns)
        if not mode.busy:
            steps, episodes = self._operations.steps, self._operations.episodes
            page.finish_tick(time.monotonic_ns(), steps, episodes)

    def _reply(self, sender: Sender, reply: Frame) -> None:
        if isinstance(sender, Stream):
            self._streams.answer(sender, reply)
        else:
            self._server.answer(sender, reply)

    def _count_waiting(self, sender: Sender) -> int:
        return self._line.count(sender) + self._updates.count(sender)

    def _drop(self, sender: Sender) -> None:
        """Drop the waiting requests of a client that has left."""
        self._line.drop(sender)
        self._updates.drop(sender)

    def _drain(self) -> None:
        """Let no request wait any more: the server is about to stop."""
        self._draining = True
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        problem = Draining("the server is stopping: no request waits any more")
        for each in self._line.take_all() + self._updates.take_all():
            self._reply(each.sender, problem_answer(problem, each.frame.number))

    # Calls of the world.

    def _call_world(self, call: Callable[[], None]) -> None:
        """Call the world; one that waits for a peer pauses, and the loop goes on."""
        if self._external is None or self._world is not None:
            call()
            return
        self._world = greenlet.greenlet(call)
        self._switch()

    def _switch(self) -> None:
        world = self._world
        if world is not None:
            world.switch()
            if world.dead:
                self._world = None

    def _resume_world(self) -> None:
        self._awaited = None
        self._switch()

    def _pause_world(self, awaited: Awaited) -> bool:
        """Pause a call of the world; return False if the caller has to wait itself."""
        world = self._world
        if world is None or greenlet.getcurrent() is not world:
            return False
        self._awaited = awaited
        world.parent.switch()
        return True


def _is_free(frame: Frame, session: str) -> bool:
    """Whether a request does not touch the world, and its answer is not kept."""
    if frame.kind == Op.MONITOR:
        return not session and not request_head(frame).key
    return frame.kind in _FREE


def _session_of(frame: Frame) -> str:
    """Return the session of a request over HTTP, as its key names it; or ""."""
    if not frame.head:
        return ""
    session, _, digits = request_head(frame).key.rpartition("-")
    return session if digits.isdecimal() else ""


def _name_of(waiting: Waiting[Sender]) -> str:
    """Return the key of a request, which repetitions share; or ""."""
    if waiting.session:
        return f"{waiting.session}-{waiting.frame.number}"
    return request_head(waiting.frame).key
