"""Random generators as data: state and seed sequence, checked before they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = [
    "describe_generator",
    "is_same",
    "rebuild_generator",
    "restore_generator",
]

# NumPy checks neither the positions, which index arrays in C, nor the keys' lengths.
_FLAG, _WORD, _WIDE = 2, 2**32, 2**128
_PCG = {
    "state": {"inc": _WIDE, "state": _WIDE},
    "has_uint32": _FLAG,
    "uinteger": _WORD,
}
_KINDS: dict[str, dict[str, Any]] = {
    "MT19937": {"state": {"key": (624, np.uint32), "pos": 625}},
    "PCG64": _PCG,
    "PCG64DXSM": _PCG,
    "Philox": {
        "state": {"counter": (4, np.uint64), "key": (2, np.uint64)},
        "buffer": (4, np.uint64),
        "buffer_pos": 5,
        "has_uint32": _FLAG,
        "uinteger": _WORD,
    },
    "SFC64": {
        "state": {"state": (4, np.uint64)},
        "has_uint32": _FLAG,
        "uinteger": _WORD,
    },
}
# Messages have no integers of more than 4300 digits.
_MAX_ENTROPY_BITS = 2**13
_MAX_ENTROPY_WORDS = 2**10
_MAX_POOL = 64
_MAX_CHILDREN = 10_000


def describe_generator(generator: Any) -> dict[str, Any]:
    """Return ``state`` and ``seed_sequence`` of a generator as plain data.

    ``seed_sequence`` has the arguments of NumPy's ``SeedSequence``; ``None`` if the
    generator was made without one, so that it cannot spawn.
    """
    bits = generator.bit_generator
    sequence = getattr(bits, "seed_seq", None)
    data = None
    if type(sequence) is np.random.SeedSequence:
        data = dict(sequence.state)
        try:
            _sequence(data)
        except ValueError:
            data = None
    return {"state": bits.state, "seed_sequence": data}


def rebuild_generator(state: Any, seed_sequence: Any = None) -> np.random.Generator:
    """Make a generator from data.

    Raises:
        ValueError: There is no such generator.
    """
    name = _kind_of(state)
    if name not in _KINDS:
        raise ValueError(
            f"the generator is a {name:.80}: expected one of {sorted(_KINDS)}"
        )
    checked = _checked(state, _KINDS[name], "state")
    sequence = None if seed_sequence is None else _sequence(seed_sequence)
    bits = getattr(np.random, name)(sequence)
    bits.state = {"bit_generator": name, **checked}
    return np.random.Generator(bits)


def restore_generator(
    generator: np.random.Generator, state: Any, seed_sequence: Any = None
) -> None:
    """Set state and seed sequence of a generator; ``None`` leaves the latter as it is.

    Raises:
        ValueError: It cannot be this generator's.
    """
    bits: Any = generator.bit_generator
    name, own = _kind_of(state), type(bits).__name__
    if name != own:
        raise ValueError(f"state is one of {name:.80}: expected one of {own}")
    if name in _KINDS:
        state = {"bit_generator": name, **_checked(state, _KINDS[name], "state")}
    if seed_sequence is None or is_same(
        describe_generator(generator)["seed_sequence"], seed_sequence
    ):
        bits.state = state
        return
    sequence = _sequence(seed_sequence)
    try:
        # As when it is unpickled; there is no other way to set the sequence.
        bits.__setstate__((state, sequence))
    except (TypeError, ValueError):
        # NumPy before 2.0 takes the state only.
        bits.state = state
        _advance(bits.seed_seq, sequence)


def _advance(sequence: Any, wanted: np.random.SeedSequence) -> None:
    """Have a sequence spawn as many children as an equal one has spawned."""
    count = wanted.n_children_spawned - sequence.n_children_spawned
    others = {"n_children_spawned": 0}
    same = is_same({**sequence.state, **others}, {**wanted.state, **others})
    if same and 0 < count <= _MAX_CHILDREN:
        sequence.spawn(count)


def is_same(one: Any, other: Any) -> bool:
    """Whether two descriptions of generators are equal, arrays and lists included."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            is_same(value, other[name]) for name, value in one.items()
        )
    if isinstance(one, list | tuple | np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _kind_of(state: Any) -> str:
    if not isinstance(state, Mapping) or "bit_generator" not in state:
        raise ValueError(
            f"state is {state!r:.80}: expected an object with bit_generator"
        )
    name = state["bit_generator"]
    if not isinstance(name, str):
        raise ValueError(f"state.bit_generator is {name!r:.80}: expected a string")
    return name


def _checked(given: Any, wanted: Any, where: str) -> Any:
    """Return the expected members of a state, each number within its bounds."""
    if isinstance(wanted, dict):
        if not isinstance(given, Mapping):
            raise ValueError(f"{where} is {given!r:.80}: expected an object")
        missing = sorted(wanted.keys() - given.keys())
        if missing:
            raise ValueError(f"{where} has no {missing[0]}")
        return {
            name: _checked(given[name], each, f"{where}.{name}")
            for name, each in wanted.items()
        }
    if isinstance(wanted, tuple):
        count, dtype = wanted
        return _words(given, count, dtype, where)
    return _integer(given, wanted, where)


def _integer(given: Any, end: int, where: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise ValueError(f"{where} is {given!r:.80}: expected an integer")
    if not 0 <= given < end:
        raise ValueError(f"{where} is {given!s:.80}: expected 0 to {end - 1}")
    return int(given)


def _words(given: Any, count: int, dtype: Any, where: str) -> Any:
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, list | tuple) or len(given) != count:
        raise ValueError(f"{where} is {given!r:.80}: expected {count} integers")
    end = int(np.iinfo(dtype).max) + 1
    return np.array([_integer(each, end, where) for each in given], dtype)


def _sequence(given: Any) -> np.random.SeedSequence:
    if not isinstance(given, Mapping):
        raise ValueError(f"seed_sequence is {given!r:.80}: expected an object, or null")
    where = "seed_sequence"
    pool = _integer(given.get("pool_size", 4), _MAX_POOL + 1, f"{where}.pool_size")
    key = _integers(given.get("spawn_key", ()), f"{where}.spawn_key")
    spawned = given.get("n_children_spawned", 0)
    return np.random.SeedSequence(
        _entropy(given.get("entropy")),
        spawn_key=key,
        pool_size=max(pool, 4),
        n_children_spawned=_integer(spawned, _WORD, f"{where}.n_children_spawned"),
    )


def _entropy(given: Any) -> int | tuple[int, ...]:
    where = "seed_sequence.entropy"
    if isinstance(given, list | tuple | np.ndarray):
        return _integers(given, where)
    return _large(given, where)


def _integers(given: Any, where: str) -> tuple[int, ...]:
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, list | tuple) or len(given) > _MAX_ENTROPY_WORDS:
        raise ValueError(
            f"{where} is {given!r:.80}: expected at most {_MAX_ENTROPY_WORDS} integers"
        )
    return tuple(_large(each, where) for each in given)


def _large(given: Any, where: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise ValueError(f"{where} is {given!r:.80}: expected an integer")
    number = int(given)
    if number < 0 or number.bit_length() > _MAX_ENTROPY_BITS:
        raise ValueError(
            f"{where} is negative or too large: expected an integer from 0, "
            f"of {_MAX_ENTROPY_BITS} bits at most"
        )
    return number
