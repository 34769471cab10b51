"""Memory for large bodies is used again, but never while something refers to it."""

import gc
import threading

import numpy as np
import pytest

from gym_http_client.http import large_memory
from gym_http_client.http.large_memory import take_memory

MIB = 1 << 20


@pytest.fixture(autouse=True)
def none_free() -> None:
    large_memory._free.clear()


def address_of(memory: memoryview) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def test_memory_is_used_again_once_nothing_refers_to_it() -> None:
    memory = take_memory(5 * MIB + 1)
    assert (len(memory), memory.readonly) == (5 * MIB + 1, False)
    memory[-1] = 7
    place = address_of(memory)
    array = np.ndarray((MIB,), np.float32, memory, 8)
    part = memory[MIB : 2 * MIB]
    del memory
    # An array on it and a part of it refer to it, too.
    assert address_of(take_memory(5 * MIB + 1)) != place
    del array
    assert address_of(take_memory(5 * MIB + 1)) != place
    del part
    gc.collect()
    places = {address_of(each) for each in [take_memory(6 * MIB) for _ in range(3)]}
    assert place in places


def test_two_that_are_in_use_are_never_the_same() -> None:
    kept = [take_memory(MIB) for _ in range(6)]
    assert len({address_of(each) for each in kept}) == 6
    del kept
    gc.collect()
    # The others went back to the system.
    assert len(large_memory._free) == 4


def test_very_large_memory_is_not_kept() -> None:
    take_memory(17 * MIB)
    gc.collect()
    assert not large_memory._free


def test_threads_never_take_the_same() -> None:
    wrong: list[int] = []

    def use(mark: int) -> None:
        for _ in range(300):
            memory = take_memory(MIB)
            memory[:4] = bytes([mark]) * 4
            memory[-1] = mark
            if bytes(memory[:4]) != bytes([mark]) * 4 or memory[-1] != mark:
                wrong.append(mark)
            del memory

    threads = [threading.Thread(target=use, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
