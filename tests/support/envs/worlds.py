"""Worlds and interfaces for tests, as users write them."""

import os
import time
from typing import Any

import gymnasium
import numpy as np


class Counter:
    """Its sensor counts steps; it says nothing in its second channel at odd ones."""

    n_sensors = 1
    n_actions = 2
    n_rewards = 2
    hz = 50

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def reset(self, seed: int | None = None) -> list[float]:
        self.count = self.start if seed is None else seed
        return [self.count]

    def step(self, actions: Any) -> tuple[Any, Any]:
        self.count += 1
        second = None if self.count % 2 else float(actions[1])
        return np.array([self.count]), [float(actions[0]), second]


class Echo:
    """Runs by itself, in the form of the seed: each action is followed by an update.

    Its action has a number: 0 to 8 is echoed, 9 ends the episode, 10 the world, 11
    raises, 12 ends the process.
    """

    def __init__(self, sensor_q: Any, action_q: Any, episodes: int = 3) -> None:
        self.n_sensors = 2
        self.n_actions = 1
        self.n_rewards = 2
        self.name = "Echo"
        self.sensor_q = sensor_q
        self.action_q = action_q
        self.episodes = episodes

    def run(self) -> None:
        for episode in range(self.episodes):
            if episode:
                self.sensor_q.put({"truncated": True})
            message = {"sensors": np.array([episode, -1.0]), "rewards": [None, None]}
            self.sensor_q.put(message)
            while (action := self.action_q.get()["actions"][0]) != 9:
                if action == 10:
                    self.sensor_q.put({"terminated": True})
                    return
                if action == 11:
                    raise ValueError("an action that it cannot take")
                if action == 12:
                    os._exit(7)
                message = {
                    "sensors": np.array([episode, action]),
                    "rewards": [action, None],
                }
                self.sensor_q.put(message)


class Ticking:
    """Runs by itself at some 200 Hz, and never reads an action."""

    def __init__(self, sensor_q: Any, action_q: Any) -> None:
        self.n_sensors = 1
        self.n_actions = 1
        self.sensor_q = sensor_q

    def run(self) -> None:
        for count in range(100_000):
            self.sensor_q.put({"sensors": np.array([count]), "rewards": [1.0]})
            time.sleep(0.005)


class Drone:
    """An interface of rtgym, without rtgym: a position that follows its control."""

    def __init__(self, height: float = 1.0) -> None:
        self.height = height
        self.sent: list[float] = []
        self.waited = 0

    def get_observation_space(self) -> gymnasium.spaces.Tuple:
        box = gymnasium.spaces.Box(-100.0, 100.0, (1,), np.float32)
        return gymnasium.spaces.Tuple((box, box))

    def get_action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def get_default_action(self) -> Any:
        return np.array([0.5], np.float32)

    def reset(self, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        self.place = self.height
        return self._observation(), {"seed": seed}

    def get_obs_rew_terminated_info(self) -> tuple[Any, Any, Any, Any]:
        return self._observation(), -self.place, np.bool_(self.place > 50), {}

    def send_control(self, control: Any) -> None:
        self.sent.append(float(control[0]))
        self.place += float(control[0])

    def wait(self) -> None:
        self.waited += 1

    def _observation(self) -> list[Any]:
        there = np.array([self.place], np.float32)
        return [there, -there]


class Aimless:
    """Neither a world nor an interface."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1


class Miscounting(Counter):
    """Announces another number of sensors than it has."""

    n_sensors = 3


class Parting:
    """Runs by itself for a few updates, in the form of the seed, and then ends."""

    def __init__(self, sensor_q: Any, action_q: Any) -> None:
        self.n_sensors = 1
        self.n_actions = 1
        self.n_rewards = 1
        self.sensor_q = sensor_q
        self.action_q = action_q

    def run(self) -> None:
        for count in range(5):
            time.sleep(0.02)
            self.sensor_q.put({"sensors": np.array([count]), "rewards": [1.0]})
        self.sensor_q.put({"terminated": True})


class Noting(Drone):
    """Appends each control that it is sent to a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def send_control(self, control: Any) -> None:
        super().send_control(control)
        with open(self.path, "a") as file:
            file.write(f"{float(control[0]):g}\n")
