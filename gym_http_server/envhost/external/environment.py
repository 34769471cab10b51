"""`ExternalEnv`: an environment elsewhere as a `gymnasium.Env`."""

from __future__ import annotations

import json
import time
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from gym_http_server.envhost.external.border import Border
from gym_http_server.envhost.external.calls import Call
from gym_http_server.envhost.external.far_side import FarSide
from gym_http_server.envhost.external.outside import Outside
from gym_http_wire.external.asks import REPEATABLE, Ask, BadMessage
from gym_http_wire.problems import (
    BadAnswer,
    BadParameter,
    EnvError,
    ExternalAway,
    ExternalDeadline,
    InvalidAction,
    NoAttribute,
    NoRenderMode,
    OutcomeUnknown,
    Problem,
    ResetNeeded,
    Unsupported,
)
from gym_http_wire.values import UnsupportedValue

__all__ = ["ExternalEnv"]

CLOSE_SECONDS = 1.0
#: What an environment may say of itself that leaves it as it was.
_SOFT: dict[str, type[Problem]] = {
    "bad-parameter": BadParameter,
    "invalid-action": InvalidAction,
    "no-attribute": NoAttribute,
    "no-render-mode": NoRenderMode,
    "reset-needed": ResetNeeded,
    "unsupported": Unsupported,
}
_EXTRAS = ("arguments", "error_type", "mro", "text")
_OWN = frozenset(
    {
        "action_space",
        "metadata",
        "np_random",
        "np_random_seed",
        "observation_space",
        "render_mode",
        "spec",
    }
)


