"""Executes requests for several steps, and answers with the results of all of them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
from gymnasium.vector import VectorEnv

from gym_http_core.batches import (
    BatchObserver,
    BatchRun,
    Episode,
    Rollout,
)
from gym_http_core.env_errors import env_exceptions
from gym_http_core.idempotency import MAX_ANSWER_BYTES
from gym_http_core.operations import Operations
from gym_http_server.errors import CannotBranch
from gym_http_server.host import plain_json
from gym_http_server.host.branch_limits import BranchLimits, Recordings
from gym_http_server.host.codec import (
    encode,
    fitting,
    lossless,
    read_members,
    value_frame,
    wants_lossless,
)
from gym_http_server.host.failures import problem_of_error
from gym_http_server.operations.instances import (
    MAX_EPISODES,
    MAX_STEPS,
    ROLLOUT,
)
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Form, Op
from gym_http_wire.problems import (
    AnswerTooLarge,
    BadParameter,
    ExternalAway,
    InvalidAction,
    MissingParameter,
    OutcomeUnknown,
    Problem,
)
from gym_http_wire.values import UnsupportedValue, binary, typed
from gym_http_wire.values.infos import Replacing
from gym_http_wire.values.signing import MAX_SIGNATURE_BYTES

__all__ = ["OF_BRANCHES", "Batching"]

Json = dict[str, Any]

#: Members of a rollout that make it one of branches.
OF_BRANCHES = frozenset({"branches", "count", "observations", "reseed", "steps"})


class AnswerBudget:
    """Computes the share of an answer's size limit that a value takes.

    Args:
        form: Form of the answer.
        limit: Bytes that the answer may have.
    """

    def __init__(self, form: int, limit: int) -> None:
        self._form = form
        self._limit = limit

    def __call__(self, value: list[Any]) -> float:
        """Return the share that a value takes; 1 if it cannot be encoded."""
        try:
            try:
                return self._share(value)
            except UnsupportedValue:
                # The last item is the info.
                return self._share([*value[:-1], Replacing().info(value[-1], 1)])
        except env_exceptions():
            # So the batch ends here, and keeps the steps before.
            return 1.0

    def _share(self, value: list[Any]) -> float:
        if self._form == Form.BINARY:
            signature, leaves = binary.split(value)
            size = len(signature) + sum(map(len, leaves))
            return max(size / self._limit, len(signature) / MAX_SIGNATURE_BYTES)
        write = typed.encode if self._form == Form.TYPED else plain_json.dumps
        return len(write(value)) / self._limit


class Batching:
    """Answers requests for more than one step.

    Args:
        operations: The environment.
        watch: Called at each step.
        max_answer: Bytes that an answer's body may have.
        members: Returns further members of each answer.
        limits: What branches may take; ``None`` if the environment is external.
        recordings: What recordings use; see `Recordings`.
        changed: Called with a request, the attribute that it is about, and its members,
            after the same was done to the environment.
        drawn: Called after an action was drawn from the action space.
    """

    def __init__(
        self,
        operations: Operations,
        watch: BatchObserver,
        max_answer: int,
        members: Callable[[], Json],
        limits: BranchLimits | None,
        recordings: Recordings,
        changed: Callable[[Op, str | None, Json], None],
        drawn: Callable[[], None],
    ) -> None:
        self._operations = operations
        self._changed = changed
        self._drawn = drawn
        self._limits = limits
        self._recordings = recordings
        self._watch = watch
        self._members = members
        # Only an answer that is kept can be sent again after a lost connection.
        self._max_answer = min(max_answer, MAX_ANSWER_BYTES)

    def steps(self, frame: Frame, given: Json) -> Frame:
        """Take the steps of ``actions``, until the episode ends.

        Raises:
            BadParameter: There are no or too many actions, or an ``action``, too.
            InvalidAction: An action is not in the action space; no step was taken.
            Problem: A step failed; ``steps`` and ``results`` have the steps before it.
        """
        if _is_given(frame, given.get("action")):
            raise BadParameter("expected either action or actions, and both were given")
        cast = self._checked if lossless(frame) else self._operations.action_of
        actions = _actions_of(given["actions"], "actions", cast)
        self._take_generator(frame, given)
        episode = Episode(make_plain=self._operations.make_plain)
        return self._answer(frame, episode, lambda run: run.play(episode, actions))

    def rollout(self, frame: Frame) -> Frame:
        """Play whole episodes, or branches of the present one.

        Raises:
            BadParameter: A parameter is invalid; no step was taken.
            InvalidAction: An action is not in the action space; no step was taken.
            Problem: A step failed; ``steps`` and ``results`` have the steps before it.
        """
        given = read_members(frame, ROLLOUT, "the rollout")
        if not OF_BRANCHES.isdisjoint(given):
            return self._branch(frame, given)
        if isinstance(self._operations.env, VectorEnv):
            raise BadParameter(
                "rollouts are of single environments, and this instance has "
                f"{self._operations.env.num_envs}: step it with actions"
            )
        seed, options = given.get("seed"), given.get("options")
        actions = self._plan(
            frame, given, given.get("max_steps", ROLLOUT["max_steps"].default)
        )
        self._take_generator(frame, given)
        if "actions" not in given and seed is not None:
            self._operations.space("action").seed(seed)
            seeded = {"method": "seed", "args": [seed]}
            self._changed(Op.CALL_ATTRIBUTE, "action_space", seeded)
        rollout = Rollout()
        return self._answer(
            frame,
            rollout,
            lambda run: rollout.play(run, actions, seed=seed, options=options),
        )

    def _plan(self, frame: Frame, given: Json, most: int) -> Iterable[Iterable[Any]]:
        if "actions" not in given:
            count = given.get("episodes", 1)
            return (
                itertools.islice(self._random_actions(), most) for _ in range(count)
            )
        sequences = given["actions"]
        if "policy" in given:
            raise BadParameter("expected either policy or actions, and both were given")
        if not isinstance(sequences, list) or not 0 < len(sequences) <= MAX_EPISODES:
            raise BadParameter(
                f"actions is {sequences!r:.80}: expected a list of 1 to {MAX_EPISODES} "
                "lists, one for each episode"
            )
        if given.get("episodes", len(sequences)) != len(sequences):
            raise BadParameter(
                f"episodes is {given['episodes']}, and actions has {len(sequences)} "
                "lists: expected one list for each episode"
            )
        cast = self._checked if lossless(frame) else self._operations.cast_action
        plan = [
            _actions_of(each, f"actions[{index}]", cast)
            for index, each in enumerate(sequences)
        ]
        total = sum(map(len, plan))
        if total > MAX_STEPS:
            raise BadParameter(
                f"there are {total} actions: expected {MAX_STEPS} at most"
            )
        return (each[:most] for each in plan)

    def _branch(self, frame: Frame, given: Json) -> Frame:
        """Play branches of the present episode; the instance stays as it is."""
        # Imported late, since few hosts need it.
        from gym_http_server.host.branch_plan import read_plan
        from gym_http_server.host.branches import Branches

        if self._limits is None:
            raise CannotBranch(
                "the environment is external, and a copy of its host does not copy it: "
                "expected an environment of this server"
            )
        branches = Branches(
            self._operations, self._limits, self._max_answer, self._recordings
        )
        branches.check()
        cast = self._checked if lossless(frame) else self._operations.cast_action

        def read(actions: Any, name: str) -> list[Any]:
            return _actions_of(actions, name, lambda one: self._contained(cast(one)))

        plan = read_plan(given, read)
        self._take_generator(frame, given)
        played = branches.play(plan, exact=wants_lossless(frame))
        return fitting(value_frame(frame, {"branches": played}), self._max_answer)

    def _contained(self, action: Any) -> Any:
        operations = self._operations
        if not operations.has("action", action):
            raise InvalidAction(
                f"the action {action!r:.80} is not in {operations.env.action_space}"
            )
        return action

    def _random_actions(self) -> Iterator[Any]:
        while True:
            action = self._operations.sample("action", None, None)
            self._drawn()
            yield action

    def _checked(self, action: Any) -> Any:
        self._operations.check_action(action)
        return action

    def _take_generator(self, frame: Frame, given: Json) -> None:
        # A client that drew from its copy of the generator sends the new state.
        if lossless(frame) and "generator" in given:
            self._operations.set_generator(given["generator"])
            self._changed(Op.SET_GENERATOR, None, {"state": given["generator"]})

    def _answer(
        self, frame: Frame, taken: Episode | Rollout, play: Callable[[BatchRun], None]
    ) -> Frame:
        if not wants_lossless(frame):
            self._operations.check_plain()
        budget = AnswerBudget(frame.form >> 4, self._max_answer)
        run = BatchRun(self._operations, budget, self._watch)
        try:
            play(run)
            exact = wants_lossless(frame)
            value = taken.values(exact=exact)
            value |= {"steps": run.steps, "stopped": run.stopped, **self._members()}
            value |= self._operations.further_members()
            reply = value_frame(frame, value)
            if len(reply.body) > self._max_answer:
                raise AnswerTooLarge(
                    f"the answer to {run.steps} steps has {len(reply.body)} bytes: "
                    f"this server sends {self._max_answer} at most for several steps"
                )
            return reply
        except env_exceptions() as error:
            problem = problem_of_error(error)
            if isinstance(problem, ExternalAway) and run.steps:
                # A retry would repeat steps that were taken.
                words = f"after {run.steps} steps {problem.message}; reset it"
                problem = OutcomeUnknown(words)
            problem.extras |= {"steps": run.steps}
            problem.extras |= self._results(frame, taken, run.steps)
            raise problem from error

    def _results(self, frame: Frame, taken: Episode | Rollout, steps: int) -> Json:
        """Return the results of the steps before a failed one, if they fit JSON."""
        exact = wants_lossless(frame)
        form = Form.TYPED if exact else Form.PLAIN

        def results(count: int) -> Any:
            try:
                body = encode(form, taken.values(count, exact=exact))
                if len(body) > self._max_answer:
                    return None
                value = msgspec.json.decode(body)
                # Integers may be too large for the encoder of the answer.
                msgspec.json.encode(value)
            except env_exceptions():
                return None
            return value

        whole = results(steps)
        if whole is None and steps:
            count = bisect.bisect(range(1, steps), 0, key=lambda n: results(n) is None)
            whole = results(count)
        return {} if whole is None else {"results": whole}


def _actions_of(actions: Any, name: str, cast: Callable[[Any], Any]) -> list[Any]:
    """Return a list of actions, each checked.

    Args:
        actions: The list, or an array.
        name: Its name, for refusals.
        cast: Checks and converts an action.

    Raises:
        BadParameter: It is no list, or has too many actions.
        MissingParameter: It has none.
        InvalidAction: An action is none; ``index`` says which.
    """
    if isinstance(actions, np.ndarray) and actions.ndim:
        actions = list(actions)
    if not isinstance(actions, list | tuple):
        raise BadParameter(f"{name} is {actions!r:.80}: expected a list of actions")
    if not actions:
        raise MissingParameter(name)
    if len(actions) > MAX_STEPS:
        raise BadParameter(
            f"{name} has {len(actions)} actions: expected {MAX_STEPS} at most"
        )
    ready: list[Any] = []
    try:
        for action in actions:
            ready.append(cast(action))
    except Problem as problem:
        problem.message = f"{name}[{len(ready)}]: {problem.message}"
        problem.extras |= {"index": len(ready), "steps": 0}
        raise
    return ready


def _is_given(frame: Frame, value: Any) -> bool:
    return value is not None and (lossless(frame) or plain_json.is_given(value))
