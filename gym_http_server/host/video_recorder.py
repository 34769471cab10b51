"""Records videos of episodes: each frame goes to ffmpeg at once, and none is collected.

A process of ffmpeg encodes one episode as H.264 in fragmented MP4, which can be played
up to its last fragment if the host is killed. A frame is dropped if ffmpeg does not
take it in time, and then the next are, until it goes on: a full disk delays an
environment once.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from gym_http_core.env_errors import env_exceptions
from gym_http_core.operations import Operations
from gym_http_core.vectors import CallsSome, VectorOperations
from gym_http_server.datadir.recording_files import check_free
from gym_http_server.host import env_warnings, fork_guard
from gym_http_server.host.codec import is_image
from gym_http_server.operations.instances import VIDEO
from gym_http_server.rundir.status import (
    RECORDING_FAILED,
    RECORDING_VIDEO,
    StatusPage,
)
from gym_http_wire.problems import (
    DependencyMissing,
    DiskFull,
    NoRenderMode,
    Problem,
)

__all__ = ["VideoRecorder", "VideoRequest", "check_video"]

#: Frames that wait for ffmpeg, at most.
_WAITING = 2
#: Seconds that ffmpeg may take to end after the last frame.
_END_SECONDS = 5.0
#: Seconds between two looks at the free bytes of the disk.
_LOOK_SECONDS = 1.0
_FORMATS = {2: "gray", 3: "rgb24"}

Frame = NDArray[np.uint8]


class VideoRequest(NamedTuple):
    """Which episodes to record, and how.

    Attributes:
        every: Records the first episode, and then each so many.
        fps: Frames a second; ``None``: the environment's ``render_fps``, else 30.
        seconds: Longest video.
        size: Pixels of the longer side; smaller frames stay as they are.
    """

    every: int = VIDEO["every"].default
    fps: int | None = None
    seconds: int = VIDEO["seconds"].default
    size: int = VIDEO["size"].default


def check_video(operations: Operations) -> str:
    """Check that videos can be recorded; return the path of ffmpeg.

    Raises:
        NoRenderMode: The environment does not render arrays.
        DependencyMissing: ffmpeg is not installed.
    """
    mode = operations.env.render_mode
    if mode != "rgb_array":
        raise NoRenderMode(
            f"the instance has render_mode {mode!r:.40}: expected 'rgb_array' for a "
            "video; create it with that"
        )
    try:
        import imageio_ffmpeg  # an extra; most hosts record no video
    except ImportError:
        raise DependencyMissing(
            "videos need imageio-ffmpeg, which the server does not have; its operator "
            "can install it: pip install 'gymnasium-http-server[video]'"
        ) from None
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise DependencyMissing(f"videos need ffmpeg: {error}") from None


class VideoRecorder:
    """Records the videos of one monitor.

    Of a vector, it records the first environment.

    Args:
        operations: The environment.
        request: What to record.
        open_file: Opens the file with a name in the monitor's directory.
        page: The host's status page.
        patience_s: Seconds to wait for ffmpeg before frames are dropped.
    """

    def __init__(
        self,
        operations: Operations,
        request: VideoRequest,
        open_file: Callable[[str], int],
        page: StatusPage,
        *,
        patience_s: float,
    ) -> None:
        env = operations.env
        self._failed = False
        self._program = check_video(operations)
        self._operations = operations
        self._is_vector = isinstance(operations, VectorOperations)
        self._mode = env.metadata.get("autoreset_mode") if self._is_vector else None
        self._request = request
        self._open_file = open_file
        self._page = page
        self._patience_s = patience_s
        self._fps = request.fps or _render_fps(env)
        self._episode = 0
        self._left = 0
        self._frames = 0
        self._over = False
        self._encoder: _Encoder | None = None
        self._ending: _Encoder | None = None
        page.set_recording(RECORDING_VIDEO, on=True)

    def descriptors(self) -> list[int]:
        """Return the descriptors of its open files."""
        files = [each for one in self._encoders() for each in (one.file, one.pipe)]
        return [each for each in files if each >= 0]

    def tasks(self) -> set[int]:
        """Return the IDs of its processes and threads."""
        return set().union(*(each.tasks() for each in self._encoders()))

    def _encoders(self) -> list[_Encoder]:
        return [each for each in (self._encoder, self._ending) if each is not None]

    def reset(self) -> None:
        """Record a reset."""
        self._end_episode()
        self._begin_episode()
        self._add_frame()

    def step(self, value: dict[str, Any]) -> None:
        """Record a step."""
        over = self._is_over(value["terminated"], value["truncated"])
        if self._over:
            # In a vector, the environment has reset itself.
            self._over = over
            if self._is_vector:
                self._begin_episode()
                self._add_frame()
            return
        if over and self._mode == AutoresetMode.SAME_STEP:
            # The frame is that of the next episode already.
            self._end_episode()
            self._begin_episode()
            self._add_frame()
            return
        self._add_frame()
        if over:
            self._end_episode()
            self._over = True

    def close(self) -> None:
        """End the video, and wait until its file is whole."""
        self._end_episode()
        if self._ending is not None:
            self._finish(self._ending)
            self._ending = None
        self._page.set_recording(RECORDING_VIDEO, on=False)

    def _is_over(self, terminated: Any, truncated: Any) -> bool:
        if self._is_vector:
            return bool(terminated[0] or truncated[0])
        return any(self._operations.episode_end(terminated, truncated))

    def _begin_episode(self) -> None:
        self._over = False
        chosen = self._episode % self._request.every == 0 and not self._failed
        self._left = self._request.seconds * self._fps if chosen else 0
        self._episode += 1

    def _end_episode(self) -> None:
        self._left = 0
        encoder, self._encoder = self._encoder, None
        if encoder is None:
            return
        encoder.end()
        if self._ending is not None:
            self._finish(self._ending)
        # It ends while the environment goes on.
        self._ending = encoder

    def _finish(self, encoder: _Encoder) -> None:
        size = encoder.wait()
        self._page.add_recorded(size)
        if encoder.failed:
            self._fail("ffmpeg has failed")

    def _add_frame(self) -> None:
        if not self._left:
            return
        self._left -= 1
        try:
            frame = self._render()
            if frame is None:
                return
            encoder = self._encoder
            if encoder is None:
                encoder = self._encoder = self._start(frame)
            written = encoder.add(frame)
        except (OSError, Problem) as error:
            self._fail(str(error))
            return
        self._page.add_frame(written=written)

    def _render(self) -> Frame | None:
        operations = self._operations
        try:
            with env_warnings.muted():
                rendered: Any
                if not self._is_vector:
                    rendered = operations.render()
                elif isinstance(operations.env, CallsSome | SyncVectorEnv):
                    rendered = operations.call_some([0], "render", [], {})[0]
                else:
                    rendered = operations.render()[0]
        except env_exceptions() as error:
            self._fail(f"rendering has failed: {error}"[:500])
            return None
        finally:
            fork_guard.check()
        frame = np.asarray(rendered)
        if frame.dtype != np.uint8 or not is_image(frame):
            self._fail(
                f"a frame is an array of {frame.dtype} of shape {frame.shape}: "
                "expected uint8 of (height, width, 3)"
            )
            return None
        if frame.ndim == 3 and frame.shape[2] == 1:
            return frame[:, :, 0]
        return frame[:, :, :3] if frame.ndim == 3 else frame

    def _start(self, frame: Frame) -> _Encoder:
        name = f"episode-{self._episode - 1:06d}"
        name += "-env0.mp4" if self._is_vector else ".mp4"
        file = self._open_file(name)
        command = _command(self._program, frame, self._fps, self._request.size)
        return _Encoder(command, file, frame.shape, self._patience_s)

    def _fail(self, reason: str) -> None:
        self._failed = True
        env_warnings.add("UserWarning", f"the recording of videos has ended: {reason}")
        self._left = 0
        self._page.set_recording(RECORDING_VIDEO, on=False)
        self._page.set_recording(RECORDING_FAILED, on=True)
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            encoder.end()
            self._page.add_recorded(encoder.wait())


class _Encoder:
    """ffmpeg, and the thread that sends it the frames of one episode.

    Args:
        command: Starts ffmpeg.
        file: Descriptor of the file to write; it is closed when ffmpeg has ended.
        shape: Shape of the frames.
        patience_s: Seconds to wait for ffmpeg before frames are dropped.

    Attributes:
        failed: Whether ffmpeg ended before the last frame, or with an error.
    """

    def __init__(
        self, command: list[str], file: int, shape: tuple[int, ...], patience_s: float
    ) -> None:
        self.failed = False
        self.file = file
        self._shape = shape
        self._patience_s = patience_s
        self._patient = True
        self._frames: deque[bytes] = deque()
        self._ended = False
        self._changed = threading.Condition()
        self._looked = 0.0
        try:
            self._check_disk()
            read_end, self.pipe = os.pipe()
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=read_end,
                    stdout=file,
                    stderr=subprocess.DEVNULL,
                )
            except OSError:
                os.close(self.pipe)
                raise
            finally:
                os.close(read_end)
        except (OSError, DiskFull):
            os.close(file)
            raise
        self._thread = threading.Thread(
            target=self._send, name="gym-video", daemon=True
        )
        self._thread.start()

    def tasks(self) -> set[int]:
        """Return the IDs of its process and its thread."""
        return {self._process.pid, self._thread.native_id or 0}

    def add(self, frame: Frame) -> bool:
        """Pass a frame on; return whether it was not dropped.

        Raises:
            DiskFull: The disk is nearly full.
        """
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._check_disk()
        if frame.shape != self._shape:
            return False
        with self._changed:
            if len(self._frames) >= _WAITING and self._patient:
                self._patient = self._changed.wait_for(
                    lambda: len(self._frames) < _WAITING, self._patience_s
                )
            if len(self._frames) >= _WAITING or self.failed:
                return False
            # If it was dropped before, ffmpeg has gone on since.
            self._patient = True
            self._frames.append(frame.tobytes())
            self._changed.notify_all()
        return True

    def end(self) -> None:
        """Tell ffmpeg that the last frame has been added; return at once."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self) -> int:
        """Wait until ffmpeg has ended; return the size of the file."""
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self.failed = True
            self._process.kill()
            self._thread.join()
        size = os.fstat(self.file).st_size
        os.close(self.file)
        return size

    def _send(self) -> None:
        try:
            while (frame := self._next()) is not None:
                view = memoryview(frame)
                while view:
                    view = view[os.write(self.pipe, view) :]
        except OSError:
            self.failed = True
        finally:
            # The number may soon be another file's, which a branch would close.
            pipe, self.pipe = self.pipe, -1
            os.close(pipe)
            self.failed |= self._process.wait() != 0

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._frames or self._ended)
            if not self._frames:
                return None
            frame = self._frames.popleft()
            self._changed.notify_all()
            return frame

    def _check_disk(self) -> None:
        self._looked = time.monotonic()
        check_free(os.fstatvfs(self.file))


