"""Pictures of an environment: what it renders, or else an observation, as JPEG."""

from __future__ import annotations

import io
import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from gym_http_core.env_errors import env_exceptions
from gym_http_core.operations import Operations
from gym_http_core.vectors import CallsSome, VectorOperations
from gym_http_server.host import env_warnings, fork_guard
from gym_http_wire.problems import ResetNeeded

__all__ = ["MAX_TEXT", "MAX_TILES", "Picture", "Pictures", "View", "to_jpeg"]

#: Environments of a vector that are in its picture.
MAX_TILES = 16
#: Characters of a rendered text.
MAX_TEXT = 64 * 1024
_QUALITY = 80
# Smaller arrays are grids of symbols rather than images, as those of MiniGrid.
_MIN_SIDE = 16
# Frames that are stacked into one observation.
_MAX_STACK = 16
_MAX_DEPTH = 4

Image = NDArray[np.uint8]


class View(NamedTuple):
    """What there is to see of a state.

    Attributes:
        images: Images, each (height, width, 3) or (height, width); of a vector one for
            each of the first `MAX_TILES` environments.
        text: What the environment rendered as text.
        why: Why there is neither; else ``None``.
        error: The message of an exception that the environment raised.
    """

    images: list[Image]
    text: str | None = None
    why: str | None = None
    error: str | None = None


class Picture(NamedTuple):
    """A JPEG file and its size."""

    data: bytes
    width: int
    height: int


