"""Records an instance: its episodes, and steps and videos if a client wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_core.episode_log import VectorEpisodeLog
from gym_http_core.operations import Operations
from gym_http_server.host.monitor import NO_MONITOR, Monitor, VectorMonitor
from gym_http_server.host.monitor_files import FileRequest
from gym_http_server.host.step_recorder import StepRecorder
from gym_http_server.host.video_recorder import (
    VideoRecorder,
    VideoRequest,
    check_video,
)
from gym_http_server.rundir.status import StatusPage
from gym_http_wire.messages import Op
from gym_http_wire.problems import MonitorActive

__all__ = ["Recording"]

Json = dict[str, Any]


class Recording:
    """The monitor of an instance, and the recorders that belong to it.

    Args:
        operations: The environment.
        describe: Returns what the header of a recording says of the environment.
        page: The status page, which has the state of recorders.
        open_file: Opens the file of a monitor, and returns its descriptor.
        video_patience_s: Seconds to wait for ffmpeg before frames are dropped.

    Attributes:
        monitor: Records episodes; ``None`` if no client has started it.
        recorder: Records resets and steps; ``None`` if its monitor does not.
        video: Records videos; ``None`` if its monitor does not.
        open_file: Opens the file of a monitor, and returns its descriptor.
        drawn_seed: The seed that this host has drawn for the first reset; ``None``
            without one, and after that reset.
    """

    def __init__(
        self,
        operations: Operations,
        describe: Callable[[], Json],
        page: StatusPage,
        open_file: Callable[[FileRequest], int],
        *,
        video_patience_s: float,
    ) -> None:
        self.monitor: Monitor | None = None
        self.recorder: StepRecorder | None = None
        self.video: VideoRecorder | None = None
        self.open_file = open_file
        self.drawn_seed: int | None = None
        # Actions that a rollout has drawn since the last record.
        self._draws = 0
        self._last_monitor: Monitor | None = None
        self._operations = operations
        self._describe = describe
        self._page = page
        self._video_patience_s = video_patience_s

    def begin(self, directory: str, request: Json, file: int, after: int = 0) -> None:
        """Record the instance from its beginning, or go on recording it.

        Args:
            directory: The recording's directory.
            request: The create request, for the header.
            file: Descriptor of the file of its monitor.
            after: Records after which it goes on.

        Raises:
            DiskFull: There is no room.
        """
        monitor = self._make_monitor(file, directory)
        monitor.go_on(self._operations.episode_log)
        try:
            self.recorder = self._make_recorder(directory, False, request, after)
        except BaseException:
            monitor.close()
            raise
        self.monitor = self._last_monitor = monitor

    def start(self, given: Json) -> str:
        """Start the monitor that a client wants; return its directory.

        Args:
            given: The members of the request, as `MONITOR_START` has them.

        Raises:
            MonitorActive: There is one.
            Problem: Its files cannot be used, or there can be no videos.
        """
        directory, video = given["directory"], None
        force, resume = given.get("force", False), given.get("resume", False)
        if self.monitor is not None:
            raise MonitorActive(
                "the instance is being monitored; close the monitor first"
            )
        wanted = given.get("video", False)
        if wanted is not False:
            video = VideoRequest(**({} if wanted is True else wanted))
            check_video(self._operations)
        count = getattr(self._operations.env, "num_envs", None)
        steps = given.get("steps", False)
        request = FileRequest(
            *(directory, force, resume),
            num_envs=count,
            large=steps or video is not None,
        )
        file = self.open_file(request)
        monitor = self._make_monitor(file, directory)
        try:
            if steps:
                self.recorder = self._make_recorder(directory, force and not resume)
            if video is not None:
                self.video = self._record_video(directory, video)
        except BaseException:
            monitor.close()
            raise
        self.monitor = self._last_monitor = monitor
        return monitor.directory

    def reset(self, seed: int | None, options: Any, value: Json) -> None:
        """Record a reset."""
        if self.monitor is not None:
            self.monitor.reset(seed)
            if self.recorder is not None:
                drawn = seed is not None and seed == self.drawn_seed
                self.recorder.reset(seed, options, value, drawn=drawn)
            if self.video is not None:
                self.video.reset()
        self.drawn_seed = None

    def step(self, action: Any, value: Json) -> None:
        """Record a step."""
        if self.recorder is not None:
            self.recorder.step(action, value, self._draws)
            self._draws = 0
        self.observe_step(value)

    def observe_step(self, value: Json) -> None:
        """Pass a step on to the monitor, which the recorder of steps has already."""
        if self.monitor is not None:
            terminated, truncated = self._operations.episode_end(
                value["terminated"], value["truncated"]
            )
            self.monitor.step(value["reward"], terminated, truncated)
            if self.video is not None:
                self.video.step(value)

    def change(self, op: Op, name: str | None, given: Json) -> None:
        """Record a request that may have changed the environment.

        Args:
            op: Its operation.
            name: The attribute that it is about, or ``None``.
            given: Its members.
        """
        if op == Op.SET_GENERATOR and self.drawn_seed is not None:
            # The first episode is to begin from this state.
            self.drawn_seed = self._operations.first_seed = None
        if self.recorder is not None:
            self.recorder.change(op.name.lower(), name, given)

    def count_draw(self) -> None:
        """Count an action that was drawn, for the record of the next step."""
        self._draws += 1

    def end_draws(self) -> None:
        """Record the last drawn actions, which may have been for no step."""
        for _ in range(self._draws):
            self.change(Op.ACTION_SAMPLE, None, {})
        self._draws = 0

    def in_use(self) -> tuple[list[int], set[int]]:
        """Return the descriptors of files, and the processes and threads that write."""
        recorders = [
            each
            for each in (self.monitor, self.recorder, self.video)
            if each is not None
        ]
        files = [file for each in recorders for file in each.descriptors()]
        return files, set() if self.video is None else self.video.tasks()

    def problem(self) -> Json:
        """Return the member that reports unwritten episodes; empty if all are."""
        if self.monitor is None or not self.monitor.error:
            return {}
        return {"monitor_error": self.monitor.error}

    def report(self) -> Json:
        """Return what clients read of the monitor, or of the last one."""
        if self._last_monitor is None:
            return NO_MONITOR
        return self._last_monitor.report() | {"active": self.monitor is not None}

    def close(self) -> None:
        """Close the monitor, if there is one."""
        if self.monitor is not None:
            monitor, self.monitor = self.monitor, None
            recorder, self.recorder = self.recorder, None
            video, self.video = self.video, None
            if recorder is not None:
                recorder.close("closed")
            if video is not None:
                video.close()
            monitor.close()

    def _make_monitor(self, file: int, directory: str) -> Monitor:
        log = self._operations.episode_log
        if isinstance(log, VectorEpisodeLog):
            return VectorMonitor(file, directory, log)
        return Monitor(file, directory)

    def _record_video(self, directory: str, video: VideoRequest) -> VideoRecorder:
        def open_file(name: str) -> int:
            return self.open_file(FileRequest(directory, False, True, video=name))

        return VideoRecorder(
            self._operations,
            video,
            open_file,
            self._page,
            patience_s=self._video_patience_s,
        )

    def _make_recorder(
        self,
        directory: str,
        force: bool,
        request: Json | None = None,
        after: int = 0,
    ) -> StepRecorder:
        header = {**self._describe(), "request": request}
        file = self.open_file(FileRequest(directory, force, False, steps=True))
        following = FileRequest(directory, False, True, steps=True)
        return StepRecorder(
            file, header, lambda: self.open_file(following), self._page, after=after
        )
