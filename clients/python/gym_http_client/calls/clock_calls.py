"""Clocks: the methods of ``Client`` for instances in real time."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from gym_http_client.calls.instance_calls import given, instance_route
from gym_http_client.http.json_requests import JsonRequests
from gym_http_wire.handshakes import new_session

__all__ = ["ActionNumbers", "ClockCalls"]

_NOT_GIVEN: Any = object()


class ActionNumbers:
    """Numbers the actions of one client, for each instance from 1.

    Attributes:
        session: Name of the client's session.
    """

    def __init__(self) -> None:
        self.session = new_session()
        self._counts: defaultdict[str, Iterator[int]] = defaultdict(
            lambda: itertools.count(1)
        )

    def next(self, instance_id: str) -> int:
        """Return the number of the next action to an instance."""
        return next(self._counts[instance_id])


class ClockCalls:
    """The methods of ``Client`` for instances with a clock.

    They raise ``NotRealTime`` for any other instance.
    """

    _requests: JsonRequests
    _actions: ActionNumbers

    def env_act(
        self,
        instance_id: str,
        action: Any = _NOT_GIVEN,
        *,
        actions: Any = None,
        at: int | None = None,
        blend: float | None = None,
        update: int | None = None,
        valid_s: float | None = None,
        priority: int | None = None,
    ) -> dict[str, Any]:
        """Set the action of the next ticks, without waiting; see ``RealTimeEnv.act``.

        Args:
            instance_id: The instance.
            action: It stays in force until another one replaces it. Without one, this
                only reports that the agent lives.
            actions: A chunk in its place: one action for each tick.
            at: Tick of the chunk's first action; by default the next one.
            blend: Weight of the chunk where it overlaps an earlier one, for a Box.
            update: Number of the update that this answers.
            valid_s: Seconds after which the action expires.
            priority: The valid action with the highest priority is applied.
        """
        body = given(
            **{"actions": actions, "at": at, "blend": blend, "for": update},
            valid_s=valid_s,
            priority=priority,
            session=self._actions.session,
            sequence=self._actions.next(instance_id),
        )
        if action is not _NOT_GIVEN:
            body["action"] = action
        return dict(self._requests.post(instance_route(instance_id, "action/"), body))

    def env_updates(
        self,
        instance_id: str,
        after: int | None = None,
        *,
        wait_s: float = 10.0,
        deliver: str = "latest",
        most: int | None = None,
    ) -> dict[str, Any]:
        """Wait for the updates after a number.

        Args:
            instance_id: The instance.
            after: Number of the last known update; by default the answer begins with
                the newest one.
            wait_s: Seconds to wait, 25 at most.
            deliver: ``"latest"`` for the newest update, merged with those before it;
                ``"all"`` for each.
            most: With ``"all"``, the number of updates at most.

        Returns:
            ``updates``, each like the answer to a step, with ``realtime`` and
            ``rewards``; ``lost``, the number that the buffer could not hold; ``state``
            and ``now_ns``.
        """
        query = given(after=after, deliver=deliver, max=most, wait_s=f"{wait_s:f}")
        path = f"updates/?{urlencode(query)}"
        return dict(self._requests.get(instance_route(instance_id, path)))

    def env_realtime(self, instance_id: str) -> dict[str, Any]:
        """Return settings, state and statistics of the clock."""
        return dict(self._requests.get(instance_route(instance_id, "realtime/")))

    def env_set_realtime(self, instance_id: str, **settings: Any) -> dict[str, Any]:
        """Change settings of the clock from the next time step on.

        Args:
            instance_id: The instance.
            **settings: ``hz`` or ``period_s``, ``capture_s``, ``elasticity``,
                ``default_action``, ``agent_timeout_s``.
        """
        route = instance_route(instance_id, "realtime/")
        return dict(self._requests.post(route, settings))

    def env_pause(self, instance_id: str) -> dict[str, Any]:
        """Pause the clock at the end of the time step."""
        route = instance_route(instance_id, "realtime/pause/")
        return dict(self._requests.post(route, {}))

    def env_resume(self, instance_id: str) -> dict[str, Any]:
        """Continue a paused clock."""
        route = instance_route(instance_id, "realtime/resume/")
        return dict(self._requests.post(route, {}))

    def env_trace(
        self,
        instance_id: str,
        last: int = 4096,
        format: str = "chrome",
    ) -> Any:
        """Return the last events of the clock.

        Args:
            instance_id: The instance.
            last: Number of events at most.
            format: ``"chrome"``, for a JSON file that Perfetto opens, or ``"json"``.
        """
        query = {"last": str(last), "format": format}
        route = instance_route(instance_id, "realtime/trace/")
        return dict(self._requests.get(route, query))
