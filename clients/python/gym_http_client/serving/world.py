"""The rules of a world that several agents share, without threads and without a clock.

Each agent has a `Seat`, whose holder asks for a reset or a step. `World.advance` begins
episodes, takes steps and answers, as far as that is possible at a given time. Times are
monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import gymnasium

from gym_http_client.serving.games import Agent, Game, Outcome
from gym_http_wire.problems import ExternalAway, InvalidAction, ResetNeeded

__all__ = ["Absent", "Reset", "Seat", "Step", "World", "act_randomly"]

Space = gymnasium.Space[Any]


class Reset(NamedTuple):
    """A holder's request to begin an episode."""

    seed: int | None
    options: Any


class Step(NamedTuple):
    """A holder's request to take an action."""

    action: Any


class Presence(Enum):
    """Whether the holder of a seat is in the world's episode.

    Attributes:
        NONE: It is not in the episode, or the seat is free.
        PLAYING: It is in the episode, and its agent lives.
        ENDED: Its episode has ended, and its next step returns that.
    """

    NONE = 1
    PLAYING = 2
    ENDED = 3


_NOTHING = Outcome(None, 0.0, False, False, {})


@dataclass(eq=False)
class Seat:
    """The place of one agent in a world.

    Attributes:
        agent: The agent's ID in the world.
        env_id: The ID with which a holder creates it.
        held: Whether an agent's program holds it.
        since: When its holder asked; or, if it has not asked since, was answered.
        asked: The request that waits for an answer.
        answer: The answer: a tuple, or an exception to raise.
        presence: Whether its holder is in the episode.
        outcome: What its holder has not received yet, with the sum of the rewards.
        missed: How many actions were taken in its holder's place since its last answer.
    """

    agent: Agent
    env_id: str
    held: bool = False
    since: float = 0.0
    asked: Reset | Step | None = None
    answer: Any = None
    presence: Presence = Presence.NONE
    outcome: Outcome = _NOTHING
    missed: int = 0

    @property
    def steps(self) -> bool:
        """Whether its holder waits for the answer to a step."""
        return isinstance(self.asked, Step)

    @property
    def resets(self) -> bool:
        """Whether its holder waits for the next episode."""
        return isinstance(self.asked, Reset) and self.presence is not Presence.PLAYING

    def reply(self, answer: Any, now: float) -> None:
        """Answer the request."""
        self.asked, self.answer, self.since = None, answer, now

    def reply_step(self, now: float) -> None:
        """Answer a step with what has happened since the last answer."""
        observation, reward, terminated, truncated, info = self.outcome
        if self.missed:
            info = {**info, "missed": self.missed}
        self.reply((observation, reward, terminated, truncated, info), now)
        self.outcome, self.missed = self.outcome._replace(reward=0.0), 0
        if self.presence is Presence.ENDED:
            self.presence = Presence.NONE


