"""Runs gunicorn with the server's worker class for the tests beside this file."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.gunicorn_server import (
    Gunicorn,
)


@pytest.fixture(scope="module")
def gunicorn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gunicorn]:
    with Gunicorn(tmp_path_factory.mktemp("worker")) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Gunicorn]]:
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(Gunicorn(tmp_path, **options))
