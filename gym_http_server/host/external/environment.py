"""An external environment as a `gymnasium.Env`."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium

from gym_http_server.host.external.connections import ExternalConnections
from gym_http_server.host.external.fast_step import FastStep
from gym_http_server.host.external.leased_connection import (
    ALONE_SECONDS,
    LeasedConnection,
)
from gym_http_server.host.external.requester import ProgramReplaced, Requester
from gym_http_server.host.external.results import ResultReader, read_rendered
from gym_http_wire.external.messages import BadMessage
from gym_http_wire.external.steps import PackedStep, Step
from gym_http_wire.generators import describe_generator
from gym_http_wire.messages import Op
from gym_http_wire.opaque import Path, bind
from gym_http_wire.problems import (
    BadParameter,
    NoAttribute,
    ResetNeeded,
    Unsupported,
)
from gym_http_wire.specs import rebuild_spec
from gym_http_wire.values import binary

__all__ = ["ExternalEnv"]

#: Number of steps of a stream that take the general path after one with an info: an
#: environment that sent one info is likely to send more.
PAUSE_STEPS = 64
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
    """An environment whose every call is a request over a connection.

    Args:
        connection: The connection.
        connections: All connections of the host.
        kwargs: Arguments for the environment to begin with.
        render_mode: The mode of `render`.

    Raises:
        Problem: The environment could not begin.

    Attributes:
        stream_step: The fast path for steps of a stream, to be tried before `step`;
            or ``None``.
    """

    stream_step: FastStep[PackedStep] | None = None
    _fast_step: FastStep[Step] | None = None

    def __init__(
        self,
        connection: LeasedConnection,
        connections: ExternalConnections,
        kwargs: dict[str, Any],
        render_mode: str | None,
    ) -> None:
        self._env_id = env_id = connection.env_id
        self._connections = connections
        self._kwargs = kwargs
        self._hello = hello = connection.hello
        # A Gymnasium environment raises by itself if it was not reset yet.
        gymnasiums = hello.has("attributes")
        needs_reset = "" if gymnasiums else f"{env_id} was not reset yet"
        self._requester = Requester(connection, connections, needs_reset)
        modes = hello.render_modes if hello.has("render") else []
        self.metadata = {**hello.metadata, "render_modes": list(modes)}
        self.render_mode = render_mode
        self.spec = None
        if render_mode is not None and render_mode not in modes:
            raise BadParameter(
                f"render_mode is {render_mode!r:.80}: {env_id} has {modes}"
            )
        # Whether the environment has begun, and whether the agent has not received yet
        # that its episode was cut.
        self._begun = self._cut = False
        try:
            self._results = self._begin()
            self.observation_space = self._results.observation_space
            self.action_space = self._results.action_space
            if hello.has("attributes"):
                call = self._call_space
                bind(self.observation_space, partial(call, "observation_space"))
                bind(self.action_space, partial(call, "action_space"))
            if len(connections.leased) == 1 and connections.blocks:
                self._set_fast_steps(self._results)
            if hello.has("attributes"):
                self._describe()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> ResultReader:
        """Send the request to begin, and return a reader of later results."""
        given = {"kwargs": self._kwargs, "render_mode": self.render_mode}
        begun = self._requester.request(Op.INIT, given)
        try:
            results = ResultReader(
                self._hello,
                begun.get("observation_space"),
                begun.get("action_space"),
                self._connections.settings.max_observation,
            )
        except BadMessage as error:
            raise self._requester.reject(error) from None
        self._begun = True
        return results

    def _begin_again(self) -> None:
        """Begin with the program that has taken the place of the one before."""
        self._hello = self._requester.connection.hello
        results = self._begin()
        for which in ("observation_space", "action_space"):
            if getattr(results, which) != getattr(self, which):
                self._begun = False
                words = f"{which} is not that of the instance"
                raise self._requester.reject(BadMessage(words, field=which))

    def _request(self, op: Op, parameters: dict[str, Any]) -> dict[str, Any]:
        """Send a request; to a program that was started again, after it has begun."""
        while True:
            try:
                if not self._begun:
                    self._begin_again()
                return self._requester.request(op, parameters)
            except ProgramReplaced:
                self._cut_episode()

    def _cut_episode(self) -> None:
        """End the episode, which the program that was started again does not have."""
        requester = self._requester
        if requester.needs_reset:
            requester.last_step = None
        requester.needs_reset = f"{self._env_id} was started again"
        self._begun, self._cut = False, True

    def _last_step(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Return the step that ends an episode which was cut.

        Its observation is the last one, since the next one of the episode is unknown.

        Raises:
            ResetNeeded: There was no episode, or the agent steps in plain JSON.
        """
        requester, connections = self._requester, self._connections
        last, requester.last_step, self._cut = requester.last_step, None, False
        if isinstance(last, Step | PackedStep) and (last.terminated or last.truncated):
            last = None
        alone = connections.blocks and len(connections.leased) == 1
        if last is None or (alone and connections.plain):
            raise ResetNeeded(f"{requester.needs_reset}: reset it first")
        if isinstance(last, PackedStep) and self.stream_step is not None:
            read = binary.compile_reader(self.stream_step.signature)
            last = read(last.leaves, 0)["observation"]
        elif isinstance(last, Step):
            last = last.observation
        info: dict[str, Any] = {"reconnected": True}
        if self._hello.reward_channels is not None:
            info["reward_channels"] = dict.fromkeys(self._hello.reward_channels)
        return last, 0.0, False, True, info

    def _call_space(
        self, name: str, path: Path, method: str, args: list[Any], kwargs: Any
    ) -> Any:
        """Call a method of an opaque space, which only the environment has."""
        given = {"args": args, "kwargs": kwargs, "method": method, "name": name}
        given["path"] = list(path)
        return self._request(Op.CALL_ATTRIBUTE, given).get("value")

    def _set_fast_steps(self, results: ResultReader) -> None:
        if results.steps is None or self._requester.deadline_s < ALONE_SECONDS:
            return
        self._fast_step = FastStep(self._requester, results.steps)
        if results.packing is not None:
            reader, signature = results.packing
            self.stream_step = FastStep(
                self._requester, reader, signature=signature, pause=PAUSE_STEPS
            )

    def _describe(self) -> None:
        described = self._request(Op.DESCRIBE, {})
        self.render_mode = described.get("render_mode")
        if isinstance(described.get("metadata"), dict):
            self.metadata = described["metadata"]
        if described.get("spec") is not None:
            try:
                self.spec = rebuild_spec(described["spec"])
            except Exception as error:
                bad = BadMessage(f"spec is malformed: {error}", field="spec")
                raise self._requester.reject(bad) from None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; without the capability, return the present observation."""
        hello = self._hello
        if seed is not None and not hello.has("seed"):
            raise Unsupported(f"{self._env_id} takes no seed: expected null")
        if options and not (hello.has("options") or hello.has("attributes")):
            raise Unsupported(f"{self._env_id} takes no options: expected null")
        result = self._request(Op.RESET, {"options": options, "seed": seed})
        try:
            observation, info = self._results.reset(result)
        except BadMessage as error:
            raise self._requester.reject(error) from None
        self._requester.needs_reset, self._cut = "", False
        self._requester.last_step = observation
        if not hello.has("reset"):
            info = {**info, "continued": True}
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action."""
        if self._requester.connection.replaced and self._begun:
            self._cut_episode()
        if self._cut:
            return self._last_step()
        if self._requester.needs_reset:
            raise ResetNeeded(f"{self._requester.needs_reset}: reset it first")
        call = None if self.stream_step is None else self.stream_step.take_pending()
        if call is None and self._fast_step is not None:
            stepped = self._fast_step.step(action)
            if isinstance(stepped, Step):
                return stepped
            call = stepped
        try:
            result = self._requester.request(Op.STEP, {"action": action}, call)
            step = Step(*self._results.step(result))
        except ProgramReplaced:
            self._cut_episode()
            return self._last_step()
        except BadMessage as error:
            raise self._requester.reject(error) from None
        self._requester.last_step = step
        return step

    def render(self) -> Any:
        """Return the rendered value."""
        if not self._hello.has("render"):
            raise Unsupported(f"{self._env_id} does not render")
        hello = self._hello
        if hello.has("attributes"):
            # A value that a Gymnasium environment rendered is returned unchanged.
            return self._request(Op.RENDER, {}).get("rendered")
        if self.render_mode is None:
            # As Gymnasium's own environments do.
            words = f"{self._env_id} was made without a render_mode: it renders nothing"
            gymnasium.logger.warn(words)
            return None
        value = self._request(Op.RENDER, {}).get("rendered")
        try:
            return read_rendered(value, self.render_mode, plain=hello.dialect == "json")
        except BadMessage as error:
            raise self._requester.reject(error, harmless=True) from None

    def close(self) -> None:
        """Send the environment the request to close."""
        self._requester.end()

    @property
    def np_random(self) -> Any:
        """The environment's random generator, of which only the state is available."""
        return _Generator(self)

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
        return self._request(Op.GENERATOR, {})

    def set_generator(self, given: dict[str, Any]) -> None:
        """Set the environment's random generator as described."""
        self._need_attributes("its generator")
        if self._requester.retries_lost:
            # It was sent and done before the call in which the connection was lost.
            return
        self._request(Op.SET_GENERATOR, given)

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether the environment has an attribute."""
        try:
            self.get_wrapper_attr(name)
        except AttributeError:
            return False
        return True

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute of the environment.

        Raises:
            AttributeError: It has no attribute of this name.
        """
        if name in _OWN:
            return getattr(self, name)
        if not self._hello.has("attributes"):
            raise AttributeError(f"{self._env_id} does not show its attributes")
        try:
            attribute = self._request(Op.ATTRIBUTE, {"name": name})
        except NoAttribute as error:
            raise AttributeError(error.message) from None
        if not attribute.get("callable"):
            return attribute.get("value")

        def call(*args: Any, **kwargs: Any) -> Any:
            given = {"args": list(args), "kwargs": kwargs, "name": name}
            return self._request(Op.CALL_ATTRIBUTE, given).get("value")

        return call

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the environment."""
        self._need_attributes(f"the attribute {name}")
        given = {"force": force, "name": name, "value": value}
        return bool(self._request(Op.SET_ATTRIBUTE, given).get("set"))

    def _need_attributes(self, what: str) -> None:
        if not self._hello.has("attributes"):
            raise Unsupported(f"{self._env_id} gives no access to {what}")


class _Generator:
    """The generator of an external environment; only its state is available."""

    def __init__(self, env: ExternalEnv) -> None:
        self._env = env

    @property
    def bit_generator(self) -> _Generator:
        """This object, since only its state is used."""
        return self

    @property
    def state(self) -> Any:
        """The state."""
        return self._env.generator()["state"]

    @state.setter
    def state(self, state: Any) -> None:
        self._env.set_generator({"state": state})

    def described(self) -> dict[str, Any]:
        """Return the environment's description of its random generator."""
        return self._env.generator()

    def set_described(self, given: dict[str, Any]) -> None:
        """Set the random generator to a described state."""
        self._env.set_generator(given)
