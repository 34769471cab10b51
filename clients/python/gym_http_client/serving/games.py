"""PettingZoo's two kinds of environments, as a world with seats plays them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

__all__ = ["Game", "Outcome", "game_of"]

Agent = Any


class Outcome(NamedTuple):
    """What an agent gets: of its action, or at the beginning of an episode."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Game(Protocol):
    """An environment with several agents.

    Attributes:
        env: The PettingZoo environment.
    """

    env: Any

    def reset(self, seed: int | None, options: Any) -> dict[Agent, Outcome]:
        """Begin an episode; return what the agents get that act first."""

    def to_act(self) -> list[Agent]:
        """Return the agents that have to act now; none once the episode is over."""

    def play(self, actions: dict[Agent, Any]) -> dict[Agent, Outcome]:
        """Take the actions of these agents; return what agents get."""


class ParallelGame:
    """A `ParallelEnv`, in which all living agents act at the same time."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._observations: dict[Agent, Any] = {}

    def reset(self, seed: int | None, options: Any) -> dict[Agent, Outcome]:
        """Begin an episode."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._observations = dict(observations)
        return {
            agent: Outcome(observation, 0.0, False, False, infos.get(agent, {}))
            for agent, observation in observations.items()
        }

    def to_act(self) -> list[Agent]:
        """Return the living agents."""
        return list(self.env.agents)

    def play(self, actions: dict[Agent, Any]) -> dict[Agent, Outcome]:
        """Take one action of each living agent."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        # Some worlds return nothing for agents that have died.
        gone = {agent for agent in actions if agent not in observations}
        self._observations |= observations
        return {
            agent: Outcome(
                self._observations[agent],
                rewards.get(agent, 0.0),
                bool(terminated.get(agent, agent in gone)),
                bool(truncated.get(agent, False)),
                infos.get(agent, {}),
            )
            for agent in {**actions, **observations}
        }


class TurnGame:
    """An `AECEnv`, in which agents act in turn."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def reset(self, seed: int | None, options: Any) -> dict[Agent, Outcome]:
        """Begin an episode; return the first selected agent's observation."""
        self.env.reset(seed=seed, options=options)
        return self._begin_turn()

    def to_act(self) -> list[Agent]:
        """Return the selected agent."""
        return [self.env.agent_selection] if self.env.agents else []

    def play(self, actions: dict[Agent, Any]) -> dict[Agent, Outcome]:
        """Take the selected agent's action.

        Returns:
            What the next selected agent gets, with its rewards since its last
            turn, and what those get that have died.
        """
        (action,) = actions.values()
        self.env.step(action)
        return self._begin_turn()

    def _begin_turn(self) -> dict[Agent, Outcome]:
        outcomes: dict[Agent, Outcome] = {}
        while self.env.agents:
            agent = self.env.agent_selection
            outcome = outcomes[agent] = Outcome(*self.env.last())
            if not (outcome.terminated or outcome.truncated):
                break
            # PettingZoo takes agents out of the world so.
            self.env.step(None)
        return outcomes


def game_of(env: Any) -> Game:
    """Return the game of a PettingZoo environment.

    Raises:
        TypeError: It is no PettingZoo environment that names all of its agents.
    """
    agents = getattr(env, "possible_agents", None)
    if not agents or not hasattr(env, "action_space"):
        raise TypeError(
            f"the factory returned {env!r:.80}: expected an environment of PettingZoo "
            "with possible_agents, such as rps_v2.parallel_env()"
        )
    return TurnGame(env) if hasattr(env, "agent_iter") else ParallelGame(env)
