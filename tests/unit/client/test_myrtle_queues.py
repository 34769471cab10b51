"""Queues for worlds and agents in the forms of Myrtle's releases."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gym_http_core.myrtle_queues import make_agent, make_world
from gym_http_core.value_queue import ValueQueue
from tests.support.envs.myrtle_worlds import Asking, Beating, Queueless, Topical


class Ends:
    """Both ends of the two queues."""

    def __init__(self) -> None:
        self.sensors, self.heard = ValueQueue.pair()
        self.actions, self.given = ValueQueue.pair()

    def messages(self) -> list[Any]:
        """Return what was put into `sensors`."""
        found = []
        while not self.heard.empty():
            found.append(self.heard.get())
        return found


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    for each in (made.sensors, made.heard, made.actions, made.given):
        each.abandon()


class Forwarding(Beating):
    """Has parameters of its own, and forwards the others."""

    def __init__(self, speed: float = 1.0, **others: Any) -> None:
        super().__init__(**others)


class Taking:
    """Takes any arguments, and is derived from nothing."""

    def __init__(self, **options: Any) -> None:
        self.options = options


@pytest.mark.parametrize(
    "make", [Beating, Forwarding, functools.partial(Forwarding, speed=2.0)]
)
def test_worlds_of_the_first_releases_get_a_queue_for_reports(
    make: Any, ends: Ends
) -> None:
    world = make_world(make, ends.sensors, ends.actions)
    assert (world.sensor_q, world.action_q) == (ends.sensors, ends.actions)
    # Nobody reads it, so it keeps nothing.
    for _ in range(3):
        world.report_q.put({"step": 1, "episode": 0, "rewards": [None]})
    assert world.report_q.empty()
    assert not world.report_q.full()


def test_a_class_that_takes_anything_gets_two_queues(ends: Ends) -> None:
    made = make_world(Taking, ends.sensors, ends.actions)
    assert made.options.keys() == {"sensor_q", "action_q"}


def test_texts_of_topics_become_messages_of_queues(ends: Ends) -> None:
    world = make_world(Topical, ends.sensors, ends.actions)
    world.initialize_mq()
    for text in (0, 1):
        step = {"sensors": [0, text], "rewards": [1.0, None], "episode": 0}
        world.mq.put("world_step", json.dumps(step))
    # An episode has ended; what it says after the last one is the end of all.
    world.mq.put("control", "truncated")
    assert ends.messages() == [
        {"sensors": [0, 0], "rewards": [1.0, None]},
        {"sensors": [0, 1], "rewards": [1.0, None]},
    ]
    world.mq.put("world_step", json.dumps({"sensors": [1, 0], "rewards": [0, 0]}))
    assert ends.messages() == [
        {"truncated": True},
        {"sensors": [1, 0], "rewards": [0, 0]},
    ]
    world.mq.put("control", "truncated")
    world.mq.put("control", "terminated")
    assert ends.messages() == [{"terminated": True}]
    assert world.mq.get("agent_step") == ""
    for action in (1.5, 2.5):
        ends.given.put({"actions": np.array([action])})
    assert world.mq.get("control") == ""
    texts = [world.mq.get("agent_step") for _ in range(3)]
    assert texts == ['{"actions": [1.5]}', '{"actions": [2.5]}', ""]
    ends.given.abandon()
    assert world.mq.get("control") == "terminated"
    world.mq.close()


def test_messages_of_queues_become_texts_of_topics(ends: Ends) -> None:
    agent = make_agent(Asking, ends.heard, ends.given)
    agent.initialize_mq()
    ends.sensors.put({"sensors": np.array([0.5]), "rewards": [None, 2.0]})
    ends.sensors.put({"truncated": True})
    ends.sensors.put({"sensors": np.array([1.5]), "rewards": [0.0, 0.0]})
    ends.sensors.put({"terminated": True})
    steps = [agent.mq.get("world_step") for _ in range(3)]
    assert [json.loads(each) for each in steps[:2]] == [
        {"sensors": [0.5], "rewards": [None, 2.0]},
        {"sensors": [1.5], "rewards": [0.0, 0.0]},
    ]
    assert steps[2] == ""
    controls = [agent.mq.get("control") for _ in range(3)]
    assert controls == ["truncated", "terminated", ""]
    agent.mq.put("agent_step", json.dumps({"actions": [0.25], "step": 3}))
    assert ends.actions.get() == {"actions": [0.25]}


def test_a_class_without_queues_is_refused(ends: Ends) -> None:
    for make in (make_world, make_agent):
        with pytest.raises(TypeError, match=r"Queueless takes no queues: .* 0\.6"):
            make(Queueless, ends.sensors, ends.actions)
