"""Describe Gymnasium spaces as JSON-able data, without loss.

A description is a dict with a ``type``. It holds only what every JSON encoder writes
alike: infinities and NaN are the strings ``"inf"``, ``"-inf"`` and ``"nan"``, and
integers beyond 2**53, which many readers round, are decimal strings. An array is a
single number when all its elements are bit-equal, else a flat list in C order.

`gym_http_wire.space_parsing` turns a description back into an equal space.
"""

from gym_http_wire.spaces.describing import MAX_DEPTH, UnsupportedSpace, describe
from gym_http_wire.spaces.eliding import elided
from gym_http_wire.spaces.numbers import DTYPES, MAX_EXACT, Array, is_uniform, numbers

__all__ = [
    "DTYPES",
    "MAX_DEPTH",
    "MAX_EXACT",
    "Array",
    "UnsupportedSpace",
    "describe",
    "elided",
    "is_uniform",
    "numbers",
]
