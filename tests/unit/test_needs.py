"""Tests that cannot run are skipped by name, and fail where CI is set."""

from pathlib import Path

import pytest

from tests.support import drivers


def stand_in(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with a Lua that has no libraries, and with nothing else."""
    stand_in(tmp_path, "lua5.4", "echo module socket not found >&2\nexit 1")
    stand_in(tmp_path, "lua5.3", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(drivers, "missing", drivers.missing.__wrapped__)
    return monkeypatch


def test_missing_tools_are_named(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"node is not installed"):
        drivers.needs("node")
    with pytest.raises(pytest.skip.Exception, match=r"lua5\.4 .*socket not found"):
        drivers.needs("lua5.4")
    drivers.needs("lua5.3")


def test_with_ci_set_nothing_is_skipped(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("CI", "true")
    with pytest.raises(AssertionError, match=r"node is not installed"):
        drivers.needs("node")
    with pytest.raises(AssertionError, match=r"socket not found"):
        drivers.needs("lua5.4")
