"""The calls of one environment of several agents: dicts by agent in, and out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import gymnasium

from gym_http_core import legacy
from gym_http_core.agents import AgentEnv
from gym_http_core.env_errors import env_call, env_exceptions
from gym_http_core.episodes import plain_reward
from gym_http_core.opaque_calls import call_part, element_check
from gym_http_core.operations import MakeReader, Operations
from gym_http_wire import elements, spaces
from gym_http_wire.messages import SPACES_VERSION
from gym_http_wire.problems import (
    InvalidAction,
    ResetNeeded,
    UnrepresentableValue,
    UnsupportedSpace,
)

__all__ = ["AgentOperations"]

Values = dict[Any, Any]
Check = Callable[[Any], None]
_ABSENT = object()
#: Methods that return a space of an agent, and which one.
_SPACES = {"action_space": "action", "observation_space": "observation"}


class _AgentSpaces:
    """Notices that agents have other spaces, as they may have after a reset.

    Args:
        env: The environment.

    Attributes:
        version: The number of changes so far.
    """

    def __init__(self, env: AgentEnv) -> None:
        self.version = 0
        self._env = env
        self._used: dict[tuple[str, Any], gymnasium.Space[Any]] = {}
        self._numbers: dict[int, int] = {}

    def glance(self) -> bool:
        """Return that each answer has further members."""
        return True

    def of(self, which: str, agent: Any) -> gymnasium.Space[Any]:
        """Return a space of an agent, which is compared from now on."""
        space = self._env.agent_space(which, agent)
        self._used[which, agent] = space
        return space

    def described(self, which: str, agent: Any) -> Values:
        """Describe a space of an agent.

        Returns:
            ``space``, the description, and ``number``, by which the spaces of agents
            are the same object here, with one random generator, or are not.

        Raises:
            UnsupportedSpace: It cannot be described.
        """
        space = self.of(which, agent)
        # A space in use keeps its identity.
        number = self._numbers.setdefault(id(space), len(self._numbers))
        return {"number": number, "space": _described(space)}

    def look(self) -> bool:
        """Return whether a space in use has changed since the last look, and count it.

        Agents that are new are no change.
        """
        used, self._used = self._used, {}
        for key, space in used.items():
            with contextlib.suppress(*env_exceptions()):
                # There may be no such agent now.
                now = self.of(*key)
                if now is not space and now != space:
                    del self._used[key]
        changed = len(self._used) < len(used)
        if changed:
            self._used, self._numbers = {}, {}
        self.version += changed
        return changed


class AgentOperations(Operations):
    """One environment of several agents, and the calls that it takes.

    An episode has ended when no agent is left.

    Args:
        env: The environment; used from one thread only.
        first_seed: Seed of the first reset without a seed.
        strict_actions: Refuse actions that the action spaces do not contain.
    """

    env: AgentEnv

    def __init__(self, env: AgentEnv, **options: Any) -> None:
        super().__init__(env, **options)
        # Whether agents have terminated or were truncated, as last seen.
        self._flags = False, False

    def _read_action_space(self) -> None:
        """Forget what read and checked the actions of each agent."""
        self._readers: dict[tuple[MakeReader, Any], Callable[[object], Any]] = {}
        self._checks: dict[Any, tuple[Check | None, Check | None]] = {}
        # Agents of which any action is accepted.
        self._unchecked: set[Any] = set()
        self.checks_actions = True

    def _new_space_changes(self) -> Any:
        return _AgentSpaces(self.env)

    def reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, Any]:
        """Begin an episode.

        Returns:
            Observations and infos by agent.

        Raises:
            EnvError: The environment raised an exception.
        """
        result = super().reset(seed, options)
        self._flags = False, False
        if self.space_changes.look():
            self._read_action_space()
        return result

    def further_members(self) -> dict[str, Any]:
        """Return what answers have besides results: the agents, and the selected one.

        Raises:
            EnvError: The environment raised an exception.
        """
        members: dict[str, Any] = env_call("agents", self.env.turn)
        version = self.space_changes.version
        return members | {SPACES_VERSION: version} if version else members

    def step_members(self, step: dict[str, Any]) -> dict[str, Any]:
        """Return the same for a step, without what its results say already.

        Text is of any length, and an answer without text is encoded several times as
        fast: the agents are mostly those that have flags, and of agents that take
        turns, the next one is that with an observation.
        """
        members = self.further_members()
        if members["agents"] == list(step["terminated"]):
            del members["agents"]
        if members.get("agent_selection", _ABSENT) in step["observation"]:
            del members["agent_selection"]
        return members

    def cast_action(self, plain: object) -> Any:
        """Convert plain JSON to the actions of agents.

        Raises:
            InvalidAction: It is no object, or has what is no action of its agent.
            UnrepresentableValue: IDs of agents are no strings.
        """
        self.check_plain()
        actions = _by_agent(plain)
        cast = {
            agent: None if each is None else self._cast(agent, each)
            for agent, each in actions.items()
        }
        self.check_action(cast)
        return cast

    def _cast(self, agent: Any, plain: object) -> Any:
        try:
            return self._reader(elements.reader, agent)(plain)
        except elements.NotAnElement as error:
            try:
                if not self.strict_actions:
                    return self._reader(legacy.lenient_reader, agent)(plain)
            except elements.NotAnElement:
                pass
            raise InvalidAction(f"of {agent!r:.80}: {error}") from None

    def _reader(self, make: MakeReader, agent: Any) -> Callable[[object], Any]:
        reader = self._readers.get((make, agent))
        if reader is None:
            reader = make(self._space_of("action", agent))
            self._readers[make, agent] = reader
        return reader

    def check_action(self, action: Any) -> None:
        """Refuse what is no action of its agent, as of single environments.

        Which agents act is known only when the step is taken.

        Raises:
            InvalidAction: It is no dict, or has such an action.
            EnvError: An opaque space raised an exception.
        """
        for agent, each in _by_agent(action).items():
            if each is None:
                continue
            checks = self._checks.get(agent)
            if checks is None:
                checks = self._checks[agent] = self._new_checks(agent)
                if checks == (None, None):
                    self._unchecked.add(agent)
            for check in checks:
                if check is not None:
                    check(each)

    def takes(self, action: Any) -> bool:
        """Whether `check_action` accepts an action."""
        # Most worlds have no more to check, which all their steps ask for.
        if isinstance(action, dict) and action.keys() <= self._unchecked:
            return True
        return super().takes(action)

    def _new_checks(self, agent: Any) -> tuple[Check | None, Check | None]:
        space = self._space_of("action", agent)
        opaque = element_check(space)

        def check_opaque(action: Any) -> None:
            try:
                opaque(action)  # type: ignore[misc]
            except elements.NotAnElement as error:
                raise InvalidAction(f"of {agent!r:.80}: {error}") from None

        def check_strictly(action: Any) -> None:
            if not contains(action):
                raise InvalidAction(
                    f"of {agent!r:.80}: the action {action!r:.80} is not in {space}, "
                    "and this server accepts no other actions"
                )

        contains = elements.membership(space)
        return (
            None if opaque is None else check_opaque,
            check_strictly if self.strict_actions else None,
        )

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take the actions of all agents, or of the selected one.

        Returns:
            Observations, rewards, terminations, truncations and infos by agent.

        Raises:
            ResetNeeded: There is no episode to act in.
            InvalidAction: Others act, or one has no action. No step was taken.
            EnvError: The environment raised an exception.
        """
        env_call("agents", self._check_agents, action)
        return super().step(action)

    def _check_agents(self, action: Values) -> None:
        env = self.env
        acting = env.acting()
        if not acting:
            raise ResetNeeded("no agent is left: reset the environment first")
        # In their order, as most actions are, it takes half the time.
        if list(action) == acting or action.keys() == set(acting):
            passing = env.passing()
            for agent, each in action.items():
                if (each is None) != (agent in passing):
                    raise _wrong_pass(agent, each)
            return
        named = f"expected an action of each of {acting!r:.500}"
        if len(acting) == 1:
            named = f"expected one of {acting[0]!r:.80}, whose turn it is"
        for agent in action:
            if agent not in acting:
                raise InvalidAction(f"{agent!r:.80} does not act now: {named}")
        missing = next(agent for agent in acting if agent not in action)
        raise InvalidAction(f"there is no action of {missing!r:.80}: {named}")

    def count(self, reward: Any, terminated: Any, truncated: Any) -> None:
        """Count a step, its rewards, and the episode if no agent is left."""
        self.steps += 1
        is_over = any(terminated.values()), any(truncated.values())
        if True in is_over:
            self._flags = is_over
        if self._ended:
            return
        log = self.episode_log
        log.length += 1
        log.add(reward)
        if not self.env.agents:
            self._ended = True
            self.episodes += 1
            log.end(*self._flags)

    def episode_end(self, terminated: Any, truncated: Any) -> tuple[Any, Any]:
        """Return whether the last step has ended the episode, as two flags."""
        return (False, False) if self.env.agents else self._flags

    def make_plain(self, step: dict[str, Any]) -> None:
        """Make flags and rewards of a step plain, and add ``done``.

        Raises:
            TypeError, ValueError, OverflowError: Flags or rewards are neither.
        """
        step.setdefault("agents", list(step["terminated"]))
        if "cumulative_rewards" in step and step["observation"]:
            (step["agent_selection"],) = step["observation"]
        for name in ("terminated", "truncated"):
            step[name] = {agent: bool(flag) for agent, flag in step[name].items()}
        truncated = step["truncated"]
        step["done"] = {
            agent: flag or truncated.get(agent, False)
            for agent, flag in step["terminated"].items()
        }
        rewards = step["reward"].items()
        step["reward"] = {agent: plain_reward(each) for agent, each in rewards}

    def check_plain(self) -> None:
        """Refuse plain JSON if it has no keys for the agents.

        Raises:
            UnrepresentableValue: IDs of agents are no strings.
        """
        for agent in self.env.known():
            if not isinstance(agent, str):
                raise UnrepresentableValue(
                    f"the agent {agent!r:.80} has an ID that is no string, and plain "
                    "JSON has no other keys: expected typed JSON or the binary form"
                )

    def describe_space(self, which: str) -> dict[str, Any]:
        """Describe the spaces of all agents that are known.

        Returns:
            The same as for one agent; ``None`` in place of both descriptions if an ID
            is neither a string nor an integer, and no key of a description.
        """
        if all(isinstance(agent, str | int) for agent in self.env.known()):
            return super().describe_space(which)
        return {"info": None, "space": None}

    def about(self) -> dict[str, Any]:
        """Return the interface, and the agents that there can be."""
        return {
            "api": self.env.api,
            "possible_agents": self.env.possible_agents,
            **self.further_members(),
        }

    def sample(self, which: str, seed: int | None, mask: object) -> Any:
        """Draw an element for each agent; of actions, for each agent that acts now.

        Raises:
            BadParameter: The mask does not fit the spaces of these agents.
            EnvError: A space raised another exception.
        """
        drawn = super().sample(which, seed, mask)
        if which == "action":
            drawn |= dict.fromkeys(self.env.passing())
        return drawn

    def _sampled_space(self, which: str) -> gymnasium.Space[Any]:
        acting = self.env.acting() if which == "action" else []
        if not acting:
            return self.space(which)
        passing = self.env.passing()
        return self.env.spaces(which, [each for each in acting if each not in passing])

    def has(self, which: str, value: object) -> bool:
        """Whether a dict has elements of the spaces of the agents that it names."""
        if not isinstance(value, dict):
            return False
        with contextlib.suppress(*env_exceptions()):
            return all(
                self.env.agent_space(which, agent).contains(each)
                for agent, each in value.items()
            )
        return False

    def attribute(self, name: str) -> Any:
        """Return an attribute of the environment; a space as its description.

        Raises:
            NoAttribute: The environment has no such attribute, or it is private.
            EnvError: Getting it raised another exception.
        """
        found = super().attribute(name)
        return _described(found) if isinstance(found, gymnasium.Space) else found

    def call_attribute(self, name: str, args: list[Any], kwargs: Any) -> Any:
        """Call a method of the environment; it returns a space as its description.

        Raises:
            NoAttribute: There is no such method, or an argument names a private
                attribute.
            EnvError: It raised an exception.
            UnsupportedSpace: It returned a space that cannot be described.
        """
        if name in _SPACES and len(args) == 1 and not kwargs:
            described = self.space_changes.described
            return env_call(name, described, _SPACES[name], args[0])
        found = super().call_attribute(name, args, kwargs)
        return _described(found) if isinstance(found, gymnasium.Space) else found

    def call_space(
        self, name: str, path: Any, method: Any, args: list[Any], kwargs: Any
    ) -> Any:
        """Call `sample`, `contains` or `seed` of a space, or of a part of it.

        Args:
            name: ``action_space`` or ``observation_space``.
            path: The agent, and the keys and indices that lead to the part.
            method: Name of the method.
            args: Its arguments.
            kwargs: The same, by name.

        Raises:
            BadParameter: There is no such part or method.
            EnvError: The method raised an exception.
        """
        if name not in _SPACES or not isinstance(path, list | tuple) or not path:
            return super().call_space(name, path, method, args, kwargs)
        agent, *rest = path
        return call_part(
            self._space_of(_SPACES[name], agent), rest, method, args, kwargs
        )

    def _space_of(self, which: str, agent: Any) -> gymnasium.Space[Any]:
        """Return a space of an agent.

        Raises:
            InvalidAction: There is no such agent.
        """
        try:
            space: gymnasium.Space[Any] = self.space_changes.of(which, agent)
        except env_exceptions():
            raise InvalidAction(
                f"there is no agent {agent!r:.80}: expected one of "
                f"{self.env.known()!r:.500}"
            ) from None
        return space


def _by_agent(action: Any) -> Values:
    if not isinstance(action, dict):
        raise InvalidAction(
            f"the action is {action!r:.80}: expected an object with the action of "
            "each agent that acts, by its ID"
        )
    return action


def _wrong_pass(agent: Any, action: Any) -> InvalidAction:
    if action is None:
        return InvalidAction(f"{agent!r:.80} has no action: expected one")
    return InvalidAction(
        f"the action of {agent!r:.80} is {action!r:.80}: expected null (None), since "
        "its episode has ended"
    )


def _described(space: gymnasium.Space[Any]) -> Any:
    try:
        return spaces.describe(space)
    except spaces.UndescribableSpace as error:
        raise UnsupportedSpace(str(error)) from None
