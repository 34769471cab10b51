"""The supervisor's memory, made ready to be shared.

A host shares all memory of the supervisor until one of them writes to it, by pages, and
Python writes wherever it goes: each object that is used counts its users. What cannot
be avoided is 5 MiB a host. What can be avoided is here.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

__all__ = ["settle"]

# Of CPython's allocator. Elsewhere nothing fails: fewer holes are filled, or more.
_POOL_BYTES = 16 * 1024
_POOL_HEAD_BYTES = 48
_SIZES = range(48, 513, 16)
_MOST_HOLES = 10_000
_EMPTY_BYTES = sys.getsizeof(b"")

_fillings: list[object] = []


def settle() -> None:
    """Have hosts write to as little as possible of what is there now.

    To be called once, when everything has been imported.
    """
    gc.collect()
    # The collector leaves alone what is there, and writes nothing to it.
    gc.freeze()
    _forget_lookups()
    _fill_holes()


def _forget_lookups() -> None:
    """Empty the cache of attributes of types.

    It holds the names that were looked up while importing. Each is let go when another
    takes its place, which writes to it, wherever it is.
    """
    clear = getattr(sys, "_clear_internal_caches", None)
    clear = clear or getattr(sys, "_clear_type_cache", None)
    if clear is not None:
        clear()


def _fill_holes() -> None:
    """Fill the gaps that imports have left in pages full of other things.

    So what hosts make comes to lie together in pages that nothing else is in. A gap of
    each size is filled until the next one is the first of a pool of its own.
    """
    makers: list[Callable[[], object]] = [object, lambda: float("1.5")]
    makers += [_maker(size) for size in _SIZES]
    for make in makers:
        for _ in range(_MOST_HOLES):
            _fillings.append(make())
            if id(_fillings[-1]) % _POOL_BYTES == _POOL_HEAD_BYTES:
                break


def _maker(size: int) -> Callable[[], bytes]:
    """Give what makes an object of so many bytes."""
    return lambda: bytes(size - _EMPTY_BYTES)