def _command(program: str, frame: Frame, fps: int, size: int) -> list[str]:
    height, width = frame.shape[:2]
    scale = min(1.0, size / max(height, width))
    # H.264 has half as many rows and columns of colours.
    even = [max(2, round(side * scale / 2) * 2) for side in (width, height)]
    given = {
        "-f": "rawvideo",
        "-pix_fmt": _FORMATS[frame.ndim],
        "-video_size": f"{width}x{height}",
        "-framerate": f"{fps}",
        "-i": "pipe:0",
    }
    wanted = {
        "-vf": f"scale={even[0]}:{even[1]}",
        "-c:v": "libx264",
        "-preset": "veryfast",
        # Each frame is encoded when it arrives.
        "-tune": "zerolatency",
        "-threads": "1",
        "-pix_fmt": "yuv420p",
        # A fragment begins with a key frame: half a second is lost at most.
        "-g": f"{max(1, fps // 2)}",
        "-movflags": "frag_keyframe+empty_moov+default_base_moof",
        "-flush_packets": "1",
        "-f": "mp4",
    }
    options = [part for pair in (*given.items(), *wanted.items()) for part in pair]
    return [program, "-v", "quiet", "-nostdin", *options, "pipe:1"]


def _render_fps(env: Any) -> int:
    """Return the frames a second that an environment is made for."""
    fps = env.metadata.get("render_fps")
    number = isinstance(fps, int | float) and not isinstance(fps, bool)
    return max(1, min(240, round(fps))) if number and fps > 0 else 30
