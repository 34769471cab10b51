"""Columns return exactly the values that environments returned."""

from typing import Any

import numpy as np
import pytest

from gym_http_core.episodes import Column, kept, packed
from gym_http_wire.values import binary, typed
from tests.support.identity import assert_identical, unpacked

NAN = np.frombuffer(b"\1\0\0\0\0\0\xf8\x7f", np.float64)
COLUMNS: dict[str, list[Any]] = {
    "nothing": [],
    "floats": [1.0, -0.0, float("nan"), float("inf"), NAN.item()],
    "ints": [1, -(2**63), 2**63 - 1],
    "large ints": [1, 2**63],
    "bools": [True, False],
    "bools and ints": [True, 1],
    "ints and floats": [1, 1.0],
    "texts": ["a", "b"],
    "NumPy's floats": list(np.array([1.5, -0.0, np.nan])),
    "NumPy's float32": list(np.array([1.5, 2.5], np.float32)),
    "NumPy's ints": list(np.arange(3)),
    "NumPy's bools": list(np.array([True, False])),
    "NumPy's and Python's": [np.float64(1), 1.0],
    "dates": [np.timedelta64(1, "s"), np.timedelta64(1, "ms")],
    "arrays": list(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "arrays of bools": list(np.eye(2, dtype=bool)),
    "arrays of another order": list(np.arange(4, dtype=">i4").reshape(2, 2)),
    "arrays of no axis": [np.array(1.0), np.array(2.0)],
    "empty arrays": [np.zeros((0, 2)), np.zeros((0, 2))],
    "arrays of two shapes": [np.zeros(2), np.zeros(2), np.zeros(3), np.zeros(2)],
    "arrays of two dtypes": [np.zeros(2), np.zeros(2, np.float32)],
    "arrays of two orders": [np.zeros(2, "<i4"), np.ones(2, ">i4")],
    "arrays of objects": [np.array([None, 1]), np.array([(), {}], object)],
    "arrays and others": [np.zeros(2), 1, np.zeros(2)],
    "others and arrays": [1, np.zeros(2), np.ones(2)],
    "tuples": [(1, 2.0, np.zeros(2)), (1, 2.0, np.ones(2))],
    "dicts": [{"a": np.zeros(2)}, {"a": np.ones(2)}],
    "more than were made room for": list(np.arange(40_000.0).reshape(20_000, 2)),
}


@pytest.mark.parametrize("form", [binary, typed])
@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_return_the_values_appended(kind: str, form: Any) -> None:
    values = COLUMNS[kind]
    column = Column()
    for value in values:
        column.append(value)
    assert len(column) == len(values)
    for one in (column.value(), values):
        answer, scalars = packed(one)
        sent = form.decode(form.encode(answer))
        assert_identical(unpacked(sent, scalars), values)
    count = len(values) // 2
    answer, scalars = packed(column.value(count))
    assert_identical(unpacked(answer, scalars), values[:count])


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("floats", (5,)), ("NumPy's ints", (3,)), ("arrays", (3, 4)), ("bools", (2,))],
)
def test_columns_of_one_kind_are_one_array(kind: str, shape: tuple[int, ...]) -> None:
    column = Column()
    for value in COLUMNS[kind]:
        column.append(value)
    answer, _ = packed(column.value())
    assert isinstance(answer, np.ndarray)
    assert answer.shape == shape


@pytest.mark.parametrize(
    "value", [np.zeros(2), {"a": np.zeros(2)}, (np.zeros(2),), [0.0], {"a": [0.0]}]
)
def test_a_column_keeps_what_an_environment_uses_again(value: Any) -> None:
    column = Column()
    for _ in range(3):
        column.append(value)
    assert all(each is not value for each in unpacked(column.value(), False))
    inner = next(iter(value.values())) if isinstance(value, dict) else value
    inner = inner[0] if isinstance(inner, tuple) else inner
    inner[0] = 1.0
    assert "1." not in repr(column.value())


def test_values_that_cannot_be_copied_are_kept() -> None:
    class Single:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("there is only one")

    info = {"single": Single()}
    assert kept(info) is info
    endless: list[Any] = []
    endless.append(endless)
    assert kept(endless)
