"""A PettingZoo world in which each agent sees what all have done."""

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

Agent = Any


class Meeting(ParallelEnv[Agent, Any, Any]):
    """Agents with different spaces, which live for different times.

    An observation has the last action of each agent, and -1 for none. The reward is
    the agent's own action.

    Args:
        lives: By agent, the number of its steps in an episode.
        log: Collects each reset, as its seed, and each step, as its actions.
        forgets: Whether an agent that dies gets nothing of its last step.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "meeting",
        "render_modes": ["rgb_array"],
    }
    render_mode = "rgb_array"

    def __init__(
        self, lives: dict[Agent, int], log: list[Any], *, forgets: bool = False
    ) -> None:
        self.possible_agents = list(lives)
        self.agents: list[Agent] = []
        self.log = log
        self._lives = lives
        self._forgets = forgets

    def observation_space(self, agent: Agent) -> spaces.Space[Any]:
        """Return a new space at each call, with one action of each agent."""
        return spaces.Box(-1, 1_000_000, (len(self.possible_agents),), np.int64)

    def action_space(self, agent: Agent) -> spaces.Space[Any]:
        """Return a space that is larger for later agents."""
        return spaces.Discrete(1_000_000 + self.possible_agents.index(agent))

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Agent, Any], dict[Agent, Any]]:
        """Begin an episode with all agents."""
        self.agents = list(self.possible_agents)
        self._count = 0
        self.log.append(seed)
        seen = np.full(len(self.agents), -1)
        return dict.fromkeys(self.agents, seen), {
            agent: {"options": options} for agent in self.agents
        }

    def step(self, actions: dict[Agent, Any]) -> tuple[dict[Agent, Any], ...]:
        """Take an action of each living agent."""
        assert list(actions) == self.agents
        self._count += 1
        self.log.append({agent: int(action) for agent, action in actions.items()})
        if self.log[-1].get(self.possible_agents[0]) == 999_999:
            raise ArithmeticError("the number of the beast")
        seen = np.array([actions.get(agent, -1) for agent in self.possible_agents])
        acted = self.agents
        dead = {agent: self._count >= self._lives[agent] for agent in acted}
        self.agents = [agent for agent in acted if not dead[agent]]
        shown = self.agents if self._forgets else acted
        return (
            dict.fromkeys(shown, seen),
            {agent: float(actions[agent]) for agent in shown},
            {agent: dead[agent] for agent in shown},
            dict.fromkeys(acted, False),
            {agent: {} for agent in acted},
        )

    def render(self) -> Any:
        """Return a picture whose colour is the number of steps."""
        return np.full((2, 2, 3), self._count, np.uint8)
