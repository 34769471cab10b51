"""Check the results of external environments before they are used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from gym_http_server.host import plain_json
from gym_http_wire import elements, space_parsing
from gym_http_wire.external.handshake import TANGO, Hello
from gym_http_wire.external.messages import BadMessage
from gym_http_wire.external.steps import (
    Step,
    StepPacking,
    StepReader,
    step_packing,
    step_reader,
)
from gym_http_wire.opaque import members, opaque_parts
from gym_http_wire.spaces import UndescribableSpace, elided

__all__ = ["ResultReader", "read_rendered"]

Values = dict[str, Any]
_FLAGS = (bool, np.bool_)
_NUMBERS = (float, int, np.integer, np.floating)
_ARRAYS = (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)
_PICTURE = "a picture: rows of pixels of three colours, 0 to 255, as uint8"


class ResultReader:
    """Reads and checks the results of one environment.

    Args:
        hello: Its hello.
        observation_space: Description of its space; ``None`` is the hello's.
        action_space: Description of its space; ``None`` is the hello's.
        max_element: Bytes that one element of either space may take.

    Raises:
        BadMessage: A description is malformed.

    Attributes:
        observation_space: The space.
        action_space: The space.
        steps: Reads most answers to steps in one pass; ``None`` if it cannot.
        packing: Reads them into the leaves of a stream's value; ``None`` likewise.
    """

    def __init__(
        self,
        hello: Hello,
        observation_space: object = None,
        action_space: object = None,
        max_element: int | None = None,
    ) -> None:
        self.observation_space = _rebuilt(
            "observation_space",
            observation_space or hello.observation_space,
            max_element,
        )
        self.action_space = _rebuilt(
            "action_space", action_space or hello.action_space, max_element
        )
        self._channels = hello.reward_channels
        self._plain = hello.dialect in ("json", TANGO)
        self._is_element = _membership(self.observation_space)
        # Values that are read from plain JSON have them.
        self._wants_arrays = not self._plain and _has_arrays(self.observation_space)
        self._read: Callable[[object], Any] | None = None
        self._reads_elements = False
        self.steps: StepReader[Step] | None = None
        self.packing: StepPacking | None = None
        if self._plain:
            shape = elements.json_type(self.observation_space)
            if shape is not None and self._channels is None:
                self.steps = step_reader(shape, plain_json.loads)
                self.packing = step_packing(shape)
            bounded = elements.bounded_reader(self.observation_space)
            self._read = bounded or elements.reader(self.observation_space)
            self._reads_elements = bounded is not None

    def reset(self, result: Values) -> tuple[Any, dict[str, Any]]:
        """Return observation and info of a reset.

        Raises:
            BadMessage: The result is malformed.
        """
        return self._observation(result), _info(result)

    def step(self, result: Values) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Return the step as `gymnasium.Env.step` returns it.

        Raises:
            BadMessage: The result is malformed.
        """
        info = _info(result)
        observation = self._observation(result)
        reward = result.get("reward")
        if self._channels is None:
            self._check_number(reward, "reward")
        else:
            channels = self._by_channel(reward)
            info = {**info, "reward_channels": channels}
            try:
                reward = math.fsum(
                    each for each in channels.values() if each is not None
                )
            except OverflowError:
                raise _bad("reward", reward, "numbers whose sum is finite") from None
        if self._plain and type(reward) is int:
            reward = float(reward)
        terminated, truncated = result.get("terminated"), result.get("truncated")
        if not isinstance(terminated, _FLAGS):
            raise _bad("terminated", terminated, "true or false")
        if not isinstance(truncated, _FLAGS):
            raise _bad("truncated", truncated, "true or false")
        return observation, reward, terminated, truncated, info

    def _observation(self, result: Values) -> Any:
        if "observation" not in result:
            raise BadMessage("there is no observation", field="observation")
        value = result["observation"]
        if self._read is not None:
            try:
                value = self._read(value)
            except elements.NotAnElement as error:
                error.root = "observation"
                raise BadMessage(str(error), field="observation") from None
            if self._reads_elements:
                return value
        try:
            inside = self._is_element(value)
            if self._wants_arrays:
                inside = inside and _is_in_arrays(self.observation_space, value)
        except Exception:
            inside = False
        if not inside:
            space = f"an element of {self.observation_space!s:.300}"
            raise _bad("observation", value, space)
        return value

    def _by_channel(self, reward: object) -> dict[str, float | None]:
        """Return the reward of each channel; ``None`` for one that said nothing."""
        channels = self._channels or []
        if isinstance(reward, np.ndarray):
            # An array has NaN in the place of null.
            reward = [None if each != each else each for each in reward.tolist()]
        if not isinstance(reward, list | tuple) or len(reward) != len(channels):
            raise _bad("reward", reward, f"a list of {len(channels)} numbers or nulls")
        for index, each in enumerate(reward):
            if each is not None:
                self._check_number(each, f"reward[{index}]")
        given = (None if each is None else float(each) for each in reward)
        return dict(zip(channels, given, strict=True))

    @staticmethod
    def _check_number(value: Any, field: str) -> None:
        good = isinstance(value, _NUMBERS) and not isinstance(value, bool)
        if not good or not _is_finite(value):
            raise _bad(field, value, "a finite number")


