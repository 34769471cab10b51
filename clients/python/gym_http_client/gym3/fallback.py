"""Replacements for gym3's classes, with the same names and attributes."""

from __future__ import annotations

import math
from collections.abc import ItemsView, KeysView, ValuesView
from typing import Any

__all__ = [
    "DictType",
    "Discrete",
    "Env",
    "Real",
    "ScalarType",
    "TensorType",
    "ValType",
    "discrete_scalar",
]


class _Plain:
    """Base class: objects of one type with the same attributes are equal."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__


class ScalarType(_Plain):
    """The type of a tensor's elements."""

    dtype_name: str | None = None


class Real(ScalarType):
    """A number."""

    def __init__(self, dtype_name: str = "float32") -> None:
        self.dtype_name = dtype_name

    def __repr__(self) -> str:
        return "<Real>"

    def __str__(self) -> str:
        return "R"


class Discrete(ScalarType):
    """An integer from 0 to n - 1."""

    def __init__(self, n: int, dtype_name: str = "int64") -> None:
        self.n = int(n)
        self.dtype_name = dtype_name

    def __repr__(self) -> str:
        return f"<Discrete: {self}>"

    def __str__(self) -> str:
        return f"D{self.n}"


class ValType(_Plain):
    """A tensor, or a dict of them."""


class TensorType(ValType):
    """An array of elements of one type."""

    def __init__(self, eltype: ScalarType, shape: tuple[int, ...]) -> None:
        self.eltype = eltype
        self.shape = shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"<TensorType: {self}>"

    def __str__(self) -> str:
        return f"{self.eltype}[{','.join(map(str, self.shape))}]"


def discrete_scalar(n: int) -> TensorType:
    """Return the type of one integer from 0 to n - 1."""
    return TensorType(Discrete(n), ())


class DictType(ValType):
    """A dict with a type for each of its keys."""

    def __init__(self, **name2type: ValType) -> None:
        self._n2t = name2type

    def __len__(self) -> int:
        return len(self._n2t)

    def __getitem__(self, name: str) -> ValType:
        return self._n2t[name]

    def keys(self) -> KeysView[str]:
        """Return the keys."""
        return self._n2t.keys()

    def values(self) -> ValuesView[ValType]:
        """Return the types."""
        return self._n2t.values()

    def items(self) -> ItemsView[str, ValType]:
        """Return keys and types."""
        return self._n2t.items()

    def __repr__(self) -> str:
        return f"<DictType: {self}>"

    def __str__(self) -> str:
        elements = ", ".join(f"{name}={each}" for name, each in self.items())
        return f"Dict({elements})"


class Env:
    """An environment that observes and acts."""

    def __init__(self, ob_space: Any, ac_space: Any, num: int) -> None:
        self.ob_space = ob_space
        self.ac_space = ac_space
        self.num = num
