"""Write numbers and arrays so that every JSON encoder keeps them as they are."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

MAX_EXACT = 2**53
"""Integers up to here are JSON numbers; beyond, decimal strings."""

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        "bool",
        *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)),
        *(f"float{bits}" for bits in (16, 32, 64)),
    )
}
"""The dtypes that can be described, by name; other byte orders are written ``>f4``."""
DTYPES |= {
    swapped.str: swapped
    for swapped in (dtype.newbyteorder() for dtype in DTYPES.values())
    if not swapped.isnative
}


def numbers(array: Array) -> list[Any]:
    """List the elements of an array in C order, floats by their shortest decimal.

    A float32 of 4.8 comes out as 4.8 and not as 4.800000190734863; it is still the
    same float32 when it is read back.
    """
    flat = array.ravel()
    exact: list[Any] = flat.tolist()
    if flat.dtype.kind != "f" or flat.dtype.itemsize == 8:
        return exact
    shortest = [float(str(element)) for element in flat]
    # Reading a short decimal rounds twice, to 64 bits and then to fewer.
    same = np.array(shortest).astype(flat.dtype).tobytes() == flat.tobytes()
    return shortest if same else exact


def is_uniform(array: Array) -> bool:
    """Tell whether an array has elements and all of them have the same bits."""
    if not array.size:
        return False
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(np.dtype(f"V{array.itemsize}"))
    return bool((bits == bits[0]).all())


def array_data(array: Array) -> object:
    """Write an array as one number, when its elements are bit-equal, or a list."""
    if is_uniform(array):
        return number_data(numbers(array.ravel()[:1])[0])
    return [number_data(element) for element in numbers(array)]


def number_data(number: int | float) -> int | float | str:
    """Write a number that JSON cannot carry safely as a string."""
    if isinstance(number, int):
        return number if -MAX_EXACT <= number <= MAX_EXACT else str(number)
    if number - number == 0:
        return number
    return "nan" if number != number else "inf" if number > 0 else "-inf"