def read_rendered(value: object, mode: str | None, *, plain: bool) -> Any:
    """Check the result of a request to render.

    Args:
        value: The result.
        mode: The render mode: ``rgb_array`` has an image, ``rgb_array_list`` a list
            of images; any other has any value.
        plain: Whether it is in plain JSON, which has no arrays.

    Returns:
        The value, with each image as an array of shape (height, width, 3), dtype uint8.

    Raises:
        BadMessage: It is not an image.
    """
    if mode == "rgb_array":
        return _picture(value, "rendered", plain=plain)
    if mode == "rgb_array_list":
        if not isinstance(value, list):
            raise _bad("rendered", value, f"a list, each of which is {_PICTURE}")
        return [
            _picture(each, f"rendered[{index}]", plain=plain)
            for index, each in enumerate(value)
        ]
    return value


def _picture(value: object, field: str, *, plain: bool) -> Any:
    if plain:
        value = _from_lists(value, field)
    good = isinstance(value, np.ndarray) and value.dtype == np.uint8
    if not good or value.ndim != 3 or value.shape[2] != 3:  # type: ignore[attr-defined]
        raise _bad(field, value, _PICTURE)
    return value


def _from_lists(value: object, field: str) -> Any:
    """Return an array of lists of rows of pixels."""
    shape: list[int] = []
    first: Any = value
    while isinstance(first, list) and len(shape) < 3:
        shape.append(len(first))
        first = first[0] if first else None
    if len(shape) < 3:
        raise _bad(field, value, _PICTURE)
    try:
        return elements.reader(spaces.Box(0, 255, tuple(shape), np.uint8))(value)
    except elements.NotAnElement as error:
        error.root = field
        raise BadMessage(str(error), field=field) from None


def _membership(space: Space[Any]) -> elements.Membership:
    """Make the test of a space; in opaque ones, only the environment can test."""
    if not opaque_parts(space):
        return elements.membership(space)
    tests = [(key, _membership(inner)) for key, inner in members(space)]
    keys = {key for key, _ in tests}
    if isinstance(space, spaces.Dict):
        return lambda value: (
            isinstance(value, dict)
            and value.keys() == keys
            and all(test(value[key]) for key, test in tests)
        )
    if isinstance(space, spaces.Tuple):
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(tests)
            and all(test(value[index]) for index, (_, test) in enumerate(tests))
        )
    return lambda value: True


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        # An integer that no float holds.
        return False


def _has_arrays(space: Space[Any]) -> bool:
    return isinstance(space, (*_ARRAYS, spaces.Dict, spaces.Tuple))


def _is_in_arrays(space: Space[Any], value: Any) -> bool:
    """Return whether a value has arrays, not lists, where its space has arrays."""
    if isinstance(space, spaces.Dict):
        parts = space.spaces.items()
        return all(_is_in_arrays(part, value[key]) for key, part in parts)
    if isinstance(space, spaces.Tuple):
        return all(map(_is_in_arrays, space.spaces, value))
    return not isinstance(space, _ARRAYS) or isinstance(value, np.ndarray | np.generic)


def _info(result: Values) -> dict[str, Any]:
    info = result.get("info")
    if info is None:
        return {}
    if not isinstance(info, dict):
        raise _bad("info", info, "an object")
    return info


def _bad(field: str, value: object, expected: str) -> BadMessage:
    words = f"{field} is {elided(value)}, but must be {expected}"
    return BadMessage(words, field=field)


def _rebuilt(field: str, description: object, max_element: int | None) -> Space[Any]:
    try:
        return space_parsing.parse_space(description, max_element)
    except (space_parsing.BadDescription, UndescribableSpace) as error:
        raise BadMessage(f"{field}: {error}", field=field) from None
