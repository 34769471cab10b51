"""Worlds and agents in the forms of Myrtle's releases, without Myrtle."""

import json
import sys
import time
from typing import Any

import numpy as np


class Beating:
    """In the form of 0.0.1 to 0.0.5: each beat has its number, and the last action.

    It ignores actions beside the last one before a beat, and has zeros without one.
    """

    def __init__(
        self,
        sensor_q: Any = None,
        action_q: Any = None,
        report_q: Any = None,
        n_time_steps: int = 11,
        n_episodes: int = 3,
        steps_per_second: float = 100,
    ) -> None:
        self.n_sensors = 3
        self.n_actions = 1
        self.n_rewards = 2
        self.steps_per_second = steps_per_second
        self.n_time_steps = n_time_steps
        self.n_episodes = n_episodes
        self.name = "Beating"
        self.sensor_q = sensor_q
        self.action_q = action_q
        self.report_q = report_q

    def run(self) -> None:
        begin, beats = time.monotonic(), 0
        for episode in range(self.n_episodes):
            if episode > 0:
                self.sensor_q.put({"truncated": True})
            for step in range(self.n_time_steps):
                beats += 1
                due = begin + beats / self.steps_per_second
                time.sleep(max(0.0, due - time.monotonic()))
                actions = np.zeros(1)
                while not self.action_q.empty():
                    actions = self.action_q.get()["actions"]
                sensors = np.array([episode, step, actions[0]])
                rewards = [np.float64(1.0), None]
                self.sensor_q.put({"sensors": sensors, "rewards": rewards})
                report = {"step": step + 1, "episode": episode, "rewards": rewards}
                self.report_q.put(report)
        self.sensor_q.put({"terminated": True})
        self.report_q.put({"terminated": True})
        sys.exit()


class Topical:
    """In the form of 0.6: messages are texts of topics, over a connection."""

    def __init__(
        self,
        n_loop_steps: int = 11,
        n_episodes: int = 3,
        loop_steps_per_second: float = 100,
    ) -> None:
        self.n_sensors = 2
        self.n_actions = 1
        self.n_rewards = 2
        self.loop_steps_per_second = loop_steps_per_second
        # As some of 0.6 have it, from before.
        self.steps_per_second = 7
        self.n_loop_steps = n_loop_steps
        self.n_episodes = n_episodes
        self.mq_initialized = False
        self.mq: Any = None

    def initialize_mq(self) -> None:
        if not self.mq_initialized:
            raise ConnectionRefusedError("Could not connect to dsmq server.")

    def run(self) -> None:
        self.initialize_mq()
        for episode in range(self.n_episodes):
            for step in range(self.n_loop_steps):
                time.sleep(1 / self.loop_steps_per_second)
                while self.mq.get("agent_step") != "":
                    pass
                said = {"loop_step": step, "episode": episode}
                said |= {"sensors": [episode, step], "rewards": [1.0, None]}
                self.mq.put("world_step", json.dumps(said))
                if self.mq.get("control") in ["terminated", "shutdown"]:
                    return
            self.mq.put("control", "truncated")
        self.mq.put("control", "terminated")
        self.mq.close()


class Chatty:
    """In the form of 0.0.1 to 0.0.5: fails by an exit."""

    n_sensors = n_actions = 1
    steps_per_second = 50

    def __init__(self, sensor_q: Any, action_q: Any) -> None:
        self.sensor_q = sensor_q

    def run(self) -> None:
        self.sensor_q.put({"sensors": np.zeros(1), "rewards": [0.0]})
        sys.exit("the motor is not connected")


class Queueless:
    """Runs by itself, but takes no queues in any form that is known."""

    n_sensors = n_actions = 1

    def run(self) -> None:
        pass


class Listening:
    """An agent in the form of 0.0.1 to 0.0.5, which writes what it hears to a file."""

    def __init__(
        self,
        n_sensors: Any = None,
        n_actions: Any = None,
        n_rewards: Any = None,
        sensor_q: Any = None,
        action_q: Any = None,
        path: str = "",
    ) -> None:
        self.sensor_q = sensor_q
        self.action_q = action_q
        self.path = path

    def run(self) -> None:
        with open(self.path, "w") as file:
            while True:
                heard = self.sensor_q.get()
                sensors = heard.get("sensors")
                plain = {**heard, "sensors": None if sensors is None else list(sensors)}
                file.write(json.dumps(plain) + "\n")
                if heard.get("terminated"):
                    break
                if sensors is not None:
                    self.action_q.put({"actions": np.array([sensors[1] + 100])})
        sys.exit()


class Asking:
    """An agent in the form of 0.6, which writes what it hears to a file."""

    def __init__(
        self,
        n_sensors: Any = None,
        n_actions: Any = None,
        n_rewards: Any = None,
        path: str = "",
    ) -> None:
        self.path = path
        self.mq_initialized = False
        self.mq: Any = None

    def initialize_mq(self) -> None:
        if not self.mq_initialized:
            raise ConnectionRefusedError("Could not connect to dsmq server.")

    def run(self) -> None:
        self.initialize_mq()
        with open(self.path, "w") as file:
            control = ""
            while control != "terminated":
                time.sleep(0.001)
                while (step := self.mq.get("world_step")) != "":
                    file.write(step + "\n")
                    self.mq.put("agent_step", json.dumps({"actions": [0.5]}))
                control = self.mq.get("control")
                if control:
                    file.write(json.dumps(control) + "\n")
        self.mq.close()