class World:
    """A world with a seat for each agent.

    What an `Absent` needs has the names that it has in PettingZoo.

    Args:
        game: The environment.
        env_ids: By agent, the ID with which a holder creates its seat.
        patience_s: How long a holder waits for others.
        absent: Returns an action for an agent whose seat is free or whose holder is
            silent; ``None`` to wait.

    Attributes:
        env: The PettingZoo environment.
        seats: By agent, in the order of ``possible_agents``.
    """

    def __init__(
        self,
        game: Game,
        env_ids: dict[Agent, str],
        patience_s: float,
        absent: Absent | None = None,
    ) -> None:
        self.env = game.env
        self.seats = {agent: Seat(agent, name) for agent, name in env_ids.items()}
        self._game = game
        self._patience_s = patience_s
        self._absent = absent
        # PettingZoo's functions may make a new space each time.
        self._observation_spaces: dict[Agent, Space] = {
            agent: self.env.observation_space(agent) for agent in env_ids
        }
        self._action_spaces: dict[Agent, Space] = {
            agent: self.env.action_space(agent) for agent in env_ids
        }
        self._newest: dict[Agent, Outcome] = {}
        self._running = False
        # Why the episode has ended, if not by itself.
        self._cut_because = ""

    @property
    def agents(self) -> list[Agent]:
        """The living agents."""
        return list(self.env.agents)

    def observation_space(self, agent: Agent) -> Space:
        """Return the space of an agent's observations."""
        return self._observation_spaces[agent]

    def action_space(self, agent: Agent) -> Space:
        """Return the space of an agent's actions."""
        return self._action_spaces[agent]

    def observe(self, agent: Agent) -> Any:
        """Return an agent's newest observation."""
        return self._newest[agent].observation

    def info(self, agent: Agent) -> dict[str, Any]:
        """Return an agent's newest info."""
        return self._newest[agent].info

    def take(self, agent: Agent, now: float) -> None:
        """Note that a seat has a holder."""
        seat = self.seats[agent]
        seat.held, seat.since, seat.presence = True, now, Presence.NONE

    def leave(self, agent: Agent) -> None:
        """Note that the holder of a seat has left."""
        seat = self.seats[agent]
        seat.held, seat.presence = False, Presence.NONE
        seat.asked, seat.answer = None, None

    def ask(self, agent: Agent, request: Reset | Step, now: float) -> None:
        """Take a holder's request, which `advance` answers."""
        seat, space = self.seats[agent], self._action_spaces[agent]
        seat.asked, seat.answer, seat.since = request, None, now
        if isinstance(request, Reset):
            # In the middle of an episode, its holder leaves that.
            seat.presence = Presence.NONE
        elif seat.presence is Presence.NONE:
            why = self._cut_because or f"{agent} is in no episode"
            seat.reply(ResetNeeded(f"{why}: {_reset_of(seat)} first"), now)
        elif not space.contains(request.action):
            words = f"the action of {agent} is {request.action!r:.80}: expected one of"
            seat.reply(InvalidAction(f"{words} {space}"), now)

    def advance(self, now: float) -> None:
        """Do all that can be done now."""
        while self._play(now) if self._running else self._begin(now):
            pass

    def due(self, now: float) -> float | None:
        """Return when to call `advance` if nobody asks before; ``None``: never."""
        times = [each.since + self._patience_s for each in self.seats.values()]
        return min((time for time in times if time > now), default=None)

    def _begin(self, now: float) -> bool:
        """Begin an episode once all seats wait for it; return whether it was begun."""
        seats = list(self.seats.values())
        self._reply_late([], now)
        waiting = [seat for seat in seats if seat.resets]
        missing = [seat for seat in seats if not seat.resets]
        if self._absent is not None:
            missing = [
                seat for seat in missing if seat.held and self._patient(seat, now)
            ]
            if not all(self._patient(seat, now) for seat in waiting):
                missing = []
        if missing or not waiting:
            self._refuse_late(waiting, missing, now)
            return False
        for seat in waiting:
            seat.presence, seat.outcome, seat.missed = Presence.PLAYING, _NOTHING, 0
        requests = [x.asked for x in waiting if isinstance(x.asked, Reset)]
        self._running, self._cut_because = True, ""
        seed, options = requests[0]
        if seed is not None:
            # So that absent agents act the same again.
            for index, space in enumerate(self._action_spaces.values()):
                space.seed(seed + index)
        self._show(lambda: self._game.reset(seed, options), now)
        return True

    def _play(self, now: float) -> bool:
        """Take a step once all have acted, or end the episode; return whether done."""
        seats = list(self.seats.values())
        acting = [self.seats[agent] for agent in self._game.to_act()]
        self._reply_late(acting, now)
        playing = [seat for seat in seats if seat.presence is Presence.PLAYING]
        waiting = [seat for seat in playing if seat.asked is not None]
        resetting = [seat for seat in seats if seat.resets]
        silent = [seat for seat in playing if seat.asked is None]
        if self._absent is not None:
            silent = [seat for seat in silent if self._patient(seat, now)]
        if resetting and not waiting and not silent:
            self._cut("all others have left the episode")
            return True
        self._refuse_late(resetting, playing, now)
        missing = [
            x for x in acting if not (x.steps and x.presence is Presence.PLAYING)
        ]
        late = not all(self._patient(seat, now) for seat in waiting)
        if not waiting:
            return False
        if missing and self._absent is None:
            return self._end_without(missing, now, late=late)
        if not late and any(seat in silent for seat in missing):
            return False
        self._show(lambda: self._game.play(self._actions(acting, missing)), now)
        return True

    def _end_without(self, missing: list[Seat], now: float, *, late: bool) -> bool:
        """End the episode if others cannot go on without the missing ones."""
        if any(seat.resets for seat in missing):
            self._cut(
                f"{_explained([x for x in missing if x.resets])} left the episode"
            )
            return True
        if late:
            words = f"{_explained(missing)} did not act within {self._patience_s:g} s"
            self._fail(words, None, now)
        return late

    def _actions(self, acting: list[Seat], missing: list[Seat]) -> dict[Agent, Any]:
        """Return the actions of all agents that act, also of those that are missing."""
        actions = {}
        for seat in acting:
            if isinstance(seat.asked, Step) and seat not in missing:
                actions[seat.agent] = seat.asked.action
            elif self._absent is not None:
                seat.missed += 1
                actions[seat.agent] = self._absent(self, seat.agent)
        return actions

    def _show(self, call: Callable[[], dict[Agent, Outcome]], now: float) -> None:
        """Call the game, and pass on what agents get."""
        try:
            outcomes, to_act = call(), self._game.to_act()
            for agent in to_act:
                if agent not in self.seats:
                    raise ValueError(f"the agent {agent} is not in possible_agents")
        except Exception as error:
            words = f"the world raised {type(error).__name__}: {error}"
            self._fail(words, error, now)
            return
        self._newest |= outcomes
        for agent, outcome in outcomes.items():
            seat = self.seats.get(agent)
            if seat is not None and seat.presence is Presence.PLAYING:
                _pass_on(outcome, seat, now)
        if not to_act:
            self._cut("the world has ended it")

    def _cut(self, why: str) -> None:
        """End the episode for those that still play, as truncated."""
        self._running, self._cut_because = False, f"the episode has ended: {why}"
        for seat in self.seats.values():
            if seat.presence is Presence.PLAYING:
                # A reset of this episode that was not answered waits for the next one.
                steps = not isinstance(seat.asked, Reset)
                seat.presence = Presence.ENDED if steps else Presence.NONE
                info = {**seat.outcome.info, "cut": why}
                seat.outcome = seat.outcome._replace(truncated=True, info=info)

    def _fail(self, why: str, error: Exception | None, now: float) -> None:
        """End the episode with an error for those that play and wait.

        Args:
            why: Why it ends.
            error: The world's exception; ``None`` if some did not act in time.
            now: Monotonic seconds.
        """
        self._running, self._cut_because = False, f"the episode has ended: {why}"
        for seat in self.seats.values():
            if seat.presence is Presence.PLAYING:
                seat.presence = Presence.NONE
                if seat.asked is not None:
                    late = TimeoutError(_advised(why, seat))
                    seat.reply(late if error is None else error, now)

    def _reply_late(self, acting: list[Seat], now: float) -> None:
        """Answer steps that come after the end, or after another action in their place.

        Their actions are not taken.
        """
        for seat in self.seats.values():
            missed = seat.missed and seat in acting
            if seat.steps and (missed or seat.presence is Presence.ENDED):
                seat.reply_step(now)

    def _refuse_late(
        self, resetting: list[Seat], others: list[Seat], now: float
    ) -> None:
        """Refuse resets that have waited for long enough.

        While others play on, the answer makes clients send the reset again.
        """
        late = [seat for seat in resetting if not self._patient(seat, now)]
        if not late:
            return
        names = _explained(others)
        go_on = any(
            seat.presence is Presence.PLAYING and self._patient(seat, now)
            for seat in others
        )
        words = f"{names} did not act or reset within {self._patience_s:g} s"
        for seat in late:
            error: Exception = (
                ExternalAway(
                    f"the episode goes on with {names}: {_reset_of(seat)} again"
                )
                if go_on
                else TimeoutError(_advised(words, seat, " again"))
            )
            seat.reply(error, now)

    def _patient(self, seat: Seat, now: float) -> bool:
        """Whether a holder may go on waiting, or being silent."""
        # The same sum as that of `due`, so that both agree.
        return seat.since + self._patience_s > now