class ExternalEnv(gymnasium.Env[Any, Any]):
    """An environment whose step is a round trip.

    Args:
        far: The connection.
        outside: Where it belongs.
        kwargs: Arguments to begin with.
        render_mode: What `render` is to give.

    Raises:
        Problem: It could not begin.
    """

    def __init__(
        self,
        far: FarSide,
        outside: Outside,
        kwargs: dict[str, Any],
        render_mode: str | None,
    ) -> None:
        self._far = far
        self._outside = outside
        self._hello = hello = far.hello
        self._deadline_s = outside.terms.deadline_s
        # What was asked when the connection was lost, if that may matter.
        self._pending: Call | None = None
        # An environment of Gymnasium's own says itself that it was not reset yet.
        own = hello.has("attributes")
        self._wants_reset = "" if own else f"{far.name} was not reset yet"
        modes = hello.render_modes if hello.has("render") else []
        self.metadata = {**hello.metadata, "render_modes": list(modes)}
        self.render_mode = render_mode
        self.spec = None
        if render_mode is not None and render_mode not in modes:
            raise BadParameter(
                f"render_mode is {render_mode!r:.80}: {far.name} has {modes}"
            )
        try:
            self._begin(kwargs)
        except BaseException:
            self.close()
            raise

    def _begin(self, kwargs: dict[str, Any]) -> None:
        hello, given = self._hello, {"kwargs": kwargs, "render_mode": self.render_mode}
        begun = self._ask(Ask.INIT, given)
        try:
            self._border = Border(
                hello, begun.get("observation_space"), begun.get("action_space")
            )
        except BadMessage as error:
            raise self._bad(error) from None
        self.observation_space = self._border.observation_space
        self.action_space = self._border.action_space
        if hello.has("attributes"):
            self._describe()

    def _describe(self) -> None:
        told = self._ask(Ask.DESCRIBE, {})
        self.render_mode = told.get("render_mode")
        if isinstance(told.get("metadata"), dict):
            self.metadata = told["metadata"]
        if told.get("spec") is not None:
            try:
                self.spec = EnvSpec.from_json(json.dumps(told["spec"]))
            except Exception as error:
                bad = BadMessage(f"spec is none: {error}", field="spec")
                raise self._bad(bad) from None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, or tell the present observation of what has none."""
        hello = self._hello
        if seed is not None and not hello.has("seed"):
            raise Unsupported(f"{self._far.name} takes no seed: expected none, or null")
        if options and not (hello.has("options") or hello.has("attributes")):
            raise Unsupported(f"{self._far.name} takes no options: expected none")
        result = self._ask(Ask.RESET, {"options": options, "seed": seed})
        try:
            observation, info = self._border.reset(result)
        except BadMessage as error:
            raise self._bad(error) from None
        self._wants_reset = ""
        if not hello.has("reset"):
            info = {**info, "continued": True}
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action."""
        if self._wants_reset:
            raise ResetNeeded(f"{self._wants_reset}: reset it first")
        result = self._ask(Ask.STEP, {"action": action})
        try:
            return self._border.step(result)
        except BadMessage as error:
            raise self._bad(error) from None

    def render(self) -> Any:
        """Give what the environment renders."""
        if not self._hello.has("render"):
            raise Unsupported(f"{self._far.name} does not render")
        return self._ask(Ask.RENDER, {}).get("rendered")

    def close(self) -> None:
        """Tell the environment that the agent goes; then its game is its own again."""
        far = self._far
        if far.away_since is not None:
            return
        until = time.monotonic() + CLOSE_SECONDS
        call = Call(Ask.CLOSE, {}, far.number(), until)
        far.send(call)
        while not call.over and time.monotonic() < until:
            self._outside.pause(call)
        if call.answer is None:
            # Nobody knows what it is doing; it may connect anew.
            far.lose("it did not answer to close")

    @property
    def np_random(self) -> Any:
        """The environment's random generator, as far as its state goes."""
        return _Generator(self)

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self.set_generator(value.bit_generator.state)

    @property
    def np_random_seed(self) -> Any:
        """The seed that the generator was made from."""
        return self.generator()["seed"]

    def generator(self) -> dict[str, Any]:
        """Give seed and state of the environment's random generator."""
        self._need_attributes("its generator")
        return self._ask(Ask.GENERATOR, {})

    def set_generator(self, state: Any) -> None:
        """Set the state of the environment's random generator."""
        self._need_attributes("its generator")
        pending, key = self._pending, self._outside.key
        if pending is not None and key and pending.key == key:
            # This came with the call that was lost, and was done before it.
            return
        self._ask(Ask.SET_GENERATOR, {"state": state})

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether the environment has an attribute."""
        try:
            self.get_wrapper_attr(name)
        except AttributeError:
            return False
        return True

    def get_wrapper_attr(self, name: str) -> Any:
        """Give an attribute of the environment.

        Raises:
            AttributeError: It has none of this name.
        """
        if name in _OWN:
            return getattr(self, name)
        if not self._hello.has("attributes"):
            raise AttributeError(f"{self._far.name} does not tell its attributes")
        try:
            told = self._ask(Ask.ATTRIBUTE, {"name": name})
        except NoAttribute as error:
            raise AttributeError(error.message) from None
        if not told.get("callable"):
            return told.get("value")

        def call(*args: Any, **kwargs: Any) -> Any:
            given = {"args": list(args), "kwargs": kwargs, "name": name}
            return self._ask(Ask.CALL_ATTRIBUTE, given).get("value")

        return call

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the environment."""
        self._need_attributes(f"the attribute {name}")
        given = {"force": force, "name": name, "value": value}
        return bool(self._ask(Ask.SET_ATTRIBUTE, given).get("set"))

    def _need_attributes(self, what: str) -> None:
        if not self._hello.has("attributes"):
            raise Unsupported(f"{self._far.name} lets nobody at {what}")

    def _ask(self, ask: Ask, given: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            Problem: What the agent is to be told instead.
        """
        call = self._begun(ask, given)
        while not call.over:
            if time.monotonic() >= call.deadline:
                self._far.give_up(call)
                self._doubt(ask, "it did not answer in time")
                raise ExternalDeadline(
                    f"{self._far.name} did not answer to {ask.name.lower()} within "
                    f"{self._deadline_s:g} s; raise --external-deadline, if it may "
                    "take longer"
                )
            self._outside.pause(call)
        if call.lost:
            if ask not in REPEATABLE:
                self._pending = call
            raise self._away()
        if call.problem is not None:
            self._doubt(ask, "its last answer was none")
            raise call.problem
        answer = call.answer
        if answer is None or answer.result is None:
            raise self._reported(ask, (answer and answer.error) or {})
        return answer.result

    def _begun(self, ask: Ask, given: dict[str, Any]) -> Call:
        """Send a request; or go on with the one that the connection was lost in."""
        far, key = self._far, self._outside.key
        if far.away_since is not None:
            # It may have come back just now.
            self._outside.attend()
        pending, self._pending = self._pending, None
        if pending is not None and not pending.is_again(ask, given, key):
            if ask not in REPEATABLE and ask != Ask.RESET:
                self._pending = pending
                raise ResetNeeded(
                    f"{far.name} was lost in another call, and nobody knows whether "
                    "that was done: send it again as it was, or reset"
                )
            if ask in REPEATABLE:
                self._pending = pending
            pending = None
        if far.away_since is not None:
            self._pending = self._pending or pending
            raise self._away()
        deadline = time.monotonic() + self._deadline_s
        if pending is None:
            call = Call(ask, given, far.number(), deadline, key)
        elif self._hello.has("replay"):
            # Under its ID: what was done is not done again.
            call, call.deadline = pending, deadline
        else:
            self._doubt(ask, "nobody knows whether its last call was done")
            raise OutcomeUnknown(
                f"{far.name} came back, and cannot say whether it had done the "
                f"{ask.name.lower()} that it was lost in; reset it"
            )
        try:
            far.send(call)
        except UnsupportedValue as error:
            raise BadParameter(f"this cannot be told to {far.name}: {error}") from None
        return call

    def _away(self) -> ExternalAway:
        grace = self._outside.terms.grace_s
        return ExternalAway(
            f"{self._far.name} has lost its connection, and has {grace:g} s to come "
            "back; ask again",
            headers={"Retry-After": "1"},
        )

    def _doubt(self, ask: Ask, why: str) -> None:
        if ask in (Ask.STEP, Ask.RESET):
            self._wants_reset = f"{self._far.name} has to be reset, since {why}"

    def _bad(self, error: BadMessage) -> BadAnswer:
        """Tell both sides what was wrong with an answer."""
        self._far.blame(error)
        self._wants_reset = f"{self._far.name} gave a bad answer"
        words = f"{self._far.name} gave a bad answer: {error}"
        return BadAnswer(words, extras={"field": error.field})

    def _reported(self, ask: Ask, error: dict[str, Any]) -> Problem:
        words = str(error.get("message", "it failed"))
        soft = _SOFT.get(str(error.get("code")))
        if soft is not None:
            return soft(words)
        self._doubt(ask, "its last call failed")
        told = error.get("extras")
        extras = told if isinstance(told, dict) else {}
        kept = {name: extras[name] for name in _EXTRAS if name in extras}
        return EnvError(words, extras=kept)


class _Generator:
    """Stands for a generator that is elsewhere; only its state is known."""

    def __init__(self, env: ExternalEnv) -> None:
        self._env = env

    @property
    def bit_generator(self) -> _Generator:
        """This, since nothing else of it is asked for."""
        return self

    @property
    def state(self) -> Any:
        """The state."""
        return self._env.generator()["state"]

    @state.setter
    def state(self, state: Any) -> None:
        self._env.set_generator(state)