class Pictures:
    """Makes views of one environment, without an effect on its clients.

    Args:
        operations: The environment.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._cut: Cut | None = None
        self._searched = False

    @property
    def impossible(self) -> str | None:
        """Why there can be no picture in the present render mode, or ``None``."""
        try:
            mode = self._operations.env.render_mode
            if mode is None:
                return None if self._find_cut() else "no-render-mode"
            return "list" if mode.endswith("_list") else None
        except env_exceptions():
            return "render-failed"

    def view(self, observation: Any) -> View:
        """Render the environment, or else find an image in an observation.

        Args:
            observation: The last observation, of a vector that of all environments.
        """
        try:
            mode = self._operations.env.render_mode
            if mode is None:
                return self._observed(observation)
            if mode.endswith("_list"):
                # Rendering would take the frames away from the agent.
                return View([], why="list")
            with env_warnings.muted():
                rendered = self._render()
            return self._view_of(rendered, observation)
        except ResetNeeded:
            return View([], why="not-reset")
        except env_exceptions() as error:
            return View([], why="render-failed", error=f"{error}"[:500])
        finally:
            fork_guard.check()

    def _render(self) -> Any:
        operations = self._operations
        env = operations.env
        if isinstance(operations, VectorOperations):
            some = list(range(min(env.num_envs, MAX_TILES)))
            if isinstance(env, CallsSome | SyncVectorEnv):
                return operations.call_some(some, "render", [], {})
        return operations.render()

    def _view_of(self, rendered: Any, observation: Any) -> View:
        many = isinstance(self._operations, VectorOperations)
        each = list(rendered)[:MAX_TILES] if many and rendered is not None else None
        if each is None:
            each = [rendered]
        if all(isinstance(one, str) for one in each):
            return View([], text="\n\n".join(each)[:MAX_TEXT])
        images = [_image_of(one) for one in each]
        found = [one for one in images if one is not None]
        if len(found) < len(images) or not found:
            return self._observed(observation, why="no-image")
        return View(found)

    def _observed(self, observation: Any, why: str = "no-render-mode") -> View:
        """Return the image in an observation, if its space has one."""
        cut = self._find_cut()
        if cut is None or observation is None:
            return View([], why=why)
        if not isinstance(self._operations.env, VectorEnv):
            return View([cut.image(observation)])
        batch = cut.reach(observation)
        return View([cut.convert(one) for one in batch[:MAX_TILES]])

    def _find_cut(self) -> Cut | None:
        """Find the image in observations; ``None`` if there is none."""
        if not self._searched:
            self._searched = True
            env = self._operations.env
            many = isinstance(env, VectorEnv)
            space = env.single_observation_space if many else env.observation_space
            self._cut = _find_image(space)
        return self._cut


class Cut(NamedTuple):
    """Where an image is in an observation.

    Attributes:
        keys: Keys of the dictionaries that lead to it.
        stacked: Whether the newest of several stacked images is meant.
        first: Whether the channels are the first axis.
        scale: Factor of its values; 1 for bytes.
    """

    keys: tuple[str, ...]
    stacked: bool
    first: bool
    scale: float

    def reach(self, observation: Any) -> Any:
        """Return the array with the image."""
        for key in self.keys:
            observation = observation[key]
        return observation

    def image(self, observation: Any) -> Image:
        """Return the image in an observation."""
        return self.convert(self.reach(observation))

    def convert(self, array: Any) -> Image:
        """Return the image in its array."""
        found = np.asarray(array)
        if self.stacked:
            found = found[-1]
        if self.first:
            found = np.moveaxis(found, 0, -1)
        if self.scale != 1.0:
            found = np.clip(np.nan_to_num(found) * self.scale, 0, 255)
        image = found.astype(np.uint8, copy=False)
        return image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image


def _find_image(space: Space[Any], keys: tuple[str, ...] = ()) -> Cut | None:
    """Find the first image in the elements of a space."""
    if isinstance(space, Dict) and len(keys) < _MAX_DEPTH:
        for key, part in space.spaces.items():
            found = _find_image(part, (*keys, key))
            if found is not None:
                return found
    if not isinstance(space, Box):
        return None
    if space.dtype == np.uint8:
        scale = 1.0
    elif space.dtype.kind == "f" and np.all(space.low == 0) and np.all(space.high == 1):
        scale = 255.0
    else:
        return None
    shape = space.shape
    if _is_image(shape):
        return Cut(keys, False, False, scale)
    if len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= _MIN_SIDE:
        return Cut(keys, False, True, scale)
    if len(shape) > 2 and shape[0] <= _MAX_STACK and _is_image(shape[1:]):
        return Cut(keys, True, False, scale)
    return None


def _is_image(shape: tuple[int, ...]) -> bool:
    if len(shape) < 2 or min(shape[:2]) < _MIN_SIDE:
        return False
    return len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))


def _image_of(rendered: Any) -> Image | None:
    """Return a rendered image with 3 channels or none; ``None`` if it is no image."""
    if not isinstance(rendered, np.ndarray) or rendered.dtype != np.uint8:
        return None
    if not rendered.size or rendered.ndim not in (2, 3):
        return None
    if rendered.ndim == 2:
        return rendered
    channels = rendered.shape[2]
    if channels == 1:
        return rendered[:, :, 0]
    return rendered[:, :, :3] if channels in (3, 4) else None


def to_jpeg(images: list[Image], size: int) -> Picture:
    """Encode images as one JPEG file, several of them as a grid.

    Args:
        images: At least one; the cells of the grid have the size of the first.
        size: Pixels that the longer side may have; a smaller picture stays as it is.
    """
    from PIL import Image as Pillow  # costs 15 ms, and most hosts draw nothing

    count = len(images)
    columns = math.isqrt(count - 1) + 1
    rows = -(-count // columns)
    height, width = images[0].shape[:2]
    longest = max(height * rows, width * columns)
    scale = min(1.0, size / longest)
    cell = max(1, int(width * scale)), max(1, int(height * scale))
    pictures = []
    for image in images:
        picture = Pillow.fromarray(np.ascontiguousarray(image))
        if picture.mode != "RGB":
            picture = picture.convert("RGB")
        if picture.size != cell:
            resampling = Pillow.Resampling.BILINEAR
            picture = picture.resize(cell, resampling, reducing_gap=2.0)
        pictures.append(picture)
    whole = pictures[0]
    if count > 1:
        whole = Pillow.new("RGB", (cell[0] * columns, cell[1] * rows))
        for index, picture in enumerate(pictures):
            at = index % columns * cell[0], index // columns * cell[1]
            whole.paste(picture, at)
    buffer = io.BytesIO()
    whole.save(buffer, "jpeg", quality=_QUALITY)
    return Picture(buffer.getvalue(), *whole.size)