#: Returns an action for an agent of a world.
Absent = Callable[[World, Agent], Any]


def act_randomly(world: World, agent: Agent) -> Any:
    """Return a random action, which the agent's action mask permits, if it has one."""
    observation, space = world.observe(agent), world.action_space(agent)
    mask = world.info(agent).get("action_mask")
    if isinstance(observation, dict):
        mask = observation.get("action_mask", mask)
    return space.sample() if mask is None else space.sample(mask)


def _explained(seats: list[Seat]) -> str:
    """Name agents, and why nothing comes from them."""
    return ", ".join(
        str(seat.agent) if seat.held else f"{seat.agent} (nobody holds {seat.env_id})"
        for seat in seats
    )


def _pass_on(outcome: Outcome, seat: Seat, now: float) -> None:
    """Add what an agent gets to what its holder has not received, and answer it."""
    seat.outcome = outcome._replace(reward=seat.outcome.reward + outcome.reward)
    if outcome.terminated or outcome.truncated:
        seat.presence = Presence.ENDED
    if isinstance(seat.asked, Reset):
        seat.reply((outcome.observation, outcome.info), now)
    elif seat.steps:
        seat.reply_step(now)


def _reset_of(seat: Seat) -> str:
    return f"reset your environment ({seat.agent})"


def _advised(words: str, seat: Seat, again: str = "") -> str:
    """Add to the words of a timeout what the holder of a seat can do."""
    return f"{words}: {_reset_of(seat)}{again}, or set a longer patience_s"
