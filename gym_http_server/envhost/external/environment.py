"""`ExternalEnv`: an environment elsewhere as a `gymnasium.Env`."""

from __future__ import annotations

from typing import Any

import gymnasium

from gym_http_server.envhost.external.connection import ExternalConnection
from gym_http_server.envhost.external.connections import ExternalConnections
from gym_http_server.envhost.external.fast_step import FastStep
from gym_http_server.envhost.external.generators import Generator
from gym_http_server.envhost.external.lines import ALONE_SECONDS
from gym_http_server.envhost.external.rendering import read_rendered
from gym_http_server.envhost.external.requester import Requester
from gym_http_server.envhost.external.results import ResultReader
from gym_http_wire.external.messages import BadMessage
from gym_http_wire.external.steps import Step
from gym_http_wire.generators import describe_generator
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter, NoAttribute, ResetNeeded, Unsupported
from gym_http_wire.specs import rebuild_spec

__all__ = ["ExternalEnv"]

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

    Attributes:
        crossing: The short way for steps over a stream; ``None`` if there is none.
    """

    def __init__(
        self,
        far: ExternalConnection,
        outside: ExternalConnections,
        kwargs: dict[str, Any],
        render_mode: str | None,
    ) -> None:
        self._far = far
        self._outside = outside
        self._hello = hello = far.hello
        self._asking = Requester(far, outside)
        # An environment of Gymnasium's own says itself that it was not reset yet.
        own = hello.has("attributes")
        self._asking.wants_reset = "" if own else f"{far.name} was not reset yet"
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
        begun = self._asking.ask(Op.INIT, given)
        try:
            self._border = ResultReader(
                hello,
                begun.get("observation_space"),
                begun.get("action_space"),
                self._outside.terms.max_observation,
            )
        except BadMessage as error:
            raise self._asking.bad(error) from None
        self._far.steps = self._border.steps
        self.crossing = self._crossing()
        self.observation_space = self._border.observation_space
        self.action_space = self._border.action_space
        if hello.has("attributes"):
            self._describe()

    def _crossing(self) -> FastStep | None:
        border, deadline_s = self._border, self._outside.terms.deadline_s
        if border.records is None or deadline_s < ALONE_SECONDS:
            return None
        return FastStep(self._far, self._asking, border.records, deadline_s)

    def _describe(self) -> None:
        told = self._asking.ask(Op.DESCRIBE, {})
        self.render_mode = told.get("render_mode")
        if isinstance(told.get("metadata"), dict):
            self.metadata = told["metadata"]
        if told.get("spec") is not None:
            try:
                self.spec = rebuild_spec(told["spec"])
            except Exception as error:
                bad = BadMessage(f"spec is none: {error}", field="spec")
                raise self._asking.bad(bad) from None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, or tell the present observation of what has none."""
        hello = self._hello
        if seed is not None and not hello.has("seed"):
            raise Unsupported(f"{self._far.name} takes no seed: expected none, or null")
        if options and not (hello.has("options") or hello.has("attributes")):
            raise Unsupported(f"{self._far.name} takes no options: expected none")
        result = self._asking.ask(Op.RESET, {"options": options, "seed": seed})
        try:
            observation, info = self._border.reset(result)
        except BadMessage as error:
            raise self._asking.bad(error) from None
        self._asking.wants_reset = ""
        if not hello.has("reset"):
            info = {**info, "continued": True}
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action."""
        if self._asking.wants_reset:
            raise ResetNeeded(f"{self._asking.wants_reset}: reset it first")
        result = self._asking.step(action)
        if isinstance(result, Step):
            return result
        try:
            return self._border.step(result)
        except BadMessage as error:
            raise self._asking.bad(error) from None

    def render(self) -> Any:
        """Give what the environment renders."""
        if not self._hello.has("render"):
            raise Unsupported(f"{self._far.name} does not render")
        hello = self._hello
        if hello.has("attributes"):
            # One of Gymnasium's own gives what it gives.
            return self._asking.ask(Op.RENDER, {}).get("rendered")
        if self.render_mode is None:
            # As Gymnasium's own do.
            words = f"{self._far.name} was made without a render_mode: it gives none"
            gymnasium.logger.warn(words)
            return None
        value = self._asking.ask(Op.RENDER, {}).get("rendered")
        try:
            return read_rendered(value, self.render_mode, plain=hello.dialect == "json")
        except BadMessage as error:
            raise self._asking.bad(error, harmless=True) from None

    def close(self) -> None:
        """Tell the environment that the agent goes; then its game is its own again."""
        self._asking.end()

    @property
    def np_random(self) -> Any:
        """The environment's random generator, as far as its state goes."""
        return Generator(self)

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self.set_generator({**describe_generator(value), "replace": True})

    @property
    def np_random_seed(self) -> Any:
        """The seed that the generator was made from."""
        return self.generator()["seed"]

    def generator(self) -> dict[str, Any]:
        """Describe the environment's random generator."""
        self._need_attributes("its generator")
        return self._asking.ask(Op.GENERATOR, {})

    def set_generator(self, given: dict[str, Any]) -> None:
        """Set the environment's random generator as described."""
        self._need_attributes("its generator")
        if self._asking.goes_on:
            # This came with the call that was lost, and was done before it.
            return
        self._asking.ask(Op.SET_GENERATOR, given)

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
            told = self._asking.ask(Op.ATTRIBUTE, {"name": name})
        except NoAttribute as error:
            raise AttributeError(error.message) from None
        if not told.get("callable"):
            return told.get("value")

        def call(*args: Any, **kwargs: Any) -> Any:
            given = {"args": list(args), "kwargs": kwargs, "name": name}
            return self._asking.ask(Op.CALL_ATTRIBUTE, given).get("value")

        return call

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the environment."""
        self._need_attributes(f"the attribute {name}")
        given = {"force": force, "name": name, "value": value}
        return bool(self._asking.ask(Op.SET_ATTRIBUTE, given).get("set"))

    def _need_attributes(self, what: str) -> None:
        if not self._hello.has("attributes"):
            raise Unsupported(f"{self._far.name} lets nobody at {what}")
