"""Pictures are made of frames, or of observations that are images."""

import io
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from gym_http_core.vectors import operations_of
from gym_http_server.host.show.pictures import Pictures, View, to_jpeg


class Fixed(gymnasium.Env[Any, Any]):
    """Has an observation space and a render mode, and renders what it was given."""

    action_space = spaces.Discrete(2)

    def __init__(
        self,
        space: spaces.Space[Any] | None = None,
        mode: str | None = None,
        rendered: Any = None,
    ) -> None:
        self.observation_space = space or spaces.Box(-1, 1, (2,))
        self.render_mode = mode
        self._rendered = rendered

    def render(self) -> Any:
        if isinstance(self._rendered, BaseException):
            raise self._rendered
        return self._rendered


def view_of(
    space: spaces.Space[Any] | None = None,
    observation: Any = None,
    mode: str | None = None,
    rendered: Any = None,
) -> View:
    return Pictures(operations_of(Fixed(space, mode, rendered))).view(observation)


def pixels(high: float, shape: tuple[int, ...], dtype: Any) -> spaces.Box:
    return spaces.Box(0, high, shape, dtype)


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ((20, 30, 3), (20, 30, 3)),
        ((20, 30, 1), (20, 30)),
        ((20, 30), (20, 30)),
        ((3, 20, 30), (20, 30, 3)),
        ((1, 20, 30), (20, 30)),
        # Stacks, of which the newest frame is shown.
        ((4, 20, 30), (20, 30)),
        ((4, 20, 30, 3), (20, 30, 3)),
    ],
)
def test_an_image_in_an_observation_is_found(
    shape: tuple[int, ...], shown: tuple[int, ...]
) -> None:
    space = pixels(255, shape, np.uint8)
    space.seed(1)
    observation = space.sample()
    (image,) = view_of(space, observation).images
    assert image.shape == shown
    expected = observation[-1] if shape[0] == 4 else observation
    if shape[0] in (1, 3):
        expected = np.moveaxis(observation, 0, -1)
    assert np.array_equal(image, expected.reshape(shown))


def test_floats_from_0_to_1_and_parts_of_dictionaries_are_images() -> None:
    space = spaces.Dict(
        {
            "speed": spaces.Box(-1, 1, (2,)),
            "eyes": spaces.Dict({"left": pixels(1, (20, 20, 3), np.float32)}),
        }
    )
    left = np.full((20, 20, 3), 0.5, np.float32)
    left[0, 0] = np.nan
    observation = {"speed": np.zeros(2), "eyes": {"left": left}}
    (image,) = view_of(space, observation).images
    assert (image.dtype, image[1, 1, 0], image[0, 0, 0]) == (np.uint8, 127, 0)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (20, 20)),
        spaces.Box(0, 255, (20, 20, 3), np.float32),
        pixels(255, (7, 7, 3), np.uint8),
        pixels(255, (20,), np.uint8),
        pixels(255, (), np.uint8),
        spaces.Discrete(3),
        spaces.Text(3),
        spaces.Sequence(pixels(255, (20, 20), np.uint8)),
    ],
)
def test_other_observations_are_no_images(space: spaces.Space[Any]) -> None:
    pictures = Pictures(operations_of(Fixed(space)))
    assert pictures.impossible == "no-render-mode"
    assert pictures.view(space.sample()) == View([], why="no-render-mode")


def test_what_is_rendered() -> None:
    frame = np.zeros((20, 30, 3), np.uint8)
    (image,) = view_of(mode="rgb_array", rendered=frame).images
    assert np.shares_memory(image, frame)
    alpha = np.zeros((20, 30, 4), np.uint8)
    (image,) = view_of(mode="rgb_array", rendered=alpha).images
    assert image.shape == (20, 30, 3)
    assert view_of(mode="ansi", rendered="<b>").text == "<b>"
    for other in (None, 3, [frame], frame.astype(float), frame[:0], frame[0, 0]):
        found = view_of(mode="rgb_array", rendered=other)
        assert (found.images, found.why) == ([], "no-image")
    failed = view_of(mode="rgb_array", rendered=SystemExit(3))
    assert failed.why == "render-failed"
    assert failed.error is not None
    assert "SystemExit" in failed.error
    listed = Pictures(operations_of(Fixed(mode="rgb_array_list", rendered=[frame])))
    assert listed.impossible == "list"
    assert listed.view(None).why == "list"


def test_a_vector_is_a_grid_of_its_first_16() -> None:
    frames = [np.full((20, 30, 3), 10 * each, np.uint8) for each in range(20)]
    makes = [lambda frame=frame: Fixed(None, "rgb_array", frame) for frame in frames]
    vector = gymnasium.vector.SyncVectorEnv(makes)
    view = Pictures(operations_of(vector)).view(None)
    assert len(view.images) == 16
    picture = to_jpeg(view.images, 640)
    assert (picture.width, picture.height) == (120, 80)
    grid = np.asarray(Image.open(io.BytesIO(picture.data)))
    for number in range(16):
        row, column = divmod(number, 4)
        cell = grid[row * 20 + 5 : row * 20 + 15, column * 30 + 5 : column * 30 + 25]
        assert abs(float(cell.mean()) - 10 * number) < 3
    small = to_jpeg(view.images, 60)
    assert (small.width, small.height) == (60, 40)
    texts = [lambda: Fixed(None, "ansi", "a"), lambda: Fixed(None, "ansi", "b")]
    both = gymnasium.vector.SyncVectorEnv(texts)
    assert Pictures(operations_of(both)).view(None).text == "a\n\nb"


def test_a_picture_is_shrunk_and_never_enlarged() -> None:
    image = np.zeros((210, 160, 3), np.uint8)
    for size, expected in ((640, (160, 210)), (105, (80, 105)), (16, (12, 16))):
        picture = to_jpeg([image], size)
        assert (picture.width, picture.height) == expected
        assert Image.open(io.BytesIO(picture.data)).size == expected
    thin = np.zeros((1000, 1), np.uint8)
    assert to_jpeg([thin], 16)[1:] == (1, 16)
