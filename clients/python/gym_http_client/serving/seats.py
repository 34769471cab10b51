"""Seats: the agents of a world, each of them an environment for another program."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium

from gym_http_client.serving.games import Agent
from gym_http_client.serving.provided_env import ProvidedEnv
from gym_http_client.serving.world import Reset, Step, World
from gym_http_core.env_errors import env_error
from gym_http_wire.external.messages import Answer, Request
from gym_http_wire.problems import BadParameter, Problem, ResetNeeded

__all__ = ["ProvidedSeat", "SeatEnv", "WorldThread", "Worlds"]

#: Seconds between two looks at the connection while others are awaited.
LOOK_SECONDS = 0.25

Values = dict[str, Any]


class WorldThread:
    """A world in a thread of its own, in which everything is called.

    Args:
        make: Makes the world.
        clock: Returns monotonic seconds.

    Raises:
        Exception: An exception of ``make``.

    Attributes:
        world: The world; use it with `lock` only.
        lock: The lock.
    """

    world: World

    def __init__(
        self, make: Callable[[], World], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.lock = threading.Lock()
        self._asked = threading.Condition(self.lock)
        self._answered = threading.Condition(self.lock)
        self._clock = clock
        self._over = False
        self._made = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(make,), daemon=True)
        self._thread.start()
        self._made.wait()
        if self._error is not None:
            raise self._error

    def _run(self, make: Callable[[], World]) -> None:
        try:
            self.world = make()
        except Exception as error:
            self._error = error
            return
        finally:
            self._made.set()
        with self.lock:
            while not self._over:
                self.world.advance(self._clock())
                self._answered.notify_all()
                now = self._clock()
                due = self.world.due(now)
                self._asked.wait(None if due is None else due - now)
        self.world.env.close()

    def take(self, agent: Agent) -> None:
        """Give the seat of an agent to a holder. Hold the lock."""
        self.world.take(agent, self._clock())

    def leave(self, agent: Agent) -> None:
        """Free the seat of an agent."""
        with self.lock:
            self.world.leave(agent)
            self._asked.notify()

    def ask(self, agent: Agent, request: Reset | Step) -> None:
        """Ask for a reset or a step."""
        with self.lock:
            self.world.ask(agent, request, self._clock())
            self._asked.notify()

    def await_answer(self, agent: Agent, look: Callable[[], None]) -> Any:
        """Wait for the answer to a request.

        Args:
            agent: The agent whose holder has asked.
            look: Called from time to time; what it raises ends the wait, but not the
                request.
        """
        while True:
            with self.lock:
                seat = self.world.seats[agent]
                if seat.answer is None:
                    self._answered.wait(LOOK_SECONDS)
                answer, seat.answer = seat.answer, None
            if answer is not None:
                return answer
            look()

    def call(self, function: Callable[[World], Any]) -> Any:
        """Call a function with the world, while nothing else happens in it."""
        with self.lock:
            return function(self.world)

    def close(self) -> None:
        """Close the world."""
        with self.lock:
            self._over = True
            self._asked.notify()
        self._thread.join()


class Worlds:
    """Several worlds with the same seats.

    Attributes:
        first: The first one.
    """

    def __init__(self, threads: list[WorldThread]) -> None:
        self.first = threads[0].world
        self._threads = threads
        self._lock = threading.Lock()

    def take(self, agent: Agent) -> WorldThread:
        """Take the seat of an agent where it is free and most other seats are held."""
        with self._lock:
            free = [x for x in self._threads if not x.world.seats[agent].held]
            thread = max(free, key=_count_held)
            with thread.lock:
                thread.take(agent)
            return thread


def _count_held(thread: WorldThread) -> int:
    return sum(seat.held for seat in thread.world.seats.values())


class SeatEnv(gymnasium.Env[Any, Any]):
    """One agent of a world, as an environment.

    Args:
        worlds: The worlds; each holder gets the seat in one of them.
        agent: The agent's ID.

    Attributes:
        agent: The agent's ID.
        look: Called from time to time while others are awaited.
        suspended: What `look` raised in the last call, which goes on if it is repeated.
    """

    def __init__(self, worlds: Worlds, agent: Agent) -> None:
        self._worlds = worlds
        self._thread: WorldThread | None = None
        self._in_call = False
        self.agent = agent
        self.look: Callable[[], None] = _nothing
        self.suspended: Exception | None = None
        self._describe(worlds.first)

    def _describe(self, world: World) -> None:
        self.observation_space = world.observation_space(self.agent)
        self.action_space = world.action_space(self.agent)
        agents = {"agent": self.agent, "possible_agents": list(world.seats)}
        self.metadata = {**world.env.metadata, **agents}
        self.render_mode = world.env.render_mode

    def take(self) -> None:
        """Take the seat in one of the worlds."""
        self.leave()
        self._thread = self._worlds.take(self.agent)
        self._describe(self._thread.world)

    def leave(self) -> None:
        """Free the seat."""
        thread, self._thread, self._in_call = self._thread, None, False
        if thread is not None:
            thread.leave(self.agent)

    def withdraw(self) -> None:
        """Forget a suspended call, which will not be repeated."""
        self._in_call = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Wait for the world's next episode."""
        if seed is not None:
            super().reset(seed=seed)
        observation, info = self._ask(Reset(seed, options))
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action, and wait until all have acted."""
        observation, reward, terminated, truncated, info = self._ask(Step(action))
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        """Render the world."""
        return self._held().call(lambda world: world.env.render())

    def _ask(self, request: Reset | Step) -> Any:
        thread = self._held()
        if not self._in_call:
            self._in_call = True
            thread.ask(self.agent, request)
        try:
            answer = thread.await_answer(self.agent, self.look)
        except Exception as error:
            self.suspended = error
            raise
        self._in_call = False
        if isinstance(answer, TimeoutError) and answer.__traceback__ is None:
            # Others did not act: no code has failed, and a traceback would mislead.
            failed = env_error(type(request).__name__.lower(), answer)
            del failed.extras["traceback"]
            raise failed
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _held(self) -> WorldThread:
        if self._thread is None:
            raise ResetNeeded(f"nobody holds the seat of {self.agent}: create it first")
        return self._thread


class ProvidedSeat(ProvidedEnv):
    """Executes requests on the seat of one agent.

    Args:
        env: The seat.
        patience_s: How long its holder waits for others.
    """

    env: SeatEnv

    def __init__(self, env: SeatEnv, patience_s: float) -> None:
        super().__init__(env, None)
        self._patience_s = patience_s
        self._suspended = 0

    def answer(self, request: Request) -> Answer:
        """Execute a request, and return its answer.

        Raises:
            ConnectionLost: The connection was lost while others were awaited. If the
                request comes again, it goes on.
        """
        env = self.env
        if request.number != self._suspended:
            env.withdraw()
        env.look = self.attend
        answer = super().answer(request)
        if env.suspended is not None:
            error, env.suspended = env.suspended, None
            self._suspended = request.number
            raise error
        return answer

    def release(self) -> None:
        """Free the seat."""
        self.env.leave()
        super().release()

    def _init(self, given: Values) -> Values:
        deadline_s = given.get("deadline_s")
        if deadline_s is not None and self._patience_s >= deadline_s:
            raise BadParameter(
                f"patience_s is {self._patience_s:g}: expected less than the "
                f"{deadline_s:.4g} s within which the server expects an answer "
                "(--external-deadline, and at most 0.8 of --step-deadline)"
            )
        self.env.take()
        try:
            return super()._init(given)
        except Problem:
            self.env.leave()
            raise

    def _close(self, given: Values) -> Values:
        self.env.leave()
        return super()._close(given)


def _nothing() -> None:
    pass
