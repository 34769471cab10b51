"""Instances: calls that create, use, inspect and close an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload
from urllib.parse import quote, urlencode

from gym_http_client.http.http1 import Reply
from gym_http_client.http.json_requests import JsonRequests, json_of
from gym_http_client.http.retries import wait_of
from gym_http_client.http.server_warnings import HEADER, show_header

__all__ = ["InstanceCalls", "LogPart", "given", "instance_route"]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt


class LogPart(NamedTuple):
    """A part of an instance's output.

    Attributes:
        data: Its bytes; empty if there was no new output in time.
        next: Offset of the next part.
        cut: Number of bytes between the requested offset and this part. They are
            lost, since the server cuts logs that grow beyond 1 MiB.
        ended: Whether the instance has ended, so that there is no further output.
    """

    data: bytes
    next: int
    cut: int
    ended: bool


def instance_route(instance_id: str, rest: str = "") -> str:
    """Return the route of an instance, or a route below it."""
    return f"/v1/envs/{quote(instance_id, safe='')}/{rest}"


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None; a request omits the others."""
    return {name: value for name, value in options.items() if value is not None}


class InstanceCalls:
    """The methods of ``Client`` for instances.

    ``reset`` and ``step`` return the same as Gymnasium's. Methods with the prefix
    ``env_`` come from gym-http-api, or are similar to its methods.
    """

    _requests: JsonRequests

    def env_create(
        self,
        env_id: str,
        *,
        kwargs: dict[str, Any] | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        disable_env_checker: bool | None = None,
        wrappers: list[str | dict[str, Any]] | None = None,
        wait_s: float | None = None,
        label: str | None = None,
        realtime: dict[str, Any] | None = None,
    ) -> str:
        """Create an instance of an environment and return its ID.

        Args:
            env_id: Gymnasium's ID of the environment.
            kwargs: The environment's own keyword arguments.
            seed: Seed of the first reset, unless that has its own.
            render_mode: As for ``gymnasium.make``; required by ``env_render``.
            max_episode_steps: As for ``gymnasium.make``.
            disable_env_checker: As for ``gymnasium.make``.
            wrappers: Gymnasium's wrappers around the environment, the innermost first:
                names, or objects ``{"name": …, "kwargs": {…}}``.
            wait_s: Seconds that the server waits for an external environment to
                connect; they are added to the client's time limits.
            label: Up to 64 printable characters, which lists of instances show.
            realtime: A clock that does not wait for the agent, such as
                ``{"mode": "elastic", "hz": 20}``.
        """
        body = given(
            env_id=env_id,
            kwargs=kwargs,
            seed=seed,
            render_mode=render_mode,
            max_episode_steps=max_episode_steps,
            disable_env_checker=disable_env_checker,
            wrappers=wrappers,
            wait_s=wait_s,
            label=label,
            realtime=realtime,
        )
        answer = self._requests.send(
            "POST", "/v1/envs/", body=body, creation_wait=wait_of(body)
        )
        url = self._requests.base + "/v1/envs/"
        instance_id = str(json_of(answer, url)["instance_id"])
        try:
            show_header(answer.headers.get(HEADER.lower()))
        except Warning:
            self.env_close(instance_id)
            raise
        return instance_id

    def env_list_all(self) -> dict[str, str]:
        """Return the name of each instance's environment, by instance ID."""
        return dict(self._requests.get("/v1/envs/")["all_envs"])

    def instances(
        self, search: str | None = None, state: str | None = None
    ) -> dict[str, Any]:
        """Return the instances and the last 100 ended ones, with state and statistics.

        Args:
            search: Only those with this text, in any case, in their env ID, instance
                ID, label or owner.
            state: Only those in this state, or ``"ended"``; ``"busy"`` are those in a
                call, ``"idle"`` those between two.

        Returns:
            ``"instances"``, a list of dicts with ``instance_id``, ``env_id``,
            ``label``, ``owner``, ``state`` (``"making"``, ``"running"``, ``"waiting"``,
            ``"stuck"``, ``"paused"`` or ``"ending"``), ``age_s``, ``busy_s``,
            ``idle_s``, ``steps``, ``episodes``, ``last_return``, ``last_length``,
            ``step_ms``, ``num_envs``, ``recording``, ``streams``, ``watchers`` and
            ``memory_bytes``; ``"ended"``, the newest first, with ``reason``, ``log``
            and ``ended_s_ago``; and ``"slots"``.
        """
        query = urlencode(given(search=search, state=state))
        path = "/v1/instances/" + (f"?{query}" if query else "")
        return dict(self._requests.get(path))

    def env_episodes(
        self, instance_id: str, start: int = 0, *, last: int = 1000
    ) -> dict[str, Any]:
        """Return the episodes of an instance that ended, as the server counted them.

        Args:
            instance_id: The instance.
            start: Number of the first episode to return; they are counted from 0.
            last: Number of episodes to return at most, the newest, 1 to 1000.

        Returns:
            ``"episodes"``, the oldest first, each a dict with ``number``, ``env`` (its
            index in a vector, else None), ``return`` (None unless it is finite),
            ``length``, ``seconds``, ``seed``, ``terminated``, ``truncated``, ``end``
            and ``ended_at``; ``"current"``, the episodes that run; and ``"total"``, the
            number of all that ended. The server keeps the last 1000, also of instances
            that have ended; the dict then has ``"reason"``, why that was.
        """
        query = {"from": str(start), "last": str(last)}
        return dict(self._requests.get(instance_route(instance_id, "episodes/"), query))

    def env_log(
        self, instance_id: str, start: int = 0, *, wait_s: float = 0.0
    ) -> LogPart:
        """Return up to 256 KiB of an instance's output.

        Args:
            instance_id: The instance; if it has ended, the end of its log is kept.
            start: Offset in bytes to read from: 0, or ``next`` of the previous part.
            wait_s: Seconds, 25 at most, that the server waits for output if there is
                no new output.
        """
        query = urlencode({"from": str(start), "wait_s": f"{wait_s:f}"})
        path = instance_route(instance_id, f"log/?{query}")
        reply = self._requests.send("GET", path)
        try:
            return LogPart(
                reply.body,
                int(reply.headers["gym-log-next"]),
                int(reply.headers["gym-log-cut"]),
                reply.headers["gym-log-ended"] == "true",
            )
        except (KeyError, ValueError):
            raise self._requests.unexpected(
                reply, path, "is no part of a log"
            ) from None

    def env_describe(self, instance_id: str) -> dict[str, Any]:
        """Return an instance's spaces, spec, versions, age and counts."""
        return dict(self._requests.get(instance_route(instance_id)))

    def env_reset(
        self,
        instance_id: str,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> Any:
        """Begin an episode and return the observation."""
        return self._reset(instance_id, seed, options)["observation"]

    def reset(
        self,
        instance_id: str,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and return ``(observation, info)``."""
        answer = self._reset(instance_id, seed, options)
        return answer["observation"], _info(answer)

    def _reset(
        self, instance_id: str, seed: int | None, options: dict[str, Any] | None
    ) -> Any:
        body = given(seed=seed, options=options)
        return self._requests.post(instance_route(instance_id, "reset/"), body)

    def env_step(
        self, instance_id: str, action: Any, render: bool = False
    ) -> list[Any]:
        """Take a step and return ``[observation, reward, done, info]``.

        ``done`` is ``terminated or truncated``. ``render`` is for old agents and has
        no effect: see ``env_render``.
        """
        answer = self._step(instance_id, {"action": action, "render": render})
        observation, reward, done = (
            answer[name] for name in ("observation", "reward", "done")
        )
        return [observation, reward, done, _info(answer)]

    def step(
        self, instance_id: str, action: Any
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step.

        Returns:
            ``(observation, reward, terminated, truncated, info)``
        """
        answer = self._step(instance_id, {"action": action})
        return (
            answer["observation"],
            answer["reward"],
            answer["terminated"],
            answer["truncated"],
            _info(answer),
        )

    def _step(self, instance_id: str, body: dict[str, Any]) -> Any:
        return self._requests.post(instance_route(instance_id, "step/"), body)

    @overload
    def env_render(
        self, instance_id: str, *, as_array: Literal[False] = False
    ) -> bytes | str: ...

    @overload
    def env_render(
        self, instance_id: str, *, as_array: Literal[True]
    ) -> npt.NDArray[Any] | str: ...

    def env_render(
        self, instance_id: str, *, as_array: bool = False
    ) -> bytes | npt.NDArray[Any] | str:
        """Return the current frame: a PNG file as bytes, or an array on request.

        A text frame, as of ``render_mode="ansi"``, is returned as a string.
        """
        # A POST has an idempotency key: some environments return each frame only once.
        reply = self._requests.send(
            "POST",
            instance_route(instance_id, "render/"),
            body={},
            accept="application/octet-stream" if as_array else "image/png",
        )
        if reply.headers.get("content-type", "").startswith("text/plain"):
            return reply.body.decode()
        return _array(reply) if as_array else reply.body

    def env_monitor_start(
        self,
        instance_id: str,
        directory: str,
        force: bool = False,
        resume: bool = False,
        video_callable: bool = False,
        *,
        steps: bool = False,
        video: Mapping[str, Any] | bool = False,
    ) -> None:
        """Start to record the instance's episodes in files on the server.

        Args:
            instance_id: The instance.
            directory: Path of a directory, below the server's data directory.
            force: Replace earlier recordings there.
            resume: Add to earlier recordings there.
            video_callable: Has no effect; for old agents.
            steps: Record every reset and step, too.
            video: Record videos, too: any of ``every``, ``fps``, ``seconds`` and
                ``size``, or true for the defaults.
        """
        body: dict[str, Any] = {
            "directory": directory,
            "force": force,
            "resume": resume,
            "video_callable": video_callable,
        }
        if steps:
            body["steps"] = True
        if video is not False:
            body["video"] = video if video is True else dict(video)
        self._requests.post(instance_route(instance_id, "monitor/start/"), body)

    def env_monitor(self, instance_id: str) -> dict[str, Any]:
        """Return the recordings of an instance's monitor, even after it was closed.

        Returns:
            ``active``, ``directory`` (below the server's data directory; None if there
            was no monitor), ``episodes`` (the last 1000), ``episodes_written`` and
            ``episodes_lost``.
        """
        return dict(self._requests.get(instance_route(instance_id, "monitor/")))

    def env_monitor_close(self, instance_id: str) -> None:
        """End the recording, if there is one."""
        self._requests.post(instance_route(instance_id, "monitor/close/"), {})

    def recordings(self) -> list[dict[str, Any]]:
        """Return the recordings of monitors on the server, the newest first.

        Returns:
            Dicts with ``directory``, ``env_id``, ``instance_id``, ``label``, ``owner``,
            ``began_at`` (Unix seconds), ``num_envs``, ``active``, ``bytes``, and
            ``files``, dicts with ``name``, ``bytes`` and ``type``.
        """
        return list(self._requests.get("/v1/recordings/")["recordings"])

    def recording(self, directory: str) -> dict[str, Any]:
        """Return one of the recordings on the server, as `recordings` does."""
        return dict(self._requests.get(f"/v1/recordings/{quote(directory)}/"))

    def recording_file(self, directory: str, name: str) -> bytes:
        """Download a file of a recording.

        Args:
            directory: Its ``directory``.
            name: The name of one of its ``files``.
        """
        return b"".join(self.recording_pieces(directory, name))

    def recording_pieces(self, directory: str, name: str) -> Iterator[bytes]:
        """Download a file of a recording in pieces of at most 1 MiB.

        Args:
            directory: Its ``directory``.
            name: The name of one of its ``files``.

        Raises:
            ServerError: The server refuses, or the connection is lost.
        """
        path = f"/v1/recordings/{quote(directory)}/files/{quote(name)}/"
        yield from self._requests.pieces(path)

    def delete_recording(self, directory: str) -> None:
        """Delete a recording with its files.

        Args:
            directory: Its ``directory``.

        Raises:
            ServerError: There is none, or an instance is writing it (409).
        """
        self._requests.send("DELETE", f"/v1/recordings/{quote(directory)}/")

    def env_keys(self, instance_id: str) -> dict[str, Any]:
        """Return the keys with which a person plays an environment.

        Returns:
            ``keys``, a list of dicts with ``keys``, names as of browsers'
            ``KeyboardEvent.code``, and ``action``, or None; ``noop``, ``wait`` and
            ``fps``.
        """
        return dict(self._requests.get(instance_route(instance_id, "keys/")))

    def env_close(self, instance_id: str) -> None:
        """End the instance."""
        self._requests.post(instance_route(instance_id, "close/"), {})


def _info(answer: Any) -> dict[str, Any]:
    """Return the info of an answer, with its ``realtime`` and ``rewards`` if any."""
    info: dict[str, Any] = answer["info"]
    if "realtime" in answer:
        info = {**info, "realtime": answer["realtime"]}
        if "rewards" in answer:
            info["rewards"] = answer["rewards"]
    return info


def _array(reply: Reply) -> npt.NDArray[Any]:
    # Import NumPy only for arrays.
    import numpy as np

    shape = [int(size) for size in reply.headers["gym-shape"].split(",") if size]
    flat = np.frombuffer(reply.content, np.dtype(reply.headers["gym-dtype"]))
    # A copy, because the bytes of an answer are read-only.
    return flat.reshape(shape).copy()
