"""Gives worlds and agents of Myrtle their queues, as its releases expect them.

Those of 0.0.1 to 0.0.5 are made with ``sensor_q`` and ``action_q``, and worlds with
``report_q``. Those of 0.6 have ``mq``, a connection to a server of topics, which they
open in ``run`` unless ``mq_initialized`` says that they have one.
"""

from __future__ import annotations

import functools
import inspect
import json
import queue
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from gym_http_core.value_queue import ValueQueue

__all__ = ["make_agent", "make_world"]

Json = dict[str, Any]
Make = Callable[..., Any]

_NOTHING = ""
_END = "terminated"
_NEXT = "truncated"


def make_world(make: Make, sensors: ValueQueue, actions: ValueQueue) -> Any:
    """Make a world that communicates by queues.

    Args:
        make: The class, or a partial object of it.
        sensors: The queue into which it puts what it says.
        actions: The queue from which it gets actions.

    Raises:
        TypeError: The class takes no queues, in none of these ways.
    """
    world = _made(make, sensors, actions, {"report_q": _Unread()})
    if hasattr(world, "initialize_mq"):
        _give(world, _WorldTopics(sensors, actions))
    return world


def make_agent(make: Make, sensors: ValueQueue, actions: ValueQueue) -> Any:
    """Make an agent that communicates by queues.

    Args:
        make: The class, or a partial object of it.
        sensors: The queue from which it gets what the world says.
        actions: The queue into which it puts actions.

    Raises:
        TypeError: The class takes no queues, in none of these ways.
    """
    agent = _made(make, sensors, actions, {})
    if hasattr(agent, "initialize_mq"):
        _give(agent, _AgentTopics(sensors, actions))
    return agent


def _made(
    make: Make, sensors: ValueQueue, actions: ValueQueue, more: dict[str, Any]
) -> Any:
    queues = {"sensor_q": sensors, "action_q": actions}
    names, takes_any = _parameters(make)
    if takes_any or queues.keys() <= names:
        named = {name: each for name, each in more.items() if name in names}
        return make(**queues, **named)
    made = make()
    if not hasattr(made, "initialize_mq"):
        raise TypeError(
            f"{type(made).__name__} takes no queues: expected the parameters sensor_q "
            "and action_q, as in Myrtle 0.0.1 to 0.0.5, or a method initialize_mq, as "
            "in Myrtle 0.6"
        )
    return made


def _parameters(make: Make) -> tuple[set[str], bool]:
    """Return the parameters of a class, and whether it takes any others.

    A class with ``**kwargs`` has those of the class from which it is derived, too.
    """
    kind: Any = make.func if isinstance(make, functools.partial) else make
    names: set[str] = set()
    for each in kind.__mro__[:-1]:
        if "__init__" in vars(each):
            found = inspect.signature(vars(each)["__init__"]).parameters.values()
            names |= {one.name for one in found}
            if not any(one.kind == one.VAR_KEYWORD for one in found):
                return names, False
    return names, bool(names)


def _give(owner: Any, topics: Any) -> None:
    owner.mq = topics
    owner.mq_initialized = True


class _Unread(queue.Queue[Any]):
    """A queue that nobody reads, and that keeps nothing."""

    def _put(self, item: Any) -> None:
        """Drop an item."""


class _Topics:
    """What worlds and agents of Myrtle 0.6 call of a connection to ``dsmq``."""

    def __init__(self, received: ValueQueue, sent: ValueQueue) -> None:
        self._received = received
        self._sent = sent
        self._waiting: dict[str, deque[str]] = {}

    def get(self, topic: str) -> str:
        """Return the oldest message of a topic that was not read yet, or ""."""
        while not self._received.empty():
            for name, text in self._read(self._received.get()):
                self._waiting.setdefault(name, deque()).append(text)
        waiting = self._waiting.get(topic)
        if waiting:
            return waiting.popleft()
        return _END if topic == "control" and self._received.ended else _NOTHING

    def close(self) -> None:
        """Do nothing: the maker of the queues closes them."""

    def _read(self, message: Json) -> Iterator[tuple[str, str]]:
        raise NotImplementedError


class _WorldTopics(_Topics):
    """The connection of a world."""

    def __init__(self, sensors: ValueQueue, actions: ValueQueue) -> None:
        super().__init__(actions, sensors)
        self._episode_ended = False

    def put(self, topic: str, text: str) -> None:
        """Send a message."""
        if topic == "world_step":
            self._end_episode()
            given = json.loads(text)
            self._sent.put({name: given[name] for name in ("sensors", "rewards")})
        elif text == _NEXT:
            # It says so after its last episode, too.
            self._episode_ended = True
        elif text == _END:
            self._sent.put({"terminated": True})

    def _end_episode(self) -> None:
        if self._episode_ended:
            self._episode_ended = False
            self._sent.put({"truncated": True})

    def _read(self, message: Json) -> Iterator[tuple[str, str]]:
        yield "agent_step", json.dumps({"actions": message["actions"].tolist()})


class _AgentTopics(_Topics):
    """The connection of an agent."""

    def __init__(self, sensors: ValueQueue, actions: ValueQueue) -> None:
        super().__init__(sensors, actions)

    def put(self, topic: str, text: str) -> None:
        """Send a message."""
        if topic == "agent_step":
            self._sent.put({"actions": json.loads(text)["actions"]})

    def _read(self, message: Json) -> Iterator[tuple[str, str]]:
        if "sensors" in message:
            step = {
                "sensors": message["sensors"].tolist(),
                "rewards": message["rewards"],
            }
            yield "world_step", json.dumps(step)
        for flag in (_NEXT, _END):
            if message.get(flag):
                yield "control", flag
