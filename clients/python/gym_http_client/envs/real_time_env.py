"""`RealTimeEnv`: a remote environment whose clock does not wait for the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gymnasium.envs.registration import EnvSpec

from gym_http_client.calls.real_time_calls import Updates, info_of
from gym_http_client.envs.any_handle import AnyHandle
from gym_http_client.envs.handles import Handle
from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.server import Server
from gym_http_client.http.json_requests import plain_json

__all__ = ["RealTimeEnv"]

_NOT_GIVEN: Any = object()


class RealTimeEnv(RemoteEnv):
    """A remote environment with a clock that does not wait for the agent.

    `reset` and `step` are as in Gymnasium; the server answers when the time step ends.
    ``info["realtime"]`` has the time of the observation, how late it was, and the
    action that was in force. ``info["rewards"]`` has the reward of each channel, NaN
    where there was none.

    Args:
        server: URL of the server, or a `Server` with a token.
        env_id: ID of the environment, such as ``"CartPole-v1"``.
        realtime: The clock, such as ``{"mode": "elastic", "hz": 20}``. Only a world
            with a rate of its own needs none.
        **options: As for `RemoteEnv`.

    Raises:
        ServerError: The server refuses, for example an unknown member of `realtime`.
    """

    def __init__(
        self,
        server: str | Server,
        env_id: str,
        realtime: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._realtime = None if realtime is None else plain_json(realtime)
        super().__init__(server, env_id, **options)

    def _create(
        self,
        server: str | Server,
        env_id: str,
        options: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> None:
        options = {**options, "realtime": self._realtime}
        super()._create(server, env_id, options, kwargs)

    def _set_spec(
        self,
        spec: EnvSpec,
        made_by: tuple[str | Server, str] | None,
        made_with: dict[str, Any],
    ) -> None:
        # The clock of an attached instance is unknown.
        known = made_by if "realtime" in made_with else None
        super()._set_spec(spec, known, made_with)

    def _hold(self, handle: AnyHandle, answer: dict[str, Any] | None = None) -> None:
        if not isinstance(handle, Handle):
            raise TypeError(f"{handle!r} is no handle of a server, which has the clock")
        calls = handle.real_time_calls()
        if self._made_by is None:
            # An instance without a clock raises NotRealTime, before this object could
            # end it.
            try:
                calls.call("GET", "realtime/")
            except BaseException:
                calls.close()
                raise
        calls.strict_infos = self._strict_infos
        self._calls = calls
        super()._hold(handle, answer)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; the first reset starts the clock.

        Args:
            seed: Seed for the environment's random generator; ``None`` does not change
                it.
            options: Options of the environment.

        Returns:
            Observation and info.
        """
        answer = self._begin(seed, options)
        return answer["observation"], self._calls.note(info_of(answer))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Act, and wait for the end of the time step.

        Elastic: return the observation of the time step that ends, and begin the next
        one with this action. Free-running: act in the next tick, and return its update.

        Returns:
            Observation, reward, terminated, truncated and info.

        Raises:
            Paused: The clock is paused.
            WorldEnded: All episodes have ended.
        """
        answer = self._request("POST", "step/", {"action": action})
        return (
            answer["observation"],
            answer["reward"],
            answer["terminated"],
            answer["truncated"],
            self._calls.note(info_of(answer)),
        )

    def act(
        self,
        action: Any = _NOT_GIVEN,
        *,
        actions: Any = _NOT_GIVEN,
        at: int | None = None,
        blend: float | None = None,
        update: int | None = None,
        valid_s: float | None = None,
        priority: int | None = None,
    ) -> dict[str, Any]:
        """Set the action of the next ticks, and return at once.

        Without an action, only report that the agent lives.

        Args:
            action: It stays in force until another one replaces it.
            actions: A chunk in its place: one action for each tick, 1024 at most.
            at: Tick of the chunk's first action; by default the next one.
            blend: Weight of the chunk where it overlaps an earlier one, for a Box.
            update: Number of the update that this answers; by default the last one that
                this object has received. The server computes reaction times from it.
            valid_s: Seconds after which the action expires.
            priority: The valid action with the highest priority is applied.

        Returns:
            ``tick``, ``now_ns``, ``sequence``, ``queued`` and, for a repeated request,
            ``repeated``.

        Raises:
            NotRealTime: The instance has no clock.
            WorldEnded: All episodes have ended.
        """
        given: dict[str, Any] = {
            "action": action,
            "actions": actions if actions is _NOT_GIVEN else list(actions),
            "at": _NOT_GIVEN if at is None else at,
            "blend": _NOT_GIVEN if blend is None else blend,
            "for": _NOT_GIVEN if update is None else update,
            "valid_s": _NOT_GIVEN if valid_s is None else valid_s,
            "priority": _NOT_GIVEN if priority is None else priority,
        }
        self._open_handle()
        return self._calls.act(
            {name: value for name, value in given.items() if value is not _NOT_GIVEN}
        )

    def updates(
        self,
        after: int | None = None,
        deliver: Literal["latest", "all"] = "latest",
        most: int | None = None,
    ) -> Updates:
        """Return an iterator over the world's updates, on a connection of its own.

        Each item has the fields of a step's result: observation, reward, terminated,
        truncated and info.

        Args:
            after: Number of the last known update; by default the last one that this
                object has received, or else the iteration begins with the newest.
            deliver: ``"latest"`` returns the newest update, merged with those before
                it; ``"all"`` returns each.
            most: With ``"all"``, how many updates an answer has at most.
        """
        self._open_handle()
        return self._calls.updates(after, deliver, most)

    def timing(self) -> dict[str, Any]:
        """Return the clock's settings, state and statistics."""
        return self._clock("GET", "realtime/")

    def set_timing(self, **settings: Any) -> dict[str, Any]:
        """Change settings of the clock from the next time step on.

        Args:
            **settings: ``hz`` or ``period_s``, ``capture_s``, ``elasticity``,
                ``default_action``, ``agent_timeout_s``.

        Returns:
            As `timing`.
        """
        return self._clock("POST", "realtime/", settings)

    def pause(self) -> dict[str, Any]:
        """Pause the clock at the end of the time step."""
        return self._clock("POST", "realtime/pause/")

    def resume(self) -> dict[str, Any]:
        """Continue a paused clock."""
        return self._clock("POST", "realtime/resume/")

    def trace(self, last: int = 4096, format: str = "chrome") -> Any:
        """Return the last events of the clock.

        Args:
            last: Number of events at most.
            format: ``"chrome"``, for a JSON file that Perfetto opens, or ``"json"``.
        """
        return self._clock("GET", "realtime/trace/", {"last": last, "format": format})

    def close(self) -> None:
        """Close the environment, and end its instance and all iterators."""
        calls = self.__dict__.get("_calls")
        if calls is not None:
            calls.close()
        super().close()

    def _clock(
        self, method: str, path: str, given: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        self._open_handle()
        return self._calls.call(method, path, given)
