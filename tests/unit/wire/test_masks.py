"""Masks for samples are read from plain JSON in the form that the spaces take."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs

from gym_http_wire.elements import NotAnElement, mask_reader
from tests.support.spaces import array, assert_same_element


def bits(*values: int) -> Any:
    return array(values, np.int8)


MASKS: list[tuple[gymnasium.Space[Any], object, object]] = [
    (gs.Discrete(3), [0, 1, 0], bits(0, 1, 0)),
    (gs.Discrete(3), None, None),
    (gs.MultiBinary([2, 2]), [[0, 1], [2, 2]], array([[0, 1], [2, 2]], np.int8)),
    (gs.MultiDiscrete([2, 3]), [[0, 1], [1, 0, 0]], (bits(0, 1), bits(1, 0, 0))),
    (gs.MultiDiscrete([[1], [2]]), [[[1]], [[0, 1]]], ((bits(1),), (bits(0, 1),))),
    (gs.Tuple([gs.Discrete(2), gs.Box(0, 1)]), [[1, 0], None], (bits(1, 0), None)),
    (gs.OneOf([gs.Discrete(2), gs.Box(0, 1)]), [[1, 0], None], (bits(1, 0), None)),
    (gs.Dict(a=gs.Discrete(2)), {"a": [1, 0]}, {"a": bits(1, 0)}),
    (gs.Text(3, charset="ab"), [2, [0, 1]], (2, bits(0, 1))),
    (gs.Text(3, charset="ab"), [None, None], (None, None)),
    (gs.Text(3, min_length=0, charset="ab"), [None, [0, 0]], (None, bits(0, 0))),
    (gs.Sequence(gs.Discrete(2)), [3, [0, 1]], (3, bits(0, 1))),
    (gs.Sequence(gs.Discrete(2)), [None, None], (None, None)),
    (gs.Sequence(gs.Discrete(2)), [[0, 4], None], (array([0, 4], np.int64), None)),
    (
        gs.Graph(gs.Discrete(2), gs.Discrete(2)),
        [[[0, 1]] * 10, [1, 0]],
        ((bits(0, 1),) * 10, bits(1, 0)),
    ),
    (
        gs.Graph(gs.Box(0, 1), gs.Text(2, charset="a")),
        [None, [2, None]],
        (None, (2, None)),
    ),
]


@pytest.mark.parametrize(("space", "value", "mask"), MASKS)
def test_a_mask_is_read_as_the_space_takes_it(
    space: gymnasium.Space[Any], value: object, mask: object
) -> None:
    read = mask_reader(space)(value)
    assert_same_element(read, mask)
    assert space.sample(mask=read) in space


FLAGS = gs.Discrete(2)
LENGTH = "an integer from 0 to 65536"
NO_MASKS: list[tuple[gymnasium.Space[Any], object, str, str]] = [
    (gs.Discrete(3), [0, 1], "mask", "an array of shape [3], nested or flat"),
    (gs.Discrete(3), [0, 1, True], "mask[2]", "an integer from 0 to 1"),
    (gs.Discrete(2), [0, 2], "mask[1]", "an integer from 0 to 1"),
    (gs.Discrete(2**62), [1], "mask", f"an array of shape [{2**62}], nested or flat"),
    (gs.MultiBinary(2), [0, 3], "mask[1]", "an integer from 0 to 2"),
    (gs.MultiDiscrete([2, 3]), [[0, 1]], "mask", "a list of 2"),
    (gs.Box(0, 1), [1], "mask", "null: a Box space takes no mask"),
    (gs.Dict(a=gs.Box(0, 1)), {"a": 1}, 'mask["a"]', "null: a Box space takes no mask"),
    (gs.Dict(a=gs.Box(0, 1)), {}, "mask", 'an object with the keys ["a"]'),
    (gs.Text(3), [4, None], "mask[0]", "an integer from 1 to 3"),
    (gs.Text(3, charset="a"), [None, [0]], "mask", "a mask with at least one 1"),
    (gs.Sequence(FLAGS), [10**9, None], "mask[0]", LENGTH),
    (gs.Sequence(FLAGS), [[-1], None], "mask[0][0]", LENGTH),
    (gs.Sequence(FLAGS), [[], None], "mask[0]", "a length, or a list of lengths"),
    (gs.Graph(FLAGS, None), [None, 1], "mask[1]", "null: there are no edges to mask"),
    (
        gs.Graph(FLAGS, gs.Box(0, 1)),
        [None, 1],
        "mask[1]",
        "null: edges of a Box take no mask",
    ),
    (gs.Graph(FLAGS, None), [[[0, 1]], None], "mask[0]", "a list of 10"),
]


@pytest.mark.parametrize(("space", "value", "where", "expected"), NO_MASKS)
def test_invalid_masks_are_refused_with_a_reason(
    space: gymnasium.Space[Any], value: object, where: str, expected: str
) -> None:
    with pytest.raises(NotAnElement) as caught:
        mask_reader(space)(value)
    assert str(caught.value).startswith(f"{where} is ")
    assert str(caught.value).endswith(f", but must be {expected}")


def test_a_mask_limits_samples() -> None:
    space = gs.Dict(a=gs.Discrete(5), b=gs.MultiDiscrete([3, 3]))
    mask = mask_reader(space)({"a": [0, 0, 0, 1, 0], "b": [[0, 1, 0], [0, 0, 1]]})
    for _ in range(5):
        sample = space.sample(mask=mask)
        assert (int(sample["a"]), sample["b"].tolist()) == (3, [1, 2])
