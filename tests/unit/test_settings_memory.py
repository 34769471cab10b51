"""Settings in memory that the launcher replaces while other processes read them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_http_server.config.inherited_settings import Inherited, SettingsMemory
from gym_http_server.config.settings import Settings

FIRST = Inherited(Settings(token="0123456789abcdef"), "/run")


@pytest.fixture
def memory() -> Iterator[SettingsMemory]:
    """The launcher's memory."""
    made = SettingsMemory.of(FIRST)
    yield made
    made.close()


@pytest.fixture
def reader(memory: SettingsMemory) -> Iterator[SettingsMemory]:
    """Another process's view of it."""
    made = SettingsMemory(os.dup(memory.fileno()))
    yield made
    made.close()


def test_settings_are_in_memory_alone(
    memory: SettingsMemory, reader: SettingsMemory
) -> None:
    assert Path(f"/proc/self/fd/{memory.fileno()}").readlink().match("/memfd:*")
    assert reader.read() == FIRST


def test_settings_are_replaced(memory: SettingsMemory, reader: SettingsMemory) -> None:
    """By longer and shorter ones in turn, as files of tokens grow and shrink."""
    states = {reader.state}
    for size in (10, 200_000, 9000, 200_000, 10, 10):
        settings = Inherited(Settings(tokens="#" * size), "/run")
        memory.replace(settings)
        assert reader.read() == settings
        assert reader.state not in states
        states.add(reader.state)
    assert os.fstat(memory.fileno()).st_size < 700_000


def test_a_reader_never_gets_a_mixture(
    memory: SettingsMemory, reader: SettingsMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings are replaced twice while one process reads them."""
    others = [Inherited(Settings(tokens=each * 5000), "/run") for each in "bc"]
    read, replaced = os.pread, []

    def replace_first(descriptor: int, size: int, offset: int) -> bytes:
        if not replaced:
            replaced.append(True)
            for each in others:
                memory.replace(each)
        return read(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", replace_first)
    assert reader.read() == others[-1]


def test_no_process_can_cut_the_memory(memory: SettingsMemory) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(memory.fileno(), 0)
