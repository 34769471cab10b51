"""Agents for trials, and the loop that they share.

Each is made with ``n_sensors``, ``n_actions``, ``n_rewards``, ``sensor_q`` and
``action_q``, besides arguments of its own, and then runs until the world ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AGENTS",
    "BaseAgent",
    "GreedyAgent",
    "QTable",
    "RandomAgent",
    "SingleActionAgent",
    "TabularQAgent",
]

Array = NDArray[np.float64]


class BaseAgent:
    """The loop of an agent: wait for an update, choose an action, send it.

    Subclasses have `choose`. If several updates have arrived, the newest sensors and
    rewards count.

    Args:
        n_sensors: Length of the array of sensors.
        n_actions: Length of the array of actions.
        n_rewards: Number of reward channels.
        sensor_q: Queue of updates.
        action_q: Queue of actions.
        seed: Seed of the agent's random generator.

    Attributes:
        random: The agent's random generator.
    """

    def __init__(
        self,
        n_sensors: int,
        n_actions: int,
        n_rewards: int = 1,
        sensor_q: Any = None,
        action_q: Any = None,
        seed: int | None = None,
    ) -> None:
        self.n_sensors = n_sensors
        self.n_actions = n_actions
        self.n_rewards = n_rewards
        self.sensor_q = sensor_q
        self.action_q = action_q
        self.random = np.random.default_rng(seed)

    def choose(self, sensors: Array, reward: float) -> int:
        """Return the index of the next action.

        Args:
            sensors: The newest sensors.
            reward: The sum of the channels that said something.
        """
        raise NotImplementedError

    def end_episode(self, reward: float) -> None:
        """Learn from the last reward of an episode; another episode may begin."""

    def run(self) -> None:
        """Act until the world ends."""
        while True:
            message = self.sensor_q.get()
            messages = [message]
            while not self.sensor_q.empty():
                messages.append(self.sensor_q.get())
            sensors = None
            reward = 0.0
            for each in messages:
                if each.get("terminated"):
                    return
                if "sensors" in each:
                    sensors = each["sensors"]
                    reward = total(each.get("rewards"))
                if each.get("truncated"):
                    self.end_episode(reward)
                    sensors = None
            if sensors is not None:
                actions = np.zeros(self.n_actions)
                actions[self.choose(sensors, reward)] = 1.0
                self.action_q.put({"actions": actions})


class RandomAgent(BaseAgent):
    """Takes random actions."""

    def choose(self, sensors: Array, reward: float) -> int:
        """Return a random index."""
        return int(self.random.integers(self.n_actions))


class SingleActionAgent(BaseAgent):
    """Always takes the same action.

    Args:
        action: Its index.
        **options: As for `BaseAgent`.
    """

    def __init__(self, *args: Any, action: int = 0, **options: Any) -> None:
        super().__init__(*args, **options)
        if not 0 <= action < self.n_actions:
            raise ValueError(
                f"action is {action}: expected from 0 to {self.n_actions - 1}"
            )
        self._action = action

    def choose(self, sensors: Array, reward: float) -> int:
        """Return the index of its action."""
        return self._action


class GreedyAgent(BaseAgent):
    """Takes the action that paid best so far, and sometimes a random one.

    It does not look at sensors.

    Args:
        epsilon: Share of random actions.
        **options: As for `BaseAgent`.
    """

    def __init__(self, *args: Any, epsilon: float = 0.1, **options: Any) -> None:
        super().__init__(*args, **options)
        self._table = QTable(self.n_actions, self.random, epsilon=epsilon, discount=0.0)

    def choose(self, sensors: Array, reward: float) -> int:
        """Return the index of the best action, or a random one."""
        return self._table.step((), reward)


class TabularQAgent(BaseAgent):
    """Learns the value of each action in each state, with a table.

    Args:
        decimals: Digits to which sensors are rounded, after the decimal point.
        history: Number of last actions that are part of the state. One is right for a
            world whose update still shows the effect of the action before.
        epsilon: Share of random actions.
        rate: Learning rate.
        discount: Discount factor.
        **options: As for `BaseAgent`.
    """

    def __init__(
        self,
        *args: Any,
        decimals: int = 0,
        history: int = 0,
        epsilon: float = 0.1,
        rate: float = 0.2,
        discount: float = 0.9,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._decimals = decimals
        self._last: deque[int] = deque(maxlen=history)
        self._table = QTable(
            self.n_actions, self.random, epsilon=epsilon, rate=rate, discount=discount
        )

    def choose(self, sensors: Array, reward: float) -> int:
        """Return the index of the best action in this state, or a random one."""
        # Adding 0 turns -0 into 0, which has other bytes.
        seen = (np.round(sensors, self._decimals) + 0.0).tobytes()
        action = self._table.step((seen, *self._last), reward)
        self._last.append(action)
        return action

    def end_episode(self, reward: float) -> None:
        """Learn from the last reward of an episode."""
        self._table.end(reward)
        self._last.clear()


class QTable:
    """Values of actions by state, learned by Q-learning with random exploration.

    Args:
        n_actions: Number of actions.
        random: Draws random actions.
        epsilon: Share of random actions.
        rate: Learning rate; ``None``: the mean of all rewards, for a fixed world.
        discount: Discount factor.
    """

    def __init__(
        self,
        n_actions: int,
        random: np.random.Generator,
        *,
        epsilon: float = 0.1,
        rate: float | None = None,
        discount: float = 0.9,
    ) -> None:
        self._n_actions = n_actions
        self._random = random
        self._epsilon = epsilon
        self._rate = rate
        self._discount = discount
        self._values: dict[Hashable, Array] = {}
        self._counts: dict[Hashable, Array] = {}
        self._before: tuple[Hashable, int] | None = None

    def step(self, state: Hashable, reward: float) -> int:
        """Learn from the reward of the last action, and return the next action.

        Args:
            state: The state that the last action led to.
            reward: The reward of the last action.
        """
        values = self._row(self._values, state)
        self._learn(reward + self._discount * float(values.max()))
        if self._random.random() < self._epsilon:
            action = int(self._random.integers(self._n_actions))
        else:
            # Ties are broken at random.
            best = np.flatnonzero(values == values.max())
            action = int(best[self._random.integers(len(best))])
        self._before = (state, action)
        return action

    def end(self, reward: float) -> None:
        """Learn from the last reward of an episode."""
        self._learn(reward)
        self._before = None

    def _learn(self, target: float) -> None:
        if self._before is None:
            return
        state, action = self._before
        rate = self._rate
        if rate is None:
            counts = self._row(self._counts, state)
            counts[action] += 1
            rate = 1.0 / counts[action]
        values = self._row(self._values, state)
        values[action] += rate * (target - values[action])

    def _row(self, table: dict[Hashable, Array], state: Hashable) -> Array:
        row = table.get(state)
        if row is None:
            row = table[state] = np.zeros(self._n_actions)
        return row


def total(rewards: list[float | None] | None) -> float:
    """Return the sum of the channels that said something."""
    return float(sum(each for each in rewards or [] if each is not None))


#: The agents by name.
AGENTS: dict[str, type[BaseAgent]] = {
    "random": RandomAgent,
    "single-action": SingleActionAgent,
    "greedy": GreedyAgent,
    "tabular-q": TabularQAgent,
}
