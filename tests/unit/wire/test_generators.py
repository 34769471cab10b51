"""Random generators as data: a decoded one draws and spawns the same."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_wire.generators import (
    describe_generator,
    rebuild_generator,
    restore_generator,
)
from gym_http_wire.values import binary, typed

KINDS = ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"]
ENTROPY = st.integers(0, 2**200) | st.lists(st.integers(0, 2**40), max_size=5)


def drawn(generator: np.random.Generator) -> list[Any]:
    """Draw in several ways, the children's included."""
    rows = [generator.random(), generator.integers(7, dtype=np.int32)]
    rows += [child.random() for child in generator.spawn(2)]
    return [*rows, generator.normal(), generator.integers(2**60)]


@given(
    kind=st.sampled_from(KINDS),
    entropy=ENTROPY,
    key=st.lists(st.integers(0, 2**33), max_size=3),
    words=st.integers(0, 5),
    spawned=st.integers(0, 3),
    form=st.sampled_from([binary, typed]),
)
def test_a_generator_comes_back(
    kind: str, entropy: Any, key: list[int], words: int, spawned: int, form: Any
) -> None:
    def make() -> np.random.Generator:
        sequence = np.random.SeedSequence(entropy, spawn_key=tuple(key))
        made = np.random.Generator(getattr(np.random, kind)(sequence))
        made.integers(5, size=words, dtype=np.int32)
        made.spawn(spawned)
        return made

    described = form.decode(form.encode(describe_generator(make())))
    expected = drawn(make())
    assert drawn(rebuild_generator(**described)) == expected
    other = np.random.Generator(getattr(np.random, kind)(99))
    other.integers(5, dtype=np.int32)
    restore_generator(other, **described)
    assert drawn(other) == expected


def test_generators_with_too_large_a_seed_lose_it() -> None:
    bits = np.random.PCG64(np.random.SeedSequence(2**9000))
    described = describe_generator(np.random.Generator(bits))
    assert described["seed_sequence"] is None
    assert rebuild_generator(**described).bit_generator.state == bits.state


def test_a_kind_that_is_not_numpys_cannot_be_made() -> None:
    with pytest.raises(ValueError, match=r"Own: expected one of .*'PCG64'"):
        rebuild_generator({"bit_generator": "Own"})
